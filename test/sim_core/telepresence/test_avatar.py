"""The whole robot after an operator: samples in, MuJoCo moves, and what the operator let go of stays where it is."""

import numpy as np
import pytest
from rehearsal import DT, REST
from scipy.spatial.transform import Rotation

from config.description import RobotError
from config.robot import load_robot
from sim_core.multibody import load_model
from sim_core.telepresence.arm import ArmMode
from sim_core.telepresence.avatar import Avatar
from sim_core.telepresence.omni_base import OmniBase, Rangefinder
from sim_core.telepresence.session import State


def test_it_holds_itself_up_and_still(rehearsal):
    rehearsal.run(1.0)
    assert np.abs(rehearsal.q - rehearsal.model.q_home).max() < 5e-3


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_arm_goes_where_the_hand_goes_and_turns_as_it_turns(rehearsal, side):
    k = ("right", "left").index(side)
    other = ("left", "right")[k]
    before, still = rehearsal.effector(side), rehearsal.effector(other)
    rehearsal.clutch[k] = True
    way, turn = np.array([0.05, 0.03, 0.06]), np.array([0.0, 0.2, 0.15])

    def move(t):
        share = min(1.0, t / 1.5)
        rehearsal.hands[k], rehearsal.turns[k] = REST[k] + share * way, share * turn

    rehearsal.run(3.0, move=move)
    after = rehearsal.effector(side)
    assert after.position - before.position == pytest.approx(way, abs=5e-3)
    turned = Rotation.from_matrix(after.rotation @ before.rotation.T).as_rotvec()
    assert turned == pytest.approx(turn, abs=0.03)
    assert rehearsal.effector(other).position == pytest.approx(still.position, abs=3e-3)
    assert rehearsal.avatar.session.state is State.TELEOP


def test_pressing_and_releasing_move_nothing(rehearsal):
    before = rehearsal.effector("right").position
    for _ in range(5):
        rehearsal.clutch[0] = not rehearsal.clutch[0]
        rehearsal.hands[0] = rehearsal.hands[0] + (0.0 if rehearsal.clutch[0] else 0.04)
        rehearsal.run(0.1)
        rehearsal.clutch[0] = False
        rehearsal.run(0.1)
    assert rehearsal.effector("right").position == pytest.approx(before, abs=3e-3)


def test_an_arm_is_no_faster_than_it_may_be(rehearsal):
    rehearsal.clutch[0] = True
    places = []

    def move(t):
        rehearsal.hands[0] = REST[0] + np.array([0.0, 0.0, 0.25 * np.sin(6.0 * t)])
        places.append(rehearsal.avatar.arms[0].effector(rehearsal.avatar.arms[0].q).position)

    rehearsal.run(2.0, move=move)
    speed = np.linalg.norm(np.diff(places, axis=0), axis=1) / DT
    assert 0.1 < speed.max() <= 0.2 * 1.1


def test_a_lost_link_holds_and_a_new_one_goes_on_without_a_jump(rehearsal):
    rehearsal.clutch[0] = True

    def move(t):
        rehearsal.hands[0] = REST[0] + np.array([0.0, 0.0, min(0.06, 0.1 * t)])

    rehearsal.stick = [1.0, 0.0, 0.0]
    rehearsal.run(1.0, move=move)
    assert rehearsal.avatar.base.velocity[0] == pytest.approx(0.2)
    rehearsal.run(0.9, heard=False)
    assert rehearsal.avatar.session.state is State.HOLD
    held = rehearsal.avatar.position.copy()
    rehearsal.run(1.5, heard=False)
    assert rehearsal.avatar.session.state is State.DISCONNECTED
    assert rehearsal.avatar.position == pytest.approx(held) and np.abs(rehearsal.v).max() < 0.02
    where = rehearsal.effector("right").position
    # The hand is elsewhere when it comes back, still clenched, in a new session.
    rehearsal.session, rehearsal.stick = "two", [0.0, 0.0, 0.0]
    rehearsal.hands[0] = REST[0] + 0.5
    rehearsal.run(0.3)
    assert rehearsal.avatar.session.state is State.HANDSHAKE
    assert rehearsal.avatar.position == pytest.approx(held)
    rehearsal.clutch[0] = False
    rehearsal.run(0.1)
    rehearsal.clutch[0] = True
    rehearsal.run(0.2)
    assert rehearsal.avatar.session.state is State.TELEOP
    assert rehearsal.effector("right").position == pytest.approx(where, abs=1e-3)


def test_the_supervisor_has_the_last_word(rehearsal):
    rehearsal.clutch[0], rehearsal.denied = True, "halted by the supervisor: stopped by an operator"
    before = rehearsal.avatar.position.copy()
    rehearsal.run(0.5, move=lambda t: rehearsal.hands.__setitem__(0, REST[0] + 0.1 * t))
    assert rehearsal.avatar.session.state is State.FAULT
    assert rehearsal.avatar.session.sentence == rehearsal.denied
    assert rehearsal.avatar.position == pytest.approx(before)
    rehearsal.denied = ""
    rehearsal.run(0.1)
    assert rehearsal.avatar.session.state is State.IDLE  # the hand has to open first


def test_an_arm_that_is_pressed_stops_alone_and_is_reset(rehearsal):
    rehearsal.push = ("right_link7", [0.0, 0.0, 900.0])
    rehearsal.run(0.6)
    rehearsal.push = ("right_link7", [0.0, 0.0, 0.0])
    right, left = rehearsal.avatar.arms
    assert right.mode is ArmMode.STOPPED and left.mode is ArmMode.HOLD
    assert right.message.startswith("The right arm is pressed ") and "reset_fault" in right.message
    rehearsal.clutch = [True, True]
    before = rehearsal.effector("left").position

    def move(t):
        for k in (0, 1):
            rehearsal.hands[k] = REST[k] + np.array([0.0, 0.0, min(0.05, 0.1 * t)])

    rehearsal.run(1.5, move=move)
    assert right.mode is ArmMode.STOPPED and "protective stop" in rehearsal.avatar.go_home()
    assert (rehearsal.effector("left").position - before)[2] == pytest.approx(0.05, abs=6e-3)  # the other one is of use
    rehearsal.clutch = [False, False]
    rehearsal.run(0.1)
    assert "the right arm's protective stop" in rehearsal.avatar.reset_fault(rehearsal.q)
    assert right.mode is ArmMode.HOLD
    assert rehearsal.avatar.reset_fault(rehearsal.q) == "There is no fault."
    assert rehearsal.avatar.go_home() == ""
    rehearsal.run(6.0)
    assert [arm.mode for arm in rehearsal.avatar.arms] == [ArmMode.HOLD, ArmMode.HOLD]
    index = rehearsal.avatar.arms_with_joints()[0][1]
    assert rehearsal.q[index] == pytest.approx(right.home, abs=0.01)


def test_arms_that_are_led_into_each_other_hold(rehearsal):
    rehearsal.clutch = [True, True]

    def move(t):
        for k, way in ((0, 1.0), (1, -1.0)):
            rehearsal.hands[k] = REST[k] + np.array([0.0, way * min(0.6, 0.15 * t), 0.0])

    rehearsal.run(5.0, move=move)
    told = np.concatenate([arm.q for arm in rehearsal.avatar.arms])
    assert rehearsal.avatar.guard.nearest(told)[0] >= rehearsal.avatar.guard.margin
    assert any("The arms hold: " in arm.message for arm in rehearsal.avatar.arms)


def test_the_base_drives_where_the_robot_looks(rehearsal):
    rehearsal.stick = [0.0, 0.0, 1.0]
    rehearsal.run(4.0)
    rehearsal.stick = [0.0, 0.0, 0.0]
    rehearsal.run(1.0)
    x, y, yaw = rehearsal.q[:3]
    assert yaw == pytest.approx(0.4 * 4.0, abs=0.3) and abs(x) + abs(y) < 0.02
    rehearsal.stick = [1.0, 0.0, 0.0]
    rehearsal.run(2.0)
    way = rehearsal.q[:2] - [x, y]
    heading = rehearsal.q[2]
    assert np.dot(way, [np.cos(heading), np.sin(heading)]) == pytest.approx(0.2 * 2.0 - 0.2**2 / 0.8, abs=0.03)
    assert abs(np.dot(way, [-np.sin(heading), np.cos(heading)])) < 0.01


def test_the_base_stops_when_the_operator_is_lost_also_without_a_clutch(rehearsal):
    rehearsal.stick = [1.0, 0.0, 0.0]
    rehearsal.run(1.0)
    x = rehearsal.avatar.position[0]
    rehearsal.run(1.0, heard=False)
    assert rehearsal.avatar.session.state is State.HOLD and not rehearsal.avatar.base.velocity.any()
    assert rehearsal.avatar.position[0] - x <= 0.2 * (0.2 + 2 * DT) + 0.2**2 / (2 * 0.8) + 1e-6


def test_the_base_stands_before_a_wall(rehearsal):
    limits = rehearsal.avatar.base.limits
    rehearsal.avatar.base = OmniBase((Rangefinder("front", 0.0),), limits)
    rehearsal.stick = [1.0, 0.0, 0.0]

    def move(t):
        rehearsal.ranges = {"front": 0.7 - rehearsal.q[0]}

    rehearsal.run(4.0, move=move)
    assert 0.25 < 0.7 - rehearsal.q[0] <= limits.stop_distance
    assert "sees something" in rehearsal.avatar.base.obstacle


def test_head_gripper_and_hand(rehearsal):
    names = list(rehearsal.model.joint_names)
    rehearsal.look = np.array([0.5, 0.1, 0.0])

    def close(t):
        rehearsal.trigger = [min(1.0, t), min(0.5, t)]

    rehearsal.run(1.5, move=close)
    at = dict(zip(names, rehearsal.q))
    home = dict(zip(names, rehearsal.model.q_home))
    assert at["head_yaw"] == pytest.approx(0.5, abs=0.01)
    assert at["head_pitch"] == pytest.approx(home["head_pitch"] + 0.1, abs=0.01)
    assert at["right_gripper"] == pytest.approx(0.0425, abs=1e-3)
    assert at["left_middle"] == pytest.approx(0.8, abs=0.05)
    rehearsal.look, rehearsal.trigger = np.zeros(3), [0.0, 0.0]
    rehearsal.run(1.0, heard=False)  # who is lost keeps what is held
    rehearsal.session = "two"
    rehearsal.run(1.0)  # and who comes back with an open hand too, until the trigger has been where the fingers are
    assert dict(zip(names, rehearsal.q))["right_gripper"] == pytest.approx(0.0425, abs=1e-3)
    rehearsal.run(1.0, move=lambda t: rehearsal.trigger.__setitem__(0, min(1.0, 2.0 * t)))
    rehearsal.run(1.0, move=lambda t: rehearsal.trigger.__setitem__(0, 0.0))
    assert dict(zip(names, rehearsal.q))["right_gripper"] == pytest.approx(0.0, abs=1e-3)


def test_a_glove_leads_the_hand_and_drops_nothing(rehearsal):
    avatar, index = rehearsal.avatar, rehearsal.avatar.grip.hand
    wanted = np.array([1.2, 1.0, 0.8, 0.6, 0.5, 1.5])
    avatar.grip.retargeting = Told(avatar.position[index].copy())
    rehearsal.glove = np.zeros(20)
    rehearsal.run(0.1)
    avatar.grip.retargeting = Told(wanted)
    rehearsal.run(1.5)
    assert rehearsal.q[index] == pytest.approx(wanted, abs=0.05)
    rehearsal.run(1.0, heard=False)  # who is lost keeps what is held
    avatar.grip.retargeting, rehearsal.session = Told(0.1 * wanted), "two"
    rehearsal.run(0.5)  # and who comes back with an open hand, too
    assert rehearsal.q[index] == pytest.approx(wanted, abs=0.05)
    rehearsal.glove = None  # nor does a trigger that takes the glove's place
    rehearsal.run(0.5)
    assert rehearsal.q[index] == pytest.approx(wanted, abs=0.05)


def test_a_shown_pose_is_shown_while_somebody_is_there(rehearsal):
    avatar, index = rehearsal.avatar, rehearsal.avatar.grip.hand
    avatar.grip.shown = np.array([1.0, 0.2, 0.2, 0.2, 0.3, 1.7])
    rehearsal.run(1.0, heard=False)
    assert np.abs(rehearsal.q[index] - avatar.grip.shown).max() > 0.3
    rehearsal.run(1.0)
    assert rehearsal.q[index] == pytest.approx(avatar.grip.shown, abs=0.05)


class Told:
    """A retargeting that says what it was told."""

    said = "told"

    def __init__(self, angles):
        self.angles = angles

    def __call__(self, glove):
        return self.angles


def test_another_robot_is_refused():
    with pytest.raises(RobotError, match="expected a task of kind teleoperate"):
        Avatar(load_robot("panda"), load_model("panda"))
