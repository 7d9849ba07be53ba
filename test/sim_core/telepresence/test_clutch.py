"""The clutch: no jumps, distances and turns as the operator sees them, and nothing made up for later."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.telepresence.clutch import OPENXR, UNITY, Clutch, Pose

RNG = np.random.default_rng(4)
MILLIMETRE, TENTH_OF_A_DEGREE = 1e-3, np.deg2rad(0.1)


def pose(rng=RNG, size=0.3):
    return Pose(rng.uniform(-size, size, 3), Rotation.random(rng=rng).as_matrix())


def angle(a, b):
    return Rotation.from_matrix(a.rotation.T @ b.rotation).magnitude()


@pytest.mark.parametrize("axes", [OPENXR, UNITY], ids=["OpenXR", "Unity"])
@pytest.mark.parametrize("composition", ["world", "body"])
def test_neither_press_nor_release_nor_another_sensitivity_moves_the_target(axes, composition):
    clutch = Clutch(axes, composition)
    for _ in range(50):
        effector, hand = pose(), pose()
        clutch.press(effector, hand, RNG.uniform(-3, 3))
        first = clutch.target(hand, effector)
        assert np.abs(first.position - effector.position).max() < 1e-12 and angle(first, effector) < 1e-7
        moved = Pose(hand.position + RNG.normal(0, 0.01, 3), Rotation.random(rng=RNG).as_matrix())
        before = clutch.target(moved, effector)
        clutch.sensitivity = RNG.uniform(0.1, 2.0)
        after = clutch.target(moved, effector)
        assert np.abs(before.position - after.position).max() < 1e-12 and angle(before, after) < 1e-7
        assert clutch.release(before) is before and not clutch.pressed


@pytest.mark.parametrize(
    ("axes", "forward", "left", "up"),
    [(OPENXR, (0, 0, -1), (-1, 0, 0), (0, 1, 0)), (UNITY, (0, 0, 1), (-1, 0, 0), (0, 1, 0))],
    ids=["OpenXR", "Unity"],
)
@pytest.mark.parametrize("sensitivity", [1.0, 0.25])
def test_forward_for_the_operator_is_forward_for_the_robot(axes, forward, left, up, sensitivity):
    """However the operator is turned; a turn of the hand about an axis is one of the target about the same axis."""
    home = Pose(np.array([0.5, 0.0, 0.4]), np.eye(3))
    yaw = np.deg2rad(70.0)  # to the left, about the operator's vertical
    # A turn by an angle about "up" is from "forward" towards "left" in either world, whatever its handedness.
    f, l, u = (np.array(axis, float) for axis in (forward, left, up))
    seen_forward, seen_left = np.cos(yaw) * f + np.sin(yaw) * l, np.cos(yaw) * l - np.sin(yaw) * f
    clutch = Clutch(axes, sensitivity=sensitivity)
    start = Pose(np.array([0.1, 1.2, -0.3]), np.eye(3))
    for step, expected in (
        (seen_forward, (1, 0, 0)),
        (seen_left, (0, 1, 0)),
        (u, (0, 0, 1)),
    ):
        clutch.press(home, start, yaw)
        target = clutch.target(Pose(start.position + 0.1 * step, start.rotation), home)
        np.testing.assert_allclose(
            target.position - home.position, 0.1 * sensitivity * np.array(expected), atol=MILLIMETRE
        )
        # About the same axis by 20 degrees, anticlockwise seen from its tip: in a mirrored world that is the other way round.
        sense = np.sign(np.linalg.det(axes))
        turned = Rotation.from_rotvec(sense * np.deg2rad(20.0) * step).as_matrix() @ start.rotation
        target = clutch.target(Pose(start.position, turned), home)
        wanted = Pose(
            home.position, Rotation.from_rotvec(np.deg2rad(20.0) * sensitivity * np.array(expected)).as_matrix()
        )
        assert angle(target, wanted) < TENTH_OF_A_DEGREE


def test_the_two_compositions_differ_by_whose_axes_turn():
    effector = Pose(np.zeros(3), Rotation.from_euler("x", 90, degrees=True).as_matrix())
    hand = Pose(np.zeros(3), np.eye(3))
    up = Rotation.from_rotvec([0.0, 0.3, 0.0]).as_matrix()  # about OpenXR's vertical
    for composition, rotation in (
        ("world", Rotation.from_rotvec([0, 0, 0.3]).as_matrix() @ effector.rotation),
        ("body", effector.rotation @ Rotation.from_rotvec([0, 0, 0.3]).as_matrix()),
    ):
        clutch = Clutch(OPENXR, composition)
        clutch.press(effector, hand)
        assert angle(clutch.target(Pose(hand.position, up), effector), Pose(np.zeros(3), rotation)) < 1e-9


def test_a_hand_that_is_too_far_away_pulls_on_a_leash():
    effector, hand = Pose(np.zeros(3), np.eye(3)), Pose(np.zeros(3), np.eye(3))
    clutch = Clutch(OPENXR, leash=0.1)
    clutch.press(effector, hand)
    target = clutch.target(Pose(np.array([0.0, 0.0, -2.0]), np.eye(3)), effector)
    np.testing.assert_allclose(target.position, (0.1, 0.0, 0.0), atol=1e-12)
    # Turning back is felt once the hand is near again, as the target is where the hand says and not where it was cut.
    target = clutch.target(Pose(np.array([0.0, 0.0, -0.05]), np.eye(3)), effector)
    np.testing.assert_allclose(target.position, (0.05, 0.0, 0.0), atol=1e-12)


def test_what_is_no_pose_is_refused():
    with pytest.raises(ValueError, match="not pressed"):
        Clutch().target(pose(), pose())
    for position, rotation, words in (
        (np.full(3, np.nan), np.eye(3), "finite"),
        (np.zeros(3), 2.0 * np.eye(3), "stretches or mirrors"),
        (np.zeros(3), np.diag([1.0, 1.0, -1.0]), "stretches or mirrors"),
        (np.zeros(2), np.eye(3), "found"),
    ):
        with pytest.raises(ValueError, match=words):
            Pose(position, rotation)
    with pytest.raises(ValueError, match="finite yaw"):
        Clutch().press(pose(), pose(), np.nan)
    for options in ({"sensitivity": 0.0}, {"leash": np.inf}, {"composition": "room"}):
        with pytest.raises(ValueError):
            Clutch(**options)
