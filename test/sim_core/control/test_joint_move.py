"""A joint move keeps its bounds, is smooth, and ends where it should."""

import numpy as np
import pytest

from sim_core.control.joint_move import JointMove

SPEED, ACCELERATION = np.array([0.6, 0.8, 0.7]), np.array([1.2, 1.6, 1.4])


def sampled(move, step=1e-3):
    t = np.arange(0.0, move.duration + 0.1, step)
    X = np.array([move.state(s) for s in t])
    return t, X[:, :3], X[:, 3:]


@pytest.mark.parametrize("seed", range(20))
def test_it_keeps_its_bounds_and_rests_at_the_goal(seed):
    rng = np.random.default_rng(seed)
    q, goal = rng.uniform(-2.5, 2.5, (2, 3))
    v = rng.uniform(-1.0, 1.0, 3) * SPEED * (seed % 2)
    move = JointMove(q, v, goal, SPEED, ACCELERATION)
    t, Q, V = sampled(move)
    A = np.gradient(V, t, axis=0)
    np.testing.assert_allclose(np.r_[Q[0], V[0]], np.r_[q, v], atol=1e-12)
    np.testing.assert_allclose(np.r_[Q[-1], V[-1]], np.r_[goal, np.zeros(3)], atol=1e-12)
    np.testing.assert_allclose(
        np.gradient(Q, t, axis=0)[1:-1], V[1:-1], atol=2e-3
    )  # velocities are those of the positions
    assert np.all(np.abs(V) <= SPEED * (1 + 1e-9)) and np.all(np.abs(A) <= ACCELERATION * 1.01)
    # Some joint uses what it may: no bound is kept by being slow.
    assert max(np.max(np.abs(V) / SPEED), np.max(np.abs(A) / ACCELERATION)) > 0.98


def test_a_joint_that_runs_towards_its_end_is_asked_to_stop_there():
    move = JointMove([0.95, 0, 0], [0.6, 0, 0], [0, 0, 0], SPEED, ACCELERATION, -1.0, 1.0)
    _, Q, _ = sampled(move)
    assert Q.max() == 1.0 and Q[-1, 0] == 0.0


def test_an_arm_that_is_there_needs_no_time():
    move = JointMove([1, 2, 3], [0, 0, 0], [1, 2, 3], SPEED, ACCELERATION)
    assert move.duration == 0.0
    np.testing.assert_array_equal(move.state(0.0), [1, 2, 3, 0, 0, 0])
