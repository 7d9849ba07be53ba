"""The posture to which an arm is drawn: linear, clamped, mirrored, and fitted so that the shoulder stays on its side."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.multibody import load_model
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.posture_bias import NeutralBias, ShoulderBias, fit_shoulder_bias, good_angles


def hand(left: float, yaw: float, down: float = 0.0) -> Pose:
    """A hand so far to the left [m] whose z axis looks forward, turned to the left and then down [rad]."""
    ahead = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    return Pose(np.array([0.5, left, 1.0]), Rotation.from_euler("ZY", [yaw, down]).as_matrix() @ ahead)


@pytest.fixture
def bias():
    return ShoulderBias(np.arange(7.0), 2, angle=1.0, per_metre=0.5, per_radian=-0.25, least=0.2, most=1.5)


def test_the_angle_is_linear_and_no_other_joint_is_touched(bias):
    for left, yaw in ((0.0, 0.0), (-0.4, 0.3), (0.2, -0.5)):
        posture = bias(hand(left, yaw))
        assert posture[2] == pytest.approx(1.0 + 0.5 * left - 0.25 * yaw)
        assert np.delete(posture, 2).tolist() == [0.0, 1.0, 3.0, 4.0, 5.0, 6.0]
    assert bias.posture[2] == 2.0  # its own is not changed


def test_the_angle_stays_on_the_outer_side(bias):
    assert bias(hand(-9.0, 0.0))[2] == 0.2 and bias(hand(9.0, 0.0))[2] == 1.5


def test_a_hand_that_looks_straight_down_has_no_yaw(bias):
    for yaw in (-2.0, 0.0, 2.0):
        assert bias(hand(0.0, yaw, np.pi / 2))[2] == pytest.approx(1.0)
    assert bias(hand(0.0, 0.8, np.pi / 3))[2] == pytest.approx(1.0 - 0.25 * 0.8 * 0.5)


def test_the_other_arm_does_the_same_on_its_side(bias):
    other = bias.mirrored(-np.arange(7.0))
    for left, yaw in ((0.0, 0.0), (-0.4, 0.3), (-9.0, 0.0), (9.0, 0.0)):
        assert other(hand(-left, -yaw))[2] == pytest.approx(-bias(hand(left, yaw))[2])
    assert other.posture.tolist() == (-np.arange(7.0)).tolist()


def test_neutral_is_the_same_everywhere():
    neutral = NeutralBias(np.arange(7.0))
    assert neutral(hand(0.3, 1.0)) is neutral(hand(-0.3, 0.0))


def poses(count: int, seed: int) -> list[Pose]:
    """Of a hand beside a Panda's base that looks to the side and down."""
    rng, targets = np.random.default_rng(seed), []
    for _ in range(count):
        place = np.array([0.25, -0.5, 0.3]) + rng.uniform(-0.15, 0.15, 3)
        turn = Rotation.from_euler("ZYX", [-1.2 + rng.normal(0, 0.3), 1.2 + rng.normal(0, 0.3), rng.normal(0, 0.3)])
        targets.append(Pose(place, turn.as_matrix()))
    return targets


@pytest.fixture(scope="module")
def arm():
    return ArmKinematics(load_model("panda"), "hand_site")


@pytest.mark.parametrize("angles", [(0.3, 0.9, 1.5), (-1.5, -0.9, -0.3)])
def test_a_good_angle_is_that_of_a_good_posture_on_the_outer_side(arm, angles):
    """No start leads to a better one."""
    ik, half, targets = QpIk(arm, period=np.inf), 0.5 * (arm.upper - arm.lower), poses(12, seed=0)
    away = Pose(np.array([3.0, 0.0, 0.0]), np.eye(3))
    good = good_angles(arm, [*targets, away], 2, angles)
    assert np.isnan(good[-1]) and np.isfinite(good[:-1]).sum() >= 3
    assert (good[np.isfinite(good)] * angles[0] > 0.0).all()
    for target, chosen in zip(targets, good):
        if np.isfinite(chosen):
            worth = {}
            for angle in angles:
                q = bias = np.where(np.arange(7) == 2, angle, arm.neutral)
                for _ in range(80):
                    q = ik.step(target, q, bias)
                now, room = arm.at(q), np.minimum(q - arm.lower, arm.upper - q) / half
                if np.linalg.norm(now.position - target.position) < 0.01 and q[2] * angle > 0.0:
                    worth[float(q[2])] = now.manipulability * room.min()
            assert worth[chosen] == max(worth.values())


def test_a_fit_recovers_the_coefficients_of_the_angles_that_are_good(arm, monkeypatch):
    known, targets = (0.8, -0.6, 0.3), [hand(left, yaw) for left in (-0.4, 0.1, 0.5, 0.7) for yaw in (-0.5, 0.2, 0.9)]
    angles = [known[0] + known[1] * t.position[1] + known[2] * np.arctan2(*t.rotation[[1, 0], 2]) for t in targets]
    angles[3] = np.nan  # out of reach
    monkeypatch.setattr("sim_core.telepresence.posture_bias.good_angles", lambda *arguments: np.array(angles))
    bias = fit_shoulder_bias(arm, targets, "joint3", (0.2, 1.5))
    assert (bias.angle, bias.per_metre, bias.per_radian) == pytest.approx(known)
    assert (bias.joint, bias.least, bias.most) == (2, 0.2, 1.5) and bias.posture is arm.neutral


def test_what_cannot_be_fitted_is_refused(arm):
    with pytest.raises(ValueError, match="found 'elbow'"):
        fit_shoulder_bias(arm, [], "elbow", (0.3, 0.9))
    with pytest.raises(ValueError, match="one side of 0"):
        fit_shoulder_bias(arm, [], "joint3", (-0.3, 0.9))
    away = [Pose(target.position + 5.0, target.rotation) for target in poses(3, seed=0)]
    with pytest.raises(ValueError, match="only 0 of 3 targets"):
        fit_shoulder_bias(arm, away, "joint3", (0.3, 0.9))
