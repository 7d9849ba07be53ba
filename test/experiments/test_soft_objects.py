"""What the study of few pokes stands on: who is learnt from, what is given and asked, errors of known models, wrenches, the box."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from experiments.elastic.soft_objects import FEW, MARGIN, OWN, SCRATCH, SHOTS, _judge_points
from experiments.problems.elastic_study import onset_of
from experiments.problems.force_scores import (
    BOX_DEPTH,
    BOX_OFFSET,
    Box,
    ScratchJob,
    box_scores,
    line_trials,
    point_errors,
    scratch_errors,
    support,
    wrench_errors,
)
from experiments.problems.force_study import HELD_OUT, NOISE, PAIRS, PokedObject, collection, poke_all
from reporting import Result
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.objects.categories import category_object
from sim_core.elastic.objects.soft_object import ProbeTrial
from sim_core.elastic.poke import Poke
from sim_core.elastic.regressors import Budget
from sim_core.elastic.rigid_body import line_probe
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure
rng = np.random.default_rng(0)


class Springs:
    """f = k (d - onset), stiffer with x; `off` is added to all forces."""

    deepest = 0.02

    def __init__(self, off=0.0, onset=0.002):
        self.off, self.onset = off, onset

    def predict(self, features, displacement):
        return (500.0 + 2000.0 * features[:, 0]) * np.maximum(displacement - self.onset, 0.0) + self.off


@pytest.fixture(scope="module")
def slab():
    """A flat object of springs, 24 by 24 cm, with 30 pokes."""
    x, y = (g.ravel() for g in np.meshgrid(*[np.linspace(-0.12, 0.12, 61)] * 2))
    points = np.stack([x, y, 0.0 * x], 1)
    surface = Surface(points, np.full_like(points, 0.5), np.tile([0.0, 0.0, 1.0], (len(x), 1)))
    pokes, truth = [], []
    for k in rng.choice(len(x), 30, replace=False):
        d = np.linspace(-0.006, 0.012, PAIRS)
        truth.append(Springs().predict(np.tile(surface.features[k], (PAIRS, 1)), d))
        pokes.append(Poke(surface.features[k], d, truth[-1] + NOISE * rng.standard_normal(PAIRS)))
    return PokedObject("slab", "slabs", surface, pokes, np.stack(truth))


def test_seventeen_are_learnt_from_and_none_is_of_a_category_that_is_judged():
    learnt, judged = collection()
    assert (len(learnt), len(set(learnt)), len(judged)) == (17, 17, 4)
    assert {name for name, _ in judged} == set(HELD_OUT) and not {name for name, _ in learnt} & set(HELD_OUT)
    assert len({name for name, _ in learnt}) == 5


def test_what_is_given_is_not_asked_for_and_the_same_for_all_models(slab):
    given, asked = support(slab, 5, 1)
    assert len(given) == 5 and len(asked) == 25
    assert not {id(poke) for poke in given} & {id(slab.pokes[j]) for j in asked}
    again = support(slab, 5, 1)[0]
    assert all(a is b for a, b in zip(given, again)) and not all(a is b for a, b in zip(given, support(slab, 5, 2)[0]))


def test_errors_of_known_models(slab):
    right = point_errors(slab, 2, 0, lambda pokes: Springs())
    assert right[0] == pytest.approx(0.0, abs=1e-12)
    assert right[1] == pytest.approx(NOISE * np.sqrt(2.0 / np.pi), rel=0.15)
    assert point_errors(slab, 2, 0, lambda pokes: Springs(0.7))[0] == pytest.approx(0.7)


def test_wrenches_of_the_right_model_are_right_and_a_turned_torque_is_not(slab):
    """Trials by the simulator itself: errors are 0 with its own model, and what is put in is found."""
    simulator = ContactSimulator(slab.surface, Springs(), 0.01, onset=onset_of(slab.pokes))
    pose = np.eye(4)
    pose[:3, 3] = [0.02, 0.01, 0.0]
    depths = np.linspace(0.004, 0.01, 4)
    poses = np.tile(pose, (4, 1, 1))
    poses[:, 2, 3] = -depths
    felt = simulator.queries(line_probe(), poses, [0.0, 0.0, -1.0])
    assert np.linalg.norm(felt.force, axis=1).min() > 1.0
    trial = ProbeTrial(poses, depths, felt.force, felt.torque, slab.surface.features[0], "line")
    right = wrench_errors(slab, [trial], slab.pokes, lambda pokes: Springs(), 0.01)
    np.testing.assert_allclose(right, 0.0, atol=1e-12)
    turned = ProbeTrial(poses, depths, felt.force + [0.0, 0.3, 0.4], -felt.torque, trial.feature, "line")
    off = wrench_errors(slab, [turned], slab.pokes, lambda pokes: Springs(), 0.01)
    assert off[0] == pytest.approx(0.5) and off[1] == pytest.approx(2.0 * np.linalg.norm(felt.torque, axis=1).mean())


def test_learning_from_scratch_is_judged_by_the_same_errors(slab):
    few, many = (scratch_errors(ScratchJob(slab, k, 0, Budget(4, 30.0, 20))) for k in (1, 20))
    assert np.isnan(few[2:]).all() and many[0] < few[0]


def test_a_right_model_of_the_box_has_no_bias_and_ranks_all_places(slab):
    features = np.stack([poke.feature for poke in slab.pokes])
    truth = Springs().predict(features, np.full(30, BOX_DEPTH))
    seen = Box(slab, features, truth)
    np.testing.assert_allclose(box_scores(seen, 0, lambda pokes: Springs()), [0.0, 1.0], atol=1e-12)
    assert box_scores(seen, 0, lambda pokes: Springs(-0.4))[0] == pytest.approx(-0.4)
    assert box_scores(seen, 0, lambda pokes: Springs(onset=0.5))[1] == 0.0


def test_an_object_is_poked_all_over_and_a_line_is_pressed_on_it():
    soft = category_object("boxes", 0, offset=np.array([0.0, 0.0, -BOX_OFFSET]))
    found = poke_all(soft, 6, np.random.default_rng(1))
    assert len(found.pokes) == 6 and found.truth.shape == (6, PAIRS)
    assert all(len(poke) == PAIRS and poke.feature[8] > -0.2 for poke in found.pokes)
    felt = np.stack([poke.force for poke in found.pokes]) - found.truth
    assert 0.6 * NOISE < felt.std() < 1.4 * NOISE
    (trial,) = line_trials(found, soft, 1, 0)
    assert trial.force.shape == (8, 3) and (trial.force @ trial.poses[0, :3, 2])[-1] > 1.0


@pytest.mark.parametrize("gain", [0.2, 0.5])
def test_the_margin_is_judged(gain):
    """CoDeGa has (1 - gain) of the error at few pokes, and the check passes where that is enough."""
    scratch = np.full((1, 4, len(SHOTS), 2, 2), 2.0)
    own = np.full((3, 4, len(SHOTS) + 1, 2, 2), 2.0 * (1.0 - gain)) + 0.01 * np.arange(3)[:, None, None, None, None]
    result = Result("x")
    _judge_points(result, {SCRATCH: scratch, OWN: own})
    few = [
        check
        for check in result.checks
        if "error over AutoML's" in check.name and check.name[0] in "12" and check.name[1] == " "
    ]
    assert len(few) == 2 * FEW and all(check.passed == (gain > MARGIN) for check in few)
