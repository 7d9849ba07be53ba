"""Pokes out of logs, reduced, extended, written and read."""

import numpy as np
import pytest

from sim_core.elastic.point_model import fit_homogeneous, fit_regressor
from sim_core.elastic.poke import (
    Poke,
    downsampled,
    extract_poke,
    extrapolated,
    last_slope,
    load_pokes,
    rows,
    save_pokes,
)

pytestmark = pytest.mark.pure
FEATURE = np.array([0.1, 0.2, 0.05, 0.3, 0.4, 0.5, 0.0, 0.0, 1.0])


def curve(d, onset=0.0016, stiffness=400.0):
    return stiffness * np.maximum(d - onset, 0.0) + 3e5 * np.maximum(d - onset, 0.0) ** 2


def log(offset=0.7, drift=0.0, seed=0, deepest=0.008, rate=250.0, noise=0.05):
    """Stand-off at -5 mm, 2 mm/s inwards, quickly out again, and a moment in the air."""
    rng = np.random.default_rng(seed)
    d = np.concatenate([
        np.full(50, -0.005), np.arange(-0.005, deepest, 0.002 / rate), np.linspace(deepest, -0.005, 60), np.full(50, -0.005)
    ])  # fmt: skip
    t = np.arange(len(d)) / rate
    return t, d, curve(d) + offset + drift * t / t[-1] + noise * rng.standard_normal(len(d))


def test_the_way_in_is_recovered():
    t, d, f = log()
    found = extract_poke(FEATURE, t, d, f)
    assert found.touched and not found.saturated and found.usable and not found.complaint
    assert found.rate == pytest.approx(250.0)
    assert abs(found.drift) < 0.05
    assert found.poke.displacement[0] == -0.005 and found.poke.displacement[-1] == pytest.approx(0.008, abs=1e-5)
    assert (np.diff(found.poke.displacement) >= 0.0).all()
    # the sensor's zero is gone to 0.05 N, and the curve is where it is to 0.1 mm
    assert np.abs((found.poke.force - curve(found.poke.displacement)).mean()) < 0.05
    shift = [
        np.square(found.poke.force - curve(found.poke.displacement - s)).sum() for s in np.arange(-5e-4, 5.1e-4, 1e-5)
    ]
    assert abs(np.arange(-5e-4, 5.1e-4, 1e-5)[np.argmin(shift)]) < 1e-4


def test_a_poke_that_never_touches_says_so():
    for noise in (0.05, 0.01):  # noise alone does not pass for a touch
        found = extract_poke(FEATURE, *log(deepest=0.001, noise=noise))
        assert not found.touched and "not touched" in found.complaint and found.usable


def test_a_sensor_at_its_end():
    t, d, f = log(noise=0.01)
    clipped = np.minimum(f, 3.0)
    for largest in (3.0, None):
        found = extract_poke(FEATURE, t, d, clipped, largest=largest)
        assert found.saturated and "at its end" in found.complaint
        assert found.poke.force.max() == pytest.approx(2.3, abs=0.05)
        assert np.abs(found.poke.force - curve(found.poke.displacement)).max() < 0.1


def test_a_sensor_that_drifts():
    found = extract_poke(FEATURE, *log(drift=1.0))
    assert found.drift == pytest.approx(1.0, abs=0.1) and not found.usable and "drifted" in found.complaint


def test_logs_that_are_none():
    t, d, f = log()
    with pytest.raises(ValueError, match="was the wrench recorded"):
        extract_poke(FEATURE, [], [], [])
    with pytest.raises(ValueError, match="one displacement and force"):
        extract_poke(FEATURE, t, d, f[:-1])
    with pytest.raises(ValueError, match="ascend"):
        extract_poke(FEATURE, t[::-1], d, f)
    with pytest.raises(ValueError, match="finite"):
        extract_poke(FEATURE, t, d, np.where(t > 1.0, np.nan, f))


def test_eight_pairs():
    d = np.linspace(-0.003, 0.007, 1001)
    reduced = downsampled(Poke(FEATURE, d, curve(d)))
    assert reduced.displacement == pytest.approx(np.linspace(-0.003, 0.007, 8))
    assert reduced.force == pytest.approx(curve(reduced.displacement), abs=1e-5)
    assert reduced.direction == pytest.approx([0.0, 0.0, -1.0])


def test_beyond_the_poke_the_last_slope_goes_on():
    d = np.linspace(0.0, 0.01, 51)
    f = np.where(d < 0.006, 100.0 * d, 0.6 + 450.0 * (d - 0.006))
    far = extrapolated(Poke(FEATURE, d, f))
    assert last_slope(d, f) == pytest.approx(450.0)
    new = far.displacement > 0.01 + 1e-12
    assert far.displacement.max() == pytest.approx(0.03) and new.sum() == 8
    assert np.diff(far.force[new]) / np.diff(far.displacement[new]) == pytest.approx(np.full(7, 450.0))
    assert far.force[-1] == pytest.approx(f[-1] + 450.0 * 0.02)
    outside = Poke(FEATURE, np.array([-0.003, -0.001]), np.zeros(2))
    assert extrapolated(outside) is outside


def test_files_keep_every_bit(tmp_path):
    rng = np.random.default_rng(3)
    pokes = [
        Poke(rng.standard_normal(9), rng.standard_normal(5), rng.standard_normal(5), probe)
        for probe in ("point", "line")
    ]
    read = load_pokes(save_pokes(tmp_path / "pokes.csv", pokes))
    for one, other in zip(pokes, read):
        assert one.probe == other.probe
        assert (one.feature == other.feature).all() and (one.force == other.force).all()
        assert (one.displacement == other.displacement).all()
    with pytest.raises(FileNotFoundError, match="expected at"):
        load_pokes(tmp_path / "none.csv")
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="first row"):
        load_pokes(tmp_path / "odd.csv")


def test_rows_are_finite():
    poke = Poke(FEATURE, [0.0, 0.001], [0.0, np.nan])
    with pytest.raises(ValueError, match="finite"):
        rows([poke])
    with pytest.raises(ValueError, match="needs a poke"):
        rows([])
    with pytest.raises(ValueError, match="one shape"):
        Poke(FEATURE, [0.0], [0.0, 1.0])


def test_one_spring_for_all():
    d = np.linspace(-0.005, 0.01, 30)
    model = fit_homogeneous([Poke(FEATURE, d, 300.0 * np.maximum(d - 0.0015, 0.0))])
    assert (model.stiffness, model.onset) == pytest.approx((300.0, 0.0015))
    assert model.predict(np.tile(FEATURE, (2, 1)), np.array([0.0, 0.0115])) == pytest.approx([0.0, 3.0])


def test_a_regressor_as_a_point_model():
    class Line:
        def fit(self, x, y):
            self.w = np.linalg.lstsq(np.c_[x[:, 9], np.ones(len(x))], y, rcond=None)[0]

        def predict(self, x):
            return np.c_[x[:, 9], np.ones(len(x))] @ self.w

    d = np.linspace(0.0, 0.01, 200)
    model = fit_regressor(Line(), [Poke(FEATURE, d, 200.0 * d - 0.5)])
    assert model.deepest == 0.01 and model.reach == pytest.approx(0.03)
    assert model.predict(FEATURE[None], np.array([0.02])) == pytest.approx([3.5])
    assert model.predict(FEATURE[None], np.array([0.0]))[0] == 0.0 > model.raw(FEATURE[None], np.array([0.0]))[0]
