"""Two robots on one machine, told apart by their namespaces alone: nothing crosses from one to the other."""

import launch_pytest
import pytest
from launch import LaunchDescription
from launched import Processes, include, seconds, settled, until
from rcl_interfaces.srv import GetParameters
from refit_interfaces.msg import ControllerStatus, JointCommand, ParameterSet, SupervisorStatus
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import ResetSimulation, SetSimulationState

from nodes.framework.qos import CLOCK, LEDGER, STATE

SETTINGS = """
/**/sim_plant:
  ros__parameters: {{command_age_limit: 0.5}}
/**/adaptive_mpc:
  ros__parameters: {{mode: track, refit: {refit}, state_age_limit: 0.5, refit_silence_limit: 0.0, horizon: {horizon}}}
/**/refit_worker:
  ros__parameters: {{schedule: periodic, window: 2.0, min_window: 0.2, period: 0.2}}
/**/supervisor:
  ros__parameters: {{state_age_limit: 0.7, command_age_limit: 0.7, lease_duration: 5.0}}
"""
HORIZON = {"left": 20, "right": 25}
# What ROS itself shares between all nodes of a domain.
SHARED_TOPICS = {"/rosout", "/parameter_events"}
TRACKING, RUNNING, HALTED = (
    ControllerStatus.STATE_TRACKING,
    SupervisorStatus.STATE_RUNNING,
    SupervisorStatus.STATE_HALTED,
)


@launch_pytest.fixture(scope="module")
def robots(domain, tmp_path_factory):
    """Left learns from a wrong start, at half of real time; right knows its robot and is slower."""
    processes = Processes()
    actions = []
    for name, factor, refits in (("left", 0.5, True), ("right", 0.3, False)):
        settings = tmp_path_factory.mktemp(name) / "settings.yaml"
        settings.write_text(SETTINGS.format(refit="periodic" if refits else "off", horizon=HORIZON[name]))
        actions.append(
            include(
                "sim.launch.py",
                robot="cartpole",
                namespace=name,
                seed=len(actions),
                params_file=settings,
                real_time_factor=factor,
                refit=refits,
                **({"prior": "start"} if refits else {}),
            )
        )
    return LaunchDescription([*processes.handlers(), *actions]), processes


class Robot:
    """What one of them says."""

    def __init__(self, probe, name: str):
        self.name, self._probe = name, probe
        self.clock = probe.watch(Clock, f"/{name}/clock", CLOCK)
        self.states = probe.watch(JointState, f"/{name}/joint_states", STATE)
        self.commands = probe.watch(JointCommand, f"/{name}/joint_command", STATE)
        self.status = probe.watch(ControllerStatus, f"/{name}/controller/status", STATE)
        self.supervisor = probe.watch(SupervisorStatus, f"/{name}/supervisor/status", LEDGER)
        self.parameters = probe.watch(ParameterSet, f"/{name}/refit/parameters", LEDGER)

    def start(self):
        self._probe.wait_active(*(f"/{self.name}/{node}" for node in ("sim_plant", "adaptive_mpc", "supervisor")))
        self.status.wait_next(lambda m: m.state == TRACKING, what="tracking")
        until(lambda: self.supervisor and self.supervisor[-1].state == RUNNING, f"{self.name} is running")

    def call(self, kind, service, **fields):
        response = self._probe.call(kind, f"/{self.name}/{service}", kind.Request(**fields))
        assert response.result.result == Result.RESULT_OK, response.result.error_message

    def set_state(self, state):
        self.call(SetSimulationState, "set_simulation_state", state=SimulationState(state=state))


@pytest.fixture(scope="module")
def left(probe):
    return Robot(probe, "left")


@pytest.fixture(scope="module")
def right(probe):
    return Robot(probe, "right")


class Undisturbed:
    """Within the block this robot is controlled as if it were alone, and time goes on for it."""

    def __init__(self, robot: Robot):
        self._robot = robot

    def __enter__(self):
        robot = self._robot
        self._marks = len(robot.states), len(robot.status), len(robot.supervisor)

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        robot, (states, status, supervisor) = self._robot, self._marks
        robot.status.wait_next()
        stamps = [seconds(m.header.stamp) for m in robot.states[states:]]
        assert len(stamps) > 5 and stamps == sorted(set(stamps))
        assert {m.state for m in robot.status[status:]} == {TRACKING}
        assert not robot.supervisor[supervisor:]


@pytest.mark.launch(fixture=robots)
def test_each_has_its_own(robots, probe, left, right):
    """Clock, topics, node parameters, physical parameters."""
    left.start(), right.start()
    left.status.wait(lambda m: m.parameters_source == ControllerStatus.PARAMETERS_REFIT, what="left learns")
    assert {m.parameters_revision for m in right.status[:]} == {0} and not len(right.parameters)
    topics = {name for name, _ in probe.node.get_topic_names_and_types()} - SHARED_TOPICS
    assert {name for name in topics if not name.startswith(("/left/", "/right/"))} == set()
    for robot in (left, right):
        answer = probe.call(
            GetParameters, f"/{robot.name}/adaptive_mpc/get_parameters", GetParameters.Request(names=["horizon"])
        )
        assert answer.values[0].integer_value == HORIZON[robot.name]
    # Different seeds, different motions.
    assert left.states[0].position != right.states[0].position
    robots[1].assert_running()


@pytest.mark.launch(fixture=robots)
def test_pause_and_reset_of_one(robots, left, right):
    left.start(), right.start()
    with Undisturbed(right):
        left.set_state(SimulationState.STATE_PAUSED)
        settled(left.states)  # whatever left sent before has arrived
        stands, seen = left.states[-1].header.stamp, len(left.states)
        later = seconds(right.states[-1].header.stamp) + 0.3
        right.states.wait_next(lambda m: seconds(m.header.stamp) > later)
        assert len(left.states) == seen and left.states[-1].header.stamp == stands
        left.set_state(SimulationState.STATE_PLAYING)
        left.call(ResetSimulation, "reset_simulation")
        left.states.wait(lambda m: seconds(m.header.stamp) == 0.0, after=seen, what="left begins anew")
        left.start()
    robots[1].assert_running()


@pytest.mark.launch(fixture=robots)
def test_loss_of_one_controller(robots, left, right):
    left.start(), right.start()
    with Undisturbed(right):
        said = len(left.supervisor)
        robots[1].kill("/left/adaptive_mpc")
        halt = left.supervisor.wait(lambda m: m.state == HALTED, after=said, what="left halts")
        assert halt.code == SupervisorStatus.CODE_COMMAND_LOST and "no joint command" in halt.message
    robots[1].assert_running("/left/adaptive_mpc")
