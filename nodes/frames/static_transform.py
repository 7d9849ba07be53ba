"""Where one frame is in another, for good: what `refit calibrate camera` and `scanner` found, as a transform.

    static_transform --ros-args --params-file runs/calibrate-camera-.../static_transform.yaml

Parameters are named as those of tf2_ros's component of the same purpose. Page: docs/nodes/static_transform.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geometry_msgs.msg import Quaternion, Transform, TransformStamped, Vector3
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from nodes.framework.config import setting
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.qos import LATCHED

__all__ = ["StaticTransform", "StaticTransformConfig", "main"]


def _length(axis: str) -> float:
    return setting(
        0.0,
        "m",
        (-1e4, 1e4),
        f"of the child's origin in the parent, along {axis}",
        name=f"translation.{axis}",
        read_only=True,
    )


def _turn(axis: str, default: float = 0.0) -> float:
    return setting(default, "", (-1.0, 1.0), f"of the quaternion, {axis}", name=f"rotation.{axis}", read_only=True)


@dataclass(frozen=True)
class StaticTransformConfig:
    """Parameters of `static_transform`."""

    frame_id: str = setting("", description="parent", read_only=True)
    child_frame_id: str = setting("", description="child", read_only=True)
    translation_x: float = _length("x")
    translation_y: float = _length("y")
    translation_z: float = _length("z")
    rotation_x: float = _turn("x")
    rotation_y: float = _turn("y")
    rotation_z: float = _turn("z")
    rotation_w: float = _turn("w", 1.0)

    def __post_init__(self):
        if not self.frame_id or not self.child_frame_id or self.frame_id == self.child_frame_id:
            raise ValueError(
                f"frame_id is '{self.frame_id}' and child_frame_id '{self.child_frame_id}': name two different frames."
            )
        norm = math.hypot(self.rotation_x, self.rotation_y, self.rotation_z, self.rotation_w)
        if abs(norm - 1.0) > 1e-3:
            raise ValueError(f"rotation has length {norm:.4g}, a quaternion of a rotation has 1.")


class StaticTransform(RefitNode):
    """See the module's docstring."""

    name = "static_transform"
    Config = StaticTransformConfig
    _publisher = None

    def configure(self) -> None:
        self._publisher = self.create_publisher(TFMessage, "/tf_static", LATCHED)

    def activate(self) -> None:
        c = self.config
        transform = Transform(
            translation=Vector3(x=c.translation_x, y=c.translation_y, z=c.translation_z),
            rotation=Quaternion(x=c.rotation_x, y=c.rotation_y, z=c.rotation_z, w=c.rotation_w),
        )
        header = Header(stamp=self.stamp_now(), frame_id=c.frame_id)
        self._publisher.publish(
            TFMessage(
                transforms=[TransformStamped(header=header, child_frame_id=c.child_frame_id, transform=transform)]
            )
        )

    def cleanup(self) -> None:
        if self._publisher is not None:
            self.destroy_publisher(self._publisher)
        self._publisher = None


def main(args=None) -> int:
    return spin_main(StaticTransform, args)
