"""The stance controller through its topics: it walks, changes its solver, refuses bad inputs, and stops."""

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist
from refit_interfaces.msg import ControllerStatus, FootContacts, JointCommand, SupervisorStatus
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64
from tf2_msgs.msg import TFMessage

from nodes.control.stance_controller import StanceControllerConfig
from nodes.framework.messages import seconds, to_stamp
from nodes.framework.qos import COMMAND, LEDGER, STATE
from nodes.supervision.supervisor import measured_joints
from sim_core.motion.quadruped.robot import QuadrupedRobot
from sim_core.multibody import load_model

PROFILE = "config/robots/quadruped/nodes.yaml"


def twist(forward):
    message = Twist()
    message.linear.x = forward
    return message


def test_it_walks_with_either_solver_and_stops_without_cmd_vel(ros):
    commands = ros.listen(JointCommand, "joint_command", COMMAND)
    status = ros.listen(ControllerStatus, "controller/status", STATE)
    times = ros.listen(Float64, "stance_controller/solve_time_ms", STATE)
    frames = ros.listen(TFMessage, "/tf", STATE)
    diagnostics = ros.diagnostics("stance_controller")
    ros.start("stance_controller", "--params-file", PROFILE, "-p", "use_sim_time:=true", lockstep=True)
    ros.start(
        "sim_plant",
        "--params-file",
        PROFILE,
        robot="quadruped",
        lockstep=True,
        real_time_factor=0.0,
        require_supervisor=False,
    )
    ros.up("stance_controller")
    # The robot's time does not wait for who says where to go, whom a busy machine may hold up for seconds of it.
    assert ros.set_parameter("stance_controller", "command_age_limit", 30.0).successful
    ros.up("sim_plant")
    publisher = ros.node.create_publisher(Twist, "cmd_vel", COMMAND)

    def trunk():
        return next(x.transform.translation for x in frames[-1].transforms if x.child_frame_id == "trunk")

    def now():
        return seconds(commands[-1].header.stamp) if commands else 0.0

    def walk_until(t):
        due = [now()]

        def there():
            if now() >= due[0]:  # every tenth of a second of the robot's time
                publisher.publish(twist(0.3))
                due[0] = now() + 0.1
            return now() > t

        ros.until(there)

    walk_until(1.5)
    by_programme = np.median([m.data for m in times])
    assert ros.set_parameter("stance_controller", "solver", "neural").successful
    begin = len(times)
    refused = ros.set_parameter("stance_controller", "network", "/nowhere.safetensors")
    assert not refused.successful and "Cannot read the stance network" in refused.reason
    walk_until(now() + 1.2)
    assert 10 * np.median([m.data for m in times[begin + 50 :]]) < by_programme
    assert trunk().x > 0.3 and trunk().z > 0.25
    # Every command is a law on all joints, stamped with the state it answers, six milliseconds apart.
    stamps = np.array([seconds(m.header.stamp) for m in commands])
    assert np.median(np.diff(stamps)) == pytest.approx(0.006) and {m.mode for m in commands} == {
        JointCommand.MODE_FEEDBACK
    }
    assert list(commands[0].joint_names) == list(QuadrupedRobot.load().joints)
    assert {m.state for m in status if m.cycles} == {ControllerStatus.STATE_TRACKING}
    # Without cmd_vel the target goes to rest and the robot trots in place.
    assert ros.set_parameter("stance_controller", "command_age_limit", 0.5).successful
    publisher.publish(twist(0.3))  # the limit counts from the command on
    seen = diagnostics.count
    ros.until(
        lambda: diagnostics.count > seen + 1 and diagnostics()[2].get("target") == "0.000 0.000 0.000",
        what="target at rest",
    )
    rest = now() + 1.3
    ros.until(lambda: now() > rest)
    there, then = trunk().x, now()
    ros.until(lambda: now() > then + 0.5)
    assert abs(trunk().x - there) < 0.04 and trunk().z > 0.25
    # Diagnostics come once a second of wall time, which may be several of the robot's.
    ros.until(lambda: diagnostics()[2].get("target") == "0.000 0.000 0.000", what="target at rest")
    assert diagnostics()[2]["solver"] == "neural" and diagnostics()[2]["fallbacks"] == "0"


class Robot:
    """Plays a robot that stands still, and says what it likes."""

    def __init__(self, ros):
        self.robot = QuadrupedRobot.load()
        self.states = ros.node.create_publisher(JointState, "joint_states", STATE)
        self.imus = ros.node.create_publisher(Imu, "imu", STATE)
        self.feet = ros.node.create_publisher(FootContacts, "foot_contacts", STATE)
        self.ros = ros

    def say(self, t, imu=True, feet=True, **spoilt):
        if imu:
            message = Imu()
            message.header.stamp = to_stamp(t)
            message.orientation.w, message.linear_acceleration.z = spoilt.get("w", 1.0), 9.81
            message.orientation.x = spoilt.get("x", 0.0)
            self.imus.publish(message)
        if feet:
            message = FootContacts(
                names=spoilt.get("names", [f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")]), contact=[True] * 4
            )
            message.header.stamp = to_stamp(t)
            self.feet.publish(message)
        message = JointState(
            name=list(self.robot.joints), position=self.robot.home.ravel().tolist(), velocity=[0.0] * 12
        )
        message.header.stamp = to_stamp(t)
        self.ros.spin(0.05)  # what belongs to a tick is there before its joint states
        self.states.publish(message)
        self.ros.spin(0.05)


def test_bad_inputs_are_refused_in_words_and_the_robot_is_left_to_its_servos(ros):
    commands = ros.listen(JointCommand, "joint_command", COMMAND)
    status = ros.listen(ControllerStatus, "controller/status", STATE)
    diagnostics = ros.diagnostics("stance_controller")
    ros.start("stance_controller", lockstep=True)
    ros.up("stance_controller")
    robot = Robot(ros)
    cmd_vel = ros.node.create_publisher(Twist, "cmd_vel", COMMAND)
    ros.until(lambda: cmd_vel.get_subscription_count() > 0)

    def answers(t, **what):
        robot.say(t, **what)
        return bool(commands) and seconds(commands[-1].header.stamp) == pytest.approx(t)

    def must_answer(t):  # in lock-step a state is said again until it is answered
        ros.until(lambda: answers(t), what=f"answer to {t}")

    must_answer(0.0)
    must_answer(0.1)
    assert {round(seconds(m.header.stamp), 3) for m in commands} == {0.0, 0.1}
    assert not answers(0.2, imu=False) and not answers(0.3, feet=False)
    assert not answers(0.4, w=np.nan) and not answers(0.5, w=0.3) and not answers(0.6, names=["a", "b", "c", "d"])
    must_answer(0.7)
    # An answer that was lost on its way is given again: the plant waits for it, and says the state again.
    first = commands[-1]
    commands.clear()
    must_answer(0.7)
    assert commands[-1].effort == first.effort and commands[-1].position == first.position
    # A state between two beats is passed over, unless the plant waits at it: their beats began at different states.
    assert not answers(0.702)
    must_answer(0.702)
    ros.until(lambda: int(diagnostics()[2].get("states_refused", 0)) >= 5, what="five refused states")
    # NaN in cmd_vel changes nothing.
    cmd_vel.publish(twist(np.nan))
    ros.until(lambda: int(diagnostics()[2].get("cmd_vel_refused", 0)) == 1)
    must_answer(0.8)
    # A halt: silence until it is lifted.
    node = rclpy.create_node("supervisor", context=ros.node.context)
    supervisor = node.create_publisher(SupervisorStatus, "supervisor/status", LEDGER)
    supervisor.publish(SupervisorStatus(state=SupervisorStatus.STATE_HALTED, message="test"))
    ros.until(lambda: any("halted by the supervisor: test" in m.message for m in status))
    assert not answers(0.9) and status[-1].state == ControllerStatus.STATE_STOPPED
    supervisor.publish(SupervisorStatus(state=SupervisorStatus.STATE_RUNNING))
    must_answer(1.0)
    # A fall: silence and an error.

    def fallen():  # said again, since orientation and joints travel by topics of their own
        assert not answers(1.1, w=np.cos(0.5), x=np.sin(0.5))
        return diagnostics()[0] == DiagnosticStatus.ERROR[0] and "fallen" in diagnostics()[1]

    ros.until(fallen)
    # Nor has what was refused been answered late.
    assert {round(seconds(m.header.stamp), 3) for m in commands} == {0.7, 0.702, 0.8, 1.0}
    node.destroy_node()


def test_the_supervisor_watches_the_joints_that_are_measured():
    names = [link.joint for link in measured_joints(load_model("quadruped"))]
    assert names == list(QuadrupedRobot.load().joints)
    assert [link.joint for link in measured_joints(load_model("double_cartpole"))] == ["slider", "hinge1", "hinge2"]


def test_the_page_names_everything(documentation):
    assert (
        documentation.missing("stance_controller.md", StanceControllerConfig, "nodes/control/stance_controller.py")
        == []
    )
