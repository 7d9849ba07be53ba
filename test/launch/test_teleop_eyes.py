"""The launch file of telepresence: an eye of the simulated avatar is drawn while somebody looks through it, and shows what it sees."""

import io
import os

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include
from PIL import Image
from sensor_msgs.msg import CompressedImage

from nodes.framework.qos import GLANCE

pytestmark = pytest.mark.skipif(os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here")


@launch_pytest.fixture(scope="module")
def graph(domain):
    processes = Processes()
    avatar = include("teleop.launch.py", port=0, cameras="left_eye", real_time_factor=0.25)
    return LaunchDescription([*processes.handlers(), avatar]), processes


@pytest.mark.launch(fixture=graph)
def test_an_eye_is_seen_through(graph, probe):
    probe.wait_active("sim_plant", "teleop", "telepresence_bridge", "sim_camera")
    seen = probe.watch(CompressedImage, "camera/left_eye/image/compressed", GLANCE)
    picture = np.asarray(Image.open(io.BytesIO(bytes(seen.wait(what="a picture").data))), float)
    assert picture.shape == (240, 320, 3) and picture.std() > 20.0
    seen.wait_next(what="the next picture")


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_it_ends_well(graph):
    graph[1].assert_ended_well()
