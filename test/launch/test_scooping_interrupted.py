"""The graph that collects a sample, in lock-step, interrupted while the scoop is in the ground: by its client, by an operator, by grains.

The grains are paper balls, of which few make a tray; the arm stops at a force that they reach.
"""

import json
from pathlib import Path

import launch_pytest
import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from launch import LaunchDescription
from launched import SPARING_SERVOS, Processes, include, until
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from refit_interfaces.action import CollectSample
from std_msgs.msg import String
from std_srvs.srv import Trigger

from nodes.framework.qos import LATCHED, STATE
from sim_core.multibody import load_model
from sim_core.planning.checkpoint import load
from sim_core.scooping.arm.tray import Tray

LIMITS = """
/**/scooping:
  ros__parameters: {picture_patience: 30.0}
/**/scoop_arm:
  ros__parameters: {force_limit: 5.0, halt_patience: 60.0}
/**/supervisor:
  ros__parameters: {stop_timeout: 2.0}
"""
S = GoalStatus
#: where the scoop is among grains
INSIDE = ("going into the ground", "dragging", "closing")


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("scooping") / "limits.yaml"
    settings.write_text(LIMITS + SPARING_SERVOS)
    processes = Processes()
    search = include(
        "scooping.launch.py",
        tray="paper balls",
        policy="swept",
        lockstep=True,
        real_time_factor=0.5,  # until somebody moves
        params_file=settings,
        directory=tmp_path_factory.mktemp("searches"),
    )
    return LaunchDescription([*processes.handlers(), search]), processes


class Watch:
    """What the search and the arm say.

    Attributes:
        phases: of the goal under way. searches: as kept after each scoop. blades: of the arm.
    """

    def __init__(self, probe):
        self.probe, self.phases = probe, []
        self.searches = probe.watch(String, "scoop/search", LATCHED)
        self.blades = probe.watch(PoseStamped, "scoop/blade", STATE)
        tray = Tray.of(load_model("ur5e_scoop"))
        self.floor = float(tray.pose.position[2])

    def in_the_ground(self, **goal):
        """The handle of a search whose scoop is among the grains."""
        self.phases.clear()
        asked = CollectSample.Goal(**{"threshold": 1e-3, "budget": 3, "gamma": -1.0, **goal})
        heard = lambda message: self.phases.append(message.feedback.phase)
        handle = self.probe.send_goal(CollectSample, "scoop/collect_sample", asked, feedback=heard)
        until(lambda: any(phase in INSIDE for phase in self.phases), "the scoop goes into the ground")
        return handle

    def result(self, handle):
        future = self.probe._sent(handle.get_result_async)
        until(future.done, "the search's result")
        return future.result().result, future.result().status

    def out_of_the_ground(self):
        self.blades.wait_next(lambda m: m.pose.position.z > self.floor + 0.15, what="the scoop is out of the ground")


@pytest.fixture(scope="module")
def watch(probe):
    return Watch(probe)


@pytest.mark.launch(fixture=graph)
def test_a_client_calls_it_back_with_the_scoop_in_the_ground(graph, probe, watch):
    probe.wait_active("sim_plant", "scoop_arm", "supervisor", "sim_camera", "scooping")
    probe.set_pace(0.0)
    handle = watch.in_the_ground()
    probe._sent(handle.cancel_goal_async)
    found, status = watch.result(handle)
    assert status == S.STATUS_CANCELED and not found.success
    assert (
        found.message.startswith("cancelled; the search can be resumed from")
        and not load(Path(found.checkpoint))["attempts"]
    )
    watch.out_of_the_ground()


@pytest.mark.launch(fixture=graph)
def test_an_operator_stops_it_and_nothing_is_learnt_of_that_scoop(graph, probe, watch):
    handle = watch.in_the_ground()
    probe.call(Trigger, "stop")  # time stands still in lock-step: whether the joints rest is not known
    assert until(lambda: probe.call(Trigger, "resume").success, "the supervisor resumes")
    watch.out_of_the_ground()
    watch.searches.wait_next(lambda m: json.loads(m.data)["attempts"], what="the scoop is counted")
    probe._sent(handle.cancel_goal_async)
    found, _ = watch.result(handle)
    first, *_ = load(Path(found.checkpoint))["attempts"]
    assert first["volume"] is None and "halted by the supervisor: stopped by an operator" in first["message"]


@pytest.mark.launch(fixture=graph)
def test_grains_that_push_too_much_stop_it_and_the_scoop_comes_up_empty(graph, probe, watch):
    handle = watch.in_the_ground(budget=1)
    found, _ = watch.result(handle)
    assert not found.success and list(found.volumes) == [0.0] and "the budget of 1 scoops is used" in found.message
    (only,) = load(Path(found.checkpoint))["attempts"]
    assert only["peak"] > 5.0 and only["message"].startswith("Too much force: ")
    watch.out_of_the_ground()


@pytest.mark.launch(fixture=graph)
def test_a_node_that_is_deactivated_calls_its_scoop_back(graph, probe, watch):
    handle, called_back = watch.in_the_ground(), "Cancelled: it was called back"
    before = graph[1].output("/scoop_arm").count(called_back)
    request = ChangeState.Request()
    request.transition.id = Transition.TRANSITION_DEACTIVATE
    assert probe.call(ChangeState, "scooping/change_state", request).success
    found, _ = watch.result(handle)
    assert not found.success and "the node is not active any more" in found.message
    until(lambda: graph[1].output("/scoop_arm").count(called_back) > before, "the arm calls it back")
    watch.out_of_the_ground()


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_everybody_ends_well(graph):
    graph[1].assert_ended_well()
