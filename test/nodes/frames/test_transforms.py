"""The small transform buffer: chains both ways, interpolation at a stamp, honest refusals."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import TransformStamped
from tf2_msgs.msg import TFMessage

from nodes.frames.transforms import TransformBuffer, TransformError


def message(parent, child, t, position=(0, 0, 0), axis=(0, 0, 1), angle=0.0):
    m = TransformStamped(child_frame_id=child)
    m.header.frame_id = parent
    m.header.stamp.sec, m.header.stamp.nanosec = int(t), round((t - int(t)) * 1e9)
    p, r = m.transform.translation, m.transform.rotation
    p.x, p.y, p.z = map(float, position)
    r.x, r.y, r.z = map(float, np.sin(angle / 2) * np.asarray(axis, float))
    r.w = float(np.cos(angle / 2))
    return TFMessage(transforms=[m])


def turn_z(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


@pytest.fixture
def tree():
    """world -> base (static, 1 m up) -> arm (turns about z at 1 rad/s, known from 10 s to 11 s) -> tool (static, 0.5 m along x)."""
    buffer = TransformBuffer()
    buffer.add_static(message("world", "base", 0.0, (0, 0, 1)))
    buffer.add_static(message("arm", "tool", 0.0, (0.5, 0, 0)))
    for t in np.arange(10.0, 11.01, 0.1):
        buffer.add(message("base", "arm", t, angle=t - 10.0))
    return buffer


def test_chain_up_and_down_with_interpolation(tree):
    X = tree.lookup("world", "tool", 10.25)
    np.testing.assert_allclose(X[:3, :3], turn_z(0.25), atol=1e-8)
    np.testing.assert_allclose(X[:3, 3], [0.5 * np.cos(0.25), 0.5 * np.sin(0.25), 1.0], atol=1e-8)
    np.testing.assert_allclose(tree.lookup("tool", "world", 10.25) @ X, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(tree.lookup("arm", "tool", 3.0)[:3, 3], [0.5, 0, 0])  # static: always
    np.testing.assert_allclose(tree.lookup("world", "arm")[:3, :3], turn_z(1.0), atol=1e-8)  # newest


def test_the_newest_motion_is_continued_within_patience_only(tree):
    np.testing.assert_allclose(tree.lookup("base", "arm", 11.05, patience=0.15)[:3, :3], turn_z(1.05), atol=1e-8)
    with pytest.raises(TransformError, match="known until 11.000"):
        tree.lookup("base", "arm", 11.2, patience=0.15)
    with pytest.raises(TransformError, match="known from 10.000"):
        tree.lookup("base", "arm", 9.9)
    # Two poses too far apart give no speed.
    np.testing.assert_allclose(tree.lookup("base", "arm", 11.05, patience=0.06)[:3, :3], turn_z(1.0), atol=1e-8)


def test_the_shorter_way_round_and_quaternions_of_either_sign():
    buffer = TransformBuffer()
    buffer.add(message("a", "b", 0.0, angle=0.2))
    later = message("a", "b", 1.0, angle=0.4)
    r = later.transforms[0].transform.rotation
    r.z, r.w = -r.z, -r.w
    buffer.add(later)
    np.testing.assert_allclose(buffer.lookup("a", "b", 0.5)[:3, :3], turn_z(0.3), atol=1e-8)


def test_what_is_not_connected_or_malformed():
    buffer = TransformBuffer()
    with pytest.raises(TransformError, match="known frames: none"):
        buffer.lookup("world", "tool")
    buffer.add(message("world", "a", 1.0))
    buffer.add(message("island", "b", 1.0))
    with pytest.raises(TransformError, match="no connection from b to world"):
        buffer.lookup("world", "b")
    broken = message("world", "a", 2.0)
    broken.transforms[0].transform.rotation.w = 0.0
    buffer.add(broken)  # no rotation: ignored
    assert np.isfinite(buffer.lookup("world", "a", 1.0)).all()
    buffer.add(message("a", "world", 1.0))
    with pytest.raises(TransformError, match="ring"):
        buffer.lookup("world", "b")


def test_history_is_bounded_and_time_may_go_back():
    buffer = TransformBuffer(history=1.05)
    for t in np.arange(0.0, 5.0, 0.1):
        buffer.add(message("a", "b", t))
    with pytest.raises(TransformError, match="known from 3.9"):
        buffer.lookup("a", "b", 3.0)
    buffer.add(message("a", "b", 1.0, angle=1.0))  # further back than the history: a clock set back
    np.testing.assert_allclose(buffer.lookup("a", "b", 1.0)[:3, :3], turn_z(1.0), atol=1e-8)
    buffer.clear()
    with pytest.raises(TransformError):
        buffer.lookup("a", "b")
