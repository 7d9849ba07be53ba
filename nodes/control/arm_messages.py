"""Poses and wrenches of an arm, as messages say them."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Pose as PoseMessage
from geometry_msgs.msg import WrenchStamped
from scipy.spatial.transform import Rotation

from sim_core.telepresence.clutch import Pose

__all__ = ["WORLD", "in_world", "pose_message", "wrench_of"]

#: frame of the arm's base, in which places are told
WORLD = "world"


def in_world(frame: str) -> None:
    """Raises ValueError: a place that is told in this frame is told in another one than the arm's base."""
    if frame not in ("", WORLD):
        raise ValueError(
            f"expected a point in the frame of the arm's base, '{WORLD}' or '', found '{frame}': transform it before"
        )


def pose_message(pose: Pose) -> PoseMessage:
    """Of a pose in right-handed axes."""
    message = PoseMessage()
    message.position.x, message.position.y, message.position.z = (float(x) for x in pose.position)
    x, y, z, w = (float(value) for value in Rotation.from_matrix(pose.rotation).as_quat())
    message.orientation.x, message.orientation.y, message.orientation.z, message.orientation.w = x, y, z, w
    return message


def wrench_of(message: WrenchStamped) -> np.ndarray:
    """(6,) [N, N m], force first, in the axes of the message's frame."""
    force, torque = message.wrench.force, message.wrench.torque
    return np.array([force.x, force.y, force.z, torque.x, torque.y, torque.z])
