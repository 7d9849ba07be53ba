"""The graph that digs, in lock-step, on bad days: goals that make no sense, too few motions, a client and an operator that interrupt it.

A good day is the demonstration's (`./refit demo excavation --quick`), which the test command runs.
"""

from pathlib import Path

import launch_pytest
import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from launch import LaunchDescription
from launched import SPARING, Processes, include, until
from refit_interfaces.action import RunExcavation
from refit_interfaces.msg import ExcavationPlan
from std_msgs.msg import String
from std_srvs.srv import Trigger

from nodes.framework.qos import LATCHED, LEDGER
from sim_core.planning.checkpoint import load

LIMITS = """
/**/excavation:
  ros__parameters: {picture_patience: 60.0, patience: 120.0}
/**/bucket_arm:
  ros__parameters: {halt_patience: 60.0}
/**/supervisor:
  ros__parameters: {stop_timeout: 2.0}
"""


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("excavation") / "limits.yaml"
    settings.write_text(LIMITS + SPARING)
    processes = Processes()
    dig = include(
        "excavation.launch.py",
        policy="follow",
        lockstep=True,
        real_time_factor=0.5,  # until somebody moves
        params_file=settings,
        directory=tmp_path_factory.mktemp("trials"),
    )
    return LaunchDescription([*processes.handlers(), dig]), processes


class Watch:
    """What the planner and the arm say.

    Attributes:
        phases: of the goal under way. plans: of all trials. where: the bucket is.
    """

    def __init__(self, probe):
        self.probe, self.phases = probe, []
        self.plans = probe.watch(ExcavationPlan, "excavation/plan", LEDGER)
        self.where = probe.watch(String, "bucket/where", LATCHED)

    def send(self, **goal):
        self.phases.clear()
        heard = lambda message: self.phases.append(message.feedback.phase)
        asked = RunExcavation.Goal(**{"path": "medium", **goal})
        return self.probe.send_goal(RunExcavation, "excavation/run_trial", asked, feedback=heard)

    def at(self, motion):
        until(lambda: any(phase.startswith(f"motion {motion},") for phase in self.phases), f"motion {motion}")

    def result(self, handle):
        future = self.probe._sent(handle.get_result_async)
        until(future.done, "the trial's result")
        return future.result().result, future.result().status

    def plan(self, step, after=0):
        return self.plans.wait(lambda plan: plan.step == step, after=after, what=f"plan {step}")


@pytest.fixture(scope="module")
def watch(probe):
    return Watch(probe)


@pytest.mark.launch(fixture=graph)
@pytest.mark.parametrize("wrong", [dict(path="abyss"), dict(policy="luck")])
def test_goals_that_make_no_sense_are_refused(graph, probe, watch, wrong):
    probe.wait_active("sim_plant", "bucket_arm", "supervisor", "sim_camera", "excavation")
    with pytest.raises(AssertionError, match="refused its goal"):
        watch.send(**wrong)


@pytest.mark.launch(fixture=graph)
def test_a_trial_of_too_few_motions_is_lifted_weighed_and_says_so(graph, probe, watch):
    probe.set_pace(0.0)
    found, status = watch.result(watch.send(longest=2))
    assert status == GoalStatus.STATUS_ABORTED and not found.success and not found.finished and not found.jammed
    assert "not reached within 2 motions" in found.message and "were lifted" in found.message
    assert len(found.motions) == 2 and 0.0 <= found.mass < 0.05  # it was just above the surface
    assert found.position_error < 0.02 and found.peak < 60.0
    watch.where.wait(lambda message: message.data == "at home", after=len(watch.where) - 1, what="the arm at home")


@pytest.mark.launch(fixture=graph)
def test_a_cancelled_trial_ends_lifted_and_goes_on_with_the_same_next_motion(graph, probe, watch):
    """By a policy that plans, with pictures of the overhead camera where the network sees."""
    handle = watch.send(policy="bf3", longest=3, seed=4)
    watch.at(2)
    first = watch.plan(1, after=len(watch.plans) - 2)
    probe._sent(handle.cancel_goal_async)
    found, status = watch.result(handle)
    assert status == GoalStatus.STATUS_CANCELED and "can be resumed from" in found.message
    assert watch.where[-1].data == "lifted"
    kept = load(Path(found.checkpoint))["trial"]
    assert kept["actions"] == list(found.motions) and len(kept["actions"]) == 1
    before = len(watch.plans)
    resumed, _ = watch.result(watch.send(resume=found.checkpoint))
    again = watch.plan(1, after=before)
    assert again.motions == first.motions and again.total == pytest.approx(first.total)
    np.testing.assert_allclose(again.poses, first.poses)
    assert len(resumed.motions) == 3 and list(resumed.motions[:2]) == [*found.motions, first.motions[0]]
    assert "not reached within 3 motions" in resumed.message


@pytest.mark.launch(fixture=graph)
def test_an_operator_stops_it_and_the_trial_ends_with_a_sentence(graph, probe, watch):
    handle = watch.send(longest=9)
    watch.at(1)
    probe.call(Trigger, "stop")
    assert until(lambda: probe.call(Trigger, "resume").success, "the supervisor resumes")
    found, status = watch.result(handle)
    assert status == GoalStatus.STATUS_ABORTED and not found.success
    assert "stopped by an operator" in found.message and "can be resumed from" in found.message


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_it_ends_well(graph):
    graph[1].assert_ended_well()
