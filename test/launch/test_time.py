"""Time that stands still, advances by steps and jumps back, while a cart-pole runs against the clock.

The same in lock-step, to the last digit: test_lockstep.py.
"""

import random

import launch_pytest
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from launch import LaunchDescription
from launched import Messages, Processes, include, seconds, until
from refit_interfaces.msg import ControllerStatus, JointCommand, ParameterSet, SupervisorStatus
from sensor_msgs.msg import JointState
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import EntityCategory, EntityFilters, Result, SimulationState
from simulation_interfaces.srv import GetEntitiesStates, ResetSimulation, StepSimulation

from nodes.framework.qos import LEDGER, STATE
from recording import BagReader

# Half of real time and wide limits, so that a busy machine is not mistaken for a lost node.
FACTOR, TICK, RESETS = 0.5, 0.02, 20
SETTINGS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 0.5}
/**/adaptive_mpc:
  ros__parameters: {mode: track, refit: periodic, state_age_limit: 0.5, refit_silence_limit: 0.0}
/**/refit_worker:
  ros__parameters: {schedule: periodic, window: 2.0, min_window: 0.2, period: 0.2}
/**/supervisor:
  ros__parameters: {state_age_limit: 0.7, command_age_limit: 0.7, lease_duration: 5.0}
"""
TRACKING, RUNNING = ControllerStatus.STATE_TRACKING, SupervisorStatus.STATE_RUNNING
NODES = ("sim_plant", "adaptive_mpc", "refit_worker", "supervisor", "recorder")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("time")


@launch_pytest.fixture(scope="module")
def cartpole(domain, folder):
    (folder / "settings.yaml").write_text(SETTINGS)
    processes = Processes()
    return LaunchDescription(
        [
            *processes.handlers(),
            include(
                "sim.launch.py",
                robot="cartpole",
                real_time_factor=FACTOR,
                params_file=folder / "settings.yaml",
                record=True,
                run_directory=folder,
            ),
        ]
    ), processes


class Watched:
    """Everything the nodes say, from the start."""

    def __init__(self, probe):
        self.states = probe.watch(JointState, "joint_states", STATE)
        self.commands = probe.watch(JointCommand, "joint_command", STATE)
        self.status = probe.watch(ControllerStatus, "controller/status", STATE)
        self.supervisor = probe.watch(SupervisorStatus, "supervisor/status", LEDGER)
        self.parameters = probe.watch(ParameterSet, "refit/parameters", LEDGER)
        self.diagnostics = probe.watch(DiagnosticArray, "diagnostics", STATE)

    def assert_never_stopped(self, status=0, supervisor=0):
        assert {m.state for m in self.status[status:]} == {TRACKING}
        assert SupervisorStatus.STATE_HALTED not in {m.state for m in self.supervisor[supervisor:]}


@pytest.fixture(scope="module")
def watched(probe):
    return Watched(probe)


def time_of(message) -> float:
    return seconds(message.header.stamp)


def time_of_plant(probe) -> float:
    """The plant's own time [s]: what it has said before may still be under way."""
    filters = EntityFilters(categories=[EntityCategory(category=EntityCategory.CATEGORY_ROBOT)])
    answer = probe.call(GetEntitiesStates, "get_entities_states", GetEntitiesStates.Request(filters=filters))
    return time_of(answer.states[0])


def jump(messages: Messages, after: int) -> int:
    """Number of the first message from number `after` on whose time lies before that of the one before it."""

    def found():
        times = [time_of(m) for m in messages[after - 1 :]]
        return next((after + k for k, (t, later) in enumerate(zip(times, times[1:])) if later < t), 0)

    return until(found, f"{messages.topic}: time goes back")


def start(probe, watched):
    probe.wait_active(*NODES)
    watched.status.wait_next(lambda m: m.state == TRACKING, what="tracking")
    until(lambda: watched.supervisor and watched.supervisor[-1].state == RUNNING, "running")


@pytest.mark.launch(fixture=cartpole)
def test_pause_and_step(cartpole, probe, watched):
    start(probe, watched)
    states, commands, status = watched.states, watched.commands, watched.status
    began, said = len(status), len(watched.supervisor)

    probe.set_state(SimulationState.STATE_PAUSED)
    t = time_of_plant(probe)
    until(lambda: time_of(states[-1]) == pytest.approx(t), "the last state")
    until(lambda: time_of(commands[-1]) == pytest.approx(t), "the last state is answered")
    until(lambda: time_of(status[-1]) == pytest.approx(t), "and reported")
    seen, sent, cycles = len(states), len(commands), status[-1].cycles
    # Longer than any limit, in wall time: the supervisor asks the plant, which says that it is paused.
    for _ in range(4):
        watched.diagnostics.wait_next(lambda m: m.status[0].name == "sim_plant" and m.status[0].message == "paused")
    assert (len(states), len(commands), status[-1].cycles) == (seen, sent, cycles)

    for k in range(1, 4):
        response = probe.call(StepSimulation, "step_simulation", StepSimulation.Request(steps=1))
        assert response.result.result == Result.RESULT_OK
        until(lambda: len(commands) == sent + k and len(states) == seen + k, f"one state and one command for step {k}")
        assert time_of(states[-1]) == time_of(commands[-1]) == pytest.approx(t + k * TICK)

    stepping = probe.send_goal(SimulateSteps, "simulate_steps", SimulateSteps.Goal(steps=25))
    assert probe.result(stepping).result.result == Result.RESULT_OK
    until(lambda: len(states) == seen + 28, "25 states more")
    assert [time_of(m) for m in states[seen:]] == pytest.approx([t + k * TICK for k in range(1, 29)])

    probe.set_state(SimulationState.STATE_PLAYING)
    status.wait_next(lambda m: time_of(m) > t + 1.0, what="control goes on")
    watched.assert_never_stopped(began, said)
    # Every cycle is a command for a state of its own, in order.
    stamps = [time_of(m) for m in commands[sent:]]
    assert stamps == sorted(set(stamps))
    counted = [m.cycles for m in status[began:]]
    assert counted == list(range(counted[0], counted[0] + len(counted)))
    cartpole[1].assert_running()


@pytest.mark.launch(fixture=cartpole)
def test_reset_twenty_times(cartpole, probe, watched, folder):
    """At any moment of a swing-up; each time everyone begins anew and the plant follows commands again.

    What was said before a reset may arrive after it, so each topic's own jump in time tells what came after.
    """
    start(probe, watched)
    states, commands, status, supervisor = watched.states, watched.commands, watched.status, watched.supervisor
    began, moments = len(status), random.Random(0)
    said = len(supervisor)
    for k in range(RESETS):
        moment = moments.uniform(0.1, 0.6)
        states.wait_next(lambda m: time_of(m) > moment)
        seen, sent, reported, told = (len(topic) for topic in (states, commands, status, supervisor))
        assert probe.call(ResetSimulation, "reset_simulation").result.result == Result.RESULT_OK
        first, answered = jump(states, seen), jump(commands, sent)
        assert time_of(states[first]) == 0.0, k

        def followed():
            efforts = {m.effort[0] for m in commands[answered:]}
            return any(m.effort[0] in efforts for m in states[first:])

        until(followed, f"the plant follows a command after reset {k}")
        status.wait(lambda m: m.state == TRACKING, after=jump(status, reported), what=f"tracking after reset {k}")
        supervisor.wait(lambda m: m.code == SupervisorStatus.CODE_TIME_JUMP, after=told, what=f"reset {k} is noticed")
        until(lambda: supervisor[-1].state == RUNNING, f"running after reset {k}")
    # The refit too works with what happened since: a window of data begins and ends in the present.
    fits = len(watched.parameters)
    fit = watched.parameters.wait(lambda m: m.window_end > 0.7, after=fits, what="a fit after the last reset")
    assert 0.0 <= fit.window_start < fit.window_end
    until(lambda: time_of(states[-1]) >= fit.window_end, "the fit is of the past")
    for fit in watched.parameters[:]:
        assert 0.0 <= fit.window_start <= fit.window_end
    watched.assert_never_stopped(began, said)
    cartpole[1].assert_running()
    yield
    cartpole[1].assert_ended_well()
    assert len(BagReader(folder / "bag").joint_states().time_jumps()) == RESETS
