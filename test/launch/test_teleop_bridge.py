"""The bridge to the operator's page is killed while an arm follows: the robot holds, and the page comes back to another bridge by itself."""

import asyncio
import socket
import sys
import threading
from pathlib import Path

import launch_pytest
import numpy as np
import pytest

aiohttp = pytest.importorskip("aiohttp", reason="the tier 'telepresence' is not installed: ./refit setup telepresence")
sys.path.insert(0, str(Path(__file__).parents[1] / "nodes" / "telepresence"))

from launch import LaunchDescription
from launched import Processes, include, until
from link_client import LinkClient
from refit_interfaces.msg import TeleopStatus
from sensor_msgs.msg import JointState

from nodes.framework.qos import COMMAND, STATE
from nodes.telepresence.protocol import Hand

# As in test_teleop.py, and a bridge that comes back before its operator counts as gone.
LIMITS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 1.0}
/**/teleop:
  ros__parameters: {state_age_limit: 1.0, sample_age_limit: 0.25, hold_after: 0.4, release_after: 2.0}
/**/supervisor:
  ros__parameters: {state_age_limit: 1.0, command_age_limit: 1.5, lease_duration: 5.0, stop_timeout: 60.0}
"""
T = TeleopStatus


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@launch_pytest.fixture(scope="module")
def avatar(domain, tmp_path_factory):
    settings, port = tmp_path_factory.mktemp("bridge") / "limits.yaml", free_port()
    settings.write_text(LIMITS)
    processes = Processes()
    graph = include("teleop.launch.py", cameras="", port=port, real_time_factor=0.25, params_file=settings)
    return LaunchDescription([*processes.handlers(), graph]), processes, port


class Page:
    """What a page does: samples at 50 Hz, and a new connection wherever the old one has gone.

    Attributes:
        clutch: of the right hand. up: how far that hand is raised [m]. sessions: that it has had.
    """

    def __init__(self, port):
        self._url, self.clutch, self.up, self.sessions = f"http://127.0.0.1:{port}/link", False, 0.0, []
        self._end = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self._thread.start()

    async def _live(self):
        while not self._end.is_set():
            try:
                async with aiohttp.ClientSession() as session:
                    client = await LinkClient(session, self._url).connect()
                    await client.hello()
                    self.sessions.append(client.welcome.session)
                    await client.aligned()
                    while not self._end.is_set() and not client.closed:
                        hand = Hand((0.2, 1.1 + self.up, -0.4), (0.0, 0.0, 0.0, 1.0), self.clutch, 0.0)
                        await client.sample(right=hand)
                        await asyncio.sleep(0.02)
            except (aiohttp.ClientError, OSError):
                await asyncio.sleep(0.2)

    def close(self):
        self._end.set()
        self._thread.join()


@pytest.mark.launch(fixture=avatar)
def test_a_killed_bridge_leaves_the_robot_holding_and_comes_back_without_a_launch(avatar, probe):
    processes, port = avatar[1:]
    said, states = probe.watch(T, "teleop/status", STATE), probe.watch(JointState, "joint_states", COMMAND)
    probe.wait_active("sim_plant", "teleop", "supervisor", "telepresence_bridge")
    page = Page(port)
    try:
        said.wait_next(lambda m: m.state == T.STATE_IDLE, what="joined")
        page.clutch = True
        said.wait_next(lambda m: m.state == T.STATE_TELEOP, what="the clutch is felt")
        for page.up in np.linspace(0.0, 0.05, 20):
            said.wait_next()
        pid = processes.pid["/telepresence_bridge"]
        processes.kill("/telepresence_bridge")
        said.wait_next(lambda m: m.state == T.STATE_HOLD and "nothing was heard" in m.message, what="the robot holds")
        rest = states.wait_next(lambda m: np.abs(m.velocity).max() < 0.02, what="the robot stands")
        page.up = 0.3  # the hand goes on, clenched
        until(lambda: processes.pid["/telepresence_bridge"] != pid, "it is started again")
        joined = said.wait_next(lambda m: m.session == page.sessions[-1] != page.sessions[0], what="the page is back")
        assert joined.state == T.STATE_HANDSHAKE and "release both clutches" in joined.message
        for _ in range(10):
            assert said.wait_next().state == T.STATE_HANDSHAKE
        assert np.abs(np.array(states.wait_next().position) - rest.position).max() < 0.01
        page.clutch = False
        said.wait_next(lambda m: m.state == T.STATE_IDLE, what="the hand has opened")
        page.clutch = True
        said.wait_next(lambda m: m.state == T.STATE_TELEOP, what="and leads the arm again")
        processes.assert_running("/telepresence_bridge")
    finally:
        page.close()


@pytest.mark.launch(fixture=avatar, shutdown=True)
def test_everybody_ends_well(avatar):
    avatar[1].assert_ended_well()
