"""One arm whose joints do as they are told, and something elastic that it touches: what each mode gives, and falls back to."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.multibody import load_model
from sim_core.telepresence.arm import ArmMode, TeleopArm
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import OPENXR, Pose

DT = 0.008
HERE = Pose(np.zeros(3), np.eye(3))


@pytest.fixture(scope="module")
def ik():
    return QpIk(ArmKinematics(load_model("panda"), "flange"))


class Led:
    """The arm, a hand that is said in the robot's axes, and what presses on the end effector.

    Attributes:
        hand: place of the hand (3,) [m]. clutched: whether it leads. touch: of the effector's pose, the wrench on it (6,).
    """

    def __init__(self, ik, mode):
        self.arm = TeleopArm("right", ik, HERE, HERE, ik.kinematics.model.q_home, pressing=(0.03, 0.15))
        self.arm.led_as = mode
        self.hand, self.clutched, self.touch = np.zeros(3), True, lambda pose: np.zeros(6)

    @property
    def pose(self):
        return self.arm.effector(self.arm.q)

    def run(self, seconds, way=(0.0, 0.0, 0.0)):
        """The hand goes a way (3,) [m] meanwhile."""
        steps = round(seconds / DT)
        for _ in range(steps):
            self.hand = self.hand + np.array(way) / steps
            hand = Pose(OPENXR.T @ self.hand, np.eye(3))
            q = self.arm.propose(hand, self.clutched, 0.0, DT, OPENXR, self.arm.q, self.touch(self.pose))
            self.arm.accept(q)
        return self


def surface(start, normal, stiffness, depth=0.0):
    """What a plane presses with, `depth` [m] before the start in the direction of the normal."""

    def touch(pose):
        inside = max(0.0, float(normal @ (pose.position - start)) - depth)
        return np.concatenate([-stiffness * inside * normal, np.zeros(3)])

    return touch


def test_yielding_is_a_spring_about_where_the_hand_leads(ik):
    led = Led(ik, ArmMode.YIELD).run(0.5)
    start = led.pose.position
    push = np.array([0.0, 3.0, -8.0])
    led.touch = lambda pose: np.concatenate([push, np.zeros(3)])
    led.run(4.0)
    assert led.arm.mode is ArmMode.YIELD
    assert led.pose.position - start == pytest.approx(push / 200.0, abs=1e-3)
    led.touch = lambda pose: np.zeros(6)
    led.run(4.0, way=(0.05, 0.0, 0.03))
    assert led.pose.position - start == pytest.approx([0.05, 0.0, 0.03], abs=4e-3)


def test_yielding_presses_as_its_spring_and_no_more_than_on_its_leash(ik):
    led = Led(ik, ArmMode.YIELD).run(0.2)
    down = np.array([0.0, 0.0, -1.0])
    led.touch = surface(led.pose.position, down, 5000.0)
    led.run(3.0, way=0.06 * down)
    assert np.linalg.norm(led.touch(led.pose)[:3]) == pytest.approx(0.06 * 200.0, rel=0.06)
    led.run(3.0, way=0.5 * down)  # the leash is 0.125 m
    assert np.linalg.norm(led.touch(led.pose)[:3]) == pytest.approx(0.125 * 200.0, rel=0.06)


def test_pressing_keeps_its_force_while_the_hand_leads_it_along(ik):
    led = Led(ik, ArmMode.PRESS).run(0.2)
    start, approach = led.pose.position, led.pose.rotation[:, 2]
    along = led.pose.rotation[:, 0]
    led.touch = surface(start, approach, 2000.0, depth=0.02)
    led.run(4.0)  # it comes to the surface by itself
    assert led.touch(led.pose)[:3] == pytest.approx(-7.0 * approach, abs=0.2)
    led.run(2.0, way=0.08 * along + 0.05 * approach)  # leading it in changes nothing
    led.run(1.0)
    assert led.touch(led.pose)[:3] == pytest.approx(-7.0 * approach, abs=0.3)
    assert along @ (led.pose.position - start) == pytest.approx(0.08, abs=3e-3)
    assert Rotation.from_matrix(led.pose.rotation @ ik_rotation(ik).T).magnitude() < 0.02


def ik_rotation(ik):
    return ik.kinematics.at(ik.kinematics.model.q_home).pose.rotation


@pytest.mark.parametrize(
    "mode, touch, text",
    [
        (ArmMode.PRESS, lambda pose: np.array([0.0, 0.0, 30.0, 0.0, 0.0, 0.0]), "feels 30 N, at most 20 N"),
        (ArmMode.PRESS, lambda pose: None, "is not known"),
        (ArmMode.YIELD, lambda pose: None, "is not known"),
        (ArmMode.YIELD, lambda pose: np.full(6, np.nan), "is not known"),
    ],
)
def test_what_cannot_go_on_holds_until_the_clutch_is_released(ik, mode, touch, text):
    led = Led(ik, mode).run(0.2)
    assert led.arm.mode is mode
    led.touch = touch
    led.run(0.1)
    held = led.arm.q.copy()
    assert led.arm.mode is ArmMode.HOLD and text in led.arm.message and "Release the clutch" in led.arm.message
    led.touch = lambda pose: np.zeros(6)
    led.run(0.5, way=(0.1, 0.0, 0.0))  # what was wrong is over, and the clutch still pressed
    assert led.arm.mode is ArmMode.HOLD and (led.arm.q == held).all()
    led.clutched = False
    led.run(0.05)
    assert led.arm.message == ""
    led.clutched = True
    led.run(0.5)
    assert led.arm.mode is mode and led.arm.message == ""


def test_a_mode_holds_from_the_next_press_on_and_excludes_homing(ik):
    led = Led(ik, ArmMode.FOLLOW).run(0.1)
    led.arm.led_as = ArmMode.YIELD
    assert led.run(0.1).arm.mode is ArmMode.FOLLOW
    led.clutched = False
    assert led.run(0.1).arm.mode is ArmMode.HOLD
    led.clutched = True
    assert led.run(0.1).arm.mode is ArmMode.YIELD
    assert "release its clutch first" in led.arm.go_home()
