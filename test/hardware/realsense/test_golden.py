"""R1, R3, R4: the SDK's own numbers through our software device, clouds and alignment against geometry."""

from dataclasses import replace

import numpy as np
import pyrealsense2 as rs
import pytest

from hardware.realsense.device import Settings
from hardware.realsense.processing import PointCloud
from hardware.realsense.profiles import D435I, Mode, VideoStream
from hardware.realsense.scene import cast

#: specification 21, section 4
GOLDEN = replace(
    D435I,
    depth_units=1e-4,
    video=(
        VideoStream("depth", "z16", (Mode(640, 480, 30),), 380 / 480),
        VideoStream(
            "color",
            "rgb8",
            (Mode(1280, 720, 30),),
            910 / 720,
            "inverse_brown_conrady",
            (0.1, -0.2, 0.001, 0.001, 0.05),
            position=(-0.015, 0.0, 0.0),
        ),
    ),
)


def test_golden_projection(hand_fed):
    camera = hand_fed(GOLDEN)
    depth = camera.profiles["depth", Mode(640, 480, 30)].as_video_stream_profile()
    color = camera.profiles["color", Mode(1280, 720, 30)].as_video_stream_profile()
    point = rs.rs2_transform_point_to_point(
        depth.get_extrinsics_to(color), rs.rs2_deproject_pixel_to_point(depth.get_intrinsics(), [320, 240], 1.0)
    )
    assert rs.rs2_project_point_to_pixel(color.get_intrinsics(), point) == pytest.approx([653.651, 360.000], abs=1e-3)


def test_golden_alignment(hand_fed, collect):
    camera = hand_fed(GOLDEN)
    device = collect(lambda: camera, Settings(align=True))

    def push(n):
        camera.push("depth", np.full((480, 640), 10000, np.uint16), 33.3 * n)
        camera.push("color", np.zeros((720, 1280, 3), np.uint8), 33.3 * n)

    camera.push_until(lambda: len(device.got["aligned_depth_to_color"]) >= 3, push)
    for aligned in device.got["aligned_depth_to_color"]:
        assert aligned.pixels.shape == (720, 1280) and (aligned.pixels == 10000).all()
        assert aligned.depth_units == pytest.approx(1e-4)
        assert aligned.lens.distortion == "inverse_brown_conrady"
    depth = device.got["depth"]
    assert device.got["aligned_depth_to_color"][-1].t in {image.t for image in depth}


def test_the_sdks_own_pipeline_takes_the_device(hand_fed):
    """An independent client: rs.pipeline with all four kinds of stream."""
    camera = hand_fed()
    pipeline, config = rs.pipeline(), rs.config()
    pipeline.set_device(camera.device)
    config.enable_stream(rs.stream.depth, 848, 480, rs.format.z16, 30)
    config.enable_stream(rs.stream.color, 1280, 720, rs.format.rgb8, 30)
    config.enable_stream(rs.stream.gyro)
    config.enable_stream(rs.stream.accel)
    profile = pipeline.start(config)
    assert profile.get_device().first_depth_sensor().get_depth_scale() == pytest.approx(0.001)
    found = {}

    def push(n):
        camera.push("gyro", [0.1, 0.2, 0.3], 33.3 * n)
        camera.push("accel", [0.0, -9.8, 0.0], 33.3 * n)
        camera.push("depth", np.full((480, 848), 1000 + n, np.uint16), 33.3 * n)
        camera.push("color", np.full((720, 1280, 3), n, np.uint8), 33.3 * n)
        ok, frames = pipeline.try_wait_for_frames(500)
        for frame in frames if ok else ():
            found.setdefault(frame.get_profile().stream_name(), []).append(frame.get_frame_number())

    camera.push_until(lambda: len(found) == 4 and all(len(numbers) >= 5 for numbers in found.values()), push)
    pipeline.stop()
    assert set(found) == {"Depth", "Color", "Gyro", "Accel"}
    assert all(numbers == sorted(numbers) for numbers in found.values())


@pytest.mark.parametrize("model", ["d435i", "l515"])
def test_cloud_equals_deprojection(hand_fed, collect, model):
    """R3: every point within 1e-5 m of (u - cx) z / f, (v - cy) z / f, z."""
    from hardware.realsense.profiles import MODELS

    camera = hand_fed(MODELS[model])
    device = collect(lambda: camera, Settings(video={"depth": Mode()}, cloud=PointCloud(ordered=True, textured=False)))
    imager = camera.model.stream("depth")
    mode = imager.modes[0]
    K = imager.intrinsics(mode)
    counts = np.random.default_rng(3).integers(300, 3000, (mode.height, mode.width)).astype(np.uint16)
    counts[::7, ::5] = 0
    camera.push("depth", counts, 0.0)
    device.until(lambda: device.got["Cloud"])
    (cloud,) = device.got["Cloud"]
    z = counts * camera.model.depth_units
    v, u = np.mgrid[: mode.height, : mode.width]
    expected = np.stack([(u - K[0, 2]) * z / K[0, 0], (v - K[1, 2]) * z / K[1, 1], z], axis=-1).reshape(-1, 3)
    expected[counts.ravel() == 0] = np.nan
    assert (cloud.width, cloud.height, cloud.dense) == (mode.width, mode.height, False)
    np.testing.assert_allclose(cloud.points[:, :3], expected, atol=1e-5)


def test_cloud_takes_its_colour_from_where_the_colour_camera_sees_it(hand_fed, collect):
    camera = hand_fed()
    device = collect(lambda: camera, Settings(cloud=PointCloud()))
    depth, color = camera.model.stream("depth"), camera.model.stream("color")
    z, _ = cast(depth.intrinsics(depth.modes[0]), 848, 480)
    rgb = np.zeros((720, 1280, 3), np.uint8)
    rgb[..., 0], rgb[..., 1], rgb[..., 2] = np.arange(1280)[None] // 5, np.arange(720)[:, None] // 3, 77

    def push(n):
        camera.push("depth", np.rint(1000 * z).astype(np.uint16), 33.3 * n)
        camera.push("color", rgb, 33.3 * n)

    camera.push_until(lambda: device.got["Cloud"], push)
    cloud = device.got["Cloud"][-1]
    K = color.intrinsics(color.modes[0])
    seen = cloud.points[:, :3].astype(float) - np.array(color.position)
    u, v = K[0, 0] * seen[:, 0] / seen[:, 2] + K[0, 2], K[1, 1] * seen[:, 1] / seen[:, 2] + K[1, 2]
    bits = cloud.points[:, 4].copy().view(np.uint32)
    red, green, blue = (bits >> 16) & 255, (bits >> 8) & 255, bits & 255
    assert 0.4 * 848 * 480 < len(cloud.points) < 848 * 480 and cloud.dense
    assert (blue == 77).all()
    assert (
        np.abs(red - u / 5).max() < 1.2 and np.abs(green - v / 3).max() < 1.4
    )  # a pixel, and the rounding of the ramp


def test_aligned_depth_has_its_edges_where_the_colour_view_has_them(hand_fed, collect):
    """R4: the boxes' outlines in aligned depth within one pixel of a view rendered by the colour camera."""
    camera = hand_fed()
    mode = Mode(640, 480, 30)
    device = collect(lambda: camera, Settings(video={"depth": mode, "color": mode}, align=True))
    depth, color = camera.model.stream("depth"), camera.model.stream("color")
    z, _ = cast(depth.intrinsics(mode), 640, 480)
    truth, rgb = cast(color.intrinsics(mode), 640, 480, color.position)

    def push(n):
        camera.push("depth", np.rint(1000 * z).astype(np.uint16), 33.3 * n, mode)
        camera.push("color", rgb, 33.3 * n, mode)

    camera.push_until(lambda: device.got["aligned_depth_to_color"], push)
    aligned = device.got["aligned_depth_to_color"][-1].pixels * 1e-3
    near = truth < 1.3  # the nearest box: its faces are at 1.0 m
    rows = np.flatnonzero(near.any(axis=1))[5:-5]
    assert len(rows) > 80
    for row in rows[::10]:
        edges = np.flatnonzero(np.diff(near[row].astype(int)))
        found = np.flatnonzero(np.diff(((aligned[row] > 0) & (aligned[row] < 1.3)).astype(int)))
        assert abs(found[0] - edges[0]) <= 1 and abs(found[-1] - edges[-1]) <= 1
    columns = np.flatnonzero(near.any(axis=0))[5:-5]
    for column in columns[::10]:
        edges = np.flatnonzero(np.diff(near[:, column].astype(int)))
        found = np.flatnonzero(np.diff(((aligned[:, column] > 0) & (aligned[:, column] < 1.3)).astype(int)))
        assert abs(found[0] - edges[0]) <= 1 and abs(found[-1] - edges[-1]) <= 1
