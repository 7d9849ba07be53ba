"""A soft object before the robot with a probe: what it pushes with is what the wrist feels, and what is seen of it is where it says."""

import numpy as np
import pytest

from sim_core.elastic.probe_reading import ProbeReadings
from sim_core.elastic.rigid_body import point_probe
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, PlantError
from sim_core.plant.rendered_camera import RenderedCamera
from sim_core.plant.soft_object import POSITION, PokedObject, poked_object, soft_object, soft_object_entity
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

ROBOT, OBJECT, DOWN = "panda_poker", "lamb", np.eye(3)


@pytest.fixture(scope="module")
def model():
    return load_model(ROBOT)


@pytest.fixture(scope="module")
def top():
    """The highest point of the object in the world (3,) [m]."""
    vertices = soft_object(OBJECT).truth.vertices
    return vertices[np.argmax(vertices[:, 2])] + POSITION


def joints_at(model, place):
    """Joint positions with the tip at a place (3,) [m], the probe down."""
    k = ArmKinematics(model, "probe_tip")
    ik, q = QpIk(k, damping=1e-4, pull=1e-6, period=np.inf), np.array([0.0, 0.1, 0.0, -2.2, 0.0, 2.3, 0.785])
    for _ in range(60):
        q = ik.step(Pose(np.asarray(place, float), DOWN), q, q)
    assert np.linalg.norm(k.at(q).position - place) < 1e-5
    return q


def held(plant, q):
    """The plant once it has rested at joint positions."""
    plant.set_initial_state(q)
    plant.reset()
    stiff = 2000.0 * np.ones(7)
    for _ in range(400):
        bias = plant.world.data.qfrc_bias[plant.world.dof] if plant.t else np.zeros(7)
        plant.step(bias + stiff * (q - plant.true_q) - 80.0 * plant.true_v)
    return plant


def test_what_pushes_on_the_probe_is_what_the_wrist_feels(model, top):
    plant = MujocoPlant(ROBOT, wrench_site="wrist", poked=poked_object(OBJECT))
    held(plant, joints_at(model, top - [0.0, 0.0, 0.008]))
    poked = plant.poked
    assert poked.force[2] > 1.0
    readings = ProbeReadings(model, "probe_tip", "wrist")
    reading = readings.at(plant.t, plant.true_q, plant.wrench())
    np.testing.assert_allclose(reading.wrench[:3], poked.force, atol=0.02)
    np.testing.assert_allclose(reading.wrench[3:], poked.torque - np.cross(reading.tip, poked.force), atol=2e-3)
    # and it is what the elements say of a rounded tip there
    it = soft_object(OBJECT)
    pressed = it.truth.press(it.tip + reading.tip - POSITION)
    np.testing.assert_allclose(poked.force, pressed.force, atol=0.02)
    before = (poked.force.copy(), plant.true_q.copy())
    held(plant, joints_at(model, top - [0.0, 0.0, 0.008]))
    np.testing.assert_array_equal(before[0], plant.poked.force)
    np.testing.assert_array_equal(before[1], plant.true_q)


def test_it_is_asked_only_while_the_probe_is_near_and_moves(model, top):
    plant = MujocoPlant(ROBOT, poked=poked_object(OBJECT))
    held(plant, joints_at(model, top + [0.0, 0.0, 0.05]))
    assert plant.poked.calls == 0 and not plant.poked.force.any()
    held(plant, joints_at(model, top - [0.0, 0.0, 0.004]))
    # It came to rest within the first tenth of 0.8 s; from then on nothing new is asked.
    assert 0 < plant.poked.calls < 200 and plant.poked.force[2] > 0.3


@pytest.mark.parametrize("probe, points", [("point", 37), ("line", 22), ("cylinder", 50)])
def test_probes_are_those_of_the_house(probe, points):
    assert len(poked_object(OBJECT, probe=probe).probe.points) == pytest.approx(points, abs=10)


@pytest.mark.parametrize(
    "made, says",
    [
        (lambda: poked_object("rock"), "There is no soft object 'rock'; there are sloth, vest, lamb, shoe, bird, and"),
        (lambda: poked_object("rocks 3"), "There is no soft object 'rocks 3'"),
        (lambda: poked_object(OBJECT, probe="spoon"), "There is no probe 'spoon'; there are point, line, cylinder"),
        (lambda: MujocoPlant("panda", poked=poked_object(OBJECT)), "whose model has a site 'probe_tip'"),
    ],
)
def test_what_is_not_there_is_said(made, says):
    with pytest.raises(PlantError, match=says):
        made()


def test_an_object_of_a_category_is_there_as_well():
    named = soft_object("boxes 1")
    assert named.name == "boxes 1" and named.category == "boxes"
    poked = PokedObject(named.truth, named.truth.vertices, point_probe(), "boxes 1")
    place = named.truth.vertices[np.argmax(named.truth.vertices[:, 2])] - [0.0, 0.0, 0.004]
    assert poked.solid.press(place[None]).force[2] > 0.5


@pytest.mark.parametrize("camera", ["scan", "scan_left", "scan_right"])
def test_cameras_see_it_where_it_seems_to_be(camera):
    """A millimetre is half a pixel's; its own error of calibration is up to 4 mm."""
    it = soft_object(OBJECT)
    seen = it.surface(20000, seen=True)
    try:
        with RenderedCamera(ROBOT, camera, entities=[soft_object_entity(OBJECT)]) as eye:
            view = eye.render()
            points, colours = eye.points(view.depth), view.colour[np.isfinite(view.depth)]
            mounting = eye.mounting
    except PlantError as error:
        pytest.skip(str(error))
    world = points @ mounting[:3, :3].T + mounting[:3, 3] - POSITION
    there = (world[:, 2] > 0.03) & (np.abs(world[:, :2]) < 0.15).all(axis=1)
    assert there.sum() > 800
    nearest = seen.nearest(world[there])
    assert np.median(np.linalg.norm(seen.points[nearest] - world[there], axis=1)) < 0.003
    # red flesh and cream fat, as they are: lighting brightens both
    red = seen.colours[nearest][:, 0] - seen.colours[nearest][:, 2]
    shown = (colours[there][:, 0].astype(float) - colours[there][:, 2]) / 255.0
    assert np.corrcoef(red, shown)[0, 1] > 0.8
