"""The servo node behind its gate: disarmed, armed for one node, the lease withdrawn, lost, contested; limits."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, GripperCommand
from lender import Lender
from rclpy.action import ActionClient
from refit_interfaces.msg import JointCommand
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from hardware.emulation.process import EmulatorProcess
from nodes.framework.qos import COMMAND, STATE

SERVOS = [
    {"id": k, "model": "XM430-W350", "load_inertia": inertia} for k, inertia in ((1, 0.02), (2, 0.02), (3, 0.002))
]
ARM = ["lift", "swing"]
ME = "test_client"  # the node of the fixture `ros`
#: [s] so long that a message which a busy machine held up is not an old one, and its end is not a lease's
AGE_LIMIT = 10.0
PARAMETERS = {
    "baud_rate": 1_000_000,
    "update_rate": 50.0,
    "torque_on_activate": True,
    "bus_watchdog_ms": 1000.0,
    "reply_latency_ms": 200.0,
    "error_timeout_ms": 5000.0,
    "stale_timeout": 1.0,
    "command_age_limit": AGE_LIMIT,
    "command_timeout": AGE_LIMIT,
    "joints.lift.id": 1,
    "joints.lift.operating_mode": 0,
    "joints.lift.max_effort": 3.0,
    "joints.lift.max_velocity": 3.0,
    "joints.swing.id": 2,
    "joints.swing.operating_mode": 0,
    "joints.swing.max_rad": 1.0,
    "joints.grip.id": 3,
    "joints.grip.operating_mode": 5,
    "gripper.joint": "grip",
    "gripper.angles": [0.0, 1.0],
    "gripper.openings": [0.0, 0.05],
}


class Rig:
    """The node, its bus, its supervisor, and whoever commands."""

    def __init__(self, ros):
        self.ros, self.lender = ros, Lender()
        self.bus = EmulatorProcess("dynamixel", "--servos", str(SERVOS), "--baud", 1_000_000)
        self.process = ros.start("dynamixel", port_name=str(self.bus.link), **PARAMETERS)
        self.states = ros.listen(JointState, "joint_states", STATE)
        self.diagnostics = ros.diagnostics("dynamixel")
        ros.up("dynamixel")
        self.command = ros.node.create_publisher(JointCommand, "joint_command", COMMAND)
        self.trajectory = ros.node.create_publisher(
            JointTrajectory, "joint_trajectory_controller/joint_trajectory", COMMAND
        )
        self.forward = ros.node.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
        self.follow = ActionClient(
            ros.node, FollowJointTrajectory, "joint_trajectory_controller/follow_joint_trajectory"
        )
        self.grip = ActionClient(ros.node, GripperCommand, "dynamixel/gripper_cmd")
        ros.until(
            lambda: (
                len(self.states) > 10
                and all(p.get_subscription_count() for p in (self.command, self.trajectory, self.forward))
                and self.follow.server_is_ready()
                and self.grip.server_is_ready()
            ),
            what="the node",
        )

    def value(self, key):
        return self.diagnostics()[2].get(key, "")

    def count(self, key):
        return int(self.value(key) or 0)

    def counts(self, key, do):
        """Do something until a counter has grown."""
        before = self.count(key)

        def grown():
            do()
            self.ros.spin(0.05)
            return self.count(key) > before

        self.ros.until(grown, what=key)

    def at(self, name):
        state = next(state for state in reversed(self.states) if name in state.name)
        return state.position[list(state.name).index(name)]

    def where(self):
        return np.array([self.at(name) for name in (*ARM, "grip")])

    def rests(self):
        """Where the joints come to stand, of a test before as well."""

        def still():
            before, seen = self.where(), len(self.states)
            self.ros.until(lambda: len(self.states) > seen + 10, what="states")
            return np.abs(self.where() - before).max() < 0.003

        self.ros.until(still, what="rest")
        return self.where()

    def stays(self, here, cycles=40):
        """Through so many of the next states."""
        before = len(self.states)
        self.ros.until(lambda: len(self.states) > before + cycles, what="states")
        return np.abs(self.where() - here).max() < 0.03

    def armed(self, commander=ME):
        self.lender.lend(commander)
        self.ros.until(lambda: self.value("gate") == f"open to {commander}", what="the open gate")

    def disarmed(self, why):
        self.lender.withdraw(why)
        self.ros.until(lambda: why in self.value("gate"), what="the closed gate")

    # ---- commands --------------------------------------------------------------------------------
    def go(self, lift, swing, commander=ME, **changes):
        """One JointCommand towards a pose."""
        gain = np.hstack([np.diag([4.0, 4.0]), np.diag([0.6, 0.6])])
        message = JointCommand(
            **{
                "mode": JointCommand.MODE_FEEDBACK,
                "joint_names": ARM,
                "effort": [0.0, 0.0],
                "position": [float(lift), float(swing)],
                "velocity": [0.0, 0.0],
                "gain": gain.ravel().tolist(),
                "commander": commander,
                **changes,
            }
        )
        message.header.stamp = self.states[-1].header.stamp
        self.command.publish(message)

    def pose(self, positions, seconds=2):
        point = JointTrajectoryPoint(positions=[float(p) for p in positions], time_from_start=Duration(sec=seconds))
        return JointTrajectory(joint_names=ARM, points=[point])

    def send(self, client, goal):
        future = client.send_goal_async(goal)
        self.ros.until(future.done, what="the server's answer")
        return future.result()

    def open_to(self, width):
        goal = GripperCommand.Goal()
        goal.command.position, goal.command.max_effort = width, 10.0
        return self.send(self.grip, goal)

    def result(self, handle):
        future = handle.get_result_async()
        self.ros.until(future.done, what="the result")
        return future.result().status, future.result().result


@pytest.fixture(scope="module")
def rig(shared_ros):
    made = Rig(shared_ros)
    yield made
    made.lender.stop()
    shared_ros.finish(made.process)
    made.bus.stop()


ABORTED = 6


def test_before_anybody_arms_no_source_moves_anything(rig):
    rig.ros.until(lambda: "not armed yet" in rig.value("gate"), what="the supervisor's word")
    here = rig.where()
    rig.counts("refused_disarmed", lambda: rig.go(0.5, 0.5))
    rig.counts("refused_disarmed", lambda: rig.forward.publish(Float64MultiArray(data=[0.5, 0.5])))
    rig.counts("refused_disarmed", lambda: rig.trajectory.publish(rig.pose([0.5, 0.5])))
    before = rig.count("refused_disarmed")
    assert not rig.send(rig.follow, FollowJointTrajectory.Goal(trajectory=rig.pose([0.5, 0.5]))).accepted
    assert not rig.open_to(0.04).accepted
    rig.ros.until(lambda: rig.count("refused_disarmed") >= before + 2, what="both refusals")
    assert rig.stays(here) and rig.count("commands") == 0
    # Of several warnings in one second the line says one.
    rig.ros.until(
        lambda: rig.forward.publish(Float64MultiArray(data=[0.5, 0.5])) or rig.diagnostics.said("not armed yet"),
        what="the reason",
    )
    assert rig.stays(here)


def test_one_command_moves_the_joints_until_the_lease_is_withdrawn(rig):
    """One command that stays young for far longer than the test: what stops the joints is the gate."""
    rig.armed()
    start = rig.where()
    rig.go(-2.5, -2.5)
    rig.ros.until(lambda: abs(rig.at("lift") - start[0]) > 0.3, what="motion")
    rig.lender.withdraw("HALTED (LIMIT): a test withdraws")
    rig.ros.until(lambda: rig.value("source") == "HALTED (LIMIT): a test withdraws", what="the reason")
    rig.ros.spin(0.5)
    here = rig.where()
    assert here[0] > -2.3 and rig.stays(here)
    rig.counts("refused_disarmed", lambda: rig.go(0.0, 0.0))
    assert rig.stays(here)


def test_a_trajectory_ends_with_the_lease_and_says_why(rig):
    rig.armed()
    handle = rig.send(rig.follow, FollowJointTrajectory.Goal(trajectory=rig.pose([1.0, 0.5], seconds=30)))
    assert handle.accepted
    rig.ros.until(lambda: rig.value("source") == "joint_trajectory_controller", what="the trajectory")
    rig.disarmed("disarmed by an operator")
    status, result = rig.result(handle)
    assert status == ABORTED and result.error_string == "disarmed by an operator"


def test_a_supervisor_that_hangs_stops_the_joints(rig):
    rig.armed()
    handle = rig.send(rig.follow, FollowJointTrajectory.Goal(trajectory=rig.pose([2.5, 0.9], seconds=120)))
    assert handle.accepted
    rig.ros.until(lambda: rig.value("source") == "joint_trajectory_controller", what="the trajectory")
    rig.lender.pause()
    status, result = rig.result(handle)
    assert status == ABORTED and "nobody has renewed the lease for 1.5 s" in result.error_string
    here = rig.where()
    assert here[0] < 2.0 and rig.stays(here)
    rig.counts("refused_disarmed", lambda: rig.go(1.0, 0.5))
    rig.lender.resume()
    rig.ros.until(lambda: rig.value("gate") == f"open to {ME}", what="the open gate")
    rig.ros.until(lambda: rig.go(0.3, 0.2) or abs(rig.at("lift") - 0.3) < 0.05, what="motion again")


def test_another_than_the_commander_is_refused(rig):
    rig.armed("somebody_else")
    here = rig.rests()
    rig.counts("refused_commander", lambda: rig.go(1.0, 0.5))
    rig.counts("refused_commander", lambda: rig.go(1.0, 0.5, commander=""))
    rig.counts("refused_commander", lambda: rig.forward.publish(Float64MultiArray(data=[1.0, 0.5])))
    rig.counts("refused_commander", lambda: rig.trajectory.publish(rig.pose([1.0, 0.5])))
    assert not rig.send(rig.follow, FollowJointTrajectory.Goal(trajectory=rig.pose([1.0, 0.5]))).accepted
    assert rig.stays(here)


def test_the_operator_uses_the_gripper_while_another_node_commands_the_arm(rig):
    rig.armed("somebody_else")
    rig.result(rig.open_to(0.02))
    rig.ros.until(lambda: rig.at("grip") == pytest.approx(0.4, abs=0.05), what="the gripper's opening")
    rig.bus.inject("stall", id=3)  # it holds something
    rig.result(rig.open_to(0.0))
    rig.disarmed("disarmed, holding an object")
    rig.ros.spin(0.5)
    current = next(servo for servo in rig.bus.stats()["servos"] if servo["id"] == 3)["current"]
    assert abs(current) > 0.05, "it lets go"
    rig.bus.clear("stall")
    assert not rig.open_to(0.04).accepted


def test_standard_topics_are_the_commanders_while_nobody_else_publishes_there(rig):
    rig.armed()
    rig.ros.until(
        lambda: rig.forward.publish(Float64MultiArray(data=[0.2, 0.1])) or abs(rig.at("lift") - 0.2) < 0.05,
        what="the position",
    )
    other = rig.ros.rclpy.create_node("intruder", context=rig.ros.context)
    other.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
    try:
        rig.counts("refused_commander", lambda: rig.forward.publish(Float64MultiArray(data=[0.2, 0.1])))
        rig.ros.until(
            lambda: rig.forward.publish(Float64MultiArray(data=[0.2, 0.1])) or rig.diagnostics.said("/intruder"),
            what="the intruder's name, which is discovered after its publisher",
        )
    finally:
        other.destroy_node()


def test_whoever_calls_itself_otherwise_cannot_lend(rig):
    rig.armed()
    stranger = Lender("stranger")
    try:
        stranger.lend(ME)
        rig.ros.until(lambda: "/stranger publishes" in rig.value("gate"), what="the closed gate")
        assert rig.count("leases_refused") > 0
        here = rig.rests()
        rig.counts("refused_disarmed", lambda: rig.go(1.0, 0.5))
        assert rig.stays(here)
    finally:
        stranger.stop()
    rig.ros.until(lambda: rig.value("gate") == f"open to {ME}", what="the supervisor's word again")


def test_commands_beyond_the_limits_are_refused(rig):
    rig.armed()
    here = rig.rests()
    effort = {"mode": JointCommand.MODE_EFFORT, "position": [], "velocity": [], "gain": []}
    for command in (
        lambda: rig.go(0.0, 0.0, effort=[3.1, 0.0], **effort),
        lambda: rig.go(0.0, 1.1),
        lambda: rig.go(0.0, 0.0, velocity=[3.2, 0.0]),
        lambda: rig.forward.publish(Float64MultiArray(data=[0.0, 1.1])),
        lambda: rig.trajectory.publish(rig.pose([0.0, 1.1])),
    ):
        rig.counts("refused_limit", command)
    before = rig.count("refused_limit")
    for goal in (rig.pose([0.0, 1.1]), rig.pose([here[0] + 3.2, 0.5], seconds=1)):  # too far, too fast
        assert not rig.send(rig.follow, FollowJointTrajectory.Goal(trajectory=goal)).accepted
    assert not rig.open_to(0.06).accepted
    rig.ros.until(lambda: rig.count("refused_limit") >= before + 3, what="the refusals")
    assert rig.stays(here)


def test_a_supervisor_that_ends_closes_the_gate(rig):
    rig.armed()
    rig.lender.stop()
    rig.ros.until(lambda: "nobody has renewed the lease" in rig.value("gate"), what="the lease's end")
