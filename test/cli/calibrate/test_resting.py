"""Stretches at rest: found where the robot stood still, and nowhere else."""

import numpy as np
import pytest
from simulated_bags import POSES, tour

from identification.calibrate.resting import RestingPoses
from sim_core.perception.still_stretches import Rest, still_stretches


def test_stretches_at_rest():
    rows = tour(POSES[:4])
    t, q = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    found = still_stretches(t, q)
    assert len(found) == 4
    for rest, goal in zip(found, POSES):
        np.testing.assert_allclose(q[rest.covers(t)].mean(axis=0), goal, atol=2e-3)
        # begins and ends away from motion: every sample belongs to the pose itself
        moving = np.array([not r[3] for r in rows])
        assert not (rest.covers(t) & moving & (np.abs(q - goal).max(axis=1) > 0.01)).any()
    assert still_stretches(t, q, duration=2.0) == []


def test_creeping_joints_are_taken_where_they_were_when_something_was_measured():
    t = np.arange(0.0, 2.0, 0.01)
    poses = RestingPoses([Rest(0.5, 1.5)], t, np.stack([0.04 * t, np.full_like(t, 0.3)], axis=1))
    np.testing.assert_allclose(
        poses.mean_q(poses.rests[0], np.array([0.7, 0.9])), [0.04 * 0.8, 0.3], atol=3e-4
    )  # half a sample
    np.testing.assert_allclose(poses.mean_q(poses.rests[0], np.array([1.5])), [0.04 * 1.45, 0.3], atol=3e-4)


def test_slow_motion_and_gaps_are_no_rest():
    t = np.arange(0.0, 4.0, 0.004)
    assert still_stretches(t, 0.04 * t[:, None]) == []
    q = np.zeros((len(t), 1))
    q[t > 2.0] = 1.0  # while nobody looked
    looked = (t < 1.9) | (t > 2.1)
    assert [round(r.end - r.begin, 2) for r in still_stretches(t[looked], q[looked])] == [1.9, 1.89]
    with pytest.raises(ValueError, match="time jumps back at sample 3"):
        still_stretches(np.array([0.0, 1.0, 2.0, 0.5]), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="not finite at 0.004"):
        still_stretches(t, np.where(np.arange(len(t)) == 1, np.nan, 0.0)[:, None])
