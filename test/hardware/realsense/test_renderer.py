"""The renderer against the closed form of the same scene, and R4 with it; the inertial unit on a moving robot."""

import os
import time
from dataclasses import replace

import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.emulation.world import SharedWorld
from hardware.realsense import camera as cameras
from hardware.realsense.device import Settings
from hardware.realsense.profiles import D435I, Mode, VideoStream
from hardware.realsense.renderer import CameraOnRobot, RenderedScene
from hardware.realsense.scene import BOXES, FLOOR, WALL, cast

MODE = Mode(640, 480, 30)
COLOR = D435I.stream("color")
#: with an imager that measures depth where the colour camera stands
MODEL = replace(
    D435I,
    video=(
        *(s for s in D435I.video if s.name != "infra1"),
        VideoStream("infra1", "y8", (MODE,), COLOR.focal, position=COLOR.position),
    ),
)


def geoms():
    boxes = "".join(
        f'<geom type="box" pos="{p[0]} {p[1]} {p[2]}" size="{h[0]} {h[1]} {h[2]}" rgba="{c[0] / 255} {c[1] / 255} {c[2] / 255} 1"/>'
        for p, h, c in BOXES
    )
    return (
        boxes + f'<geom type="box" pos="0 0 {WALL + 0.5}" size="9 9 0.5"/>'
        f'<geom type="box" pos="0 {FLOOR + 0.5} 0" size="9 0.5 {WALL}"/>'
    )


@pytest.fixture
def world(tmp_path):
    """MuJoCo's world in the axes of the depth imager at rest; the camera turns about the vertical."""
    mjcf = f"""<mujoco><option gravity="0 9.81 0"/><visual><map znear="0.01"/></visual><worldbody><light pos="0 -1 0"/>{geoms()}
      <body><joint name="turn" type="hinge" axis="0 -1 0"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <camera name="realsense" pos="0 0 0" xyaxes="1 0 0 0 -1 0"/><body pos="0 0 0.2"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <camera name="ahead" xyaxes="1 0 0 0 -1 0"/></body></body></worldbody></mujoco>"""
    world = SharedWorld.create(tmp_path / "world", ["turn"], mjcf)
    world.publish(0.0, [0.0], [0.0])
    return world


needs_renderer = pytest.mark.skipif(
    os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here"
)


@pytest.fixture
def views(world):
    """Depth, colour, and the depth that the colour camera would see."""
    scene = RenderedScene(CameraOnRobot(world, "realsense"), MODEL, 0.05)
    try:
        end = time.monotonic() + 60.0
        while any(scene.view(stream, MODE) is None for stream in ("depth", "color", "infra1")):
            assert time.monotonic() < end
            time.sleep(0.01)
        yield scene.view("depth", MODE)[0], scene.view("color", MODE)[1], scene.view("infra1", MODE)[0]
    finally:
        scene.close()


@needs_renderer
def test_rendered_depth_equals_the_closed_form(views):
    depth, color, truth = views
    for rendered, imager in ((depth, MODEL.stream("depth")), (truth, MODEL.stream("infra1"))):
        z, _ = cast(imager.intrinsics(MODE), 640, 480, imager.position)
        # A pixel on an edge may fall to either side; all others agree to the renderer's depth buffer.
        steps = np.abs(np.diff(z, axis=1, prepend=z[:, :1])) + np.abs(np.diff(z, axis=0, prepend=z[:1])) > 0.02
        near_edge = steps | np.roll(steps, -1, 1) | np.roll(steps, -1, 0)
        error = np.abs(rendered - z)[~near_edge]
        assert np.percentile(error, 99.9) < 2e-3 and np.median(error) < 5e-4
        assert near_edge.mean() < 0.05
    _, rgb = cast(COLOR.intrinsics(MODE), 640, 480, COLOR.position)
    red, box = color[..., 0].astype(int) - color[..., 2], (rgb == BOXES[0][2]).all(axis=2)
    assert red[box].mean() > 20 + red[~box].mean()


@needs_renderer
def test_aligned_depth_edges_in_the_renderers_colour_view(views, hand_fed, collect):
    """R4 with the renderer: every crossing of the nearest box's outline within one pixel."""
    depth, color, truth = views
    camera = hand_fed()
    device = collect(lambda: camera, Settings(video={"depth": MODE, "color": MODE}, align=True))

    def push(n):
        camera.push("depth", np.rint(1000 * depth).astype(np.uint16), 33.3 * n, MODE)
        camera.push("color", color, 33.3 * n, MODE)

    camera.push_until(lambda: device.got["aligned_depth_to_color"], push)
    aligned = device.got["aligned_depth_to_color"][-1].pixels * 1e-3
    near, found = truth < 1.3, (aligned > 0) & (aligned < 1.3)
    rows = np.flatnonzero(near.any(axis=1))[5:-5]
    assert len(rows) > 80
    for row in rows[::7]:
        assert abs(np.flatnonzero(near[row])[0] - np.flatnonzero(found[row])[0]) <= 1
        assert abs(np.flatnonzero(near[row])[-1] - np.flatnonzero(found[row])[-1]) <= 1


def test_inertial_unit_on_a_turning_robot(world):
    """At 0.2 m from the axis, turning at w: w^2 r towards the axis, w about the vertical (y points down)."""
    camera = CameraOnRobot(world, "ahead")
    w = 2.0
    for t in np.arange(0.0, 0.5, 0.002):
        world.publish(t, [w * t], [w])
        omega, force = camera.inertial()
    np.testing.assert_allclose(omega, [0.0, -w, 0.0], atol=1e-6)
    np.testing.assert_allclose(force, [0.0, -9.81, -w * w * 0.2], atol=0.02)


def test_a_camera_that_is_not_there(world):
    with pytest.raises(ValueError, match="realsense, ahead"):
        CameraOnRobot(world, "elsewhere")


@needs_renderer
def test_emulator_of_a_simulated_robot(world, collect):
    """The whole way: shared world, renderer's process, SDK, link. The camera looks at the box, turns away, and feels it."""
    mode = Mode(424, 240, 30)
    with EmulatorProcess("realsense", "--world", world.path, "--render-period", "0.05", timeout=60.0) as emulator:
        emulator.set(imu_noise=0.0)
        device = collect(
            cameras.emulated(emulator.link), Settings(video={"depth": mode, "color": mode}, motion={"gyro": 0})
        )
        device.until(lambda: len(device.got["depth"]) > 3 and len(device.got["color"]) > 3, 60.0)
        u, v = (round(D435I.stream("depth").intrinsics(mode)[k, :] @ [0.12, 0.05, 1.0]) for k in (0, 1))

        def ahead():
            return float(np.median(device.got["depth"][-1].pixels[v - 3 : v + 4, u - 3 : u + 4])) * 1e-3

        assert ahead() == pytest.approx(1.0, abs=0.01)  # the near box's face
        world.publish(0.1, [0.35], [0.5])
        device.until(lambda: ahead() > 1.2 or ahead() == 0.0)
        device.until(lambda: device.got["gyro"][-1].angular == pytest.approx([0.0, -0.5, 0.0], abs=1e-6))
        assert emulator.stats()["renderings"] > 2
