"""The graph that pokes a soft object, in lock-step: its surface from three cameras, pokes, answers to the bit, and who interrupts it."""

from pathlib import Path

import launch_pytest
import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
from launch import LaunchDescription
from launched import SPARING, Processes, include, until
from refit_interfaces.action import ExploreObject
from refit_interfaces.srv import BuildSurface, PackHeights, PredictPokes, SimulateContact
from std_srvs.srv import Trigger

from identification.elastic.model_choice import fit_point_model
from nodes.planning.poking_messages import surface_of
from sim_core.elastic.cautious import CAUTION, CLEARANCE, careful_simulator
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.exploration import Exploration
from sim_core.elastic.packing import Box, height_map
from sim_core.elastic.rigid_body import line_probe, sphere
from sim_core.elastic.surface import load_surface
from sim_core.planning.checkpoint import load
from sim_core.plant.soft_object import POSITION, soft_object

LIMITS = """
/**/poking:
  ros__parameters: {patience: 120.0, scan_patience: 120.0, spacing: 0.04, report: false, depth: 0.004, speed: 0.008, force_limit: 3.0, samples: 8}
/**/poke_arm:
  ros__parameters: {halt_patience: 60.0, standoff: 0.006, clearance: 0.02, travel: 0.28, transit: 0.3, approach: 0.05, turning: 1.5}
/**/supervisor:
  ros__parameters: {stop_timeout: 2.0}
"""
COUPLING = 0.01


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("poking") / "limits.yaml"
    settings.write_text(LIMITS + SPARING)
    processes = Processes()
    pokes = include(
        "poking.launch.py",
        object="lamb",
        lockstep=True,
        real_time_factor=0.5,  # until somebody moves
        params_file=settings,
        directory=tmp_path_factory.mktemp("explorations"),
    )
    return LaunchDescription([*processes.handlers(), pokes]), processes


class Watch:
    """What the planner says.

    Attributes:
        phases: of the goal under way. points: that it has asked the arm for. surface: that was built.
    """

    def __init__(self, probe):
        self.probe, self.phases, self.points, self.surface = probe, [], [], None

    def heard(self, message):
        told = message.feedback
        self.phases.append(told.phase)
        point = (told.point.x, told.point.y, told.point.z)
        if point not in self.points:
            self.points.append(point)

    def send(self, **goal):
        self.phases.clear(), self.points.clear()
        return self.probe.send_goal(ExploreObject, "poking/explore", ExploreObject.Goal(**goal), feedback=self.heard)

    def pressing(self):
        until(lambda: any("advancing" in phase for phase in self.phases), "the probe advances")

    def result(self, handle):
        future = self.probe._sent(handle.get_result_async)
        until(future.done, "the exploration's result")
        return future.result().result, future.result().status

    def known(self, checkpoint):
        """The exploration of a checkpoint, learnt anew without the graph."""
        state, surface = load(checkpoint), load_surface(Path(checkpoint).with_name("surface.npz"))
        return Exploration.resume(state["exploration"], surface, fit_point_model(state["model"]))


@pytest.fixture(scope="module")
def watch(probe):
    return Watch(probe)


@pytest.mark.launch(fixture=graph)
def test_1_three_cameras_see_the_object(graph, probe, watch):
    cameras = ("sim_camera", "sim_camera_left", "sim_camera_right")
    probe.wait_active("sim_plant", "poke_arm", "supervisor", *cameras, "poking")
    answer = probe.call(BuildSurface, "poking/build_surface", BuildSurface.Request(object="lamb"))
    assert answer.success, answer.message
    assert answer.outward > 0.98 and answer.holes < 0.1
    watch.surface = surface = surface_of(answer.surface)
    # against the simulated object as it is, which the cameras see a few millimetres off
    truth = soft_object("lamb").surface(4000, seen=False)
    near = truth.nearest(surface.points - POSITION)
    off = np.linalg.norm(truth.points[near] + POSITION - surface.points, axis=1)
    assert np.median(off) < 0.006 and len(surface) > 1000
    along = (truth.normals[near] * surface.normals).sum(axis=1)
    assert (along > 0.0).mean() > 0.98 and np.median(along) > 0.95


@pytest.mark.launch(fixture=graph)
def test_2_it_pokes_three_places_and_answers_as_the_offline_functions_to_the_bit(graph, probe, watch):
    probe.set_pace(0.0)
    found, status = watch.result(watch.send(pokes=3))
    assert status == GoalStatus.STATUS_SUCCEEDED and found.success and found.pokes == 3, found.message
    known = watch.known(found.checkpoint)
    assert all(0.5 < poke.force.max() < 7.0 and len(poke) == 8 for poke in known.pokes)
    assert known.mean_deviation() == found.deviation
    surface, model = known.surface, known.model
    np.testing.assert_array_equal(surface.points, watch.surface.points)
    rows = np.arange(0, len(surface), 211)
    d = np.linspace(-0.001, 0.03, len(rows))
    points = [Point(x=x, y=y, z=z) for x, y, z in surface.points[rows].tolist()]
    answer = probe.call(PredictPokes, "poking/predict", PredictPokes.Request(points=points, displacement=d.tolist()))
    mean, deviation = model.predict_with_deviation(surface.features[rows], d)
    np.testing.assert_array_equal(answer.mean, mean)
    np.testing.assert_array_equal(answer.deviation, deviation)
    np.testing.assert_array_equal(answer.beyond, d > model.deepest)

    simulator = ContactSimulator(surface, model, COUPLING, onset=known.onset)
    top = known.pokes[0].feature[:3]
    deep = np.array([*np.arange(-0.02, 0.02, 0.0005), 0.05])  # [m] below where the first poke began
    matrices = np.tile(np.eye(4), (len(deep), 1, 1))
    matrices[:, :3, 3] = top - np.outer(deep, [0.0, 0.0, 1.0])
    sought = simulator.queries(line_probe(), matrices, np.array([0.0, 0.0, -1.0]))
    # The line lies on what is highest along it, which depends on where the poke began: it is pressed just into that, and far down.
    matrices = matrices[[int(np.flatnonzero(sought.active)[0]), -1]]
    contacts = simulator.queries(line_probe(), matrices, np.array([0.0, 0.0, -1.0]))
    poses = [Pose(position=Point(x=x, y=y, z=z), orientation=Quaternion(w=1.0)) for x, y, z in matrices[:, :3, 3]]
    request = SimulateContact.Request(body="line", poses=poses, approach=Vector3(z=-1.0))
    answer = probe.call(SimulateContact, "poking/simulate_contact", request)
    assert answer.success, answer.message
    for k, wrench in enumerate(answer.wrenches):
        np.testing.assert_array_equal([wrench.force.x, wrench.force.y, wrench.force.z], contacts.force[k])
        np.testing.assert_array_equal([wrench.torque.x, wrench.torque.y, wrench.torque.z], contacts.torque[k])
    assert list(answer.beyond) == [False, True] and answer.contacts[0] > 0

    corner, size = (0.4, -0.06, 0.1), (0.2, 0.12, 0.16)
    careful = careful_simulator(surface, model, COUPLING, CAUTION, known.onset)
    packed = height_map(careful, sphere(0.04), Box(corner, size), 0.04, 2.0, clearance=CLEARANCE)
    request = PackHeights.Request(diameter=0.04, limit=2.0, spacing=0.04)
    request.corner, request.size = Point(**dict(zip("xyz", corner))), Vector3(**dict(zip("xyz", size)))
    answer = probe.call(PackHeights, "poking/pack", request)
    assert answer.success, answer.message
    np.testing.assert_array_equal(np.reshape(answer.heights, (answer.rows, answer.columns)), packed.heights)
    assert np.nanmax(answer.forces) <= 2.0


@pytest.mark.launch(fixture=graph)
def test_3_a_cancelled_exploration_goes_on_with_the_same_place(graph, probe, watch):
    handle = watch.send(pokes=2)
    watch.pressing()
    place = watch.points[-1]
    probe._sent(handle.cancel_goal_async)
    found, status = watch.result(handle)
    assert status == GoalStatus.STATUS_CANCELED and "can be resumed from" in found.message
    resumed, status = watch.result(watch.send(resume=found.checkpoint, pokes=1))
    assert status == GoalStatus.STATUS_SUCCEEDED and resumed.pokes == found.pokes + 1, resumed.message
    assert watch.points[0] == place


@pytest.mark.launch(fixture=graph)
def test_4_an_operator_stops_it_and_the_exploration_ends_with_a_sentence(graph, probe, watch):
    handle = watch.send(pokes=3)
    watch.pressing()
    probe.call(Trigger, "stop")
    assert until(lambda: probe.call(Trigger, "resume").success, "the supervisor resumes")
    found, status = watch.result(handle)
    assert status == GoalStatus.STATUS_ABORTED and not found.success
    assert "stopped by an operator" in found.message and "can be resumed from" in found.message


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_5_it_ends_well(graph):
    graph[1].assert_ended_well()
