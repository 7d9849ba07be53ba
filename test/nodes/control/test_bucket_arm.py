"""The node `bucket_arm` alone: the test leads it through time as a plant in lock-step would, with the robot's own servos.

The pile is a force that the test puts onto the sensor; blocks are in test/launch/test_excavation.py.
"""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from led_robot import PERIOD, LedRobot
from refit_interfaces.action import MoveBucket
from refit_interfaces.msg import BucketJam, BucketState, SupervisorStatus
from std_msgs.msg import String

from config.description import Dig
from config.robot import load_robot
from nodes.control.bucket_arm import BucketArmControllerConfig
from nodes.control.bucket_messages import order_of
from nodes.framework.qos import LATCHED, LEDGER, STATE
from sim_core.excavation.bucket_arm import BucketArm, DigSite, Move
from sim_core.excavation.pile import PileSettings
from sim_core.multibody import load_model

ROBOT = "panda_bucket"
OVER = [0.47, 0.0, 0.05, 0.0]
O, G, S = MoveBucket.Result, MoveBucket.Goal, GoalStatus


def test_the_page_names_everything(documentation):
    files = ("bucket_arm", "arm_controller", "joint_controller")
    assert not documentation.missing(
        "bucket_arm.md", BucketArmControllerConfig, *(f"nodes/control/{name}.py" for name in files)
    )


def test_limits_and_speeds_are_those_of_the_simulated_pile():
    config, pile = BucketArmControllerConfig(), PileSettings()
    assert config.primitives == pile.primitives
    assert (config.limits.force, config.limits.patience, config.limits.torque) == (
        pile.force_limit,
        pile.patience,
        pile.torque_limit,
    )
    assert config.limits.relief < config.limits.force  # a motion ends before it jams
    assert BucketArmControllerConfig(force_relief=30.0).limits.relief == 30.0


def test_messages_name_the_motions_as_the_algorithms_do():
    assert {move.name: int(move) for move in Move} == {
        name: getattr(G, name) for name in dir(G) if name.isupper() and isinstance(getattr(G, name), int)
    }


@pytest.mark.parametrize(
    "asked, says",
    [
        (G(motion=9), r"motion: expected one of 0 \(FORWARD\)"),
        (G(motion=G.PLACE, pose=[0.4, 0.0, np.nan, 0.0]), "pose: expected four finite numbers"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_with_a_sentence(asked, says):
    with pytest.raises(ValueError, match=says):
        order_of(asked)


class Robot(LedRobot):
    """The robot with a bucket; `push` is the pile's."""

    def __init__(self, ros):
        task = load_robot(ROBOT).task_as(Dig)
        self.arm = BucketArm(load_model(ROBOT), DigSite(task.pile, task.bin))
        self.told = ros.listen(BucketState, "bucket/state", STATE)
        self.jams = ros.listen(BucketJam, "bucket/jam", LEDGER)
        self.said = ros.listen(String, "bucket/where", LATCHED)
        super().__init__(ros, ROBOT, MoveBucket, "bucket/move")

    @property
    def pose(self):
        """Of the bucket in the pile's frame (4,)."""
        return self.arm.state(self.plant.true_q)

    @property
    def where(self):
        return self.said[-1].data if self.said else ""

    def ask(self, motion, pose=(0.0,) * 4):
        """The handle of a goal that is under way."""
        self.feedback.clear()
        sent = self.client.send_goal_async(G(motion=motion, pose=list(map(float, pose))), self.feedback.append)
        while not sent.done():
            self.tell()
        return sent.result()

    def do(self, motion, pose=(0.0,) * 4):
        """(result, status) of a motion."""
        handle = self.ask(motion, pose)
        assert handle.accepted
        return self.result(handle)

    def rest(self, where):
        """Until it says that it is there, and has come to rest."""
        for _ in range(50):
            self.step()
        self.ros.until(lambda: self.tell() or self.where == where, what=where)

    def result(self, handle, longest=60.0):
        ended, until = handle.get_result_async(), self.now + longest
        while not ended.done():
            assert self.now < until, self.where
            self.step()
        return ended.result().result, ended.result().status


@pytest.fixture(scope="module")
def robot(shared_ros):
    ros = shared_ros
    process = ros.start("bucket_arm", robot=ROBOT, lockstep=True, control_period=PERIOD, force_limit=40.0, transit=0.4)
    ros.up("/bucket_arm")
    robot = Robot(ros)
    robot.permit(SupervisorStatus.STATE_READY)
    yield robot
    code, _, output = ros.finish(process)
    assert code == 0 and "Traceback" not in output, output


def test_1_it_is_placed_and_says_where(robot):
    robot.ros.until(lambda: robot.tell() or robot.where == "at home", what="home")
    result, status = robot.do(G.PLACE, OVER)
    assert (result.outcome, status) == (O.DONE, S.STATUS_SUCCEEDED), result.message
    robot.rest("in the pile")
    assert result.state.header.frame_id == "pile"
    np.testing.assert_allclose(result.state.commanded, OVER, atol=1e-6)
    np.testing.assert_allclose(robot.pose, OVER, atol=4e-3)
    assert robot.feedback and all(0.0 <= one.feedback.done <= 1.0 for one in robot.feedback)


def test_2_motions_begin_at_the_last_command(robot):
    for count in (1, 2):
        result, _ = robot.do(G.DOWN)
        assert result.outcome == O.DONE and result.state.commanded[2] == pytest.approx(0.05 - 0.015 * count)
    assert np.isnan(result.load) and result.held <= result.peak
    robot.rest("in the pile")
    assert robot.pose[2] == pytest.approx(0.02, abs=2e-3)


def test_3_a_jam_stops_it_is_told_and_only_what_leads_out_is_done(robot):
    robot.push = np.array([0.0, 0.0, 60.0])
    result, status = robot.do(G.DOWN)
    robot.push = np.zeros(3)
    assert (result.outcome, status) == (O.JAMMED, S.STATUS_ABORTED) and "at most 40 N may be" in result.message
    robot.ros.until(lambda: robot.tell() or robot.jams, what="the jam")
    assert robot.jams[-1].motion == G.DOWN and robot.jams[-1].force[2] > 40.0 and len(robot.jams[-1].torque) == 7
    robot.rest("jammed")
    result, _ = robot.do(G.DOWN)
    assert result.outcome == O.OUT_OF_REACH and "lift the bucket first" in result.message


def test_4_it_is_lifted_and_weighed(robot):
    robot.push = np.array([0.0, 0.0, -2.0])
    result, _ = robot.do(G.LIFT)
    robot.push = np.zeros(3)
    assert result.outcome == O.DONE
    robot.rest("lifted")
    assert result.load == pytest.approx(2.0 / 9.81, rel=0.05)


def test_5_a_client_calls_it_back(robot):
    robot.do(G.PLACE, OVER)
    handle = robot.ask(G.WIGGLE)
    for _ in range(20):
        robot.step()
    called = handle.cancel_goal_async()
    while not called.done():
        robot.step()
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.CANCELLED, S.STATUS_CANCELED)


def test_6_a_halt_ends_the_motion_and_nothing_goes_on_by_itself(robot):
    handle = robot.ask(G.WIGGLE)
    for _ in range(20):
        robot.step()
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    ended = handle.get_result_async()
    robot.ros.until(lambda: robot.tell() or ended.done(), what="the result")
    result = ended.result().result
    assert result.outcome == O.ARM_STOPPED and "stopped by an operator" in result.message
    robot.ros.until(lambda: robot.tell() or robot.where == "halted", what="halted")
    handle = robot.ask(G.UP)
    assert not handle.accepted
    robot.permit(SupervisorStatus.STATE_READY)
    there = robot.pose
    for _ in range(20):
        robot.step()
    assert np.abs(robot.pose - there).max() < 5e-3
    robot.rest("in the pile")


def test_7_a_sensor_that_falls_silent_ends_it(robot):
    robot.deaf = True
    result, status = robot.do(G.WIGGLE)
    robot.deaf = False
    assert (result.outcome, status) == (O.SENSOR_SILENT, S.STATUS_ABORTED) and "no force was told" in result.message


def test_8_out_of_reach_nothing_moves_and_it_goes_home(robot):
    there = robot.pose
    result, _ = robot.do(G.PLACE, [0.9, 0.0, 0.0, 0.0])
    assert result.outcome == O.OUT_OF_REACH and "is not in the workspace" in result.message
    assert np.abs(robot.pose - there).max() < 5e-3
    result, _ = robot.do(G.HOME)
    assert result.outcome == O.DONE
    robot.rest("at home")
    result, _ = robot.do(G.DOWN)
    assert result.outcome == O.OUT_OF_REACH and "place it first" in result.message
