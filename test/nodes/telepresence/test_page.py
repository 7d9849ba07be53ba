"""The operator's page, the bridge, the controller and the simulated avatar as one graph, in an emulated headset.

Somebody enters VR, moves an arm with a clutched hand, loses the link, comes back without loading anything, stops the robot and
goes on. A quarter of real time and wide limits for the machine's own delays, as in test/launch/test_teleop.py. The pictures of
the browser are kept in runs/test_station.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
sys.path.insert(0, str(Path(__file__).parents[2] / "launch"))  # for what launch tests share

import launch_pytest
import numpy as np
from launch import LaunchDescription
from launched import Probe, Processes, include, until
from page_watcher import CHROMIUM
from refit_interfaces.msg import OperatorSample, SupervisorStatus, TeleopStatus
from sensor_msgs.msg import JointState
from station_page import PICTURES, Station

from nodes.framework.qos import COMMAND, LEDGER, STATE
from nodes.view.stage.page import free_port

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
LIMITS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 5.0}
/**/teleop:
  ros__parameters: {state_age_limit: 5.0, sample_age_limit: 2.0, hold_after: 3.0, release_after: 10.0}
/**/telepresence_bridge:
  ros__parameters: {report: FOLDER}
/**/supervisor:
  ros__parameters: {state_age_limit: 5.0, command_age_limit: 6.0, lease_duration: 10.0, stop_timeout: 60.0}
"""
#: where the emulated right controller is held, from where it is placed [m], upright as it begins
GRIP = np.array([0.004, -0.016, 0.05])
T, S = TeleopStatus, SupervisorStatus
#: states in which a page has lost its session, or has just joined anew
GONE = T.STATE_DISCONNECTED, T.STATE_HANDSHAKE
PORT = free_port()
URL = f"http://127.0.0.1:{PORT}"


@launch_pytest.fixture(scope="module")
def avatar(domain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("station")
    (folder / "limits.yaml").write_text(LIMITS.replace("FOLDER", str(folder / "report")))
    processes = Processes()
    given = dict(real_time_factor=0.25, params_file=folder / "limits.yaml", port=PORT, run_directory=folder / "run")
    given["camera_rate"] = 1.0  # a picture takes 0.1 s of a processor, which the browser wants as well
    return LaunchDescription([*processes.handlers(), include("teleop.launch.py", **given)]), processes


@pytest.fixture(scope="module")
def probe(domain):
    node = Probe(domain)
    yield node
    node.close()


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    """Opened at its first use, when the bridge is there."""
    made = []

    def page():
        if not made:
            made.append(Station(URL, tmp_path_factory.mktemp("browser") / "profile", headset=True))
            made[0].join()
            made[0].has("seat-line", "you drive · operator: Ada")
        return made[0]

    yield page
    for each in made:
        each.close()


def xyz(p):
    """A point of a message (3,) [m]."""
    return np.array([p.x, p.y, p.z])


class Robot:
    """What the graph says of the robot."""

    def __init__(self, probe):
        self.teleop = probe.watch(T, "teleop/status", STATE)
        self.supervisor = probe.watch(S, "supervisor/status", LEDGER)
        self.states = probe.watch(JointState, "joint_states", COMMAND)
        self.samples = probe.watch(OperatorSample, "operator/sample", STATE)

    def until(self, state, what):
        return self.teleop.wait_next(lambda m: m.state == state, what=what)

    def clutches(self, page, place):
        """The operator's open hand goes to a place; once it was seen there, it presses the clutch.

        A page that stands still for seconds, as while shaders are compiled on a busy machine, joins again, and wants open hands then.
        """
        near = lambda m: not m.clutch[0] and np.abs(xyz(m.hands[0].position) - place - GRIP).max() < 0.01

        def pressed():
            page.hand(p=place, squeeze=0)
            self.samples.wait_next(near, what="the hand is seen at its place")
            self.until(T.STATE_IDLE, "hands are open")
            page.hand(squeeze=1)
            return self.teleop.wait_next(lambda m: m.state in (T.STATE_TELEOP, *GONE)).state == T.STATE_TELEOP

        until(pressed, "the clutch is felt")

    def led_to(self, place):
        """Whether the right arm has come there; False where a page that stood still for seconds has had to join again."""
        there, rejoined = False, False

        def ended():
            nonlocal there, rejoined
            m = self.teleop.wait_next()
            there, rejoined = np.abs(xyz(m.effectors[0].position) - place).max() < 0.01, m.state in GONE
            return there or rejoined

        try:
            until(ended, "the arm is where the hand is")
        except AssertionError as error:
            m = self.teleop.wait_next()
            raise AssertionError(
                f"{error}; state {m.state}, '{m.message}', arm {m.arm_mode[0]} '{m.arm_message[0]}', clutched {m.clutched[0]}, "
                f"{xyz(m.effectors[0].position) - place} m off"
            ) from None
        return there

    def effector(self):
        return xyz(self.teleop.wait_next().effectors[0].position)


@pytest.fixture
def robot(avatar, probe):
    return Robot(probe)


@pytest.mark.launch(fixture=avatar)
def test_in_vr_the_arm_follows_the_hand_while_its_clutch_is_pressed(avatar, probe, robot, station):
    probe.wait_active("sim_plant", "teleop", "supervisor", "telepresence_bridge")
    until(lambda: f"Operator's page: {URL}" in avatar[1].output("/telepresence_bridge"), "the log names the page")
    page = station()
    robot.until(T.STATE_IDLE, "samples come")
    page.has("notice-title", "READY")
    page.screenshot(PICTURES / "robot_desktop.png")
    page.size(800, 600)
    page.press("Enter VR")
    page.until(lambda: page.evaluate("!!device.activeSession"), "the headset shows the page")
    for _ in range(5):  # the first picture compiles shaders, for seconds on a busy machine
        robot.samples.wait_next(what="pictures come")
    robot.until(T.STATE_IDLE, "hands are open")

    def led():
        """Up by 6 cm and to the operator's left by 5 cm: the robot's +z and +y."""
        robot.clutches(page, [0.2, 1.1, -0.4])
        before = robot.effector()
        for share in np.linspace(0.0, 1.0, 30):
            page.hand(p=[0.2 - 0.05 * share, 1.1 + 0.06 * share, -0.4])
            robot.teleop.wait_next()
        return robot.led_to(before + [0.0, 0.05, 0.06])

    until(led, "the arm is led")
    page.screenshot(PICTURES / "vr_clutched.png")
    page.hand(squeeze=0)
    robot.until(T.STATE_IDLE, "the clutch is let go")
    after = robot.effector()
    page.hand(p=[0.3, 1.0, -0.3])
    for _ in range(10):
        assert np.abs(robot.effector() - after).max() < 0.01


@pytest.mark.launch(fixture=avatar)
def test_a_lost_link_holds_and_the_page_comes_back_in_vr(avatar, robot, station):
    page = station()
    robot.clutches(page, [0.2, 1.1, -0.4])
    session = robot.teleop[-1].session
    bridge = avatar[1].pid["/telepresence_bridge"]
    os.kill(bridge, signal.SIGSTOP)
    try:
        held = robot.until(T.STATE_HOLD, "silence holds")
        assert "nothing was heard" in held.message
        at = robot.effector()
        page.has("notice-title", "LINK LOST")
        page.hand(p=[0.3, 1.3, -0.4])
        page.screenshot(PICTURES / "vr_link_lost.png")
        robot.until(T.STATE_DISCONNECTED, "longer silence releases")
        assert np.abs(robot.effector() - at).max() < 0.01
    finally:
        os.kill(bridge, signal.SIGCONT)
        began = time.monotonic()
    joined = robot.teleop.wait_next(lambda m: m.session not in ("", session), what="a new session")
    (PICTURES / "rejoin_graph.json").write_text(json.dumps({"rejoin_s": round(time.monotonic() - began, 2)}))
    # The hand is clenched all the time, and elsewhere than before: nothing follows it.
    assert joined.state == T.STATE_HANDSHAKE
    for _ in range(10):
        assert np.abs(robot.effector() - at).max() < 0.01
    page.hand(squeeze=0)
    robot.until(T.STATE_IDLE, "an open hand is ready")
    page.hand(squeeze=1)
    robot.until(T.STATE_TELEOP, "and moves the arm again")
    page.hand(squeeze=0)
    assert page.evaluate("!!device.activeSession"), "VR went on"


@pytest.mark.launch(fixture=avatar)
def test_the_red_button_of_the_board_stops_and_the_board_resumes(avatar, robot, station):
    page = station()
    robot.until(T.STATE_IDLE, "ready")
    page.hand(p=[0.3, 1.2, -0.2])
    page.point("right", 1360, 200)  # the red button
    page.evaluate("device.quaternion.set(-0.29, 0, 0, 0.957); 0")  # the head bent by 34 degrees
    time.sleep(1.0)
    page.screenshot(PICTURES / "vr_board.png")
    page.evaluate("device.quaternion.set(0, 0, 0, 1); 0")
    page.hand(trigger=1)
    fault = robot.until(T.STATE_FAULT, "a stop is a fault")
    until(lambda: robot.supervisor[-1].state == S.STATE_HALTED, "the supervisor has halted the robot")
    page.hand(trigger=0)
    page.has("notice-sentence", f"Code {fault.code}")
    page.has("notice-remedy", "Press Resume")
    page.screenshot(PICTURES / "vr_halted.png")
    robot.states.wait_next(lambda m: np.abs(m.velocity).max() < 0.05, what="the robot rests")
    page.point("right", 200, 615)  # Resume

    def resumed():
        page.hand(trigger=1)
        time.sleep(0.3)
        page.hand(trigger=0)
        time.sleep(0.7)
        return robot.teleop[-1].state == T.STATE_IDLE

    until(resumed, "the board resumes")
    # B stops as well, and the board is not needed.
    page.hand(b_button=1)
    robot.until(T.STATE_FAULT, "B stops")
    page.hand(b_button=0)
    until(resumed, "the board resumes again")


@pytest.mark.launch(fixture=avatar)
def test_on_the_desktop_keys_move_the_arm_and_drive_and_space_stops(avatar, robot, station):
    page = station()
    page.evaluate("device.activeSession?.end()")
    page.until(lambda: not page.evaluate("!!device.activeSession"), "VR is left")
    page.size(1280, 860)
    robot.until(T.STATE_IDLE, "ready")
    before = robot.effector()
    page.key("KeyC", up=False)
    robot.until(T.STATE_TELEOP, "the clutch is felt")
    page.key("ArrowUp", up=False)
    until(lambda: robot.effector()[2] > before[2] + 0.03, "the arm goes up")
    page.screenshot(PICTURES / "robot_clutched.png")
    page.key("ArrowUp", down=False)
    page.key("KeyC", down=False)
    robot.until(T.STATE_IDLE, "the clutch is let go")
    page.key("KeyW", up=False)
    robot.teleop.wait_next(lambda m: m.base_velocity[0] > 0.02, what="the base drives")
    page.key("Space")
    robot.until(T.STATE_FAULT, "Space stops")
    page.key("KeyW", down=False)
    page.has("badge", "fault")
    page.screenshot(PICTURES / "robot_halted.png")
    robot.states.wait_next(lambda m: np.abs(m.velocity).max() < 0.05, what="the robot rests")
    until(lambda: page.press("Resume") or time.sleep(1.0) or robot.teleop[-1].state == T.STATE_IDLE, "resumed")
    page.press("Home arms")
    robot.teleop.wait_next(lambda m: "goes home" in m.arm_mode, what="the arms go home")
    robot.teleop.wait_next(lambda m: list(m.arm_mode) == ["holds", "holds"], what="home")
    avatar[1].assert_running()


@pytest.mark.launch(fixture=avatar)
def test_what_the_operator_looks_at_becomes_straight_ahead(avatar, robot, station):
    page = station()
    robot.until(T.STATE_IDLE, "ready")

    def yaw(state):
        return state.position[list(state.name).index("head_yaw")]

    page.key("KeyB", up=False)
    robot.states.wait_next(lambda m: yaw(m) > 0.4, what="the head turns to the left")
    page.key("KeyB", down=False)
    page.press("Look straight ahead")
    robot.states.wait_next(lambda m: abs(yaw(m)) < 0.1, what="it looks straight ahead")
    page.press("Look straight ahead")
    robot.states.wait_next(lambda m: yaw(m) > 0.4, what="it looks where the operator looks again")


@pytest.mark.launch(fixture=avatar, shutdown=True)
def test_everybody_ends_well(avatar):
    avatar[1].assert_ended_well()
