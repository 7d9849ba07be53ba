"""One picture of colour and depth that belong together, asked for when it is wanted: a camera sends nothing while nobody listens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, Image

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
        frame: of the camera, x right, y down, z forward.
    """

    colour: np.ndarray
    depth: np.ndarray
    K: np.ndarray
    frame: str


class TrayCamera:
    """A driver's topics, aligned depth to colour.

    Args:
        node: that looks. patience: in which a picture has to come, wall time [s].
    """

    def __init__(self, node, patience: float) -> None:
        self._node, self._patience = node, patience

    def look(self) -> Iterator[None]:
        """Steps that return a picture (`Seen`) whose three messages are of one moment from now on.

        Raises:
            ValueError: none comes, or one is not as a driver of a depth camera sends it.
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
                    return _seen(*(found[topic][stamp] for topic in (COLOUR, DEPTH, INFO)))
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

    def _readers(self) -> dict[str, Subscription]:
        """Of one look: a search and a service may look at the same time."""
        return {
            COLOUR: create_polled_subscription(self._node, Image, "camera/color/image_raw", SENSOR),
            DEPTH: create_polled_subscription(self._node, Image, "camera/aligned_depth_to_color/image_raw", SENSOR),
            INFO: create_polled_subscription(self._node, CameraInfo, "camera/color/camera_info", SENSOR),
        }


def _seen(colour: Image, depth: Image, info: CameraInfo) -> Seen:
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
        colour.header.frame_id,
    )
