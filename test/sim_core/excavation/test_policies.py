"""Primitives and the scripted policies, in free space."""

import numpy as np
import pytest

from sim_core.excavation.costs import Workspace
from sim_core.excavation.policies import ClosedLoop, Follow, OpenLoop, RandomActions, State, StochasticFollow
from sim_core.excavation.primitives import WIGGLE, PrimitiveSettings, displacements, duration, offset
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path

pytestmark = pytest.mark.pure
PATHS = {name: make_reference_path(PathSettings(depth=depth)) for name, depth in DEPTHS.items()}


def go(policy, path, longest=200):
    """Actions, poses and nearest points of a trial in which every primitive does what it is for."""
    pose, index, actions, poses, nearest = path.poses[0].copy(), 0, [], [path.poses[0]], [0]
    while not path.finished(pose, index) and len(actions) < longest:
        actions.append(policy.choose(State(pose, np.zeros(3))))
        pose = pose + displacements()[actions[-1]]
        index = int(path.closest(pose, index).index)
        poses.append(pose)
        nearest.append(index)
    return actions, np.array(poses), np.array(nearest)


@pytest.mark.parametrize("primitive", range(9))
def test_primitives_have_the_published_sizes_speeds_and_ends(primitive):
    lasts = duration(primitive)
    assert lasts == pytest.approx(([1.5] * 6 + [0.1] * 2 + [4.0])[primitive])
    t = np.linspace(0, lasts, 4001)
    places, rates = (np.array(one) for one in zip(*(offset(primitive, s) for s in t)))
    np.testing.assert_allclose(places[0], 0, atol=1e-15)
    np.testing.assert_allclose(places[-1], displacements()[primitive], atol=1e-12)
    middle = (places[2:] - places[:-2]) / (t[2:] - t[:-2])[:, None]
    np.testing.assert_allclose(middle[:-1], rates[1:-2], atol=2e-5)  # the rate is the derivative
    moved = np.abs(places).max(0)
    expected = np.zeros(4)
    expected[0 if primitive == WIGGLE else primitive // 2] = ([0.015] * 6 + [0.1] * 2 + [0.02])[primitive]
    np.testing.assert_allclose(moved, expected, atol=1e-9)


def test_a_wiggle_swings_four_times_and_null_is_no_primitive():
    x = np.array([offset(WIGGLE, t)[0][0] for t in np.linspace(0, 4, 4001)])
    assert np.sum((x[:-1] < 0) & (x[1:] >= 0)) == 4
    with pytest.raises(ValueError, match="only pads"):
        duration(9)
    assert duration(0, PrimitiveSettings(speed=0.1)) == pytest.approx(0.15)


@pytest.mark.parametrize("depth", PATHS)
def test_follow_keeps_to_the_path_and_never_wiggles(depth):
    actions, poses, index = go(Follow(PATHS[depth]), PATHS[depth])
    assert WIGGLE not in actions and len(actions) < 60
    place, angle = PATHS[depth].errors(poses, index)
    assert place.mean() < 0.5 * np.hypot(0.015, 0.015) and angle.mean() < 0.1  # half a step in x and in z
    assert PATHS[depth].finished(poses[-1], int(index[-1]))


@pytest.mark.parametrize("depth", PATHS)
def test_closed_loop_wiggles_after_every_two(depth):
    actions, _, _ = go(ClosedLoop(PATHS[depth]), PATHS[depth])
    assert [k for k, a in enumerate(actions) if a == WIGGLE] == list(range(2, len(actions), 3))


def test_open_loop_is_decided_before_it_moves_and_looks_at_nothing():
    path = PATHS["deep"]
    policy = OpenLoop(path)
    planned = policy.actions
    nowhere = State(np.full(4, np.nan), np.full(3, np.nan))
    taken = [policy.choose(nowhere) for _ in planned]
    assert tuple(taken) == planned and policy.choose(nowhere) is None
    assert list(planned) == go(ClosedLoop(path), path)[0]


def test_random_actions_are_uniform_inside_and_stay_inside():
    policy, counts = RandomActions(seed=3), np.zeros(9)
    inside = State(np.array([0.5, 0.0, 0.0, 0.0]), np.zeros(3))
    for _ in range(4500):
        counts[policy.choose(inside)] += 1
    assert np.sum((counts - 500) ** 2 / 500) < 26.1  # chi-squared, 8 degrees of freedom, 0.1 %
    pose, box = np.array([0.5, 0.0, 0.0, 0.0]), Workspace()
    for _ in range(400):
        pose = pose + displacements()[policy.choose(State(pose, np.zeros(3)))]
        assert box.contains(pose)
    edge = State(np.array([0.75, 0.0, 0.0, 0.0]), np.zeros(3))  # outside by more than a step's length: it may come back
    assert {policy.choose(edge) for _ in range(200)} == {1, WIGGLE}


def test_stochastic_follow_is_biased_to_follow_and_leaves_nothing_out():
    path = PATHS["medium"]
    state = State(path.poses[20], np.zeros(3))
    best = Follow(path).choose(state)
    draws = [StochasticFollow(path, seed=k).choose(state) for k in range(900)]
    share = np.mean(np.array(draws) == best)
    assert abs(share - (0.5 + 0.5 / 9)) < 4 * np.sqrt(0.25 / 900)
    assert set(draws) == set(range(9))
