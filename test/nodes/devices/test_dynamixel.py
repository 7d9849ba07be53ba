"""The dynamixel node on the emulated bus: what users of ros2_control know, and the house's effort interface."""

import time
import types

import numpy as np
import pytest

pytest.importorskip("rclpy")

from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, GripperCommand
from control_msgs.msg import DynamicJointState, JointTolerance
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.action import ActionClient
from refit_interfaces.msg import JointCommand
from refit_interfaces.srv import GetServoData, SetServoData
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from hardware.dynamixel.commands import EffortLoop, Goals, JointFeedback, Law
from hardware.dynamixel.joints import GroupState, Joint, JointArrays
from hardware.dynamixel.tables import MODELS
from hardware.emulation.process import EmulatorProcess
from hardware.link import DeviceError
from nodes.devices.dynamixel_config import DynamixelConfig, JointSettings
from nodes.framework.messages import seconds
from nodes.framework.qos import COMMAND, STATE
from sim_core.command import Command, Mode
from sim_core.plant.servo import Servo

SERVOS = [
    {"id": 1, "model": "XM430-W350", "load_inertia": 0.02},
    {"id": 2, "model": "XM430-W350", "load_inertia": 0.02, "direction": -1},
    {"id": 3, "model": "XM430-W350", "load_inertia": 0.002},
]
#: [s] so long that a message which a busy machine held up is not an old one
AGE_LIMIT = 2.0
# Patient with replies: what a busy machine holds up is not lost.
PARAMETERS = {
    "baud_rate": 1_000_000,
    "update_rate": 50.0,
    "require_supervisor": False,
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
    "joints.swing.id": 2,
    "joints.swing.operating_mode": 0,
    "joints.swing.direction": -1,
    "joints.grip.id": 3,
    "joints.grip.operating_mode": 5,
    "gripper.joint": "grip",
    "gripper.angles": [0.0, 1.0],
    "gripper.openings": [0.0, 0.05],
    "gripper.default_force": 15.0,
}


class Arrivals(list):
    """Messages, and when each came [s]."""

    def __init__(self):
        self.times = []

    def append(self, message):
        self.times.append(time.time())
        super().append(message)


class Arm:
    """The node, its bus, and what it says."""

    def __init__(self, ros):
        self.ros = ros
        self.bus = EmulatorProcess("dynamixel", "--servos", str(SERVOS), "--baud", 1_000_000)
        self.process = ros.start("dynamixel", port_name=str(self.bus.link), **PARAMETERS)
        self.states = ros.listen(JointState, "joint_states", STATE, into=Arrivals())
        self.diagnostics = ros.diagnostics("dynamixel")
        self.heard = ros.listen(DiagnosticArray, "diagnostics")
        ros.up("dynamixel")
        self.command = ros.node.create_publisher(JointCommand, "joint_command", COMMAND)
        self.follow = ActionClient(
            ros.node, FollowJointTrajectory, "joint_trajectory_controller/follow_joint_trajectory"
        )
        self.grip = ActionClient(ros.node, GripperCommand, "dynamixel/gripper_cmd")
        ros.until(
            lambda: (
                len(self.states) > 10
                and self.command.get_subscription_count()
                and self.follow.server_is_ready()
                and self.grip.server_is_ready()
            ),
            what="the node",
        )

    def at(self, name):
        """Where a joint was when it last answered [rad]."""
        state = next(state for state in reversed(self.states) if name in state.name)
        return state.position[list(state.name).index(name)]

    def newest(self, count):
        """The next so many states."""
        before = len(self.states)
        self.ros.until(lambda: len(self.states) >= before + count, what=f"{count} states")
        return self.states[before : before + count]

    def well(self):
        """No fault; how fast a busy machine lets the cycle run is no matter here."""
        level, message, _ = self.diagnostics()
        return level in (0, 1) or message.startswith("rate ")

    def value(self, key):
        return self.diagnostics()[2].get(key, "")

    def free(self):
        """Nobody commands any more."""
        self.ros.call(SetBool, "dynamixel/set_dxl_torque", data=True)
        self.ros.spin(0.1)

    def goal(self, seconds_, positions, tolerance=(), path=(), names=("lift", "swing"), **more):
        trajectory = JointTrajectory(
            joint_names=list(names),
            points=[
                JointTrajectoryPoint(
                    positions=[float(p) for p in positions],
                    velocities=[0.0] * len(names),
                    time_from_start=Duration(sec=int(seconds_), nanosec=int(seconds_ % 1 * 1e9)),
                )
            ],
        )
        goal = FollowJointTrajectory.Goal(trajectory=trajectory, **more)
        goal.goal_tolerance = [JointTolerance(name=n, position=t) for n, t in zip(names, tolerance, strict=False)]
        goal.path_tolerance = [JointTolerance(name=n, position=t) for n, t in zip(names, path, strict=False)]
        return goal

    def send(self, client, goal, feedback=None):
        future = client.send_goal_async(goal, feedback_callback=feedback)
        self.ros.until(future.done, what="the server's answer")
        return future.result()

    def result(self, handle):
        future = handle.get_result_async()
        self.ros.until(future.done, what="the result")
        return future.result().status, future.result().result


@pytest.fixture(scope="module")
def arm(shared_ros):
    made = Arm(shared_ros)
    yield made
    shared_ros.finish(made.process)
    made.bus.stop()


SUCCEEDED, CANCELED, ABORTED = 4, 5, 6


def test_states_are_complete_stamped_and_healthy(arm, withheld):
    dynamic = arm.ros.listen(DynamicJointState, "dynamic_joint_states", STATE)
    arm.ros.until(lambda: arm.well() and len(dynamic) > 3, what="OK")
    before, waited = len(arm.states), withheld(arm.process.pid) + withheld(arm.bus.pid)
    states = arm.newest(50)
    waited = withheld(arm.process.pid) + withheld(arm.bus.pid) - waited
    assert all(list(state.name) == ["lift", "swing", "grip"] and len(state.effort) == 3 for state in states)
    stamps = np.array([seconds(state.header.stamp) for state in states])
    assert (np.diff(stamps) > 0.0).all()
    assert 0.95 * 0.02 < np.diff(stamps).mean() < 1.05 * 0.02 + waited / 49  # at 50 Hz, as far as the machine lets it
    # The least of them: what held up the others on their way is not the stamp's fault.
    assert 0.0 < min(np.array(arm.states.times[before : before + 50]) - stamps) < 0.1
    values = dynamic[-1].interface_values[0]
    named = dict(zip(values.interface_names, values.values, strict=True))
    assert (
        named["torque_enabled"] == 1.0
        and named["hardware_error"] == 0.0
        and named["voltage"] == pytest.approx(12.0, abs=0.5)
    )
    assert 20.0 < named["temperature"] < 80.0 and dynamic[-1].joint_names == ["lift", "swing", "grip"]
    for key in (
        "state",
        "rate",
        "samples",
        "dropped",
        "crc_errors",
        "timeouts",
        "resyncs",
        "reconnects",
        "last_error",
        "latency_p95_ms",
        "clock_offset_ms",
        "cycle_jitter_p99_ms",
        "torque",
        "lift/temperature",
    ):
        assert arm.value(key) != "" or key == "last_error", key


def test_feedback_commands_move_the_joints_and_silence_stops_them(arm):
    n, target = 2, np.array([0.3, -0.2])
    gain = np.hstack([np.diag([8.0, 8.0]), np.diag([0.8, 0.8])])
    end = time.monotonic() + 120.0
    while abs(arm.at("lift") - 0.3) > 0.02 or abs(arm.at("swing") + 0.2) > 0.02:
        assert time.monotonic() < end, (arm.at("lift"), arm.at("swing"), arm.diagnostics())
        message = JointCommand(
            mode=JointCommand.MODE_FEEDBACK,
            joint_names=["lift", "swing"],
            effort=[0.0] * n,
            position=target.tolist(),
            velocity=[0.0] * n,
            gain=gain.ravel().tolist(),
        )
        message.header.stamp = arm.states[-1].header.stamp
        arm.command.publish(message)
        arm.ros.spin(0.01)
    arm.ros.until(lambda: "no command for" in arm.value("source"), what="the stop")
    arm.newest(10)  # the stop itself
    held = {name: arm.at(name) for name in ("lift", "swing")}
    for state in arm.newest(25):
        there = dict(zip(state.name, state.position, strict=True))
        assert all(abs(there[name] - held[name]) < 0.03 for name in held if name in there), there


@pytest.mark.parametrize(
    ("what", "change", "counter"),
    [
        ("old", {"age": 5.0 * AGE_LIMIT}, "refused_old"),
        ("from the future", {"age": -5.0 * AGE_LIMIT}, "refused_future"),
        ("without a joint", {"joint_names": ["lift"], "effort": [0.1]}, "refused_names"),
        ("not finite", {"effort": [0.1, float("nan")]}, "refused_not_finite"),
        ("of a wrong size", {"effort": [0.1]}, "refused_size"),
        ("of no mode", {"mode": 7}, "refused_mode"),
    ],
)
def test_commands_that_are_refused(arm, what, change, counter):
    age = change.pop("age", 0.0)
    message = JointCommand(**{"mode": 0, "joint_names": ["lift", "swing"], "effort": [0.5, 0.5], **change})
    t = time.time() - age
    message.header.stamp.sec, message.header.stamp.nanosec = int(t), int(t % 1 * 1e9)
    before = int(arm.value(counter) or 0)
    arm.command.publish(message)
    arm.ros.until(lambda: int(arm.value(counter) or 0) > before, what=f"the refusal of a command {what}")


def test_the_law_is_the_plants():
    """The same command, state and gains give the plant's servo and the bus cycle the same efforts."""
    rng = np.random.default_rng(3)
    n = 4
    arrays = JointArrays([Joint(f"j{k}", k, MODELS["XM430-W350"], 0) for k in range(n)])
    kp, kd = rng.uniform(1.0, 9.0, n), rng.uniform(0.1, 1.0, n)
    plant = types.SimpleNamespace(kp=kp, kd=kd, _actuated=np.ones(n, bool))
    feedback = JointFeedback(arrays, EffortLoop(kp, 0.0 * kp, kd), np.ones(n, bool), 0.1)
    state, goals = GroupState([f"j{k}" for k in range(n)]), Goals(n)
    for mode in Mode:
        stamp, t = 100.0, 100.03
        effort, position, velocity = rng.normal(size=(3, n))
        gain = rng.normal(size=(n, 2 * n))
        state.t, state.q[:], state.qd[:] = t, rng.normal(size=n), rng.normal(size=n)
        goals.clear()
        feedback.set(Law(mode), stamp, t - 0.01, effort, position, velocity, gain)
        assert feedback.fill(state, goals) == ""
        expected = Servo.follow(
            plant, Command(mode, stamp, state.names, effort, position, velocity, gain), t, state.q, state.qd
        )
        np.testing.assert_allclose(goals.effort, expected, rtol=1e-12)
        state.t = t + 0.1
        assert "limit 0.1 s" in feedback.fill(state, goals)


def test_a_trajectory_is_followed_with_feedback(arm):
    arm.free()
    feedback = []
    handle = arm.send(arm.follow, arm.goal(4.0, [0.5, 0.3], goal_time_tolerance=Duration(sec=10)), feedback.append)
    assert handle.accepted
    # Exclusive: an effort command is refused meanwhile. The servos are the trajectory's once it moves.
    arm.ros.until(lambda: feedback, what="feedback")
    before = int(arm.value("refused_busy") or 0)
    message = JointCommand(mode=0, joint_names=["lift", "swing"], effort=[0.0, 0.0])
    message.header.stamp = arm.states[-1].header.stamp
    arm.command.publish(message)
    status, result = arm.result(handle)
    assert (status, result.error_code) == (SUCCEEDED, 0), result.error_string
    arm.ros.until(lambda: abs(arm.at("lift") - 0.5) < 0.05 and abs(arm.at("swing") - 0.3) < 0.05, what="its end")
    moving = feedback[len(feedback) // 2].feedback
    assert moving.joint_names == ["lift", "swing"] and len(moving.desired.positions) == len(moving.error.positions) == 2
    arm.ros.until(lambda: int(arm.value("refused_busy") or 0) > before, what="the refusal")
    # Held at its end.
    for state in arm.newest(15):
        there = dict(zip(state.name, state.position, strict=True))
        assert there.get("lift", 0.5) == pytest.approx(0.5, abs=0.05)


def test_trajectories_abort_cancel_and_give_way(arm):
    arm.free()
    # What cannot be followed is refused at once.
    for goal in (
        arm.goal(1.0, [0.1], names=("elbow",)),
        arm.goal(1.0, [0.1, 0.2], names=("lift", "lift")),
        FollowJointTrajectory.Goal(trajectory=JointTrajectory(joint_names=["lift"])),
    ):
        assert not arm.send(arm.follow, goal).accepted
    # Path tolerance: it is held fast, and a trajectory of seconds leaves without it.
    arm.bus.inject("stall", id=1)
    status, result = arm.result(arm.send(arm.follow, arm.goal(10.0, [-2.0, 0.0], path=(0.2, 0.2))))
    assert (status, result.error_code) == (ABORTED, FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED)
    assert "joint lift is" in result.error_string and "allowed 0.2" in result.error_string
    # Goal tolerance.
    goal = arm.goal(
        0.2,
        [arm.at("lift") + 0.3, arm.at("swing")],
        tolerance=(0.02, 0.5),
        goal_time_tolerance=Duration(nanosec=300_000_000),
    )
    status, result = arm.result(arm.send(arm.follow, goal))
    arm.bus.clear("stall")
    assert (status, result.error_code) == (ABORTED, FollowJointTrajectory.Result.GOAL_TOLERANCE_VIOLATED)
    # A newer goal takes an older one's place; the newer is cancelled.
    older = arm.send(arm.follow, arm.goal(30.0, [0.5, 0.5]))
    newer = arm.send(arm.follow, arm.goal(30.0, [-0.5, -0.5]))
    status, result = arm.result(older)
    assert status == ABORTED and "newer" in result.error_string
    future = newer.cancel_goal_async()
    arm.ros.until(future.done)
    assert arm.result(newer)[0] == CANCELED
    # Torque off ends whatever is under way.
    handle = arm.send(arm.follow, arm.goal(30.0, [0.5, 0.5]))
    assert arm.ros.call(SetBool, "dynamixel/set_dxl_torque", data=False).success
    status, result = arm.result(handle)
    assert status == ABORTED and "torque" in result.error_string
    handle = arm.send(arm.follow, arm.goal(1.0, [0.0, 0.0]))
    status, result = arm.result(handle)
    assert status == ABORTED and "torque is off" in result.error_string


def test_forward_positions_and_the_trajectory_topic(arm):
    arm.free()
    forward = arm.ros.node.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
    topic = arm.ros.node.create_publisher(JointTrajectory, "joint_trajectory_controller/joint_trajectory", COMMAND)
    arm.ros.until(lambda: forward.get_subscription_count() and topic.get_subscription_count())
    before = int(arm.value("refused_size") or 0)
    forward.publish(Float64MultiArray(data=[0.1]))
    arm.ros.until(lambda: int(arm.value("refused_size") or 0) > before, what="the refusal")
    forward.publish(Float64MultiArray(data=[0.2, 0.1]))
    arm.ros.until(lambda: abs(arm.at("lift") - 0.2) < 0.03 and abs(arm.at("swing") - 0.1) < 0.03, what="the position")
    came = time.time()
    arm.ros.until(lambda: seconds(arm.states[-1].header.stamp) > came + AGE_LIMIT, what="the stream's silence")
    topic.publish(arm.goal(0.5, [-0.1, 0.4]).trajectory)
    arm.ros.until(
        lambda: abs(arm.at("lift") + 0.1) < 0.03 and abs(arm.at("swing") - 0.4) < 0.03, what="the trajectory's end"
    )


def test_the_gripper_reaches_and_stalls(arm):
    arm.free()

    def close(position, force):
        goal = GripperCommand.Goal()
        goal.command.position, goal.command.max_effort = position, force
        return arm.result(arm.send(arm.grip, goal))

    status, result = close(0.03, 20.0)
    assert (
        status == SUCCEEDED
        and result.reached_goal
        and not result.stalled
        and result.position == pytest.approx(0.03, abs=1.5e-3)
    )
    # The result may be here before the joint states of the same cycle.
    arm.ros.until(lambda: arm.at("grip") == pytest.approx(0.6, abs=0.03), what="the joint state of the opening")
    arm.bus.inject("stall", id=3)
    status, result = close(0.0, 8.0)
    assert status == SUCCEEDED and result.stalled and not result.reached_goal
    # 8 N at 0.05 m/rad are 0.4 N m at the joint.
    assert result.effort == pytest.approx(8.0, rel=0.1)
    arm.bus.clear("stall")


def test_servo_data_and_services_while_active(arm):
    assert arm.ros.call(GetServoData, "dynamixel/get_dxl_data", id=1, item_name="model_number").item_data == 1020
    assert arm.ros.call(SetServoData, "dynamixel/set_dxl_data", id=1, item_name="led", item_data=1).success
    assert arm.ros.call(GetServoData, "dynamixel/get_dxl_data", id=1, item_name="led").item_data == 1
    arm.free()
    for id, item, value, why in (
        (1, "operating_mode", 3, "access error"),
        (9, "led", 1, "no joint has servo 9"),
        (1, "goal_curent", 1, "no item 'goal_curent'"),
        (1, "led", 70000, "does not fit"),
        (1, "goal_current", 100, "past all checks"),
    ):
        answer = arm.ros.call(SetServoData, "dynamixel/set_dxl_data", id=id, item_name=item, item_data=value)
        assert not answer.success and why in answer.message
    answer = arm.ros.call(Trigger, "dynamixel/scan")
    assert not answer.success and "deactivate first" in answer.message
    answer = arm.ros.call(Trigger, "dynamixel/reboot_dxl")
    assert answer.success and "none rebooted" in answer.message


def test_an_overheated_joint_aborts_its_goal_until_rebooted(arm):
    arm.free()
    handle = arm.send(arm.follow, arm.goal(30.0, [0.5, 0.5]))
    arm.bus.inject("overtemp", id=2)
    status, result = arm.result(handle)
    assert status == ABORTED and "joint swing" in result.error_string
    arm.ros.until(lambda: arm.diagnostics()[0] == 2 and "overheating" in arm.diagnostics()[1], what="ERROR")
    assert "swing (id 2)" in arm.diagnostics()[1]
    arm.bus.clear("overtemp")
    answer = arm.ros.call(Trigger, "dynamixel/reboot_dxl")
    assert answer.success and "rebooted swing" in answer.message
    arm.free()
    arm.ros.until(arm.well, what="recovery")


def test_unplugging_is_an_error_at_once_and_heals(arm, withheld):
    arm.ros.until(arm.well, what="OK")

    def kept_waiting():
        return withheld(arm.process.pid) + withheld(arm.bus.pid)

    before, told, waited = int(arm.value("reconnects") or 0), len(arm.heard), kept_waiting()
    arm.bus.inject("unplug")

    def errors():
        said = (message for message in arm.heard[told:] if message.status[0].level[0] == 2)
        return [seconds(message.header.stamp) for message in said if "reconnecting" in message.status[0].message]

    arm.ros.until(errors, what="ERROR")
    errored, waited = errors()[0], kept_waiting() - waited
    arm.bus.clear("unplug")
    count = len(arm.states)
    arm.ros.until(
        lambda: len(arm.states) > count + 10 and seconds(arm.states[-1].header.stamp) > errored, what="states"
    )
    arm.ros.until(lambda: int(arm.value("reconnects") or 0) > before and arm.value("torque") == "on", what="recovery")
    stamps = np.array([seconds(state.header.stamp) for state in arm.states])
    assert (np.diff(stamps) > 0.0).all()
    # From the last measurement to the message that says so, by their stamps: the node's time, without what it and the
    # emulator were ready to run and had to wait for a core.
    assert errored - stamps[stamps < errored].max() < 0.2 + waited


def test_parameters_that_do_not_fit_are_refused(ros):
    process = ros.start("dynamixel", **{**PARAMETERS, "gripper.joint": "elbow"})
    output, _ = process.communicate(timeout=60)
    ros.processes.remove(process)
    assert process.returncode == 2 and "gripper.joint is 'elbow', joints are" in output and "Traceback" not in output, (
        output
    )
    joint = JointSettings()
    for more, said in (
        ({"update_rate": 20.0}, "three cycles"),
        ({"joints": {"lift": JointSettings(model="MX-28")}}, "speaks protocol 1"),
        ({"joints": {"lift": joint}, "gripper_joint": "lift"}, "operating_mode 5"),
        ({"protocol_version": 1.5}, "1.0 or 2.0"),
    ):
        with pytest.raises(ValueError, match=said):
            DynamixelConfig(**more)
    with pytest.raises(DeviceError, match="use 1 or -1"):
        JointSettings(direction=0).joint("lift")
    with pytest.raises(DeviceError, match="no operating mode 0"):
        JointSettings(model="XL430-W250", operating_mode=0).joint("lift")


def test_the_page_names_everything(documentation):
    assert (
        documentation.missing(
            "dynamixel.md", DynamixelConfig, "nodes/devices/dynamixel.py", "nodes/devices/dynamixel_actions.py"
        )
        == []
    )
