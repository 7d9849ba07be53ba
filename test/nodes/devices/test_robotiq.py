"""The gripper's node beside an emulated gripper: goals and their ends, what it publishes, faults, the stop."""

import signal
import time

import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand
from control_msgs.msg import GripperCommand as Command
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from hardware.emulation.process import EmulatorProcess
from nodes.devices.robotiq import RobotiqConfig
from nodes.framework.qos import LATCHED

ERROR = 2


class Client:
    """Sends goals to ~/gripper_cmd."""

    def __init__(self, ros):
        self.ros, self.feedback = ros, []
        self._client = ActionClient(ros.node, GripperCommand, "robotiq/gripper_cmd")
        ros.until(self._client.server_is_ready, 20, "the action server")

    def send(self, position, max_effort=0.0):
        """Goal handle."""
        goal = GripperCommand.Goal(command=Command(position=position, max_effort=max_effort))
        future = self._client.send_goal_async(
            goal, feedback_callback=lambda message: self.feedback.append(message.feedback)
        )
        self.ros.until(future.done, 20, "acceptance")
        return future.result()

    def result(self, handle):
        """(status, result)"""
        future = handle.get_result_async()
        self.ros.until(future.done, 30, "result")
        return future.result().status, future.result().result

    def go(self, position, max_effort=0.0):
        return self.result(self.send(position, max_effort))


@pytest.fixture(scope="module")
def emulator():
    with EmulatorProcess("robotiq", "--activation-speed", 1.7, seed=6) as process:
        yield process


@pytest.fixture(scope="module")
def node(shared_ros, emulator):
    """The node, up."""
    shared_ros.process = shared_ros.start(
        "robotiq",
        port_name=str(emulator.link),
        speed=0.15,
        reply_timeout=0.5,
        goal_timeout=5.0,
        require_supervisor=False,
    )
    shared_ros.health = shared_ros.diagnostics("robotiq")
    shared_ros.joints = shared_ros.listen(JointState, "joint_states")
    shared_ros.detected = shared_ros.listen(Bool, "robotiq/object_detected", LATCHED)
    shared_ros.up("robotiq")
    shared_ros.client = Client(shared_ros)
    return shared_ros


@pytest.fixture
def ros_(node, emulator):
    emulator.clear()
    emulator.set(object_width=None, cavity_width=None)
    return node


def test_a_goal_is_reached_within_a_millimetre(ros_, emulator):
    for width in (0.030, 0.085, 0.060):
        status, result = ros_.client.go(width)
        assert status == GoalStatus.STATUS_SUCCEEDED and result.reached_goal and not result.stalled
        assert abs(result.position - width) < 0.001 and abs(emulator.stats()["width"] - width) < 0.001
    assert ros_.client.feedback and not any(feedback.reached_goal for feedback in ros_.client.feedback)
    # Joint states: 0 open, 0.8 closed.
    ros_.until(
        lambda: ros_.joints and abs(ros_.joints[-1].position[0] - 0.8 * (1 - 0.060 / 0.085)) < 0.005, 10, "joint state"
    )
    assert ros_.joints[-1].name == ["finger_joint"]
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in ros_.joints]
    assert all(b > a for a, b in zip(stamps, stamps[1:], strict=False))


def test_a_grasp_stalls_and_a_loss_is_seen(ros_, emulator):
    ros_.client.go(0.085)
    emulator.set(object_width=0.040)
    status, result = ros_.client.go(0.0, 100.0)
    assert status == GoalStatus.STATUS_SUCCEEDED and result.stalled and not result.reached_goal
    assert abs(result.position - 0.040) < 0.001 and result.effort == pytest.approx(100.0, abs=1.0)
    ros_.until(lambda: ros_.detected and ros_.detected[-1].data, 10, "detection")
    emulator.inject("lost_object")
    ros_.until(lambda: not ros_.detected[-1].data, 10, "the loss")
    ros_.client.go(0.085)
    assert ros_.set_parameter("robotiq", "allow_stalling", False).successful
    emulator.set(object_width=0.040)
    status, result = ros_.client.go(0.0)
    assert status == GoalStatus.STATUS_ABORTED and result.stalled
    assert result.effort == pytest.approx(60.0, abs=1.0)  # the node's own force
    assert ros_.set_parameter("robotiq", "allow_stalling", True).successful


def test_a_newer_goal_takes_over(ros_, emulator):
    ros_.client.go(0.085)
    assert ros_.set_parameter("robotiq", "speed", 0.02).successful
    first = ros_.client.send(0.0)
    second = ros_.client.send(0.080)
    status, result = ros_.client.result(first)
    assert status == GoalStatus.STATUS_ABORTED and not result.reached_goal
    status, result = ros_.client.result(second)
    assert status == GoalStatus.STATUS_SUCCEEDED and abs(result.position - 0.080) < 0.001
    assert ros_.set_parameter("robotiq", "speed", 0.15).successful


def test_a_cancelled_goal_stops_the_fingers(ros_, emulator):
    ros_.client.go(0.085)
    assert ros_.set_parameter("robotiq", "speed", 0.02).successful
    handle = ros_.client.send(0.0)
    ros_.until(lambda: emulator.stats()["width"] < 0.082, 10, "motion")
    ros_.until(handle.cancel_goal_async().done, 10, "the answer")
    status, result = ros_.client.result(handle)
    assert status == GoalStatus.STATUS_CANCELED and not result.reached_goal
    facts = emulator.stats()
    assert facts["output"][0] == 0x0100 and facts["width"] > 0.02  # read back: rGTO is 0
    assert abs(result.position - facts["width"]) < 0.001
    assert ros_.set_parameter("robotiq", "speed", 0.15).successful


@pytest.mark.parametrize(
    "position, effort", [(0.5, 0.0), (-0.1, 0.0), (float("nan"), 0.0), (0.04, -1.0), (0.04, float("inf"))]
)
def test_goals_that_cannot_be_are_refused(ros_, position, effort):
    assert not ros_.client.send(position, effort).accepted


def test_a_fault_aborts_and_reactivation_clears_it(ros_, emulator):
    ros_.client.go(0.085)
    ros_.set_parameter("robotiq", "speed", 0.02)
    handle = ros_.client.send(0.0)
    emulator.inject("overcurrent")
    status, _ = ros_.client.result(handle)
    assert status == GoalStatus.STATUS_ABORTED
    ros_.until(lambda: ros_.health()[0] == ERROR and "too much current" in ros_.health()[1], 10, "the report")
    assert not ros_.client.send(0.0).accepted
    emulator.clear()
    response = ros_.call(Trigger, "robotiq/reactivate_gripper", timeout=30.0)
    assert response.success and response.message == "activated"
    ros_.until(lambda: ros_.health()[0] != ERROR, 10, "health")
    ros_.set_parameter("robotiq", "speed", 0.15)
    assert ros_.client.go(0.050)[1].reached_goal


def test_automatic_release(ros_, emulator):
    ros_.client.go(0.080)
    assert ros_.call(Trigger, "robotiq/auto_release", timeout=30.0).success
    assert emulator.stats()["fault"] == 0x0F
    ros_.until(lambda: ros_.health()[0] == ERROR and "automatic release is complete" in ros_.health()[1], 10)
    assert ros_.call(Trigger, "robotiq/reactivate_gripper", timeout=30.0).success


def test_unplugged_and_back(ros_, emulator):
    ros_.client.go(0.085)
    emulator.set(object_width=0.030)
    ros_.client.go(0.0)
    ros_.set_parameter("robotiq", "speed", 0.02)
    count, start = len(ros_.joints), time.monotonic()
    emulator.inject("unplug")
    ros_.until(lambda: ros_.health()[0] == ERROR and ros_.health()[2]["state"] == "reconnecting", 10, "ERROR")
    assert not ros_.client.send(0.085).accepted
    ros_.spin(max(0.0, start + 0.8 - time.monotonic()))
    emulator.clear("unplug")
    ros_.until(lambda: ros_.health()[2]["state"] == "streaming", 20, "the return")
    seen = len(ros_.joints)
    ros_.until(lambda: len(ros_.joints) > seen + 5, 10, "joint states")
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in ros_.joints[count - 5 :]]
    assert max(b - a for a, b in zip(stamps, stamps[1:], strict=False)) > 0.7  # a hole, nothing old with a new stamp
    assert time.monotonic() - start < 15.0 and int(ros_.health()[2]["reconnects"]) >= 1
    assert emulator.stats()["contact"] == 2  # it still holds the object
    ros_.set_parameter("robotiq", "speed", 0.15)


def test_deactivation_stops_and_the_end_is_clean(ros_, emulator):
    ros_.client.go(0.085)
    ros_.set_parameter("robotiq", "speed", 0.02)
    handle = ros_.client.send(0.0)
    ros_.until(lambda: emulator.stats()["width"] < 0.083, 10, "motion")
    asked = time.monotonic()
    ros_.transition("robotiq", "deactivate")
    stopped, seconds = emulator.stats(), time.monotonic() - asked
    assert stopped["output"][0] == 0x0100 and stopped["width"] >= 0.082 - 0.02 * (seconds + 0.1)
    ros_.spin(0.5)
    assert emulator.stats()["width"] == pytest.approx(stopped["width"], abs=1e-4)
    assert ros_.client.result(handle)[0] == GoalStatus.STATUS_ABORTED
    assert not ros_.client.send(0.05).accepted
    ros_.transition("robotiq", "activate")
    ros_.until(lambda: ros_.health()[2]["state"] == "streaming", 10)
    ros_.set_parameter("robotiq", "speed", 0.15)
    assert ros_.client.go(0.050)[1].reached_goal
    ros_.transition("robotiq", "deactivate")
    ros_.transition("robotiq", "cleanup")
    ros_.up("robotiq")
    ros_.set_parameter("robotiq", "speed", 0.02)
    ros_.client.send(0.0)
    code, _, output = ros_.finish(ros_.process, signal.SIGINT)
    assert code == 0 and "Traceback" not in output, output
    assert emulator.stats()["output"][0] == 0x0100


def test_the_page_names_everything(documentation):
    assert documentation.missing("robotiq.md", RobotiqConfig, "nodes/devices/robotiq.py") == []
