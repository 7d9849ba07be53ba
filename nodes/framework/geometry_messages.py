"""Points, vectors and wrenches between messages and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Vector3, Wrench

__all__ = ["point_message", "points_of", "vector_message", "wrench_message"]


def point_message(point: np.ndarray) -> Point:
    """Of (3,) [m]."""
    x, y, z = (float(value) for value in point)
    return Point(x=x, y=y, z=z)


def vector_message(vector: np.ndarray) -> Vector3:
    """Of (3,), in whatever unit."""
    x, y, z = (float(value) for value in vector)
    return Vector3(x=x, y=y, z=z)


def wrench_message(force: np.ndarray, torque: np.ndarray) -> Wrench:
    """Of (3,) [N] and (3,) [N m]."""
    return Wrench(force=vector_message(force), torque=vector_message(torque))


def points_of(points: Sequence[Any]) -> np.ndarray:
    """Points or vectors of a message (n, 3)."""
    return np.array([[p.x, p.y, p.z] for p in points], float).reshape(-1, 3)
