"""The launch file of telepresence: a task stands before the avatar, a plate before its wrist is scanned, and the camera draws only meanwhile."""

import json
import os

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include
from rcl_interfaces.srv import GetParameters
from refit_interfaces.msg import RehearsalStatus
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from nodes.framework.qos import LATCHED, STATE
from nodes.telepresence.bridge import texture_of
from sim_core.telepresence.texture.surfaces import texture_surface

pytestmark = pytest.mark.skipif(os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here")


@launch_pytest.fixture(scope="module")
def graph(domain):
    processes = Processes()
    avatar = include(
        "teleop.launch.py",
        port=0,
        cameras="",
        surface="grooves",
        rehearsal="switch",
        rehearsal_seed=2,
        real_time_factor=0.25,
    )
    return LaunchDescription([*processes.handlers(), avatar]), processes


@pytest.mark.launch(fixture=graph)
def test_what_is_before_the_wrist_is_felt(graph, probe):
    probe.wait_active("sim_plant", "teleop", "telepresence_bridge", "texture_camera", "texture_scan")
    answer = probe.call(Trigger, "teleop/texture_scan", Trigger.Request())
    assert answer.success, answer.message
    said, truth = json.loads(answer.message), texture_surface("grooves", 0)
    assert said["surface"] == "grooves" and said["certainty"] > 0.9
    texture = texture_of(answer.message)
    assert texture.roughness_mm == pytest.approx(1e3 * truth.roughness, rel=0.15)
    assert texture.frequency_hz == pytest.approx(114.0) and np.ptp(texture.sound) > 0.1
    depth = "wrist_camera/aligned_depth_to_color/image_raw"
    assert probe.node.count_publishers(depth) == 1
    assert not probe.node.count_publishers("camera/aligned_depth_to_color/image_raw")


@pytest.mark.launch(fixture=graph)
def test_the_task_is_that_of_its_name_and_seed_for_plant_and_camera(graph, probe):
    told = probe.watch(RehearsalStatus, "sim_plant/rehearsal", LATCHED).wait()
    assert told.task == "switch" and told.sentence == "Press the lever down." and not told.done
    where = probe.watch(JointState, "sim_plant/scenery", STATE).wait()
    assert list(where.name) == ["switch/lever"] and where.position[0] == pytest.approx(0.0, abs=0.01)
    asked = GetParameters.Request(names=["rehearsal", "rehearsal_seed"])
    seen = probe.call(GetParameters, "texture_camera/get_parameters", asked).values
    assert (seen[0].string_value, seen[1].integer_value) == ("switch", 2)


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_it_ends_well(graph):
    graph[1].assert_ended_well()
