"""Scripted hands move as smoothly, as fast and as far as they are said to, and every seed moves them otherwise."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.telepresence.operator_motion import BEYOND, TABLETOP, operator_motion, operator_targets

PERIOD = 0.008


def angles(motion):
    """Between poses one after the other (N - 1,) [rad]."""
    R = motion.rotations
    return Rotation.from_matrix(R[1:] @ R[:-1].transpose(0, 2, 1)).magnitude()


@pytest.mark.parametrize("kind", ["A", "B"])
def test_a_hand_moves_smoothly_and_no_faster_than_people_do(kind):
    motion = operator_motion(kind, seed=1)
    assert len(motion) == 7500 and motion.pose(7499).position.tolist() == motion.positions[-1].tolist()
    velocity = np.diff(motion.positions, axis=0) / PERIOD
    acceleration = np.diff(velocity, axis=0) / PERIOD
    # of a way with the least jerk: velocity 15/8 of the mean, acceleration 10/sqrt(3) and jerk 60 d/T^3 at most
    assert np.linalg.norm(velocity, axis=1).max() <= 15 / 8 * 0.25 * 1.05
    assert angles(motion).max() / PERIOD <= 15 / 8 * 0.9 * 1.05
    shortest = 0.4
    assert np.linalg.norm(acceleration, axis=1).max() <= 10 / np.sqrt(3) * 0.25 / shortest * 1.05
    assert np.linalg.norm(np.diff(acceleration, axis=0), axis=1).max() <= 60 * 0.25 / shortest**2 * PERIOD * 1.05
    turned = motion.rotations @ motion.rotations.transpose(0, 2, 1)
    np.testing.assert_allclose(turned, np.broadcast_to(np.eye(3), turned.shape), atol=1e-12)


def test_a_stays_over_the_table_and_b_goes_beyond_and_comes_back():
    for seed in range(3):
        inside, further = operator_motion("A", seed).positions, operator_motion("B", seed).positions
        assert (inside >= TABLETOP[0]).all() and (inside <= TABLETOP[1]).all() and inside[:, 2].min() > 0.75
        assert (further >= np.minimum(TABLETOP[0], BEYOND[0])).all()
        far, back = further[:, 1] < -0.75, further[:, 1] > -0.6
        assert far.mean() > 0.15 and back.mean() > 0.15
        assert np.count_nonzero(np.diff(far.astype(int)) == 1) >= 3
        assert further[:, 1].mean() < inside[:, 1].mean() - 0.2


def test_a_hand_looks_forward_down_and_to_the_side_to_which_it_reaches():
    targets = operator_targets(400, seed=0)
    looks = np.array([target.rotation[:, 2] for target in targets])
    assert (looks[:, 0] > 0.0).mean() > 0.97 and (looks[:, 2] < 0.2).all() and looks[:, 2].mean() < -0.3
    assert (np.array([target.rotation[2, 0] for target in targets]) > 0.0).all()  # its x axis is up
    aside, yaw = np.array([t.position[1] for t in targets]), np.arctan2(looks[:, 1], looks[:, 0])
    assert np.corrcoef(aside, yaw)[0, 1] > 0.5


def test_a_seed_and_a_kind_are_one_motion():
    first = operator_motion("A", 3, duration=5.0)
    assert (operator_motion("A", 3, duration=5.0).positions == first.positions).all()
    assert (operator_motion("A", 3, duration=8.0).positions[: len(first)] == first.positions).all()
    assert np.abs(operator_motion("A", 4, duration=5.0).positions - first.positions).max() > 0.05
    assert np.abs(operator_motion("B", 3, duration=5.0).positions - first.positions).max() > 0.05


def test_the_left_hand_is_the_mirror_image():
    right, left = (operator_motion("B", 5, duration=4.0, side=side) for side in ("right", "left"))
    mirror = np.array([1.0, -1.0, 1.0])
    assert (left.positions == right.positions * mirror).all()
    np.testing.assert_allclose(left.rotations[:, :, [0, 2]], right.rotations[:, :, [0, 2]] * mirror[:, None])
    np.testing.assert_allclose(np.linalg.det(left.rotations), 1.0)


def test_another_period_is_the_same_way_at_other_times():
    coarse, fine = operator_motion("A", 2, duration=3.0, period=0.02), operator_motion("A", 2, duration=3.0)
    assert len(coarse) == 150 and len(fine) == 375
    np.testing.assert_allclose(coarse.positions[::2], fine.positions[::5], atol=0.01)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="found 'C' and 'right'"):
        operator_motion("C", 0)
    with pytest.raises(ValueError, match="found 'A' and 'middle'"):
        operator_motion("A", 0, side="middle")
    for duration, period in ((0.0, 0.008), (1.0, 0.0), (np.inf, 0.008)):
        with pytest.raises(ValueError, match="a period and a longer duration"):
            operator_motion("A", 0, duration, period)
