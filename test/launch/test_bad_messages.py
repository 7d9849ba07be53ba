"""A bad cable: joint states damaged, late, early or gone, commands late or gone, between a plant and its controller.

The shipped launch file runs controller, refit and supervisor; the plant is started beside it with its
two topics renamed, and the test carries the messages across, or does not.
"""

import copy
import threading

import launch_pytest
import numpy as np
import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from launch import LaunchDescription
from launch_ros.actions import LifecycleNode
from launched import LAUNCH, Processes, include, seconds, settled, until
from refit_interfaces.msg import ControllerStatus, JointCommand, SupervisorStatus
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from nodes.framework.qos import COMMAND, LEDGER, STATE
from sim_core.plant import MujocoPlant

# [s] of simulated time; a third of real time, so that a busy machine stays within all limits
FACTOR, PERIOD, COMMAND_AGE, STATE_AGE = 0.33, 0.02, 0.2, 0.3
LIMITS = f"""
/**/adaptive_mpc:
  ros__parameters: {{mode: track, state_age_limit: {STATE_AGE}}}
/**/supervisor:
  ros__parameters: {{state_age_limit: {STATE_AGE}, command_age_limit: 0.6, lease_duration: 5.0}}
"""
TRACKING, STOPPED = ControllerStatus.STATE_TRACKING, ControllerStatus.STATE_STOPPED
RUNNING, HALTED = SupervisorStatus.STATE_RUNNING, SupervisorStatus.STATE_HALTED


def shifted(stamp, by: float) -> Time:
    nanoseconds = max(0, stamp.sec * 1_000_000_000 + stamp.nanosec + round(by * 1e9))
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


class Cable:
    """Carries joint states and commands between plant and controller.

    Attributes:
        damage: what happens to a joint state on its way: message -> message, or None to lose it.
        delay: of commands, in time of the plant [s]; inf: they are lost.
    """

    def __init__(self, probe):
        self.damage, self.delay = None, 0.0
        self._lock = threading.Lock()
        self._under_way: list[JointCommand] = []
        node = probe.node
        self._states = node.create_publisher(JointState, "joint_states", STATE)
        self._commands = node.create_publisher(JointCommand, "plant/joint_command", COMMAND)
        node.create_subscription(JointState, "plant/joint_states", self._on_state, STATE)
        node.create_subscription(JointCommand, "joint_command", self._on_command, COMMAND)

    def _on_state(self, message):
        self._deliver(seconds(message.header.stamp))
        if self.damage is not None:
            message = self.damage(copy.deepcopy(message))
        if message is not None:
            self._states.publish(message)

    def _on_command(self, message):
        with self._lock:
            self._under_way.append(message)
        if self.delay == 0.0:
            self._deliver(np.inf)

    def _deliver(self, now):
        with self._lock:
            due = [c for c in self._under_way if now >= seconds(c.header.stamp) + self.delay]
            self._under_way = [c for c in self._under_way if c not in due]
        for command in due:
            self._commands.publish(command)


@launch_pytest.fixture(scope="module")
def cartpole(domain, tmp_path_factory):
    limits = tmp_path_factory.mktemp("messages") / "limits.yaml"
    limits.write_text(LIMITS)
    processes = Processes()
    plant = LifecycleNode(
        package="refit",
        executable="sim_plant",
        name="sim_plant",
        namespace="",
        autostart=True,
        output="screen",
        parameters=[
            str(LAUNCH.parent / "config/robots/cartpole/nodes.yaml"),
            {"robot": "cartpole", "real_time_factor": FACTOR, "command_age_limit": COMMAND_AGE},
        ],
        remappings=[("joint_states", "plant/joint_states"), ("joint_command", "plant/joint_command")],
    )
    robot = include("robot.launch.py", robot="cartpole", use_sim_time=True, arm="auto", params_file=limits)
    return LaunchDescription([*processes.handlers(), robot, plant]), processes


class Robot:
    """What the tests look at, and how they set the robot going again."""

    def __init__(self, probe):
        self._probe = probe
        self.cable = Cable(probe)
        self.states = probe.watch(JointState, "plant/joint_states", STATE)
        self.commands = probe.watch(JointCommand, "joint_command", COMMAND)
        self.controller = probe.watch(ControllerStatus, "controller/status", STATE)
        self.supervisor = probe.watch(SupervisorStatus, "supervisor/status", LEDGER)
        self.diagnostics = probe.watch(DiagnosticArray, "diagnostics", STATE)

    def go(self):
        """A good cable, nothing halted, commands followed."""
        self._probe.wait_active("sim_plant", "adaptive_mpc", "refit_worker", "supervisor")
        self.cable.damage, self.cable.delay = None, 0.0
        until(lambda: len(self.supervisor), "the supervisor speaks")
        if self.supervisor[-1].state == HALTED:
            # The fault is looked at over a moment, so the first call may come too early.
            until(self._resume, "the halt is lifted")
        self.controller.wait_next(lambda m: m.state == TRACKING, what="tracking")
        until(lambda: self.supervisor[-1].state == RUNNING, "running")
        self.plant(lambda values: values["servos"] == "following commands", "commands followed")

    def _resume(self) -> bool:
        self.states.wait_next()
        return self._probe.call(Trigger, "resume").success

    def plant(self, condition, what):
        """The plant's own words, once a second: the first diagnostics of it from now on that fulfil the condition."""

        def holds(message):
            return any(
                s.name.endswith("sim_plant") and condition({v.key: v.value for v in s.values} | {"message": s.message})
                for s in message.status
            )

        return self.diagnostics.wait_next(holds, what=what)

    def for_a_while(self, time=1.0):
        """Let so much simulated time pass."""
        end = seconds(self.states.wait_next().header.stamp) + time
        self.states.wait_next(lambda m: seconds(m.header.stamp) > end)


@pytest.fixture(scope="module")
def robot(probe):
    return Robot(probe)


# -- joint states ------------------------------------------------------------------------------------


def lost(message):
    return None


def not_a_number(message):
    message.position[1] = np.nan
    return message


def without_hinge(message):
    for field in ("name", "position", "velocity", "effort"):
        setattr(message, field, getattr(message, field)[:1])
    return message


def stale(message):
    message.header.stamp = shifted(message.header.stamp, -2.0 * STATE_AGE)
    return message


def early(message):
    message.header.stamp = shifted(message.header.stamp, 5.0)
    return message


LOST, INVALID = SupervisorStatus.CODE_STATE_LOST, SupervisorStatus.CODE_STATE_INVALID
DAMAGES = [
    (lost, LOST, "no joint states for"),
    (not_a_number, INVALID, "position of hinge is not finite"),
    (without_hinge, INVALID, "joint hinge is missing from joint_states; received slider"),
    (stale, INVALID, "s old, limit"),
    (early, INVALID, "in the future, limit"),
]


@pytest.mark.launch(fixture=cartpole)
@pytest.mark.parametrize("damage, code, sentence", DAMAGES, ids=[d[0].__name__ for d in DAMAGES])
def test_bad_joint_states_stop_the_robot(cartpole, robot, damage, code, sentence):
    robot.go()
    said, status = len(robot.supervisor), len(robot.controller)
    robot.cable.damage = damage
    halt = robot.supervisor.wait(lambda m: m.state == HALTED, after=said, what="halted")
    assert (halt.code, sentence in halt.message) == (code, True), halt
    # The controller says the same: at first why it refuses, then that it has been halted.
    stopped = robot.controller.wait(lambda m: m.state == STOPPED, after=status, what="stopped")
    assert sentence in stopped.message
    robot.plant(lambda values: values["servos"].startswith("HALTED"), "the stop state")
    silent = settled(robot.commands)
    robot.for_a_while(0.2)
    assert len(robot.commands) == silent
    # A good cable alone lifts nothing; an operator does.
    robot.cable.damage = None
    robot.for_a_while(0.2)
    assert robot.supervisor[-1].state == HALTED and len(robot.commands) == silent
    robot.go()
    cartpole[1].assert_running()


@pytest.mark.launch(fixture=cartpole)
def test_single_bad_states_stop_nothing(cartpole, robot):
    """Every second joint state is bad; the others are enough."""
    robot.go()
    said, status, number = len(robot.supervisor), len(robot.controller), iter(range(10**6))
    damages = (not_a_number, without_hinge, stale, early)

    def every_second(message):
        n = next(number)
        return damages[n // 2 % len(damages)](message) if n % 2 else message

    robot.cable.damage = every_second
    robot.for_a_while(1.0)
    assert {m.state for m in robot.controller[status:]} == {TRACKING}
    assert not robot.supervisor[said:]
    cartpole[1].assert_running()


@pytest.mark.launch(fixture=cartpole)
def test_joints_in_another_order_are_the_same_joints(cartpole, robot):
    def reversed_order(message):
        for field in ("name", "position", "velocity", "effort"):
            setattr(message, field, getattr(message, field)[::-1])
        return message

    robot.go()
    said, status = len(robot.supervisor), len(robot.controller)
    robot.cable.damage = reversed_order
    robot.for_a_while(1.0)
    assert not robot.supervisor[said:]
    # Read in the wrong order, no state would follow from the one before.
    errors = [m.prediction_error for m in robot.controller[status:]]
    assert {m.state for m in robot.controller[status:]} == {TRACKING} and np.median(errors) < 1.0
    cartpole[1].assert_running()


# -- commands ----------------------------------------------------------------------------------------


def assert_braked(states):
    """The declared stop state of a cart-pole: the cart is braked in proportion to its speed."""
    plant = MujocoPlant("cartpole", tick=PERIOD, stop_state="damped", initial_v=[1.0, 0.0])
    plant.tick()
    limit = plant.u_upper[0] * plant.world.ratio[0]
    for before, after in zip(states, states[1:]):
        if 0.0 < seconds(after.header.stamp) - seconds(before.header.stamp) < 1.5 * PERIOD:
            brake = np.clip(plant.effort[0] * before.velocity[0], -limit, limit)
            assert after.effort[0] == pytest.approx(brake, abs=1e-9)
            assert after.effort[1] == 0.0


@pytest.mark.launch(fixture=cartpole)
@pytest.mark.parametrize("delay", [COMMAND_AGE + 0.06, np.inf])
def test_old_commands_are_refused(cartpole, robot, delay):
    """Age is measured when a command arrives: late ones are as good as none, however many."""
    robot.go()
    robot.cable.delay = delay
    robot.plant(lambda values: values["servos"].startswith("no command for"), "the stop state")
    if np.isfinite(delay):
        robot.plant(lambda values: "s old, limit" in values["message"] and int(values["refused_old"]) > 0, "a sentence")
    begin, sent = len(robot.states), len(robot.commands)
    robot.for_a_while(1.0)
    assert len(robot.commands) > sent  # the controller goes on
    assert_braked(robot.states[begin:])
    robot.go()
    cartpole[1].assert_running()


@pytest.mark.launch(fixture=cartpole)
def test_late_commands_within_the_limit_are_followed(cartpole, robot):
    robot.go()
    robot.cable.delay = 0.5 * COMMAND_AGE
    robot.for_a_while(COMMAND_AGE + 0.1)
    begin = len(robot.states)
    robot.for_a_while(1.0)
    with pytest.raises(AssertionError):
        assert_braked(robot.states[begin:])
    cartpole[1].assert_running()
