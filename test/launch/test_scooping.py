"""The graph that collects a sample, in lock-step, on bad days: nothing to scoop, a camera that is gone, goals that make no sense.

A good day is the demonstration's (`./refit demo scooping --quick`), which the test command runs.
"""

import importlib.util
from pathlib import Path

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import SPARING_SERVOS, Processes, include
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from refit_interfaces.action import CollectSample
from refit_interfaces.srv import MeasureVolume, PredictScoops

from sim_core.planning.checkpoint import load

LIMITS = """
/**/scooping:
  ros__parameters: {picture_patience: 20.0, patience: 120.0}
"""


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("scooping") / "limits.yaml"
    settings.write_text(LIMITS + SPARING_SERVOS)
    processes = Processes()
    search = include(
        "scooping.launch.py",
        tray="crumbs",
        policy="swept",
        lockstep=True,
        real_time_factor=0.5,  # until somebody moves
        params_file=settings,
        directory=tmp_path_factory.mktemp("searches"),
    )
    return LaunchDescription([*processes.handlers(), search]), processes


def set_parameter(probe, node, name, value):
    request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
    answer = probe.call(SetParameters, f"{node}/set_parameters", request).results[0]
    assert answer.successful, answer.reason


def set_fault(probe, fault):
    set_parameter(probe, "sim_camera", "fault", fault)


@pytest.mark.launch(fixture=graph)
def test_a_tray_with_next_to_nothing_in_it_ends_the_search(graph, probe):
    probe.wait_active("sim_plant", "scoop_arm", "supervisor", "sim_camera", "scooping")
    probe.set_pace(0.0)
    goal = CollectSample.Goal(threshold=30e-6, budget=2, gamma=-1.0)
    found = probe.result(probe.send_goal(CollectSample, "scoop/collect_sample", goal))
    assert not found.success and "no scoop is left to try" in found.message and "too near to the tray" in found.message
    assert found.attempts == 0
    assert len(load(Path(found.checkpoint))["planner"]["closed"]["too near to the tray"]) == 11_520


@pytest.mark.launch(fixture=graph)
def test_scoops_are_foretold_and_a_load_is_measured_only_where_it_can_be(graph, probe):
    told = probe.call(PredictScoops, "scoop/predict", PredictScoops.Request(actions=[0.55, 0.0, 0.0, 0.05, 1.0]))
    assert told.success, told.message
    assert len(told.mean) == len(told.deviation) == 1
    assert np.isnan(told.mean[0])  # so deep there is the tray's floor
    assert told.deviation[0] == 0.0  # what the blade passes through is believed without a doubt
    if importlib.util.find_spec("torch"):
        set_parameter(probe, "scooping", "policy", "codega_places")
        told = probe.call(PredictScoops, "scoop/predict", PredictScoops.Request(actions=[0.55, 0.0, 0.0, 0.05, 1.0]))
        assert told.success and told.deviation[0] > 0.0, told.message
        set_parameter(probe, "scooping", "policy", "swept")
    told = probe.call(PredictScoops, "scoop/predict", PredictScoops.Request(actions=[0.55, 0.0]))
    assert not told.success and "five finite numbers" in told.message
    told = probe.call(MeasureVolume, "scoop/measure_volume", MeasureVolume.Request())
    assert not told.success and "call scoop/measure_pose first" in told.message


@pytest.mark.launch(fixture=graph)
def test_a_camera_that_is_gone_ends_the_search_with_a_sentence(graph, probe):
    set_fault(probe, "frozen")
    # The patience is of the wall's time, in which the robot's need not go by as fast as it can: twenty pictures are missed so too.
    probe.set_pace(0.2)
    goal = CollectSample.Goal(threshold=30e-6, budget=2, gamma=-1.0)
    found = probe.result(probe.send_goal(CollectSample, "scoop/collect_sample", goal))
    assert not found.success and "no picture came within 20 s" in found.message and "can be resumed" in found.message
    probe.set_pace(0.0)
    set_fault(probe, "")


@pytest.mark.launch(fixture=graph)
@pytest.mark.parametrize("wrong", [dict(threshold=0.0), dict(threshold=1e-5, policy="luck")])
def test_goals_that_make_no_sense_are_refused(graph, probe, wrong):
    with pytest.raises(AssertionError, match="refused its goal"):
        probe.send_goal(CollectSample, "scoop/collect_sample", CollectSample.Goal(**wrong))


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_it_ends_well(graph):
    graph[1].assert_ended_well()
