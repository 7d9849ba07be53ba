"""The study of soft objects: couplings and onsets that are known are found, errors are what they say, and a tiny study ends in a page."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from experiments.elastic import elastic_objects
from experiments.elastic.elastic_objects import Study, pooled, rmse
from experiments.problems.elastic_rivals import PureLearning
from experiments.problems.elastic_study import COUPLINGS, Errors, Sizes, coupling_of, onset_of, simulated, told
from sim_core.elastic.objects.soft_object import ProbeTrial
from sim_core.elastic.point_model import HomogeneousStiffness
from sim_core.elastic.poke import Poke
from sim_core.elastic.regressors import Budget
from sim_core.elastic.rigid_body import probe_pose
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure
FEATURE = np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 1.0])


def slab():
    x, y = (g.ravel() for g in np.meshgrid(*[np.linspace(-0.05, 0.05, 51)] * 2))
    return Surface(np.stack([x, y, 0.0 * x], 1), np.full((len(x), 3), 0.5), np.tile([0.0, 0.0, 1.0], (len(x), 1)))


def trial(force=None, torque=None, roll=0.0, x=0.0, kind="line", depths=(0.002, 0.004, 0.006)):
    depths = np.array(depths)
    poses = np.tile(probe_pose(np.array([x, 0.0, 0.0]), np.array([0.0, 0.0, 1.0]), roll), (len(depths), 1, 1))
    poses[:, 2, 3] = -depths
    nothing = np.zeros((len(depths), 3))
    feature = FEATURE.copy()
    feature[0] = x
    return ProbeTrial(
        poses, depths, nothing if force is None else force, nothing if torque is None else torque, feature, kind
    )


def test_a_coupling_that_is_known_is_found():
    model, surface = HomogeneousStiffness(400.0, 0.0, 0.02), slab()
    known = COUPLINGS[6]
    blank = [trial(roll=0.3), trial(roll=1.2, x=0.01)]
    force, torque = simulated(surface, model, blank, known, 0.0)
    trials = [trial(f, t, r, x) for f, t, (r, x) in zip(force, torque, ((0.3, 0.0), (1.2, 0.01)))]
    assert coupling_of(surface, model, trials, 0.0) == pytest.approx(known)
    error = Errors.of(trials, *simulated(surface, model, trials, known, 0.0))
    assert error.force < 1e-12 and error.torque < 1e-12
    shifted = Errors.of(trials, force + [3.0, 0.0, 4.0], torque)
    assert shifted.force == pytest.approx(5.0)


def test_onset():
    d = np.linspace(-0.006, 0.008, 100)
    pokes = [Poke(FEATURE, d, 500.0 * np.maximum(d - at, 0.0)) for at in (0.001, 0.002, 0.004)]
    assert onset_of(pokes) == pytest.approx(0.002, abs=1e-5)
    assert onset_of([Poke(FEATURE, d, 0.0 * d)]) == 0.0


def test_told_pokes_are_noisy_and_the_same_each_time():
    d = np.linspace(-0.006, 0.008, 1000)
    pokes = [Poke(FEATURE, d, 0.0 * d) for _ in range(3)]
    once, again = told(pokes, np.array([2, 0]), 5), told(pokes, np.array([0, 2]), 5)
    assert len(once[0]) == 24 and (once[0].force == again[1].force).all() and (once[0].force != once[1].force).any()
    assert 0.02 < np.concatenate([p.force for p in once]).std() < 0.08


def test_pure_learning_answers_in_the_worlds_axes():
    rng = np.random.default_rng(0)

    def made(roll):
        # 300 N/m along the probe; a torque of 0.01 N m about the probe's own x axis
        some = trial(roll=roll, x=float(rng.uniform(-0.02, 0.02)))
        force = some.displacement[:, None] * [0.0, 0.0, 300.0]
        torque = np.tile(0.01 * some.poses[0, :3, 0], (3, 1))
        return trial(force, torque, roll, some.feature[0])

    model = PureLearning([made(r) for r in rng.uniform(0.0, 3.0, 12)], 0, Budget(2, 5.0, 16))
    asked = [made(r) for r in (0.2, 1.4, 2.8)]
    error = Errors.of(asked, *model.predict(asked))
    assert error.force < 0.25 and error.torque < 0.003


def test_pooling_counts_every_sample_once():
    one = {"wrenches": [
        {"method": "a", "probe": "line", "samples": 3, "force": 1.0}, {"method": "a", "probe": "cylinder", "samples": 1, "force": 3.0},
        {"method": "b", "probe": "line", "samples": 9, "force": 50.0},
    ]}  # fmt: skip
    assert pooled(one, "a", "force") == pytest.approx(np.sqrt((3.0 + 9.0) / 4.0))
    assert rmse(np.array([3.0, 4.0])) == pytest.approx(np.sqrt(12.5))


def test_a_tiny_study(tmp_path, monkeypatch):
    monkeypatch.setenv("REFIT_CACHE", str(tmp_path))
    tiny = Study(("bird",), Sizes(13, 1500, 0.35, 1, 6), 1, 1, Budget(1, 1.0, 8))
    monkeypatch.setitem(elastic_objects.SIZES, "tiny", tiny)
    result = elastic_objects.run("tiny", run_directory=tmp_path)
    values = {check.name: check.value for check in result.checks}
    assert all(np.isfinite(value) for value in values.values())
    assert values["over 'no coupling', worst of objects"] < 1.0
    assert (tmp_path / "report.html").stat().st_size > 10_000
