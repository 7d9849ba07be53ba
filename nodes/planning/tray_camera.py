"""One picture of colour and depth that belong together, asked for when it is wanted: a camera sends nothing while nobody listens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, Image

from nodes.frames.transform_listener import TransformListener
from nodes.frames.transforms import TransformError
from nodes.framework.joint_state_gate import seconds
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import SENSOR

__all__ = ["Seen", "TrayCamera"]

COLOUR, DEPTH, INFO = "colour", "depth", "intrinsics"


@dataclass(frozen=True, eq=False)
class Seen:
    """A picture.

    Attributes:
        colour: (h, w, 3) uint8. depth: along the optical axis (h, w) [m]; NaN: not measured. K: intrinsics (3, 3) [pixel].
        pose: of the camera in the frame that was asked for, x right, y down, z forward (4, 4).
    """

    colour: np.ndarray
    depth: np.ndarray
    K: np.ndarray
    pose: np.ndarray


class TrayCamera:
    """A driver's topics, aligned depth to colour.

    Args:
        node: that looks. patience: in which a picture has to come, and where it was taken from, wall time [s].
        frame: in which the camera's poses are told.
    """

    def __init__(self, node, patience: float, frame: str) -> None:
        self._node, self._patience, self._frame = node, patience, frame
        self._frames = TransformListener(node)

    def destroy(self) -> None:
        """Free what it listens with."""
        self._frames.destroy()

    def time_jumped_back(self) -> None:
        """Forget where frames were at times that are yet to come."""
        self._frames.clear()

    def look(self) -> Iterator[None]:
        """Steps that return a picture (`Seen`) whose three messages are of one moment from now on.

        Raises:
            ValueError: none comes, or one is not as a driver of a depth camera sends it.
            TransformError: nobody says where the camera is.
        """
        began, now = time.monotonic(), self._node.get_clock().now().nanoseconds * 1e-9
        readers = self._readers()
        found: dict[str, dict[float, object]] = {COLOUR: {}, DEPTH: {}, INFO: {}}
        try:
            while True:
                for topic, reader in readers.items():
                    found[topic] |= {
                        stamp: message for message, _ in take(reader) if (stamp := seconds(message.header.stamp)) >= now
                    }
                if common := set(found[COLOUR]) & set(found[DEPTH]) & set(found[INFO]):
                    stamp = max(common)
                    colour, depth, info = (found[topic][stamp] for topic in (COLOUR, DEPTH, INFO))
                    X = yield from self._pose_of(colour.header.frame_id, began)
                    return _seen(colour, depth, info, X)
                if time.monotonic() - began > self._patience:
                    missing = [topic for topic, messages in found.items() if not messages]
                    raise ValueError(
                        f"no picture came within {self._patience:g} s ({', '.join(missing) or 'its parts are of different moments'}): "
                        "is the camera running, and does it send depth aligned to colour?"
                    )
                yield
        finally:
            for reader in readers.values():
                self._node.destroy_subscription(reader)

    def _pose_of(self, camera: str, began: float) -> Iterator[None]:
        """Steps that return where a camera is: who has just begun to listen has not heard of every frame yet."""
        while True:
            try:
                return self._frames.lookup(self._frame, camera)
            except TransformError:
                if time.monotonic() - began > self._patience:
                    raise
            yield

    def _readers(self) -> dict[str, Subscription]:
        """Of one look: a search and a service may look at the same time."""
        return {
            COLOUR: create_polled_subscription(self._node, Image, "camera/color/image_raw", SENSOR),
            DEPTH: create_polled_subscription(self._node, Image, "camera/aligned_depth_to_color/image_raw", SENSOR),
            INFO: create_polled_subscription(self._node, CameraInfo, "camera/color/camera_info", SENSOR),
        }


def _seen(colour: Image, depth: Image, info: CameraInfo, pose: np.ndarray) -> Seen:
    if (colour.encoding, depth.encoding) != ("rgb8", "16UC1") or (colour.height, colour.width) != (
        depth.height,
        depth.width,
    ):
        raise ValueError(
            f"expected pictures rgb8 and 16UC1 of one size, found {colour.encoding} {colour.width}x{colour.height} and {depth.encoding} "
            f"{depth.width}x{depth.height}: have the driver align depth to colour"
        )
    painted = np.frombuffer(bytes(colour.data), np.uint8).reshape(colour.height, -1)[:, : 3 * colour.width]
    measured = np.frombuffer(bytes(depth.data), "<u2").reshape(depth.height, -1)[:, : depth.width]
    metres = np.where(measured > 0, measured * 1e-3, np.nan)
    return Seen(
        painted.reshape(colour.height, colour.width, 3),
        metres,
        np.array(info.k, float).reshape(3, 3),
        pose,
    )
