"""SIGKILL while a Panda is controlled: the refit, whose loss degrades control, and the recorder, whose bag stays of use.

The arm picks up a payload that it has to learn, so that last good parameters differ from nominal ones.
"""

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include, seconds, until
from refit_interfaces.msg import ControllerStatus, JointCommand, SupervisorStatus

from identification.bag_data import read_description, read_windows
from nodes.framework.qos import COMMAND, LEDGER, STATE
from recording import BagReader

# A quarter of real time and wide limits for states and commands, so that a busy machine is not mistaken
# for a lost node; narrow ones for the refit, so that they are reached soon.
FACTOR = 0.25
LIMITS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 0.5}
/**/adaptive_mpc:
  ros__parameters: {control_period: 0.02, state_age_limit: 0.5, refit_silence_limit: 1.0, nominal_after: 2.5}
/**/supervisor:
  ros__parameters: {state_age_limit: 0.7, command_age_limit: 0.7, refit_age_limit: 1.0, lease_duration: 5.0}
"""
PERIOD = 0.02  # as in LIMITS
NOMINAL, REFIT, LAST_GOOD = (
    ControllerStatus.PARAMETERS_NOMINAL,
    ControllerStatus.PARAMETERS_REFIT,
    ControllerStatus.PARAMETERS_LAST_GOOD,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("killed")


@launch_pytest.fixture(scope="module")
def panda(domain, folder):
    (folder / "limits.yaml").write_text(LIMITS)
    processes = Processes()
    return LaunchDescription(
        [
            *processes.handlers(),
            include(
                "sim.launch.py",
                robot="panda",
                real_time_factor=FACTOR,
                record=True,
                run_directory=folder,
                params_file=folder / "limits.yaml",
                scenario="[{time: 0.5, action: attach, frame: hand, mass: 2.0}]",
            ),
        ]
    ), processes


@pytest.mark.launch(fixture=panda)
def test_control_goes_on_without_its_refit(panda, probe):
    processes = panda[1]
    status = probe.watch(ControllerStatus, "controller/status", STATE)
    commands = probe.watch(JointCommand, "joint_command", COMMAND)
    supervisor = probe.watch(SupervisorStatus, "supervisor/status", LEDGER)
    probe.wait_active("sim_plant", "adaptive_mpc", "refit_worker", "supervisor", "recorder")
    status.wait(lambda m: m.parameters_source == REFIT and m.parameters_revision >= 1, what="a revision from the refit")
    supervisor.wait(lambda m: m.state == SupervisorStatus.STATE_RUNNING, what="running")
    # A status may come before the command that it tells of, and before older commands.
    commands.wait(lambda c: c.parameters_revision >= 1, what="a command by that revision")

    seen, sent, said = len(status), len(commands), len(supervisor)
    processes.kill("/refit_worker")

    last_good = status.wait(
        lambda m: m.parameters_source == LAST_GOOD and "refit silent" in m.message,
        after=seen,
        what="last good parameters",
    )
    assert last_good.parameters_revision >= 1
    nominal = status.wait(
        lambda m: m.parameters_source == NOMINAL and "back to nominal" in m.message,
        after=seen,
        what="nominal parameters",
    )
    assert nominal.parameters_revision == 0
    degraded = supervisor.wait(lambda m: m.state == SupervisorStatus.STATE_DEGRADED, after=said, what="degraded")
    assert degraded.code == SupervisorStatus.CODE_REFIT_LOST and "control goes on" in degraded.message
    end = seconds(nominal.header.stamp) + 0.5
    for topic in (status, commands):
        topic.wait(lambda m: seconds(m.header.stamp) > end, what="half a second more")

    # In this order, and never anything but tracking in between.
    sources = [m.parameters_source for m in status[seen:]]
    assert sources == sorted(sources, key=[REFIT, LAST_GOOD, NOMINAL].index)
    assert {m.state for m in status[seen:]} == {ControllerStatus.STATE_TRACKING}
    assert {m.state for m in supervisor[said:]} == {SupervisorStatus.STATE_DEGRADED}
    revisions = [c.parameters_revision for c in commands[sent:]]
    assert revisions[0] >= 1 and revisions[-1] == 0
    # At its rate: a command per period, save for those that a busy machine swallows.
    stamps = np.array([seconds(c.header.stamp) for c in commands[sent:]])
    assert np.median(np.diff(stamps)) == pytest.approx(PERIOD)
    assert len(stamps) >= 0.8 * (stamps[-1] - stamps[0]) / PERIOD
    processes.assert_running("/refit_worker")


@pytest.mark.launch(fixture=panda)
def test_bag_of_a_killed_recorder(panda, probe, folder):
    """Readable up to the last chunk, and good enough to be identified from."""
    status = probe.watch(ControllerStatus, "controller/status", STATE)
    before = seconds(status.wait_next().header.stamp)
    # One flush period of the recorder, in the time of the robot; what is older must be on disk.
    until(lambda: seconds(status[-1].header.stamp) > before + 2.0 * FACTOR, "two seconds of wall time")
    panda[1].kill("/recorder")
    bag = BagReader(folder / "bag")
    assert "cut off" in bag.truncated
    model, _ = read_description(bag, "panda")
    data = read_windows(bag, model)
    assert data.dt == pytest.approx(0.002)
    assert max(w.t[-1] for w in data.windows) + seconds(first(bag)) >= before
    panda[1].assert_running("/refit_worker", "/recorder")


def first(bag):
    """Stamp of the first joint state."""
    return next(iter(bag.messages("joint_states")))[1].header.stamp
