"""The live view in the graph of a Panda that moves: read only while somebody looks, and its buttons are the supervisor's.

The pictures of the browser are kept in runs/test_view. A quarter of real time and wide age limits, as in test_operator.py.
"""

import os
import sys
from pathlib import Path

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include, until
from refit_interfaces.msg import SupervisorStatus
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all tests share

pytest.importorskip("viser", reason="the tier 'view' is not installed: ./refit setup view")

from page_watcher import CHROMIUM, Chromium, Watcher

from nodes.framework.qos import COMMAND, LEDGER
from nodes.view.stage.page import free_port

LIMITS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 1.0}
/**/adaptive_mpc:
  ros__parameters: {state_age_limit: 1.0}
/**/supervisor:
  ros__parameters: {state_age_limit: 1.5, command_age_limit: 2.0, lease_duration: 5.0, stop_timeout: 60.0}
"""
PICTURES = Path(__file__).resolve().parents[2] / "runs" / "test_view"
PORT = free_port()
S = SupervisorStatus
AT_REST = 0.02  # [rad/s]
READ = {"/joint_states", "/controller/plan", "/controller/status", "/refit/parameters", "/supervisor/status"}


@launch_pytest.fixture(scope="module")
def panda(domain, tmp_path_factory):
    limits = tmp_path_factory.mktemp("view") / "limits.yaml"
    limits.write_text(LIMITS)
    processes = Processes()
    given = dict(robot="panda", real_time_factor=0.25, params_file=limits, view=True, view_port=PORT)
    return LaunchDescription([*processes.handlers(), include("sim.launch.py", **given)]), processes


@pytest.fixture(scope="module")
def read(probe):
    """() -> names of the topics that the view reads."""

    def names():
        found = dict(probe.node.get_subscriber_names_and_types_by_node("view", "/"))
        return {name for name in found if name in READ}

    return names


def running(probe):
    probe.wait_active("sim_plant", "adaptive_mpc", "supervisor", "view")
    status = probe.watch(SupervisorStatus, "supervisor/status", LEDGER)
    until(lambda: len(status) and status[-1].state in (S.STATE_RUNNING, S.STATE_DEGRADED), "the arm is commanded")
    return status


def processor_time(pid):
    """[s] that a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.launch(fixture=panda)
def test_nothing_is_read_while_nobody_looks(panda, probe, read):
    running(probe)
    until(lambda: f"Live view: http://127.0.0.1:{PORT}" in panda[1].output("/view"), "the log names the page")
    assert read() == set()
    pid = panda[1].pid["/view"]
    # Of the process's own time, which a busy machine hardly changes: 0.03 s are usual.
    before = processor_time(pid)
    states = probe.watch(JointState, "joint_states", COMMAND)
    begin = states.wait_next().header.stamp.sec
    states.wait_next(lambda m: m.header.stamp.sec >= begin + 2, what="two seconds of the plant's time")
    assert processor_time(pid) - before < 0.6
    with Watcher(PORT):
        until(lambda: read() == READ, "the view reads")
    until(lambda: read() == set(), "the view has stopped reading")
    panda[1].assert_running()


@pytest.mark.launch(fixture=panda)
def test_pages_of_other_sites_are_refused(panda, probe, read):
    from websockets.exceptions import InvalidStatus

    running(probe)
    with pytest.raises(InvalidStatus, match="403"):
        Watcher(PORT, origin="http://example.org")
    with Watcher(PORT, origin=f"http://localhost:{PORT}"):
        until(lambda: read() == READ, "its own page is let in")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.launch(fixture=panda)
def test_the_buttons_of_the_page_halt_and_resume_the_arm(panda, probe, tmp_path):
    status = running(probe)
    states = probe.watch(JointState, "joint_states", COMMAND)
    with Chromium(f"http://127.0.0.1:{PORT}", tmp_path / "browser") as page:
        page.until(lambda: "RUNNING" in page.text(), "the page says that the arm runs", 180.0)
        page.until(
            lambda: "revision" in page.text() and "mm" in page.text(), "the page shows the controller's status", 180.0
        )
        moving = page.screenshot(PICTURES / "running.png")
        page.press("Stop")
        until(lambda: status[-1].state == S.STATE_HALTED, "the supervisor halts")
        assert status[-1].code == S.CODE_OPERATOR_STOP
        states.wait_next(lambda m: np.abs(m.velocity).max() < AT_REST, what="the arm rests")
        page.until(lambda: "stop: done. stopped: all joints are at rest" in page.text(), "the page says the answer")
        halted = page.screenshot(PICTURES / "halted.png")
        page.press("Resume")
        until(lambda: status[-1].state == S.STATE_RUNNING, "the arm goes on")
        page.until(lambda: "resume: done. ready" in page.text(), "the page says that answer, too")
        assert probe.call(Trigger, "disarm").success
        page.until(lambda: "DISARMED" in page.text(), "the page says that nobody may command")
        page.press("Arm")
        until(lambda: status[-1].state == S.STATE_RUNNING, "the armed arm goes on")
        page.until(lambda: "arm: done. armed: adaptive_mpc may command" in page.text(), "the page says that one, too")
        page.press("Learnt")
        page.until(lambda: "hand.payload.mass" in page.text(), "the tab of what was learnt")
        page.screenshot(PICTURES / "learnt.png")
        page.press("Devices")
        page.until(lambda: "adaptive_mpc" in page.text() and "supervisor" in page.text(), "the tab of the devices")
        page.screenshot(PICTURES / "devices.png")
    assert len(moving) > 40_000 and moving != halted
    assert panda[1].output("/view").count("was pressed in the live view") == 3
    panda[1].assert_running()


@pytest.mark.launch(fixture=panda, shutdown=True)
def test_everybody_ends_well(panda):
    panda[1].assert_ended_well()
