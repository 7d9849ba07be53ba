"""From recordings to a posterior: recovery, masks, checkpoints, and results that do not depend on who computes."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from identification.errors import UnusableInput
from identification.infer_report import inference_result, inference_warnings, write_inference
from identification.infer_settings import InferConfig, read_limits
from identification.inference import infer
from identification.recordings import cut, read_recordings
from identification.spread_density import Recipe
from sim_core.augmentation import Blueprint, Network, open_parameters, save_blueprints
from sim_core.host.executors import open_executor
from sim_core.inference.fit.free_names import names_that_free, natural_limits
from sim_core.inference.posterior.error_sizes import SIZES
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.shooting.joint_causes import JointCauses
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

DT, TRUTH = 0.01, {"slider.damping": 0.5, "pole.mass": 0.13}
LIMITS = {"slider.damping": (0.0, 1.0), "pole.mass": (0.05, 0.2)}
BALL = "<mujoco><worldbody><body name='ball'><freejoint/><geom size='0.1' mass='1'/></body></worldbody></mujoco>"


class Recording:
    """The engine's own cart-pole as a table, or with its description as a bag."""

    def __init__(self, steps=250, seed=0, noise=1e-4, truth=TRUTH):
        self.model = load_model("cartpole", friction=any(name.endswith(".friction") for name in truth))
        p = self.model.parameters.nominal.copy()
        if truth:
            p = LimitedParameters(self.model, dict.fromkeys(truth, (-100.0, 100.0))).to_physical(list(truth.values()))
        rng = np.random.default_rng(seed)
        t = DT * np.arange(steps + 1)
        u = (4 * np.sin(5 * t[1:]) + 3 * np.sin(11 * t[1:]))[:, None]
        dynamics = Dynamics(self.model, dt=DT, substeps=round(DT / self.model.timestep))
        x = dynamics.rollout(np.r_[0.0, 0.5, 0.0, 0.0], u, p) + noise * rng.standard_normal((steps + 1, 4))
        gear = p[self.model.parameters.index("slider.gear")]
        effort = np.zeros((steps + 1, 2))
        effort[1:, 0] = u[:, 0] * gear
        self._series = SimpleNamespace(t=t, q=x[:, :2], v=x[:, 2:], effort=effort, time_jumps=lambda: np.array([], int))

    def joint_states(self, joints):
        return self._series


@pytest.fixture(scope="module")
def recording():
    return Recording()


def config(method="csvgd", **changes):
    return InferConfig(
        method,
        **{
            "robot": "cartpole",
            "limits": LIMITS,
            "particles": 20,
            "length": 0.5,
            "windows": 2,
            "sigma_obs": 0.05,
            **changes,
        },
    )


def test_particles_find_the_truth_and_predict_what_they_have_not_seen(recording, tmp_path):
    found = infer([recording], config(iterations=150))
    z = np.abs(found.posterior.mean - list(TRUTH.values())) / (found.posterior.upper - found.posterior.lower)
    assert z.max() < 0.03 and found.error_ratio < 0.1
    assert found.metrics["held-out log p, best particle"] > found.metrics["held-out log p, nominal"]
    assert len(found.held.measured) == 1 and found.posterior.meta["trajectories"] == 4
    result = inference_result(found)
    assert result.passed, inference_warnings(found)
    assert "Nothing leans on a limit." in result.details["verdicts"]
    write_inference(found, result, tmp_path, "test", TRUTH)
    assert {"report.html", "result.json", "posterior.npz", "parameters.yaml"} == {p.name for p in tmp_path.iterdir()}
    loaded = ParticlePosterior.load(tmp_path / "posterior.npz")
    np.testing.assert_array_equal(loaded.values, found.posterior.values)
    page = (tmp_path / "report.html").read_text()
    assert all(title in page for title in ("Posterior", "Prediction of the held-out part", "Convergence"))


def test_a_run_that_has_not_arrived_says_so_and_writes_no_parameters(recording, tmp_path):
    early = infer([recording], config("svgd", iterations=30, finish=0, options={"step": 0.002}))
    said = inference_warnings(early)
    assert any("Not converged" in text and "ask for more (--iterations)" in text for text in said)
    assert any("no draws of the posterior" in text or "spread too much" in text for text in said)
    result = inference_result(early)
    assert not result.passed
    write_inference(early, result, tmp_path / "refused", "test")
    write_inference(early, result, tmp_path / "anyway", "test", anyway=True)
    assert (
        not (tmp_path / "refused" / "parameters.yaml").exists() and (tmp_path / "anyway" / "parameters.yaml").exists()
    )
    assert "Not converged" in (tmp_path / "refused" / "report.html").read_text()


def test_a_posterior_beyond_the_prior_s_limits_widens_them_and_one_beyond_those_given_is_refused(recording):
    """The slider's damping is a thousand times the model's."""
    assumed = dict(windows=1, iterations=800, errors="assumed")
    found = infer([recording], config("emcee", **assumed, limits={}, free=("slider.damping",)))
    upper = natural_limits("cartpole", ["slider.damping"])[1]["slider.damping"][1]
    assert upper < 0.01 and "widened: slider.damping" in found.notes[-1]
    assert found.posterior.upper[0] > TRUTH["slider.damping"]
    assert not any("At a limit" in text for text in inference_warnings(found))
    held = infer([recording], config("emcee", **assumed, limits={"slider.damping": (0.0, upper)}))
    (verdict,) = (v for v in held.verdicts if not v.passed and "lean on a limit" in v.check.name)
    assert verdict.binding and verdict.sentence.startswith("At a limit: slider.damping.")
    assert not inference_result(held).passed


def test_errors_are_fitted_wherever_they_can_be_unless_somebody_says_otherwise():
    cartpole, floating = load_model("cartpole"), load_model(BALL)
    assert config().decided(cartpole, 2).errors == config("nuts", windows=1).decided(cartpole, 2).errors == "fitted"
    assert config().decided(cartpole, 2).finish == config("emcee").decided(cartpole, 2).finish == 300
    for other in (
        config("cem"),
        config("gauss-newton", limits={}),
        config(combine="sum"),
        config(loss="huber"),
        config(blueprint="networks.yaml"),
        config(finish=0),
        config(particles=5),
        config(errors="assumed"),
    ):
        assert other.decided(cartpole, 2).errors == "assumed"
    assert config().decided(floating, 2).errors == "assumed"
    assert config("emcee", errors="assumed").decided(cartpole, 2).finish == 0
    with pytest.raises(UnusableInput, match="takes 6 particles or more, found 5"):
        config(particles=5, errors="fitted").decided(cartpole, 2)
    with pytest.raises(UnusableInput, match="balls or free joints"):
        config(errors="fitted").decided(floating, 2)


def test_a_model_that_was_right_already_is_a_success():
    right = infer([Recording(truth={})], config("emcee", windows=1, iterations=2000))
    assert "The nominal model was right already" in " ".join(v.sentence for v in right.verdicts)
    assert inference_result(right).passed, inference_warnings(right)


def test_a_model_that_does_not_explain_the_recording_says_so():
    """The gravity of another planet, and nothing free but the slider's damping."""
    truth = {"gravity.z": -3.7}
    poor = infer(
        [Recording(truth=truth)],
        config("emcee", windows=1, iterations=400, limits={"slider.damping": (0.0, 1.0)}, errors="assumed"),
    )
    assert any("does not explain the recording" in text and "--sigma-obs" in text for text in inference_warnings(poor))
    assert not inference_result(poor).passed


def test_errors_that_are_fitted_hold_the_truth_where_an_assumed_noise_does_not(tmp_path):
    """Gears with friction that the model has not: it is taken for damping, and the intervals know nothing of it."""
    # Twice as much friction and the damping that stands for it leans on its limit, on some seeds: refused, rightly.
    recording = Recording(steps=400, noise=1e-3, truth=TRUTH | {"slider.friction": 0.15})
    truth = np.array(list(TRUTH.values()))

    def off(found):
        return np.abs(found.posterior.mean - truth) / found.posterior.std

    options = dict(method="emcee", windows=1, particles=60, length=1.0, sigma_obs=0.01, iterations=600)
    assumed = infer([recording], config(**options, errors="assumed"))
    fitted = infer([recording], config(**options, errors="fitted"))
    assert off(assumed).max() > 5.0 > 3.0 > off(fitted).max()
    assert any("does not explain" in text and "--errors fitted" in text for text in inference_warnings(assumed))
    result = inference_result(fitted)
    assert result.passed, inference_warnings(fitted)
    assert any("Noise and fitted errors account" in verdict.sentence for verdict in fitted.verdicts)
    write_inference(fitted, result, tmp_path, "test")
    page = (tmp_path / "report.html").read_text()
    delay = 100.0 * np.median(fitted.errors.sizes[:, SIZES.index("delay")])
    assert f"{delay:.2g} ms" in page
    assert "What the simulator has wrong" in page and "friction" in page and (tmp_path / "parameters.yaml").exists()


def test_errors_are_fitted_to_particles_and_widen_the_prior_s_limits(recording):
    found = infer(
        [recording], config("emcee", windows=1, iterations=800, limits={}, free=("slider.damping",), errors="fitted")
    )
    assert found.posterior.lower[0] <= TRUTH["slider.damping"] <= found.posterior.upper[0]
    assert abs(found.posterior.mean[0] - TRUTH["slider.damping"]) < 3 * found.posterior.std[0]
    assert found.config.finish == 300


def test_a_chain_that_never_moved_is_refused(recording):
    """Steps that are never taken: what a method has when every trajectory diverges."""
    found = infer([recording], config("sgld", windows=1, iterations=200, errors="assumed", options={"step": 1e-300}))
    assert any("never moved" in text or "do not agree" in text for text in inference_warnings(found))
    assert not inference_result(found).passed


def test_the_same_seed_gives_the_same_posterior_on_any_number_of_workers(recording):
    here = infer([recording], config(iterations=12))
    again = infer([recording], config(iterations=12))
    other = infer([recording], config(iterations=12, seed=1))
    with open_executor("processes:2") as executor:
        spread = infer([recording], config(iterations=12), executor)
    threaded = infer([recording], config(iterations=12, threads=3))
    np.testing.assert_array_equal(here.posterior.values, again.posterior.values)
    np.testing.assert_array_equal(here.posterior.values, threaded.posterior.values)
    np.testing.assert_array_equal(here.posterior.values, spread.posterior.values)
    np.testing.assert_array_equal(here.posterior.log_p, spread.posterior.log_p)
    assert not np.array_equal(here.posterior.values, other.posterior.values)


def test_particles_that_do_not_roll_out_are_masked_and_counted(recording):
    """A damping of -3000 N s/m lets the cart fly apart."""
    steps = []
    wild = config("svgd", limits={"slider.damping": (-3000.0, 1500.0)}, iterations=5, windows=1, finish=0)
    found = infer([recording], wild, on_step=lambda step: bool(steps.append(step)))
    assert found.posterior.meta["not_finite"] > 0 and steps[-1].not_finite > 0
    assert np.isfinite(found.posterior.values).all() and np.isneginf(found.posterior.log_p).any()
    assert np.isfinite(steps[-1].best) and np.isfinite(steps[-1].mean)
    assert found.metrics["particles that do not roll out"] > 0
    # Moved on, and with errors fitted about the one that is best, all of them come to lie where the cart stays whole.
    moved = infer([recording], replace(wild, finish=None, iterations=20))
    assert np.isfinite(moved.posterior.log_p).all() and moved.errors is not None
    with pytest.raises(UnusableInput, match="rolls out to finite states"):
        infer([recording], replace(wild, finish=None, limits={"slider.damping": (-3000.0, -2000.0)}))


def test_a_run_that_was_stopped_goes_on_from_its_checkpoint_as_if_it_had_not(recording, tmp_path):
    file = tmp_path / "checkpoint.npz"
    whole = infer([recording], config(iterations=20))
    part = infer([recording], config(iterations=20), checkpoint=file, on_step=lambda step: step.iteration == 8)
    assert part.resumable and part.posterior.meta["cancelled"] and file.exists()
    seen = []
    rest = infer(
        [recording], config(iterations=20), checkpoint=file, on_step=lambda step: bool(seen.append(step.iteration))
    )
    assert seen[0] == 9 and seen[-1] == 20
    np.testing.assert_array_equal(rest.posterior.values, whole.posterior.values)
    with pytest.raises(ValueError, match="another run"):
        infer([recording], config(iterations=20, seed=5), checkpoint=file)


@pytest.mark.parametrize("method, iterations", [("emcee", 40), ("gauss-newton", None)])
def test_other_methods_by_the_same_call(recording, method, iterations):
    free = {"limits": {}, "free": ("slider.damping", "pole.mass_com")} if method == "gauss-newton" else {}
    found = infer([recording], config(method, iterations=iterations, windows=1, **free))
    assert set(LIMITS) <= set(found.posterior.names) and found.posterior.count == 20
    assert found.vectors.shape == (20, found.model.np_)
    assert found.error_ratio < 1.0


def test_physics_is_inferred_around_networks_whose_weights_are_held(recording, tmp_path):
    """The network says half of the slider's damping; the particles are about the other half."""
    half = Blueprint("half", "slider.passive_torque", "slider.velocity", Network((), biases=False), weights=[-0.25])
    path = save_blueprints(tmp_path / "half.yaml", [half])
    settings = config(
        blueprint=str(path),
        limits={"slider.damping": (0.0, 1.0), "pole.mass": (0.05, 0.2)},
        particles=10,
        iterations=80,
    )
    found = infer([recording], settings)
    assert found.posterior.names == tuple(LIMITS)
    assert found.posterior.mean[0] == pytest.approx(0.25, abs=0.03) and found.error_ratio < 0.1
    assert np.all(found.vectors[:, -1] == -0.25) and found.posterior.meta["blueprint"] == str(path)

    write_inference(found, inference_result(found), tmp_path / "run", "test")
    model, p = open_parameters(tmp_path / "run" / "parameters.yaml", "cartpole")
    np.testing.assert_array_equal(p, found.vectors[np.argmax(found.posterior.log_p)])
    assert model.hash == found.model.hash

    with pytest.raises(UnusableInput, match="without networks"):
        infer([recording], replace(settings, errors="fitted"))
    with pytest.raises(ValueError, match="without networks"):
        JointCauses(Dynamics(found.model, dt=DT))
    with pytest.raises(UnusableInput, match="weights are held"):
        infer([recording], replace(settings, limits={"augmentation.half.w0[0,0]": (-1.0, 0.0)}))


def test_workers_get_the_networks_and_not_their_path(recording):
    half = Blueprint("half", "slider.passive_torque", "slider.velocity", Network((), biases=False), weights=[-0.25])
    _, _, windows, _ = read_recordings([recording], "cartpole")
    recipe = Recipe("cartpole", {"slider.damping": (0.0, 1.0)}, cut(windows, 0.5, 0.2)[0], 1, networks=(half,))
    here, there, without = recipe, pickle.loads(pickle.dumps(recipe)), replace(recipe, networks=())
    z = np.linspace(0.1, 0.9, 5)[:, None]
    log_p = here.density().log_p(z)
    np.testing.assert_array_equal(there.density().log_p(z), log_p)
    # A damping of d beside the network is one of d + 0.25 without it.
    np.testing.assert_allclose(without.density().log_p(z[:3] + 0.25), log_p[:3], rtol=1e-6)


class Changed(Recording):
    """A robot that is another from some sample on; its motion goes on."""

    def __init__(self, at, after, steps=450):
        super().__init__(steps)
        p = LimitedParameters(self.model, dict.fromkeys(after, (-100.0, 100.0))).to_physical(list(after.values()))
        dynamics = Dynamics(self.model, dt=DT, substeps=round(DT / self.model.timestep))
        series, gear = self._series, self.model.parameters.nominal[self.model.parameters.index("slider.gear")]
        before = np.concatenate([series.q, series.v], 1)[at - 1]
        x = dynamics.rollout(before, series.effort[at:, :1] / gear, p)[1:]
        x += 1e-4 * np.random.default_rng(2).standard_normal(x.shape)
        series.q[at:], series.v[at:] = x[:, :2], x[:, 2:]


def test_particles_are_of_the_robot_as_it_was_last(recording):
    heavier = {"slider.damping": 0.5, "pole.mass": 0.17}
    changed = Changed(150, heavier)
    found = infer([changed], config("emcee", particles=20, iterations=150, windows=1))
    (said,) = found.notes
    assert 1.48 <= float(said.removeprefix("The robot changed at ").split()[0]) <= 1.5 and "--changes off" in said
    mass = found.posterior.values[:, list(found.posterior.names).index("pole.mass")]
    assert np.quantile(mass, 0.02) <= 0.17 <= np.quantile(mass, 0.98)
    # All of it for one robot: a mass that no robot had, and too sure of it.
    mixed = infer([changed], config("emcee", particles=20, iterations=150, windows=1, changes=False))
    mixture = mixed.posterior.values[:, list(mixed.posterior.names).index("pole.mass")]
    assert not mixed.notes and not np.quantile(mixture, 0.02) <= 0.17 <= np.quantile(mixture, 0.98)
    # Where nothing changed, nothing is left out; several recordings may be of another moment each.
    assert not infer([recording], config("emcee", iterations=20, windows=1)).notes
    assert not infer([changed, changed], config("emcee", iterations=20, windows=1)).notes
    with pytest.raises(
        UnusableInput, match=r"changed at .* and 0\.\d+ s follow where 1 s are needed.*--to .*--changes off"
    ):
        infer([Changed(390, heavier)], config("emcee", iterations=20, windows=1))


def test_natural_quantities_are_freed_by_the_names_of_what_they_belong_to():
    found = names_that_free(
        ["hand.mass", "hand.com.x", "joint1.damping", "joint1.frictionloss", "gravity.z", "motor.gear"]
    )
    assert found == ["hand.mass_com", "joint1.damping", "joint1.friction", "gravity", "motor.gear"]
    assert names_that_free(["a.mass", "a.I_com.xx", "b.com.z"]) == ["a.inertia", "b.mass_com"]


def test_data_and_options_that_cannot_be_used_are_one_sentence(recording):
    for wrong, sentence in [
        ({"method": "magic"}, "there is no method"),
        ({"held_out": 0.9}, "held_out"),
        ({"length": -1.0}, "length"),
        ({"method": "gauss-newton"}, "knows priors"),
        ({"errors": "guessed"}, "expected one of auto, assumed, fitted"),
        ({"errors": "fitted", "combine": "sum"}, "recordings of one robot"),
        ({"errors": "fitted", "loss": "huber"}, "Gaussian noise"),
        ({"errors": "fitted", "finish": 0}, "at least one sweep"),
        ({"errors": "fitted", "method": "gauss-newton", "limits": {}}, "fits its own noise"),
        ({"errors": "fitted", "method": "cem"}, "methods that draw"),
        ({"errors": "fitted", "blueprint": "networks.yaml"}, "without networks"),
    ]:
        with pytest.raises(UnusableInput, match=sentence):
            config(**{"method": "csvgd", **wrong})
    with pytest.raises(UnusableInput, match="holds no robot"):
        infer([recording], config(robot=""))
    with pytest.raises(UnusableInput, match="no recordings"):
        infer([], config())
    with pytest.raises(UnusableInput, match="expected YAML"):
        read_limits("{hand.mass: 3}")
    assert read_limits("{hand.mass: [0.5, 3]}") == {"hand.mass": (0.5, 3.0)} and read_limits("") == {}
