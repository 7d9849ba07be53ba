"""A soft object, the robot with a probe and its supervisor as one graph, in lock-step and recorded: good and bad days, and what the bag says."""

import launch_pytest
import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from launch import LaunchDescription
from launched import SPARING, Processes, include, seconds, until
from refit_interfaces.action import PokeObject
from refit_interfaces.msg import PokeMeta, PokeSample, SupervisorStatus
from std_srvs.srv import Trigger

from identification.elastic.poke_bag import read_poke_bag
from nodes.framework.qos import LEDGER, STATE
from recording import BagReader
from sim_core.elastic.poke import Poke, downsampled
from sim_core.plant.soft_object import POSITION, soft_object

OBJECT, LIMIT = "lamb", 2.5
SETTINGS = """
/**/poke_arm:
  ros__parameters: {halt_patience: 60.0, travel: 0.25, standoff: 0.005, clearance: 0.03, transit: 0.3, turning: 1.5, approach: 0.05}
/**/supervisor:
  ros__parameters: {stop_timeout: 2.0}
"""
O, S = PokeObject.Result, GoalStatus


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("poking_arm")


@launch_pytest.fixture(scope="module")
def graph(domain, folder):
    settings = folder / "settings.yaml"
    settings.write_text(SETTINGS + SPARING)
    processes = Processes()
    robot = include(
        "sim.launch.py",
        robot="panda_poker",
        object=OBJECT,
        lockstep=True,
        real_time_factor=0.0,
        record=True,
        profile="poke",
        run_directory=folder,
        params_file=settings,
    )
    return LaunchDescription([*processes.handlers(), robot]), processes


class Prober:
    """Asks for pokes at a place of the object, and knows what it feels like there.

    Attributes:
        results: of the pokes that pressed, by number.
    """

    def __init__(self, probe):
        self.probe, self.results = probe, {}
        self.samples = probe.watch(PokeSample, "poke_arm/sample", STATE)
        self.metas = probe.watch(PokeMeta, "poke_arm/meta", LEDGER)
        self.object = soft_object(OBJECT)
        seen = self.object.surface(1500)
        self.feature = seen.features[self.object.places(seen, spacing=0.04)[2]]

    def ask(self, above=0.0, point=None, speed=0.005, **fields):
        """The handle of a goal on the place, or so far above it [m]."""
        goal = PokeObject.Goal(force_limit=LIMIT, speed=speed, **fields)
        at = self.feature[:3] + POSITION + above * self.feature[6:] if point is None else point
        goal.point.x, goal.point.y, goal.point.z = map(float, at)
        goal.normal.x, goal.normal.y, goal.normal.z = map(float, self.feature[6:])
        self.first = len(self.samples)
        return self.probe.send_goal(PokeObject, "poke_arm/poke", goal)

    def in_contact(self):
        """The handle of a goal that presses."""
        handle = self.ask()
        until(lambda: any(s.force > 0.5 for s in self.samples[self.first :]), "it is pressed")
        return handle

    def result(self, handle):
        """(result, status), and that the probe is in the air again."""
        future = self.probe._sent(handle.get_result_async)
        until(future.done, "the goal's result")
        result = future.result().result
        if len(result.displacement):
            self.results[result.poke] = result
            until(
                lambda: self.metas[-1].poke == result.poke and self.metas[-1].phase == PokeMeta.ENDED, "the last phase"
            )
        return result, future.result().status


@pytest.fixture(scope="module")
def prober(probe):
    return Prober(probe)


@pytest.mark.launch(fixture=graph)
def test_a_poke_feels_the_object_at_the_published_speed(graph, probe, prober):
    probe.wait_active("sim_plant", "poke_arm", "supervisor", "recorder")
    probe.watch(SupervisorStatus, "supervisor/status", LEDGER).wait(
        lambda m: m.state in (SupervisorStatus.STATE_READY, SupervisorStatus.STATE_RUNNING), what="armed"
    )
    probe.wait_hears("recorder")
    result, status = prober.result(prober.ask(speed=0.0))
    assert (result.outcome, status) == (O.DONE, S.STATUS_SUCCEEDED), result.message
    d, f = np.array(result.displacement), np.array(result.force)
    assert (f[:-1] < LIMIT).all() and LIMIT <= f[-1] and result.peak < LIMIT + 0.5
    # What the finite elements say of the same place, poked by nothing but numbers.
    true = prober.object.poke(prober.feature, limit=4.0)
    assert np.abs(f - np.interp(d, true.displacement, true.force)).max() < 0.1
    until(lambda: len(prober.samples) == prober.first + len(d), "all samples")
    stamps = np.array([seconds(s.header.stamp) for s in prober.samples[prober.first :]])
    assert np.median(np.diff(stamps)) == pytest.approx(0.004, abs=1e-6)  # 250 times a second
    assert np.polyfit(stamps, d, 1)[0] == pytest.approx(0.002, rel=0.03)
    assert prober.metas[-1].object == OBJECT


@pytest.mark.launch(fixture=graph)
def test_nothing_where_the_point_is(graph, prober):
    result, status = prober.result(prober.ask(above=0.03, deepest=0.008))
    assert (result.outcome, status) == (O.NO_CONTACT, S.STATUS_ABORTED) and "nothing was felt" in result.message
    assert np.abs(result.force).max() < 0.1


@pytest.mark.launch(fixture=graph)
def test_deep_enough_before_the_force(graph, prober):
    result, status = prober.result(prober.ask(deepest=0.004))
    assert (result.outcome, status) == (O.DEEPEST, S.STATUS_SUCCEEDED), result.message


@pytest.mark.launch(fixture=graph)
def test_out_of_reach(graph, prober):
    result, status = prober.result(prober.ask(point=[1.3, 0.0, 0.3]))
    assert (result.outcome, status) == (O.OUT_OF_REACH, S.STATUS_ABORTED) and "no nearer to" in result.message


@pytest.mark.launch(fixture=graph)
def test_a_client_calls_it_back_in_contact(graph, probe, prober):
    handle = prober.in_contact()
    probe._sent(handle.cancel_goal_async)
    result, status = prober.result(handle)
    assert (result.outcome, status) == (O.CANCELLED, S.STATUS_CANCELED) and max(result.force) < LIMIT


@pytest.mark.launch(fixture=graph)
def test_a_stop_in_contact_and_a_resume(graph, probe, prober):
    handle = prober.in_contact()
    probe.call(Trigger, "stop")
    assert until(lambda: probe.call(Trigger, "resume").success, "the supervisor resumes")
    result, status = prober.result(handle)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED)
    assert "halted by the supervisor: stopped by an operator" in result.message


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_everybody_ends_well_and_the_bag_tells_the_same(graph, prober, folder):
    graph[1].assert_ended_well()
    bag = folder / "bag"
    said = {}
    for _, sample in BagReader(bag).messages("poke_arm/sample"):
        said.setdefault(sample.poke, []).append((sample.displacement, sample.force))
    assert set(said) == set(prober.results)
    for number, result in prober.results.items():
        direct, told = (np.array([result.displacement, result.force]), np.array(said[number]).T)
        assert np.array_equal(direct, told)
        pairs = [downsampled(Poke(prober.feature, *both)) for both in (direct, told)]
        assert len(pairs[0]) == 8 and np.array_equal(pairs[0].force, pairs[1].force)
    # From joints and wrench alone: the same but for what a busy machine lost of a stream that is never sent again.
    again = {poke.number: poke.log for poke in read_poke_bag(bag)[0]}
    assert set(again) == set(prober.results)
    for number, log in again.items():
        d, f = np.array(prober.results[number].displacement), np.array(prober.results[number].force)
        shared = [(k, d.tolist().index(x)) for k, x in enumerate(log.displacement) if x in d]
        assert len(shared) > 0.95 * max(len(d), len(log.displacement))
        assert max(abs(log.force[k] - f[j]) for k, j in shared) < 2e-3
