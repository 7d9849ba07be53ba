"""The action calibrate_glove in the node teleop, which the test leads through time as a plant in lock-step would."""

import time

import numpy as np
import pytest
from rclpy.action import ActionClient
from refit_interfaces.action import CalibrateGlove
from refit_interfaces.msg import JointCommand, OperatorSample, TeleopStatus
from sensor_msgs.msg import JointState

from nodes.framework.qos import COMMAND, STATE
from sim_core.multibody import load_model
from sim_core.telepresence.hand.calibration import GloveCalibration
from sim_core.telepresence.hand.poses import CALIBRATION_POSES
from sim_core.telepresence.hand.synthetic_operator import SyntheticOperator

PERIOD = 0.05
HAND = ("left_index", "left_middle", "left_ring", "left_pinky", "left_thumb_flexion", "left_thumb_rotation")


class Robot:
    """Joints that are where they are told to be, and an operator with a glove.

    Attributes:
        glove: angles (20,) [rad], or None. clutch: of the right hand. position: of the joints by name.
    """

    def __init__(self, ros):
        self.ros, self.model = ros, load_model("avatar")
        self.position = dict(zip(self.model.joint_names, map(float, self.model.q_home)))
        self.glove, self.clutch, self.now, self.number = None, False, 1.0, 0
        self.states = ros.node.create_publisher(JointState, "joint_states", COMMAND)
        self.samples = ros.node.create_publisher(OperatorSample, "operator/sample", STATE)
        self.commands = ros.listen(JointCommand, "joint_command", COMMAND)
        self.status = ros.listen(TeleopStatus, "teleop/status", STATE)
        self.client = ActionClient(ros.node, CalibrateGlove, "calibrate_glove")
        ros.until(lambda: self.states.get_subscription_count() and self.samples.get_subscription_count())

    def hand(self):
        return np.array([self.position[name] for name in HAND])

    def step(self):
        """One period: a sample, a state, and the command that answers it."""
        self.now += PERIOD
        self.number += 1
        sample = OperatorSample(sequence=self.number, session="one", axes=OperatorSample.AXES_OPENXR)
        sample.clutch, sample.hand_tracked = [self.clutch, False], [True, True]
        for hand in sample.hands:
            hand.orientation.w = 1.0
        sample.glove = [] if self.glove is None else [float(angle) for angle in self.glove]
        state = JointState(name=list(self.position), position=list(self.position.values()))
        state.velocity = [0.0] * len(self.position)
        for message in (sample, state):
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(1e9 * self.now), 10**9)
        heard, told = len(self.commands), time.monotonic()
        self.samples.publish(sample)
        self.states.publish(state)
        while len(self.commands) == heard:
            self.ros.spin(0.002)
            if time.monotonic() > told + 1.0:  # the message was lost on a busy machine
                self.states.publish(state)
                told = time.monotonic()
        command = self.commands[-1]
        self.position = dict(zip(command.joint_names, command.position))
        del self.commands[:]

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.step()

    def ask(self, file, feedback=None):
        """The goal's handle; None where it is refused."""
        self.ros.until(self.client.server_is_ready, what="the action server")
        note = None if feedback is None else lambda message: feedback.append(message.feedback)
        sent = self.client.send_goal_async(CalibrateGlove.Goal(wearer="Ada", file=str(file)), note)
        self.ros.until(sent.done, what="the answer to a goal")
        return sent.result() if sent.result().accepted else None

    def result(self, handle):
        """(result, status) of a goal that ends without time going on."""
        future = handle.get_result_async()
        self.ros.until(future.done, what="the result")
        return future.result().result, future.result().status


@pytest.fixture(scope="module")
def robot(shared_ros):
    shared_ros.start("teleop", robot="avatar", lockstep=True, control_period=PERIOD)
    shared_ros.up("teleop")
    return Robot(shared_ros)


def test_it_is_refused_where_it_could_not_be_done(robot, tmp_path):
    robot.run(0.2)
    assert robot.ask(tmp_path / "ada.yaml") is None  # nobody wears a glove
    robot.glove = np.zeros(20)
    robot.run(0.2)
    assert robot.ask("") is None  # no file
    robot.clutch = True
    robot.run(0.2)
    assert robot.ask(tmp_path / "ada.yaml") is None  # an arm follows
    robot.clutch = False
    robot.run(0.2)


def test_a_cancelled_calibration_leaves_everything_as_it_was(robot, tmp_path):
    robot.glove = np.zeros(20)
    robot.run(0.2)
    handle = robot.ask(tmp_path / "ada.yaml")
    assert handle is not None and robot.ask(tmp_path / "other.yaml") is None  # one at a time
    robot.run(2.0)
    assert robot.hand() == pytest.approx(np.array(CALIBRATION_POSES[0].angles), abs=0.05)
    cancelled = handle.cancel_goal_async()
    robot.ros.until(cancelled.done)
    result, status = robot.result(handle)
    assert (result.success, result.message) == (False, "The calibration was cancelled.") and status == 5  # CANCELED
    robot.run(0.5)
    assert not list(tmp_path.iterdir())


def test_a_glove_that_falls_silent_ends_it(robot, tmp_path):
    robot.glove = np.zeros(20)
    robot.run(0.2)
    handle = robot.ask(tmp_path / "ada.yaml")
    robot.glove = None
    robot.run(2.5)
    result, status = robot.result(handle)
    assert result.message == "Nobody wears a glove: it has said nothing for 2 s." and status == 6  # ABORTED


def test_fifteen_poses_make_a_file_and_a_hand_that_follows(robot, tmp_path):
    operator, feedback, shown = SyntheticOperator(5), [], {}
    robot.glove = np.zeros(20)
    robot.run(0.2)
    handle = robot.ask(tmp_path / "ada.yaml", feedback)
    future, begin = handle.get_result_async(), robot.now
    while not future.done() and robot.now < begin + 150.0:
        k = feedback[-1].pose - 1 if feedback else 0
        robot.glove = operator.readings(np.array(CALIBRATION_POSES[k].angles), 1, 0)[0]
        robot.step()
        shown.setdefault(k, []).append(robot.hand())
    robot.ros.until(future.done)
    result = future.result().result
    assert result.success and result.message == "The glove of Ada leads the hand." and result.elapsed < 420.0
    for k, pose in enumerate(CALIBRATION_POSES[:-1]):
        # The word of the next pose may come when the hand is on its way there.
        assert np.abs(np.array(shown[k]) - pose.angles).max(axis=1).min() < 0.05, pose.name
    assert {said.pose for said in feedback} == set(range(1, 16)) and feedback[0].poses == 15
    assert feedback[0].prompt.startswith("Pose 1 of 15: Open your hand")
    calibration = GloveCalibration.load(result.file)
    assert calibration.operator == "Ada" and calibration.made
    # the glove takes the fingers over where they are, and leads them on
    for name in ("scissors", "relaxed", "fist", "relaxed", "fist"):
        pose = next(pose for pose in CALIBRATION_POSES if pose.name == name)
        robot.glove = operator.readings(np.array(pose.angles), 1, 0)[0]
        robot.run(1.2)
    assert np.abs(robot.hand() - np.array(pose.angles))[:4].mean() < 0.25
