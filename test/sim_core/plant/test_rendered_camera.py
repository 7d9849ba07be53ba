"""A camera of a robot's model: closed forms of depth and pose, noise, and a person who is registered from its picture."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import pytest

from sim_core.auscultation.scan import crop, register_scan
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.plant import PlantError
from sim_core.plant.patient import body_pose, patient_entity
from sim_core.plant.rendered_camera import RenderedCamera

pytestmark = pytest.mark.pure

SCENE = """<mujoco model="scene"><worldbody>
  <light pos="0 0 3"/>
  <camera name="above" pos="0.1 0.2 2" xyaxes="0 -1 0 1 0 0" fovy="40"/>
  <geom type="sphere" size="0.25" pos="0.1 0.2 0.5" rgba="1 0 0 1"/>
  <body name="arm" pos="0 0 1"><joint name="turn" axis="0 0 1"/><geom type="sphere" size="0.01" mass="1"/>
    <camera name="wrist" pos="0.3 0 0" xyaxes="1 0 0 0 1 0"/></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def above():
    with RenderedCamera(SCENE, "above", 200, 160) as camera:
        yield camera


def test_depth_is_that_of_a_sphere(above):
    view = above.render({})
    middle = view.depth[75:85, 95:105]
    assert np.nanmean(middle) == pytest.approx(1.25, abs=0.004)
    points = above.points(view.depth)
    world = points @ view.pose[:3, :3].T + view.pose[:3, 3]
    off = np.linalg.norm(world - [0.1, 0.2, 0.5], axis=1) - 0.25
    assert len(points) > 1000 and abs(np.median(off)) < 0.002 and np.median(np.abs(off)) < 0.006
    red, green, blue = (int(value) for value in view.colour[80, 100])
    assert red > 2 * max(green, blue)
    # nothing is behind it: no depth there
    assert np.isnan(view.depth[0, 0])


def test_intrinsics_project_what_was_seen(above):
    view = above.render({})
    rows, columns = np.nonzero(np.isfinite(view.depth))
    pixels = above.points(view.depth) @ above.K.T
    assert np.allclose(pixels[:, :2] / pixels[:, 2:], np.stack([columns, rows], 1), atol=1e-9)


def test_the_picture_s_top_is_where_the_camera_has_it(above):
    """Up in the picture is +x of the world: optical y, which goes down, is -x; x, to the right, is -y."""
    pose = above.render({}).pose
    assert np.allclose(pose[:3, :3], [[0, -1, 0], [-1, 0, 0], [0, 0, -1]]) and np.allclose(pose[:3, 3], [0.1, 0.2, 2.0])
    assert above.carrier == "world"


def test_noise_repeats_with_its_seed():
    def seen(seed):
        with RenderedCamera(SCENE, "above", 60, 48, seed=seed) as camera:
            return camera.render({}).depth

    assert np.array_equal(seen(3), seen(3), equal_nan=True) and not np.array_equal(seen(3), seen(4), equal_nan=True)


def test_a_camera_on_a_link_moves_with_its_joint():
    with RenderedCamera(SCENE, "wrist", 60, 48) as camera:
        assert camera.carrier == "arm"
        first, second = camera.render({"turn": 0.0}), camera.render({"turn": 0.8})
    assert np.array_equal(first.pose, second.pose)  # in its link
    assert (first.colour != second.colour).mean() > 0.001


def test_what_is_not_there_is_named():
    with pytest.raises(PlantError, match="no camera 'side'; there are above, wrist"):
        RenderedCamera(SCENE, "side")
    with RenderedCamera(SCENE, "above", 20, 16) as camera, pytest.raises(PlantError, match="no joint 'elbow'"):
        camera.render({"elbow": 1.0})


def test_a_person_is_registered_from_the_picture():
    """As the graph does it: the robot's own camera, the arm turned aside, table and floor cut away."""
    with RenderedCamera("panda_stethoscope", "scan", entities=[patient_entity(4)]) as camera:
        view = camera.render({})
        cloud = camera.points(view.depth) @ view.pose[:3, :3].T + view.pose[:3, 3]
    axes, origin = body_pose()
    body = crop(cloud, np.array([0.15, -0.35, 0.1]), np.array([0.85, 0.35, 0.6]))
    found = register_scan(body, view.pose[:3, 3], "front", axes)
    assert found.is_accepted, found.why
    true = SimulatedPatient(4).torso["front"].landmarks
    errors = [np.linalg.norm(found.landmarks[region] - origin - axes @ place) for region, place in true.items()]
    assert np.mean(errors) < 0.0173, errors
