import numpy as np
import pytest
from pendulum import dynamics, lengths, simulated

from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import MultipleShooting, SingleShooting


def made(N=50, seed=0, **more):
    rng = np.random.default_rng(seed)
    return ParticlePosterior(
        ("mass", "com.z"),
        [0, -1],
        [2, 1],
        rng.normal([1.0, 0.2], [0.1, 0.3], (N, 2)),
        rng.normal(size=N),
        {"robot": "panda", "seed": 3},
        ("kg", "m"),
        **more,
    )


def test_what_is_saved_is_what_is_loaded(tmp_path):
    weights = np.arange(1.0, 51) / np.arange(1.0, 51).sum()
    before = made(weights=weights)
    after = ParticlePosterior.load(before.save(tmp_path / "folder" / "posterior.npz"))
    for name in ("lower", "upper", "values", "log_p", "weights"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
    assert (after.names, after.units, after.meta) == (before.names, before.units, before.meta)


def test_no_file_and_other_files_are_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no posterior at"):
        ParticlePosterior.load(tmp_path / "none.npz")
    file = made().save(tmp_path / "posterior.npz")
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(ValueError, match="no readable posterior"):
        ParticlePosterior.load(file)
    np.savez(file, head=np.array({"format": "x"}, dtype=object))  # pickled, so never opened
    with pytest.raises(ValueError, match="no readable posterior"):
        ParticlePosterior.load(file)


def test_moments_and_quantiles_with_weights():
    """Weights 3 : 1 equal a set in which the first particle appears three times."""
    few = ParticlePosterior(("a",), [0], [4], [[1.0], [3.0]], [0.0, -1.0], weights=[0.75, 0.25])
    many = ParticlePosterior(("a",), [0], [4], [[1.0], [1.0], [1.0], [3.0]], [0.0] * 3 + [-1.0])
    assert few.mean == pytest.approx(many.mean) == 1.5 and few.std == pytest.approx(many.std)
    rng = np.random.default_rng(1)
    big = ParticlePosterior(("a",), [-9], [9], rng.standard_normal((4000, 1)), np.zeros(4000))
    assert np.allclose(big.quantile([0.05, 0.5, 0.95])[:, 0], [-1.645, 0, 1.645], atol=0.08)
    row = big.summary()[0]
    assert row["q05"] < row["median"] < row["q95"] and row["upper"] == 9


def test_reweighting_turns_a_proposal_into_its_target():
    """N(0, 1) particles with weights exp(x - 1/2) are N(1, 1)."""
    x = np.random.default_rng(2).standard_normal((20000, 1))
    target = ParticlePosterior(("a",), [-9], [9], x, np.zeros(len(x))).reweighted(x[:, 0] - 0.5)
    assert target.mean == pytest.approx(1.0, abs=0.05) and target.std == pytest.approx(1.0, abs=0.05)
    drawn = target.drawn(2000, seed=1)
    assert drawn.mean == pytest.approx(target.mean, abs=0.07) and np.allclose(drawn.weights, 1 / 2000)
    with pytest.raises(ValueError, match="log weights"):
        target.reweighted(np.full(20000, -np.inf))


def test_best_rollouts_and_predictive_of_a_pendulum():
    d = dynamics()
    parameters = lengths(d.model)
    data = simulated(
        d, parameters, [[1.5, 2.0], [1.5, 2.0]], x0=np.array([[1.5, 0, 0, 0], [1.0, 0.3, 0, 0]]), steps=100
    )
    density = MultipleShooting(d, parameters, data, windows=4, combine="product")
    posterior = ParticlePosterior.of(
        density, sample("csvgd", density, 20, iterations=200), {"robot": "double_pendulum"}
    )
    assert (
        posterior.names == ("length1", "length2")
        and posterior.units == ("m", "m")
        and posterior.meta["method"] == "csvgd"
    )
    assert np.abs(posterior.best - [1.5, 2.0]).max() < 0.2
    X = posterior.rollout(d, parameters, data.x[:, 0], data.u)
    assert X.shape == (20, 2, 101, 4)
    assert np.allclose(
        X[3, 1], d.rollout(data.x[1, 0], data.u[1], parameters.to_physical(posterior.values[3])), rtol=1e-9, atol=1e-9
    )
    judge = SingleShooting(d, parameters, data, combine="product")
    log_p = judge.log_p(judge.z(posterior.values))
    assert posterior.log_predictive(judge) == pytest.approx(np.log(np.exp(log_p - log_p.max()).mean()) + log_p.max())
    shooting_states = ParticlePosterior.of(density.extended(), sample("cem", density.extended(), 20, iterations=2))
    assert shooting_states.names == posterior.names
    with pytest.raises(ValueError, match="expected parameters length1, length2, found a, b"):
        posterior.rollout(d, type("Other", (), {"names": ("a", "b")}), data.x[:, 0], data.u)


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="posterior log_p: expected shape .2,."):
        ParticlePosterior(("a",), [0], [1], [[0.1], [0.2]], [0.0])
    with pytest.raises(ValueError, match="finite"):
        ParticlePosterior(("a",), [0], [1], [[np.nan]], [0.0])
    with pytest.raises(ValueError, match="sum 1"):
        ParticlePosterior(("a",), [0], [1], [[0.5]], [0.0], weights=[2.0])
