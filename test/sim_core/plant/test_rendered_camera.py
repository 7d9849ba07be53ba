"""A camera of a robot's model: closed forms of depth, intrinsics and pose, and a person who is registered from its picture."""

import os

import numpy as np
import pytest

from sim_core.auscultation.scan import crop, register_scan
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.plant import PlantError
from sim_core.plant.patient import body_pose, patient_entity
from sim_core.plant.rendered_camera import RenderedCamera
from sim_core.plant.scene import Entity, shape_content

pytestmark = [
    pytest.mark.pure,
    pytest.mark.skipif(os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here"),
]

CENTRE, RADIUS = np.array([0.1, 0.2, 0.5]), 0.25
MARKER = np.array([0.4, -0.1, 0.1])
SCENE = """<mujoco model="scene"><worldbody>
  <light pos="0 0 3"/>
  <camera name="above" pos="0.1 0.2 2" xyaxes="0 -1 0 1 0 0" fovy="40"/>
  <camera name="follow" mode="trackcom" pos="0 0 2"/>
  <geom type="sphere" size="0.25" pos="0.1 0.2 0.5" rgba="1 0 0 1"/>
  <geom type="sphere" size="0.03" pos="0.4 -0.1 0.1" rgba="0 1 0 1"/>
  <body name="arm" pos="0 0 1"><joint name="turn" axis="0 0 1"/><geom type="sphere" size="0.01" mass="1"/>
    <camera name="wrist" pos="0.3 0 0" xyaxes="1 0 0 0 1 0"/></body>
</worldbody></mujoco>"""


def placed(view, points):
    """Points of the optical frame in the world."""
    return points @ view.pose[:3, :3].T + view.pose[:3, 3]


@pytest.fixture(scope="module")
def above():
    with RenderedCamera(SCENE, "above", 200, 160) as camera:
        yield camera


def test_depth_is_that_of_a_sphere(above):
    view = above.render({"turn": 0.0})
    assert np.nanmean(view.depth[75:85, 95:105]) == pytest.approx(2.0 - 0.75, abs=0.004)
    world = placed(view, above.points(view.depth))
    world = world[(world[:, 2] > 0.45) & (world[:, 2] < 0.9)]  # neither the marker nor the arm
    off = np.linalg.norm(world - CENTRE, axis=1) - RADIUS
    # Noise is that of 1.3 m; edges lie up to 5 cm farther away.
    assert len(world) > 1000 and abs(np.median(off)) < 0.002 and np.median(np.abs(off)) < 0.006
    assert np.abs(off).max() < 0.06
    red, green, blue = (int(value) for value in view.colour[80, 100])
    assert red > 2 * max(green, blue)
    assert np.isnan(view.depth[0, 0])  # nothing is there


def test_intrinsics_say_where_a_thing_appears(above):
    view = above.render()
    red, green, blue = np.moveaxis(view.colour.astype(int), -1, 0)
    rows, columns = np.nonzero(green > 2 * np.maximum(red, blue) + 20)
    u, v, depth = above.K @ (view.pose[:3, :3].T @ (MARKER - view.pose[:3, 3]))
    assert len(rows) > 20
    assert (columns.mean(), rows.mean()) == pytest.approx((u / depth, v / depth), abs=0.5)
    assert view.depth[round(v / depth), round(u / depth)] == pytest.approx(depth - 0.03, abs=0.04)


def test_points_project_to_their_pixels(above):
    view = above.render()
    rows, columns = np.nonzero(np.isfinite(view.depth))
    pixels = above.points(view.depth) @ above.K.T
    assert np.allclose(pixels[:, :2] / pixels[:, 2:], np.stack([columns, rows], 1), atol=1e-9)
    assert len(above.points(np.full_like(view.depth, np.nan))) == 0


def test_the_picture_s_top_is_where_the_camera_has_it(above):
    """Up in the picture is +x of the world: optical y, which goes down, is -x; x, to the right, is -y."""
    pose = above.render().pose
    assert np.allclose(pose[:3, :3], [[0, -1, 0], [-1, 0, 0], [0, 0, -1]]) and np.allclose(pose[:3, 3], [0.1, 0.2, 2.0])
    assert above.carrier == "world" and np.allclose(above.mounting, pose)


@pytest.mark.parametrize("angle", [0.0, 0.8, -1.5])
def test_a_camera_on_a_link_moves_with_its_joint(angle):
    with RenderedCamera(SCENE, "wrist", 160, 120) as camera:
        view = camera.render({"turn": angle})
        c, s = np.cos(angle), np.sin(angle)
        assert np.allclose(view.pose[:3, 3], [0.3 * c, 0.3 * s, 1.0])
        assert np.allclose(view.pose[:3, :3], np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.diag([1.0, -1.0, -1.0]))
        assert camera.carrier == "arm"
        assert np.allclose(camera.mounting[:3, 3], [0.3, 0.0, 0.0])
        assert np.allclose(camera.mounting[:3, :3], np.diag([1.0, -1.0, -1.0]))
        world = placed(view, camera.points(view.depth))
    world = world[(world[:, 2] > 0.2) & (world[:, 2] < 0.9)]  # neither the marker nor the arm
    off = np.linalg.norm(world - CENTRE, axis=1) - RADIUS
    assert len(world) > 200 and abs(np.median(off)) < 0.002 and np.abs(off).max() < 0.06


def test_noise_repeats_with_its_seed():
    def seen(seed):
        with RenderedCamera(SCENE, "above", 60, 48, seed=seed) as camera:
            return camera.render().depth

    assert np.array_equal(seen(3), seen(3), equal_nan=True) and not np.array_equal(seen(3), seen(4), equal_nan=True)


def test_what_is_added_to_the_scene_is_seen_and_has_no_joint_to_tell():
    box = Entity("box", shape_content("box", size=(0.2, 0.2, 0.1)), position=(0.1, 0.2, 1.0))
    with RenderedCamera(SCENE, "above", 60, 48, entities=[box]) as camera:
        assert camera.joints == ("turn",)
        assert np.nanmean(camera.render({"turn": 0.3}).depth[20:28, 26:34]) == pytest.approx(0.9, abs=0.004)


def test_what_moves_by_itself_is_drawn_where_it_is_said_to_be():
    box = Entity("box", shape_content("box", size=(0.2, 0.2, 0.1)), position=(0.1, 0.2, 1.0))
    gone = {"box/free": np.array([9.0, 9.0, 1.0, 1.0, 0.0, 0.0, 0.0])}
    with RenderedCamera(SCENE, "above", 60, 48, entities=[box]) as camera:

        def height(others):
            return np.nanmean(camera.render({"turn": 0.3}, others=others).depth[20:28, 26:34])

        assert height(gone) > height(None) + 0.3
        higher = {"box/free": np.array([0.1, 0.2, 1.3, 1.0, 0.0, 0.0, 0.0])}
        assert height(None) - height(higher) == pytest.approx(0.3, abs=0.004)
        assert height(None) == pytest.approx(0.9, abs=0.004)  # nothing is kept of what was said before
        with pytest.raises(PlantError, match="has a joint 'ball/free'; there are box/free"):
            camera.render({"turn": 0.3}, others={"ball/free": gone["box/free"]})


def test_what_is_not_there_is_named():
    with pytest.raises(PlantError, match="no camera 'side'; there are above, follow, wrist"):
        RenderedCamera(SCENE, "side")
    with pytest.raises(PlantError, match="'follow' of scene is carried by no body with a name"):
        RenderedCamera(SCENE, "follow")
    with RenderedCamera(SCENE, "above", 20, 16) as camera:
        with pytest.raises(PlantError, match="has the joints turn; elbow is none of them; turn is missing"):
            camera.render({"elbow": 1.0})
        with pytest.raises(PlantError, match="has the joints turn; turn is missing"):
            camera.render({})
        with pytest.raises(PlantError, match="position of joint turn is not finite"):
            camera.render({"turn": np.nan})


@pytest.mark.parametrize("camera, carrier", [("left_eye", "head"), ("right_wrist", "right_palm")])
def test_the_avatar_s_own_cameras_see(camera, carrier):
    with RenderedCamera("avatar", camera, 64, 48) as looking:
        view = looking.render()
    assert looking.carrier == carrier
    assert np.isfinite(view.depth).any() and np.ptp(view.colour) > 50


@pytest.mark.parametrize("patient, side", [(3, "front"), (4, "front"), (4, "back")])
def test_a_person_is_registered_from_the_picture(patient, side):
    """As the graph does it: the robot's own camera, the arm turned aside, table and floor cut away."""
    with RenderedCamera("panda_stethoscope", "scan", entities=[patient_entity(patient, side)]) as camera:
        view = camera.render()
        cloud = placed(view, camera.points(view.depth))
    axes, origin = body_pose()
    body = crop(cloud, np.array([0.15, -0.35, 0.1]), np.array([0.85, 0.35, 0.6]))
    found = register_scan(body, view.pose[:3, 3], side, axes)
    assert found.is_accepted, found.why
    true = SimulatedPatient(patient).torso[side].landmarks
    errors = [np.linalg.norm(found.landmarks[region] - origin - axes @ place) for region, place in true.items()]
    assert np.mean(errors) < 0.0173, errors


def test_a_table_alone_is_no_person():
    with RenderedCamera("panda_stethoscope", "scan") as camera:
        view = camera.render()
        cloud = placed(view, camera.points(view.depth))
    with pytest.raises(ValueError, match="does somebody lie there"):
        crop(cloud, np.array([0.15, -0.35, 0.1]), np.array([0.85, 0.35, 0.6]))


def test_grains_are_drawn_where_they_are_and_hide_what_is_behind_them(above):
    camera = above
    free = camera.render()
    middle = free.pose[:3, 3] + 0.4 * free.pose[:3, 2]
    grains = np.array([[*middle, 0.05]]), np.array([[200, 100, 0]])
    seen = camera.render(grains=grains)
    row, column = (round(float(c)) for c in (camera.K[1, 2], camera.K[0, 2]))
    assert seen.depth[row, column] == pytest.approx(0.35, abs=0.01)
    assert seen.colour[row, column, 0] > 1.8 * seen.colour[row, column, 1] > 0
    np.testing.assert_array_equal(seen.colour[0, 0], free.colour[0, 0])
    behind = camera.render(grains=(np.array([[*(free.pose[:3, 3] + 9.0 * free.pose[:3, 2]), 0.05]]), grains[1]))
    np.testing.assert_array_equal(behind.colour, free.colour)


LINKED = """<mujoco model="linked"><compiler angle="radian"/><worldbody>
  <body name="first"><joint name="leader" axis="0 0 1" ref="0.1"/><geom type="sphere" size="0.01" mass="1"/></body>
  <body name="second"><joint name="follower" axis="0 0 1"/><geom type="sphere" size="0.01" mass="1"/>
    <camera name="eye" pos="0.3 0 0" xyaxes="1 0 0 0 1 0"/></body>
</worldbody>
<equality><joint joint1="follower" joint2="leader" polycoef="0.05 -0.5 0 0 0"/></equality></mujoco>"""


def test_joints_that_follow_others_need_not_be_told_and_are_where_the_model_has_them():
    with RenderedCamera(LINKED, "eye", 32, 24) as camera:
        assert camera.joints == ("leader",)
        angle = 0.05 - 0.5 * (0.7 - 0.1)
        expected = 0.3 * np.array([np.cos(angle), np.sin(angle), 0.0])
        np.testing.assert_allclose(camera.render({"leader": 0.7}, depth=False).pose[:3, 3], expected, atol=1e-12)
        told = camera.render({"leader": 0.7, "follower": 0.2}, depth=False).pose[:3, 3]
        np.testing.assert_allclose(told, 0.3 * np.array([np.cos(0.2), np.sin(0.2), 0.0]), atol=1e-12)


EYES = """<mujoco model="eyes"><worldbody><light pos="0 0 3"/>
  <geom type="sphere" size="0.03" pos="1 0.1 1" rgba="1 0 0 1"/>
  <body name="head" pos="0 0.1 1"><joint name="turn" axis="0 0 1"/><geom size="0.01" mass="1"/>
    <camera name="left" pos="0 0.03 0" xyaxes="0 -1 0 0 0 1" fovy="40"/>
    <camera name="right" pos="0 -0.03 0" xyaxes="0 -1 0 0 0 1" fovy="40"/></body>
  <camera name="above" pos="0 0 3"/></worldbody></mujoco>"""


def test_eyes_are_set_apart_about_their_middle():
    """A ball straight before the middle, 1 m away, is seen f b / 2 z to the inside of either eye."""
    for name, side in (("left", 1.0), ("right", -1.0)):
        with RenderedCamera(EYES, name, 641, 480) as camera:
            for distance in (0.06, 0.08, 0.0):
                if distance != 0.06:
                    camera.set_baseline(("left", "right"), distance)
                b = distance or 0.06
                view = camera.render(depth=False)
                assert view.pose[:3, 3] == pytest.approx([0.0, 0.1 + side * 0.5 * b, 1.0], abs=1e-6)
                assert camera.mounting[:3, 3] == pytest.approx([0.0, side * 0.5 * b, 0.0])
                red = view.colour[..., 0].astype(float) - view.colour[..., 1]
                column = np.nonzero(red > 40)[1].mean()
                assert column - camera.K[0, 2] == pytest.approx(side * camera.K[0, 0] * 0.5 * b / 1.0, abs=0.7)
            with pytest.raises(PlantError, match="no camera 'third'; there are above, left, right|left, right, above"):
                camera.set_baseline(("left", "third"), 0.06)
            with pytest.raises(PlantError, match="not side by side on one body"):
                camera.set_baseline(("left", "above"), 0.06)
