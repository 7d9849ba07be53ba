"""Where the joints of what stands before a simulated robot are, as a message: a rehearsed task's things, for who draws them.

A hinge or slide is one number under its own name; a free body seven: "canister_right/free.x", ..., "canister_right/free.qz".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sensor_msgs.msg import JointState

__all__ = ["scenery_joints", "scenery_message"]

#: names of a free joint's seven coordinates, behind its own and a dot: place [m] and quaternion
FREE = ("x", "y", "z", "qw", "qx", "qy", "qz")


def scenery_message(joints: Mapping[str, np.ndarray]) -> JointState:
    """Of positions (1,) or (7,) by the joints' names, without a stamp."""
    made = JointState()
    for name, values in joints.items():
        made.name += [name] if len(values) == 1 else [f"{name}.{part}" for part in FREE]
        made.position.extend(np.asarray(values, float).tolist())
    return made


def scenery_joints(message: JointState) -> dict[str, np.ndarray]:
    """What such a message says: each joint's position (1,), or place and quaternion (7,), by its name.

    Raises:
        ValueError: a number is missing or not finite.
    """
    if len(message.name) != len(message.position) or not np.isfinite(message.position).all():
        raise ValueError("expected a finite position for every joint of what stands there, found others")
    found: dict[str, list[float]] = {}
    for name, value in zip(message.name, message.position):
        found.setdefault(name.partition(".")[0], []).append(float(value))
    odd = [name for name, values in found.items() if len(values) not in (1, len(FREE))]
    if odd:
        raise ValueError(f"expected one number or seven for each joint of what stands there, found others for {odd[0]}")
    return {name: np.array(values) for name, values in found.items()}
