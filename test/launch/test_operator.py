"""Everything an operator can press, on a Panda that moves; and strangers who would like to command it too.

A quarter of real time and wide age limits, so that a busy machine is not mistaken for a lost node.
"""

import os
import signal

import launch_pytest
import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from launch import LaunchDescription
from launched import Processes, include, until
from refit_interfaces.msg import CommandLease, JointCommand, SupervisorStatus
from refit_interfaces.srv import HandOver
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from nodes.framework.qos import CLOCK, COMMAND, LEDGER, STATE

LIMITS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 1.0}
/**/adaptive_mpc:
  ros__parameters: {state_age_limit: 1.0}
/**/supervisor:
  ros__parameters: {state_age_limit: 1.0, command_age_limit: 1.5, lease_duration: 5.0, stop_timeout: 60.0}
"""
S = SupervisorStatus
AT_REST = 0.02  # [rad/s]


class Panel:
    """What an operator sees and presses."""

    def __init__(self, probe):
        self.probe = probe
        self.status = probe.watch(SupervisorStatus, "supervisor/status", LEDGER)
        self.states = probe.watch(JointState, "joint_states", COMMAND)
        self.facts = probe.watch(DiagnosticArray, "diagnostics", STATE)

    def press(self, service):
        answer = self.probe.call(Trigger, service)
        return answer.success, answer.message

    def until_state(self, state, what):
        return until(lambda: len(self.status) and self.status[-1].state == state and self.status[-1], what)

    def until_moving(self):
        self.states.wait_next(lambda m: np.abs(m.velocity).max() > 2 * AT_REST, what="the arm moves")

    def until_at_rest(self):
        self.states.wait_next(lambda m: np.abs(m.velocity).max() < AT_REST, what="the arm rests")

    def plant(self, key):
        """A value of the plant's diagnostics, by its next word; "0" where it says nothing of it."""

        def of_plant(message):
            return next((status for status in message.status if status.name == "sim_plant"), None)

        status = of_plant(self.facts.wait_next(of_plant, what="the plant's diagnostics"))
        return {value.key: value.value for value in status.values}.get(key, "0")

    def refused(self, reason):
        """How many commands the plant has refused for a reason."""
        return int(self.plant(f"refused_{reason}"))

    def assert_nothing_moves(self, seconds=0.5):
        """For so long of the plant's time."""
        first = self.states.wait_next()
        begin = first.header.stamp.sec + 1e-9 * first.header.stamp.nanosec
        last = self.states.wait_next(
            lambda m: m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec > begin + seconds, what="half a second"
        )
        assert np.abs(np.subtract(last.position, first.position)).max() < 5e-3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("operator")


@launch_pytest.fixture(scope="module")
def panda(domain, folder):
    (folder / "limits.yaml").write_text(LIMITS)
    processes = Processes()
    return LaunchDescription(
        [
            *processes.handlers(),
            include(
                "sim.launch.py", robot="panda", refit=False, real_time_factor=0.25, params_file=folder / "limits.yaml"
            ),
        ]
    ), processes


@pytest.fixture(scope="module")
def panel(probe):
    return Panel(probe)


@pytest.fixture(scope="module")
def stranger(probe):
    """Publishes commands to every joint state, to go to a far posture, under a name."""
    publisher = probe.node.create_publisher(JointCommand, "joint_command", COMMAND)

    def command(state, name):
        message = JointCommand(
            joint_names=list(state.name), mode=JointCommand.MODE_POSITION, position=[0.5] * 3 + [-1.0] + [0.5] * 3
        )
        message.commander, message.header.stamp = name, state.header.stamp
        publisher.publish(message)

    told = {"name": None}
    probe.node.create_subscription(
        JointState, "joint_states", lambda m: told["name"] and command(m, told["name"]), COMMAND
    )
    return told


@pytest.mark.launch(fixture=panda)
def test_every_service_in_every_state(panda, panel):
    panel.probe.wait_active("sim_plant", "adaptive_mpc", "supervisor")
    panel.until_state(S.STATE_RUNNING, "armed by itself, and commanded")
    panel.until_moving()
    assert panel.press("arm") == (False, "nothing to arm: RUNNING")
    assert panel.press("resume") == (False, "nothing to resume: RUNNING")
    for _ in range(2):  # a halt that is halted once more
        assert panel.press("stop") == (True, "stopped: all joints are at rest")
        assert panel.status[-1].state == S.STATE_HALTED and panel.status[-1].code == S.CODE_OPERATOR_STOP
        panel.assert_nothing_moves()
    assert panel.press("arm") == (False, "nothing to arm: HALTED")
    assert panel.press("disarm")[0] is False
    assert panel.press("resume") == (True, "ready")
    panel.until_state(S.STATE_RUNNING, "resumed")
    panel.until_moving()
    assert panel.press("disarm") == (True, "disarmed: nobody may command")
    panel.until_at_rest()
    panel.assert_nothing_moves()
    assert panel.press("resume") == (False, "nothing to resume: DISARMED")
    assert panel.press("disarm")[0]
    assert panel.press("stop")[0] and panel.status[-1].state == S.STATE_HALTED
    assert panel.press("resume")[0]
    panel.until_state(S.STATE_RUNNING, "running once more")
    assert panel.press("disarm")[0]
    assert panel.press("arm") == (True, "armed: adaptive_mpc may command")
    panel.until_state(S.STATE_RUNNING, "armed by hand")
    panel.until_moving()
    panda[1].assert_running()


@pytest.mark.launch(fixture=panda)
def test_nobody_else_commands_until_it_is_handed_over(panda, panel, stranger):
    before = panel.refused("commander")
    stranger["name"] = "probe"
    until(lambda: panel.refused("commander") > before, "the stranger's commands are refused")
    assert panel.press("stop")[0]
    before = panel.refused("disarmed")
    until(lambda: panel.refused("disarmed") > before, "the stranger is refused while halted")
    panel.assert_nothing_moves()
    assert panel.press("resume")[0]
    unknown = panel.probe.call(HandOver, "hand_over", HandOver.Request(commander="nobody"))
    assert not unknown.success and "adaptive_mpc" in unknown.message
    given = panel.probe.call(HandOver, "hand_over", HandOver.Request(commander="probe"))
    assert given.success, given.message
    panel.states.wait_next(lambda m: abs(m.position[0] - 0.5) < 0.05, what="the arm goes where the new commander wants")
    stranger["name"] = None
    assert panel.probe.call(HandOver, "hand_over", HandOver.Request(commander="adaptive_mpc")).success
    panda[1].assert_running()


@pytest.mark.launch(fixture=panda)
def test_who_only_calls_himself_supervisor_moves_nothing(panda, panel):
    assert panel.press("stop")[0]
    node = panel.probe.node
    status = node.create_publisher(SupervisorStatus, "supervisor/status", LEDGER)
    leases = node.create_publisher(CommandLease, "supervisor/lease", COMMAND)
    until(lambda: status.get_subscription_count() >= 2 and leases.get_subscription_count(), "the forger is connected")
    status.publish(SupervisorStatus(state=S.STATE_READY))
    leases.publish(CommandLease(commander="adaptive_mpc", duration=60.0))
    panel.assert_nothing_moves()
    processes = panda[1]
    until(lambda: "/probe publishes supervisor/lease" in processes.output("/sim_plant"), "the plant says who it is")
    until(lambda: "/probe publishes supervisor/status" in processes.output("/adaptive_mpc"), "so does the controller")
    resumed, why = panel.press("resume")
    assert not resumed and "/probe publishes supervisor/" in why
    panel.probe.end(status)
    panel.probe.end(leases)
    until(lambda: panel.press("resume")[0], "the forger is gone")
    panel.until_moving()


@pytest.mark.launch(fixture=panda)
@pytest.mark.parametrize("kind, topic", [(SupervisorStatus, "supervisor/status"), (Clock, "/clock")])
def test_a_forger_halts_the_arm_and_the_halt_says_who_it_is(panda, panel, kind, topic):
    panel.until_moving()
    forged = panel.probe.node.create_publisher(kind, topic, LEDGER if kind is SupervisorStatus else CLOCK)
    halt = panel.until_state(S.STATE_HALTED, "the supervisor halts")
    assert halt.code == S.CODE_IMPOSTOR and "/probe" in halt.message and topic.strip("/") in halt.message
    panel.until_at_rest()
    panel.probe.end(forged)
    until(lambda: panel.press("resume")[0], "the forger is gone")
    panel.until_moving()


@pytest.mark.launch(fixture=panda)
def test_a_supervisor_that_hangs_stops_the_arm(panda, panel):
    pid = panda[1].pid["/supervisor"]
    panel.until_moving()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: "nobody has renewed the lease for 5 s" in panel.plant("servos"), "the plant says why it stopped")
    panel.until_at_rest()
    panel.assert_nothing_moves()
    os.kill(pid, signal.SIGCONT)
    halt = panel.until_state(S.STATE_HALTED, "it knows that it was held up")
    assert halt.code in (S.CODE_HELD_UP, S.CODE_COMMAND_LOST, S.CODE_STATE_LOST) and halt.message
    until(lambda: panel.press("resume")[0], "what it missed has arrived, and it resumes")
    panel.until_moving()


@pytest.mark.launch(fixture=panda)
def test_a_supervisor_that_dies_stops_the_arm_and_ends_the_launch(panda, panel):
    panel.until_moving()
    panda[1].kill("/supervisor")
    until(lambda: {"/sim_plant", "/adaptive_mpc"} <= set(panda[1].exit_code), "the launch ends")
    last = panel.states[-1]
    assert last.effort == pytest.approx([0.0] * 7)
    panda[1].assert_ended_well("/supervisor")
