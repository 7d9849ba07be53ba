"""The node `poking` with an arm and a camera that are played here: its answers are the offline functions', on good and on bad days."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytestmark = pytest.mark.graph

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import Point, Pose, Quaternion, TransformStamped, Vector3
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from refit_interfaces.action import ExploreObject, PokeObject
from refit_interfaces.srv import AddPokes, BuildSurface, PackHeights, PredictPokes, SimulateContact
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from identification.elastic.model_choice import fit_point_model
from nodes.framework.clouds import cloud_fields, cloud_message, cloud_points
from nodes.framework.qos import LATCHED, LEDGER, SENSOR
from nodes.planning.poking_config import PokingConfig
from nodes.planning.poking_messages import surface_of
from sim_core.elastic.cautious import CLEARANCE, careful_simulator
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.exploration import Exploration
from sim_core.elastic.packing import Box, height_map
from sim_core.elastic.poke import Poke, downsampled, save_pokes
from sim_core.elastic.rigid_body import line_probe, sphere
from sim_core.elastic.surface import load_surface
from sim_core.planning.checkpoint import load

Outcome = PokeObject.Result
FRAME = "scan_optical_frame"
#: where the camera is: it looks down
CAMERA = np.array([0.5, 0.0, 1.0])


def height(x, y):
    return 0.12 - 2.0 * ((x - 0.5) ** 2 + y**2)


def stiffness(x):
    """[N/m] harder towards +x."""
    return 300.0 + 3000.0 * np.maximum(x - 0.5, 0.0)


def mound(hole=0.0, seed=0):
    """What the camera sees of a mound (n, 3), with noise, without a disc of that radius in its middle [m]."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(0.42, 0.58, 0.002), np.arange(-0.06, 0.06, 0.002), indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), height(x, y).ravel()], 1) + rng.normal(0.0, 2e-4, (x.size, 3))
    return points[np.hypot(points[:, 0] - 0.5, points[:, 1]) >= hole]


def cloud(points, stamp, frame=FRAME):
    """In the camera's frame, x right (-y of the world), y down (-x), z forward (down)."""
    off = points - CAMERA
    colours = np.tile(np.array([150, 90, 60], np.uint8), (len(points), 1))
    return cloud_message(np.stack([-off[:, 1], -off[:, 0], -off[:, 2]], axis=1), stamp, frame, colours)


def camera_pose():
    transform = TransformStamped(child_frame_id=FRAME)
    transform.header.frame_id = "world"
    t, r = transform.transform.translation, transform.transform.rotation
    t.x, t.y, t.z = CAMERA.tolist()
    r.x, r.y, r.z, r.w = 0.5**0.5, -(0.5**0.5), 0.0, 0.0
    return TFMessage(transforms=[transform])


class Arm:
    """Plays the node poke_arm: what is felt grows with the displacement, or it fails as it is told.

    failures: outcomes of the next pokes, in order; "hold": nothing happens until `held` is executed; None: all is well.
    """

    def __init__(self, ros):
        self.ros, self.held, self.refuses = ros, [], False
        self.fresh()
        self.server = ActionServer(
            ros.node,
            PokeObject,
            "poke_arm/poke",
            self.execute,
            goal_callback=lambda goal: GoalResponse.REJECT if self.refuses else GoalResponse.ACCEPT,
            handle_accepted_callback=self.accepted,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
        )

    def fresh(self):
        self.goals, self.failures, self.refuses = [], [], False

    @property
    def places(self):
        return [(goal.point.x, goal.point.y, goal.point.z) for goal in self.goals]

    def accepted(self, handle):
        self.goals.append(handle.request)
        if self.failures[:1] == ["hold"]:
            self.failures.pop(0)
            self.held.append(handle)
        else:
            handle.execute()

    def execute(self, handle):
        handle.publish_feedback(PokeObject.Feedback(displacement=0.001, force=0.5, phase="pressing"))
        failure = self.failures.pop(0) if self.failures else None
        answer = PokeObject.Result(outcome=Outcome.DONE, message="the force was reached.", poke=len(self.goals))
        if handle.is_cancel_requested:
            handle.canceled()
            answer.outcome, answer.message = Outcome.CANCELLED, "cancelled by the client."
        elif failure is not None:
            handle.abort()
            answer.outcome, answer.message = failure, "it was told to."
        else:
            handle.succeed()
            d = np.linspace(-0.002, 0.008, 500)
            answer.displacement = d.tolist()
            answer.force = (stiffness(handle.request.point.x) * np.maximum(d, 0.0)).tolist()
        return answer


class Camera:
    """Sends a cloud ten times a second."""

    def __init__(self, ros):
        self.node, self.points = ros.node, mound()
        self.clouds = ros.node.create_publisher(PointCloud2, "camera/depth/color/points", SENSOR)
        self.frames = ros.node.create_publisher(TFMessage, "/tf_static", LEDGER)
        self.frames.publish(camera_pose())
        ros.node.create_timer(0.1, self.send)

    def send(self):
        if self.points is not None:
            self.clouds.publish(cloud(self.points, self.node.get_clock().now().to_msg()))


@pytest.fixture(scope="module")
def graph(shared_ros, tmp_path_factory):
    ros = shared_ros
    ros.folder = tmp_path_factory.mktemp("poking")
    settings = dict(
        patience=5.0,
        scan_patience=2.0,
        coupling=0.015,
        spacing=0.03,
        voxel=0.004,
        neighbours=30,
        report=False,
        samples=8,
    )
    ros.planner = ros.start("poking", directory=str(ros.folder), **settings)
    ros.surfaces = ros.listen(PointCloud2, "poking/surface", LATCHED)
    ros.deformed = ros.listen(PointCloud2, "poking/deformed", LATCHED)
    ros.forces = ros.listen(MarkerArray, "poking/contact_forces", LATCHED)
    ros.told = ros.listen(String, "poking/exploration", LATCHED)
    ros.arm, ros.camera = Arm(ros), Camera(ros)
    ros.action = ActionClient(ros.node, ExploreObject, "poking/explore")
    ros.up("/poking")
    yield ros
    code, _, output = ros.finish(ros.planner)
    assert code == 0 and "Traceback" not in output, output


@pytest.fixture(autouse=True)
def calm(graph):
    graph.arm.fresh()
    graph.camera.points = mound()


def send(ros, feedback=None, **goal):
    ros.until(ros.action.server_is_ready, what="the action explore")
    future = ros.action.send_goal_async(ExploreObject.Goal(**goal), feedback_callback=feedback)
    ros.until(future.done, what="the answer to a goal")
    return future.result()


def result(ros, handle):
    future = handle.get_result_async()
    ros.until(future.done, what="the end of an exploration")
    return future.result()


def explore(ros, **goal):
    handle = send(ros, **{"pokes": 3, **goal})
    assert handle.accepted
    return result(ros, handle)


def build(ros, **fields):
    return ros.call(BuildSurface, "poking/build_surface", object="mound", **fields)


def kept(checkpoint):
    """The exploration of a checkpoint, made anew without the node."""
    state, surface = load(checkpoint), load_surface(Path(checkpoint).with_name("surface.npz"))
    return Exploration.resume(state["exploration"], surface, fit_point_model(state["model"]))


def newest(ros):
    return max(ros.folder.rglob("exploration.json"), key=lambda path: path.stat().st_mtime)


def test_1_without_a_surface_or_a_poke_every_service_says_so(graph):
    for kind, name in ((PredictPokes, "predict"), (SimulateContact, "simulate_contact"), (PackHeights, "pack")):
        answer = graph.call(kind, f"poking/{name}")
        assert not answer.success and "call build_surface first" in answer.message
    assert "call build_surface first" in graph.call(AddPokes, "poking/add_pokes", files=["x.csv"]).message
    assert not send(graph, pokes=1).accepted


def test_1_what_is_no_surface_is_refused_in_a_sentence(graph):
    graph.camera.points = None
    answer = build(graph)
    assert not answer.success and "clouds of 0 of 1 cameras came on" in answer.message
    stamp = graph.node.get_clock().now().to_msg()
    answer = build(graph, clouds=[cloud(mound() + [3.0, 0.0, 0.0], stamp)])
    assert not answer.success and "is in the object's box" in answer.message
    answer = build(graph, clouds=[cloud(mound(), stamp, "nowhere")])
    assert not answer.success and "nowhere" in answer.message
    answer = build(graph, clouds=[PointCloud2()])
    assert not answer.success and "a cloud without points" in answer.message
    answer = build(graph, clouds=[cloud(mound(hole=0.048), stamp)])
    assert not answer.success and "of the outline has no points" in answer.message and answer.holes > 0.3
    assert not list(graph.folder.rglob("surface.npz"))


def test_2_a_surface_is_built_from_what_the_camera_sees(graph):
    answer = build(graph)
    assert answer.success and answer.outward > 0.98 and answer.holes < 0.05, answer.message
    assert answer.points == answer.surface.width > 500
    surface = surface_of(answer.surface)
    off = surface.points[:, 2] - height(surface.points[:, 0], surface.points[:, 1])
    assert np.abs(off).max() < 2e-3 and (surface.normals[:, 2] > 0.7).all()
    np.testing.assert_allclose(surface.colours, [[150 / 255, 90 / 255, 60 / 255]] * len(surface), atol=1e-9)
    # what is said is what is computed with, to the bit
    file = load_surface(newest(graph).with_name("surface.npz"))
    for name in ("points", "colours", "normals"):
        np.testing.assert_array_equal(getattr(surface, name), getattr(file, name))
    assert "nothing was learnt yet" in graph.call(PredictPokes, "poking/predict").message


def test_3_an_exploration_pokes_where_it_is_least_sure_and_keeps_all_of_it(graph):
    assert build(graph).success
    said = []
    handle = send(graph, lambda message: said.append(message.feedback), pokes=4)
    assert not send(graph, pokes=1).accepted  # one at a time
    assert "under way" in build(graph).message
    found = result(graph, handle)
    told = found.result
    assert found.status == GoalStatus.STATUS_SUCCEEDED and told.success and told.pokes == 4 and told.failed == 0
    assert "4 pokes are known" in told.message and 0.0 < told.deviation < 1.0
    assert len(set(graph.arm.places)) == 4 and told.report == ""
    exploration = kept(told.checkpoint)
    for poke, place in zip(exploration.pokes, graph.arm.places, strict=True):
        np.testing.assert_array_equal(poke.feature[:3], place)
        assert len(poke.displacement) == 8
    # the same decisions without a graph
    again = Exploration(exploration.surface, fit_point_model("process"), exploration.settings)
    for place in graph.arm.places:
        asked = again.ask()
        np.testing.assert_array_equal(asked.point, place)
        d = np.linspace(-0.002, 0.008, 500)
        f = stiffness(asked.point[0]) * np.maximum(d, 0.0)
        again.tell(asked.index, downsampled(Poke(feature=asked.feature, displacement=d, force=f), 8))
    assert again.mean_deviation() == told.deviation
    assert any("pressing" in one.phase for one in said) and {one.poke for one in said} == {1, 2, 3, 4}
    state = json.loads(graph.told[-1].data)
    assert state["exploration"] == load(told.checkpoint)["exploration"] and len(state["deviations"]) == 4


def test_4_its_answers_are_those_of_the_offline_functions_to_the_bit(graph):
    assert build(graph).success
    told = explore(graph, pokes=4).result
    exploration = kept(told.checkpoint)
    surface, model = exploration.surface, exploration.model
    rows = np.arange(0, len(surface), 97)
    d = np.linspace(0.0, 0.02, len(rows))
    points = [Point(x=x, y=y, z=z) for x, y, z in surface.points[rows].tolist()]
    answer = graph.call(PredictPokes, "poking/predict", points=points, displacement=d.tolist())
    mean, deviation = model.predict_with_deviation(surface.features[rows], d)
    assert answer.success, answer.message
    np.testing.assert_array_equal(answer.mean, mean)
    np.testing.assert_array_equal(answer.deviation, deviation)
    np.testing.assert_array_equal(answer.beyond, d > model.deepest)
    assert any(answer.beyond) and not all(answer.beyond)

    simulator = ContactSimulator(surface, model, 0.015, onset=exploration.onset)
    heights = [0.119, 0.115, 0.1]
    down = Quaternion(w=1.0)
    poses = [Pose(position=Point(x=0.51, y=0.01, z=z), orientation=down) for z in heights]
    told_poses = np.tile(np.eye(4), (3, 1, 1))
    told_poses[:, :3, 3] = [[0.51, 0.01, z] for z in heights]
    about = (0.0, 0.0, 0.05)
    contacts = simulator.queries(line_probe(), told_poses, np.array([0.0, 0.0, -1.0]), about)
    request = dict(body="line", poses=poses, approach=Vector3(z=-1.0), about=Point(z=0.05), surface=True)
    answer = graph.call(SimulateContact, "poking/simulate_contact", **request)
    assert answer.success, answer.message
    for k, wrench in enumerate(answer.wrenches):
        np.testing.assert_array_equal([wrench.force.x, wrench.force.y, wrench.force.z], contacts.force[k])
        np.testing.assert_array_equal([wrench.torque.x, wrench.torque.y, wrench.torque.z], contacts.torque[k])
    np.testing.assert_array_equal(answer.contacts, contacts.active)
    np.testing.assert_array_equal(answer.beyond, contacts.beyond)
    assert not answer.beyond[0] and answer.beyond[2] and contacts.force[1, 2] > contacts.force[0, 2] > 0.0
    # the deformed surface, and the forces as lines
    displacement = simulator.deformed(contacts[2])
    np.testing.assert_array_equal(
        cloud_fields(answer.deformed, ["displacement"])[:, 0], displacement.astype(np.float32)
    )
    moved = (surface.points - displacement[:, None] * surface.normals).astype(np.float32)
    np.testing.assert_array_equal(cloud_points(answer.deformed)[0], moved)
    graph.until(lambda: graph.forces and graph.forces[-1].markers[0].points, what="lines of force")
    graph.until(lambda: graph.deformed and graph.deformed[-1].data == answer.deformed.data, what="the deformed surface")
    assert len(graph.forces[-1].markers[0].points) == 2 * contacts.count[2]

    corner, size = (0.44, -0.05, 0.05), (0.12, 0.1, 0.13)
    careful = careful_simulator(surface, model, 0.015, onset=exploration.onset)
    packed = height_map(careful, sphere(0.04), Box(corner, size), 0.02, 2.0, clearance=CLEARANCE)
    request = dict(diameter=0.04, limit=2.0, spacing=0.02)
    request |= dict(corner=Point(x=corner[0], y=corner[1], z=corner[2]), size=Vector3(x=size[0], y=size[1], z=size[2]))
    answer = graph.call(PackHeights, "poking/pack", **request)
    assert answer.success, answer.message
    assert (answer.rows, answer.columns) == packed.heights.shape
    np.testing.assert_array_equal(answer.heights, packed.heights.ravel())
    np.testing.assert_array_equal(answer.forces, packed.forces.ravel())
    assert np.nanmax(answer.forces) <= 2.0 and np.isfinite(answer.heights).any()


def test_4_questions_that_make_no_sense_are_answered_in_a_sentence(graph):
    def said(kind, name, **fields):
        answer = graph.call(kind, f"poking/{name}", **fields)
        assert not answer.success
        return answer.message

    on = Point(x=0.5, y=0.0, z=0.12)
    assert "mm off the surface" in said(PredictPokes, "predict", points=[Point()], displacement=[0.0])
    assert "for each of 1 points" in said(PredictPokes, "predict", points=[on], displacement=[])
    assert "finite" in said(PredictPokes, "predict", points=[Point(x=np.nan)], displacement=[0.0])
    pose = Pose(position=on, orientation=Quaternion(w=1.0))
    down = Vector3(z=-1.0)
    assert "1 to 10000 poses" in said(SimulateContact, "simulate_contact", body="line", approach=down)
    assert "no body 'spoon'" in said(SimulateContact, "simulate_contact", body="spoon", poses=[pose], approach=down)
    turned = Pose(position=on, orientation=Quaternion(w=0.0))
    assert "quaternions" in said(SimulateContact, "simulate_contact", body="line", poses=[turned], approach=down)
    assert said(SimulateContact, "simulate_contact", body="line", poses=[pose], approach=Vector3())
    box = dict(corner=Point(x=0.4, z=0.05), size=Vector3(x=0.1, y=0.1, z=0.1))
    assert "cells of the box" in said(PackHeights, "pack", diameter=0.04, limit=2.0, spacing=0.0, **box)
    assert "does not fit" in said(PackHeights, "pack", diameter=0.4, limit=2.0, spacing=0.01, **box)
    assert said(AddPokes, "add_pokes", files=["/nowhere.csv"])
    assert not send(graph, pokes=1, choice="luck").accepted
    assert not send(graph, pokes=1, deviation=float("nan")).accepted


def test_5_places_that_fail_are_left_out_and_the_next_one_is_poked(graph):
    assert build(graph).success
    graph.arm.failures = [
        Outcome.NO_CONTACT,
        Outcome.OUT_OF_REACH,
        None,
        Outcome.SENSOR_SATURATED,
        Outcome.SENSOR_DRIFTED,
        None,
    ]
    told = explore(graph, pokes=2).result
    assert told.success and told.pokes == 2 and told.failed == 4 and len(set(graph.arm.places)) == 6
    closed = load(told.checkpoint)["exploration"]["closed"]
    assert {"not touched", "out of reach", "beyond the sensor's range", "the sensor drifted"} <= set(closed)


def test_5_an_object_that_is_not_where_it_was_seen_ends_it(graph):
    assert build(graph).success
    graph.arm.failures = [Outcome.NO_CONTACT] * 9
    found = explore(graph, pokes=5)
    assert (
        found.status == GoalStatus.STATUS_ABORTED and "4 pokes in a row did not find the object" in found.result.message
    )
    assert found.result.failed == 4 and found.result.pokes == 0 and np.isnan(found.result.deviation)


@pytest.mark.parametrize(
    "failures, said",
    [
        ([None, Outcome.SENSOR_SILENT, Outcome.SENSOR_SILENT], "2 pokes in a row told nothing"),
        ([None, Outcome.ARM_STOPPED], "it was told to; the exploration"),
    ],
)
def test_5_what_is_not_the_places_fault_can_be_resumed_with_the_same_place(graph, failures, said):
    assert build(graph).success
    graph.arm.failures = list(failures)
    found = explore(graph, pokes=3)
    told = found.result
    assert found.status == GoalStatus.STATUS_ABORTED and said in told.message
    assert f"can be resumed from {told.checkpoint}" in told.message and told.pokes == 1
    assert len(graph.arm.places) == len(failures) and len(set(graph.arm.places)) == 2
    last = graph.arm.places[-1]
    graph.arm.fresh()
    told = explore(graph, pokes=0, resume=told.checkpoint).result
    assert told.success and told.pokes == 3 and graph.arm.places[0] == last


def begun_again(ros):
    """The same surface anew, with nothing learnt; returns the places that a whole exploration of it pokes."""
    assert build(ros).success
    assert explore(ros, pokes=4).result.success
    places = ros.arm.places
    ros.arm.fresh()
    assert build(ros).success
    return places


def test_6_a_cancelled_exploration_goes_on_with_the_same_places(graph):
    places = begun_again(graph)
    graph.arm.failures = [None, None, "hold"]
    handle = send(graph, pokes=4)
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    cancelling = handle.cancel_goal_async()
    held = graph.arm.held.pop()
    graph.until(lambda: cancelling.done() and held.is_cancel_requested, what="the arm's own cancellation")
    held.execute()
    found = result(graph, handle)
    assert found.status == GoalStatus.STATUS_CANCELED and "can be resumed" in found.result.message
    assert found.result.pokes == 2 and found.result.failed == 0 and graph.arm.places == places[:3]
    graph.arm.fresh()
    told = explore(graph, pokes=0, resume=found.result.checkpoint).result
    assert told.success and told.pokes == 4 and graph.arm.places == places[2:]


def test_6_an_arm_that_refuses_or_falls_silent_ends_it(graph):
    assert build(graph).success
    graph.arm.refuses = True
    told = explore(graph).result
    assert "the arm refused poke 1" in told.message and "can be resumed" in told.message
    graph.arm.refuses, graph.arm.failures = False, ["hold"]
    told = explore(graph).result
    assert "has said nothing for 5 s" in told.message and "can be resumed" in told.message
    held = graph.arm.held.pop()
    graph.until(lambda: held.is_cancel_requested, what="the arm being told to stop")
    held.execute()


def test_6_a_full_disk_ends_it(graph):
    assert build(graph).success
    graph.arm.failures = ["hold"]
    handle = send(graph, pokes=2)
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    folder = newest(graph).parent
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("in the way")  # what cannot be written stands for a disk that is full
    graph.arm.held.pop().execute()
    found = result(graph, handle)
    assert found.status == GoalStatus.STATUS_ABORTED and "cannot be kept" in found.result.message
    folder.unlink()


def test_7_a_node_that_is_taken_out_leaves_an_exploration_that_goes_on_with_the_same_places(graph):
    places = begun_again(graph)
    graph.arm.failures = [None, "hold"]
    handle = send(graph, pokes=4)
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    graph.transition("/poking", "deactivate")
    told = result(graph, handle).result
    assert "not active any more" in told.message
    held = graph.arm.held.pop()
    graph.until(lambda: held.is_cancel_requested, what="the arm being told to stop")
    held.execute()
    assert not send(graph, pokes=1).accepted
    assert "not active" in build(graph).message
    graph.transition("/poking", "cleanup")
    graph.up("/poking")
    graph.arm.fresh()
    resumed = explore(graph, pokes=0, resume=told.checkpoint).result
    assert resumed.success and resumed.pokes == 4 and graph.arm.places == places[1:]


def test_7_what_is_no_exploration_is_not_resumed(graph):
    assert "is no planner's checkpoint" in explore(graph, resume="/nowhere.json").result.message
    file = graph.folder / "other.json"
    file.write_text("{}")
    assert "holds no exploration of this node" in explore(graph, resume=str(file)).result.message


def test_8_pokes_come_from_files_as_well_and_what_is_none_changes_nothing(graph):
    assert build(graph).success
    surface, d = (
        surface_of(graph.call(BuildSurface, "poking/build_surface", object="mound").surface),
        np.linspace(0.0, 0.008, 30),
    )
    rows = [len(surface) // 3, len(surface) // 2]
    pokes = [Poke(surface.features[k], d, stiffness(surface.points[k, 0]) * d) for k in rows]
    save_pokes(graph.folder / "pokes.csv", pokes)
    answer = graph.call(AddPokes, "poking/add_pokes", files=[str(graph.folder / "pokes.csv")])
    assert answer.success and (answer.added, answer.pokes) == (2, 2), answer.message
    known = kept(newest(graph))
    assert [len(poke) for poke in known.pokes] == [8, 8] and known.tried == [-1, -1]
    np.testing.assert_array_equal(known.pokes[1].feature, surface.features[rows[1]])
    point = Point(**dict(zip("xyz", surface.points[rows[0]].tolist())))
    found = graph.call(PredictPokes, "poking/predict", points=[point], displacement=[0.006])
    assert found.mean[0] == pytest.approx(0.006 * stiffness(point.x), rel=0.1)

    far = [Poke(np.r_[poke.feature[:3] + 0.2, poke.feature[3:]], d, poke.force) for poke in pokes]
    save_pokes(graph.folder / "far.csv", far)
    (graph.folder / "text.csv").write_text("nothing of the kind")
    (graph.folder / "bag").mkdir()
    for name, said in (
        ("far.csv", "of another object"),
        ("text.csv", "holds no pokes"),
        ("bag", "bag"),
        ("none.csv", "nothing is there"),
    ):
        answer = graph.call(
            AddPokes, "poking/add_pokes", files=[str(graph.folder / "pokes.csv"), str(graph.folder / name)], forget=True
        )
        assert not answer.success and said in answer.message, answer.message
    assert kept(newest(graph)).checkpoint() == known.checkpoint()
    answer = graph.call(AddPokes, "poking/add_pokes", forget=True)
    assert answer.success and answer.pokes == 0
    assert "nothing was learnt yet" in graph.call(PredictPokes, "poking/predict").message


def test_9_its_page_names_everything(documentation):
    files = ("planning/poking", "planning/arm_client", "frames/transform_listener")
    assert not documentation.missing("poking.md", PokingConfig, *(f"nodes/{name}.py" for name in files))
