"""Where frames were relative to each other at a moment: the part of tf2 that these nodes need.

    transforms = TransformBuffer()
    node.create_subscription(TFMessage, "/tf", transforms.add, ...)
    node.create_subscription(TFMessage, "/tf_static", transforms.add_static, ...)
    X = transforms.lookup("world", "ft_sensor_link", stamp)         # pose of ft_sensor_link in world

Times are seconds of the messages' clock.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque

import numpy as np

__all__ = ["TransformBuffer", "TransformError"]


class TransformError(LookupError):
    """No transform between two frames at a time; the text says which frame or which time is missing."""


class TransformBuffer:
    """The recent past of a tree of frames. Safe to use from several threads.

    Args:
        history: kept of each frame [s].
    """

    def __init__(self, history: float = 10.0) -> None:
        self.history = history
        self._lock = threading.Lock()
        # child -> (parent, times, poses (7,): x y z, quaternion xyzw); times None: static
        self._frames: dict[str, tuple[str, deque | None, deque]] = {}

    def add(self, message) -> None:
        """Poses of a tf2_msgs/TFMessage that hold at their stamps."""
        for transform in message.transforms:
            self._add(transform, static=False)

    def add_static(self, message) -> None:
        """Poses that hold always."""
        for transform in message.transforms:
            self._add(transform, static=True)

    def clear(self) -> None:
        """Forget what has a time in it: time went back."""
        with self._lock:
            self._frames = {child: entry for child, entry in self._frames.items() if entry[1] is None}

    def _add(self, transform, static: bool) -> None:
        p, q = transform.transform.translation, transform.transform.rotation
        pose = np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
        norm = np.linalg.norm(pose[3:])
        if not np.isfinite(pose).all() or norm < 1e-6:
            return
        pose[3:] /= norm
        parent, child = transform.header.frame_id.lstrip("/"), transform.child_frame_id.lstrip("/")
        stamp = transform.header.stamp.sec + 1e-9 * transform.header.stamp.nanosec
        with self._lock:
            known = self._frames.get(child)
            if static:
                self._frames[child] = parent, None, deque([pose])
                return
            if known is None or known[0] != parent or known[1] is None:
                known = self._frames[child] = parent, deque(), deque()
            _, times, poses = known
            if times and stamp <= times[-1]:
                if stamp > times[-1] - self.history:
                    return  # a repetition, or late
                times.clear()  # the clock was set back
                poses.clear()
            times.append(stamp)
            poses.append(pose)
            while times[0] < stamp - self.history:
                times.popleft()
                poses.popleft()

    def lookup(self, target: str, source: str, stamp: float | None = None, patience: float = 0.0) -> np.ndarray:
        """Pose of frame `source` in frame `target`, (4, 4); X_target_source x_source = x_target.

        Args:
            stamp: when [s]; None: the newest time of each frame on the way.
            patience: how far beyond the newest known pose a stamp may lie, the last motion being continued [s].

        Raises:
            TransformError: frames that are not connected, or a stamp outside what is known.
        """
        target, source = target.lstrip("/"), source.lstrip("/")
        with self._lock:
            up_source, up_target = self._chain(source), self._chain(target)
            common = next((frame for frame in up_source if frame in up_target), None)
            if common is None:
                raise TransformError(
                    f"no connection from {source} to {target}; known frames: {', '.join(sorted(self._frames)) or 'none'}"
                )
            return np.linalg.inv(self._pose_in(common, target, stamp, patience)) @ self._pose_in(
                common, source, stamp, patience
            )

    def _chain(self, frame: str) -> list[str]:
        """The frame and those above it."""
        chain = [frame]
        while chain[-1] in self._frames:
            above = self._frames[chain[-1]][0]
            if above in chain:
                raise TransformError(f"frames form a ring: {' -> '.join((*chain, above))}")
            chain.append(above)
        return chain

    def _pose_in(self, ancestor: str, frame: str, stamp: float | None, patience: float) -> np.ndarray:
        X = np.eye(4)
        while frame != ancestor:
            parent, times, poses = self._frames[frame]
            X = _matrix(poses[-1] if times is None or stamp is None else _at(frame, times, poses, stamp, patience)) @ X
            frame = parent
        return X


def _at(frame: str, times: deque, poses: deque, stamp: float, patience: float) -> np.ndarray:
    """The pose at a stamp: between its neighbours, or beyond the newest at the speed between the newest two."""
    if stamp < times[0]:
        raise TransformError(f"{frame} is known from {times[0]:.3f} s on, asked for {stamp:.3f} s")
    if stamp > times[-1] + patience:
        raise TransformError(f"{frame} is known until {times[-1]:.3f} s, asked for {stamp:.3f} s")
    if stamp > times[-1] and (len(times) < 2 or times[-1] - times[-2] > patience):
        return poses[-1]  # no speed to speak of
    after = min(bisect_left(times, stamp), len(times) - 1)
    if times[after] == stamp:
        return poses[after]
    s = (stamp - times[after - 1]) / (times[after] - times[after - 1])
    a, b = poses[after - 1], poses[after]
    return np.concatenate([(1.0 - s) * a[:3] + s * b[:3], _slerp(a[3:], b[3:], s)])


def _slerp(a: np.ndarray, b: np.ndarray, s: float) -> np.ndarray:
    """Unit quaternion at s on the shorter way from a (0) to b (1), and beyond (Shoemake 1985).

    By hand, because a driver asks for it at its sensor's rate: 7 us here, 224 us by scipy's Rotation, whose import alone
    would double a driver's start.
    """
    cosine = float(a @ b)
    if cosine < 0.0:
        b, cosine = -b, -cosine
    if cosine > 1.0 - 1e-9:  # sin(angle) is lost to rounding, the chord is not
        q = (1.0 - s) * a + s * b
        return q / np.linalg.norm(q)
    angle = np.arccos(cosine)
    return (np.sin((1.0 - s) * angle) * a + np.sin(s * angle) * b) / np.sin(angle)


def _matrix(pose: np.ndarray) -> np.ndarray:
    """(4, 4) of x y z and a unit quaternion xyzw."""
    x, y, z, w = pose[3:]
    X = np.eye(4)
    X[:3, 3] = pose[:3]
    X[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return X
