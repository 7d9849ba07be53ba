"""A scanner in a known scene from one launch: emulator, driver, node and recorder; a goal finds it, and all end and leave nothing."""

import tempfile
from pathlib import Path

import launch_pytest
import pytest
from launch import LaunchDescription
from launched import Processes, include, until
from refit_interfaces.action import LocalizeScan
from sensor_msgs.msg import LaserScan
from visualization_msgs.msg import MarkerArray

from nodes.framework.qos import LATCHED, STATE
from recording import BagError, BagReader

SCENE = Path(__file__).resolve().parents[2] / "data" / "lidar" / "box.yaml"
RECORDED = ("scan", *(f"lidar/{name}" for name in ("estimate", "scene", "sensor", "returns", "phases")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@launch_pytest.fixture(scope="module")
def graph(domain, folder):
    processes = Processes()
    action = include("lidar.launch.py", scene=SCENE, use_emulators=True, record=True, run_directory=folder)
    return LaunchDescription([*processes.handlers(), action]), processes


@pytest.mark.launch(fixture=graph)
def test_a_goal_finds_the_scanner(graph, probe, folder):
    probe.wait_active("urg", "lidar", "recorder")
    scans, scenes = probe.watch(LaserScan, "scan", STATE), probe.watch(MarkerArray, "lidar/scene", LATCHED)
    until(lambda: len(scans) > 2 and len(scenes), "scans and the scene")
    handle = probe.send_goal(LocalizeScan, "lidar/localize", LocalizeScan.Goal(guess=[0.1, 0.05, 0.3]))
    result = probe.result(handle)
    assert result.outcome == LocalizeScan.Result.FOUND, result.message
    assert list(result.estimate.values) == pytest.approx([0.0, 0.0, 0.0], abs=5e-3)
    graph[1].assert_running()

    def written():  # on a busy machine a recorder hears of a topic seconds later
        try:
            BagReader(folder / "bag").require(*RECORDED)
        except BagError:
            return False
        return True

    until(written, "all of it is in the bag")


@pytest.mark.launch(fixture=graph)
def test_nothing_is_left_but_the_bag(graph, folder):
    ports = set(Path(tempfile.gettempdir()).glob("refit-devices-*"))
    assert ports
    yield
    graph[1].assert_ended_well()
    assert {path for path in ports if path.exists()} < ports  # this launch's folder is gone
    bag = BagReader(folder / "bag")
    bag.require(*RECORDED)
    assert not bag.truncated
