"""Boxes that stand around a robot, as people write them and as the robot sees them from where it has driven.

box = standing_box("table: 0.87 0 0.735 0.5 1.6 0.03")      # middle and edges [m], and a turn about the vertical [deg], if any
seen_from(box, (1.0, 0.0, 0.3))                             # in the axes of a base that is there
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.collision_guard import Box

__all__ = ["WRITTEN", "seen_from", "standing_box", "standing_boxes"]

#: how one is written, in sentences
WRITTEN = "'name: x y z dx dy dz' or 'name: x y z dx dy dz yaw'"


def standing_boxes(texts: Sequence[str]) -> tuple[Box, ...]:
    """Each of them; see `standing_box`.

    Raises:
        ValueError: one is not so written, or two have one name.
    """
    found = tuple(standing_box(text) for text in texts)
    names = [box.name for box in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"boxes: expected a name of its own for each, found '{twice[0]}' twice")
    return found


def standing_box(text: str) -> Box:
    """Of 'name: x y z dx dy dz' or 'name: x y z dx dy dz yaw'.

    Where its middle is [m], how long its edges are [m] and how far it is turned about the vertical, anticlockwise [deg], in the frame in
    which the joints of the robot's base count; without a base, in the world.

    Raises:
        ValueError: it is not so written, or an edge has no length.
    """
    name, _, numbers = text.partition(":")
    try:
        values = [float(number) for number in numbers.split()]
        good = name.strip() and len(values) in (6, 7) and np.isfinite(values).all() and min(values[3:6]) > 0.0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"boxes: expected {WRITTEN}, in metres with edges above 0, the yaw in degrees, found '{text}'")
    yaw = float(np.deg2rad(values[6])) if len(values) == 7 else 0.0
    return Box(name.strip(), Pose(np.array(values[:3]), _about_z(yaw)), 0.5 * np.array(values[3:6]))


def seen_from(box: Box, base: np.ndarray | Sequence[float]) -> Box:
    """The same in the axes of a base at x, y [m] and yaw [rad]."""
    x, y, yaw = base
    R = _about_z(float(yaw)).T
    pose = Pose(R @ (box.pose.position - (x, y, 0.0)), R @ box.pose.rotation)
    return Box(box.name, pose, box.half)


def _about_z(yaw: float) -> np.ndarray:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
