"""The networks on data whose law is known, and the same network without torch for a planner."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tier 'learning' is not installed")

from sim_core.excavation.costs import excess_force
from sim_core.excavation.model_settings import CPU, PUBLISHED, ModelSettings
from sim_core.excavation.mpc import PLANNERS, Mpc
from sim_core.excavation.network import ForwardModel, RecurrentModel, parameters_without_encoders
from sim_core.excavation.policies import State
from sim_core.excavation.predictor import PlanningModel, Predictor, Weights, without_wiggle
from sim_core.excavation.primitives import NULL, WIGGLE, displacements
from sim_core.excavation.reference_path import make_reference_path
from sim_core.excavation.training import Schedule, train
from sim_core.excavation.trial import Trial
from sim_core.excavation.windows import build_windows, split_by_trajectory

pytestmark = pytest.mark.pure
SMALL = ModelSettings(history=3, horizon=3, features=8, state=16, action=8, hidden=24, attention=8)


def free_trial(seed, T=30):
    """Every primitive does what it is for, and the force pulls back to where the trial began."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(9, size=T)
    poses = np.array([0.5, 0, 0, 0]) + np.vstack([np.zeros(4), np.cumsum(displacements()[actions], axis=0)])
    forces = -300.0 * (poses[:, :3] - poses[0, :3])
    images = rng.integers(0, 255, (T + 1, 64, 32, 3)).astype(np.uint8)
    held = 3.0 + 5.0 * actions  # the same each time that a primitive is done
    return Trial(actions, poses, forces, images, held, held, np.zeros(T + 1, int), 0, False, True, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def data():
    trials = [free_trial(k) for k in range(20)]
    windows = build_windows(trials, 3, 3)
    return trials, windows, *(windows.of(part) for part in split_by_trajectory(20))


@pytest.fixture(scope="module")
def fitted(data):
    _, _, learn, validate, _ = data
    return train(learn, validate, SMALL, Schedule((8, 5), (1e-2, 5e-3), every=4, batch=32, block=8), seed=1)


def test_free_motion_is_learnt_and_errors_grow_with_the_horizon(data, fitted):
    *_, test = data
    losses = fitted.losses(test)
    truth = np.concatenate([test.poses, test.forces], 1)
    stays = ((truth[test.history[:, -1]] - truth[test.future[:, 0]]) / fitted.scale)[test.counts[:, 0]]
    assert losses[0] < 0.1 * float((stays**2 @ np.array([10.0] * 4 + [1.0] * 3)).mean())
    assert np.all(np.diff(losses) > 0)
    assert [row["stage"] for row in fitted.history] == [1] * 8 + [2] * 5


def test_equal_seeds_give_the_same_network_to_the_bit(data):
    _, _, learn, validate, test = data
    schedule = Schedule((1, 1), (1e-3, 1e-3), batch=64, block=8)
    learn = learn.of(np.unique(learn.trajectory)[:6])
    one, two, other = (train(learn, validate, SMALL, schedule, seed=seed).predict(test) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 0


@pytest.mark.parametrize("words", [{"vision": False}, {"touch": False}, {"past_actions": True, "change": False}])
def test_without_torch_it_says_the_same(data, words, tmp_path):
    trials, windows, learn, validate, _ = data
    learn = learn.of(np.unique(learn.trajectory)[:6])
    settings = ModelSettings(**{**SMALL.__dict__, **words})
    one = train(learn, validate, settings, Schedule((1, 0), (1e-3, 0.0), batch=64, block=8), seed=2)
    predictor = Predictor(Weights.load(Weights.of(one).save(tmp_path / "weights.npz")))
    trial, now = trials[0], 5
    for t in range(now + 1):
        image = trial.images[t] if settings.vision else None
        predictor.tell(State(trial.poses[t], trial.forces[t], image), trial.actions[t - 1] if t else NULL)
    # one sequence that happened, among others that did not
    rows = predictor.start()
    taken = trial.actions[now : now + 3]
    said = []
    for action in taken:
        rows = predictor.extend(rows, np.array([0, 0]), np.array([(action + 1) % 9, action]))[1:]
        said.append(np.concatenate(predictor.states(rows), axis=1)[0])
    np.testing.assert_allclose(said, one.predict(windows)[now], atol=2e-4)


def test_forces_inside_of_primitives_are_learnt_and_stay_paid_for(data, tmp_path):
    trials, _, learn, validate, _ = data
    settings = ModelSettings(**{**SMALL.__dict__, "peaks": True, "vision": False})
    one = train(learn, validate, settings, Schedule((10, 6), (1e-2, 5e-3), every=4, batch=32, block=8), seed=2)
    predictor = Predictor(Weights.load(Weights.of(one).save(tmp_path / "weights.npz")))
    predictor.tell(State(trials[0].poses[0], trials[0].forces[0]))
    rows = predictor.extend(predictor.start(), np.zeros(9, int), np.arange(9))
    np.testing.assert_allclose(predictor.inside(rows), 3.0 + 5.0 * np.arange(9), atol=4.0)
    later = predictor.extend(rows, np.arange(9), np.zeros(9, int))  # what is gentle afterwards takes nothing back
    assert np.all(predictor.inside(later) >= predictor.inside(rows))

    path = make_reference_path()
    blind, paying = (PlanningModel(predictor, path, peaks=peaks) for peaks in (False, True))
    apart = blind.extend(blind.start(), np.zeros(9, int), np.arange(9))[1]
    apart = apart - paying.extend(paying.start(), np.zeros(9, int), np.arange(9))[1]
    forces = excess_force(predictor.states(rows)[1])
    costs = np.maximum(predictor.inside(rows) - 17.5, forces) - forces
    np.testing.assert_allclose(apart[np.isfinite(apart)], costs[np.isfinite(apart)] / 1500.0, atol=1e-5)
    with pytest.raises(ValueError, match="peaks=True"):
        silent = train(learn, validate, SMALL, Schedule((0, 0), (1e-3, 1e-3)), seed=0)
        Predictor(Weights.of(silent)).inside(rows)


def test_a_planner_with_it_repeats_itself_and_keeps_to_what_is_allowed(fitted):
    path, weights = make_reference_path(), Weights.of(fitted)
    rng = np.random.default_rng(0)
    states = [State(path.poses[k], np.zeros(3), rng.integers(0, 255, (64, 32, 3)).astype(np.uint8)) for k in range(4)]

    def actions(name, seed=0, allowed=None):
        policy = Mpc(Predictor(weights), path, PLANNERS[name], allowed=allowed, seed=seed)
        return [policy.choose(state) for state in states], policy

    for name in ("BF 3", "RS 5"):
        assert actions(name)[0] == actions(name)[0]
    taken, policy = actions("BF 3", allowed=without_wiggle())
    assert WIGGLE not in taken and len(policy.times) == 4
    assert all(plan.evaluations == 8**3 for plan in policy.plans)


def test_sizes_are_those_published():
    with torch.device("meta"):  # sizes without numbers
        forward = ForwardModel(ModelSettings(**{**PUBLISHED.__dict__, "kind": "forward", "history": 1, "horizon": 5}))
        recurrent = RecurrentModel(PUBLISHED)
    assert 0.2 < parameters_without_encoders(recurrent) / parameters_without_encoders(forward) < 0.4  # "about a third"
    small = ForwardModel(ModelSettings(kind="forward", history=1, horizon=5))
    assert parameters_without_encoders(RecurrentModel(CPU)) < 0.5 * parameters_without_encoders(small)


def test_what_cannot_be_is_refused(data):
    _, windows, learn, validate, _ = data
    with pytest.raises(ValueError, match="build them so"):
        train(learn, validate, CPU)
    blind = build_windows([Trial(**{**vars(free_trial(0)), "images": None})], 3, 3)
    with pytest.raises(ValueError, match="pictures"):
        train(blind, blind, SMALL)
