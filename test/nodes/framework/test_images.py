"""Pictures, intrinsics and clouds as messages: what is put in comes out again."""

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytestmark = pytest.mark.pure

from builtin_interfaces.msg import Time

from nodes.framework.clouds import cloud_message, cloud_points, cloud_spheres
from nodes.framework.images import buffer, camera_info_message, depth_pixels, image_message

STAMP = Time(sec=3, nanosec=4)


@pytest.mark.parametrize(
    "encoding, shape, kind", [("rgb8", (4, 6, 3), "u1"), ("16UC1", (4, 6), "<u2"), ("mono8", (1, 1), "u1")]
)
def test_pixels_come_out_again(encoding, shape, kind):
    pixels = np.random.default_rng(0).integers(0, 255, shape).astype(kind)
    message = image_message(np.flip(pixels, 0), encoding, STAMP, "eye")  # rows that are not in the memory's order
    assert (message.height, message.width, message.encoding) == (*shape[:2], encoding)
    assert (message.header.stamp, message.header.frame_id) == (STAMP, "eye")
    assert message.step * message.height == len(message.data)
    assert np.array_equal(np.frombuffer(message.data, kind).reshape(shape), np.flip(pixels, 0))


@pytest.mark.parametrize(
    "kind, unit, encoding", [("<u2", 1e-3, "16UC1"), (">u2", 1e-3, "16UC1"), ("<f4", 1.0, "32FC1")]
)
def test_depths_are_metres_and_nothing_is_no_depth(kind, unit, encoding):
    told = np.array([[0, 250, 1000], [40000, 0, 3]])
    message = image_message((told * 1e-3 / unit).astype(kind), encoding, STAMP, "eye")
    message.is_bigendian = int(kind.startswith(">"))
    expected = np.where(told > 0, 1e-3 * told, np.nan)
    assert depth_pixels(message) == pytest.approx(expected, nan_ok=True, rel=1e-6)


def test_depths_that_are_none_are_refused():
    message = image_message(np.zeros((4, 6), "<u2"), "mono8", STAMP, "eye")
    with pytest.raises(ValueError, match="expected depth as 16UC1 or 32FC1, found 'mono8'"):
        depth_pixels(message)
    message.encoding, message.height = "16UC1", 5
    with pytest.raises(ValueError, match="expected 5 rows of 6 depths of 2 bytes, found 48 bytes"):
        depth_pixels(message)


def test_intrinsics_and_the_right_eye_of_a_pair():
    K = np.array([[200.0, 0.0, 99.5], [0.0, 210.0, 79.5], [0.0, 0.0, 1.0]])
    message = camera_info_message(K, 200, 160, STAMP, "eye", baseline=0.05)
    assert np.array_equal(np.reshape(message.k, (3, 3)), K) and list(message.d) == [0.0] * 5
    P = np.reshape(message.p, (3, 4))
    # A point 1 m ahead of the left eye appears 0.05 * 200 pixels to the left of the middle of the right one.
    assert P @ [0.0, 0.0, 1.0, 1.0] == pytest.approx([99.5 - 10.0, 79.5, 1.0])


@pytest.mark.parametrize("count", [0, 1, 50])
@pytest.mark.parametrize("is_coloured", [False, True])
def test_points_and_colours_come_out_again(count, is_coloured):
    rng = np.random.default_rng(1)
    points, colours = rng.normal(size=(count, 3)), rng.integers(0, 256, (count, 3)).astype(np.uint8)
    message = cloud_message(points, STAMP, "eye", colours if is_coloured else None)
    assert (message.width, message.row_step, len(message.data)) == (count, *[count * message.point_step] * 2)
    found, painted = cloud_points(message)
    assert np.array_equal(found, points.astype(np.float32))
    if is_coloured:
        assert np.array_equal(painted, colours)


def test_nothing_has_no_bytes():
    assert len(buffer(np.zeros((0, 3)))) == 0


def test_spheres_travel_in_a_cloud_with_their_radii_and_colours():
    spheres = np.array([[0.1, 0.2, 0.3, 0.01], [1, 2, 3, 0.5]], np.float32)
    colours = np.array([[1, 2, 3], [255, 0, 128]], np.uint8)
    message = cloud_message(spheres[:, :3], Time(sec=3), "world", colours, spheres[:, 3])
    found, painted = cloud_spheres(message)
    np.testing.assert_array_equal(found, spheres)
    np.testing.assert_array_equal(painted, colours)
    points, same = cloud_points(message)
    np.testing.assert_array_equal(points, spheres[:, :3])
    np.testing.assert_array_equal(same, colours)
    assert message.point_step == 20
    with pytest.raises(ValueError, match="field 'radius'"):
        cloud_spheres(cloud_message(spheres[:, :3], Time(sec=3), "world"))
