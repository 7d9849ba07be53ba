"""Rotations as vectors, axis times angle, of one rotation at a time: what a cycle asks for ten times over.

Written out in plain numbers, since scipy's Rotation takes 100 us for what takes 3 us here.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.transform import Rotation

__all__ = ["rotation_matrix", "rotation_vector", "yaw_pitch_roll"]

#: below which a square vanishes
TINY = 1e-100
#: sine of a pitch from which on yaw and roll are one turn
STEEP = 1.0 - 1e-9


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Of a rotation (3, 3): axis times angle (3,) [rad], the angle at most a half turn.

    By the largest entry of the quaternion, which neither a small nor a half turn makes vanish (Shepperd 1978).
    """
    (a, b, c), (d, e, f), (g, h, i) = rotation.tolist()
    largest = max(a, e, i, a + e + i)
    if largest == a + e + i:
        w, x, y, z = 1.0 + a + e + i, h - f, c - g, d - b
    elif largest == a:
        w, x, y, z = h - f, 1.0 + a - e - i, b + d, c + g
    elif largest == e:
        w, x, y, z = c - g, b + d, 1.0 - a + e - i, f + h
    else:
        w, x, y, z = d - b, c + g, f + h, 1.0 - a - e + i
    sine = math.sqrt(x * x + y * y + z * z)
    share = 2.0 * math.atan2(sine, abs(w)) / sine if sine > TINY else 2.0 / abs(w)
    share = math.copysign(share, w)
    return np.array([share * x, share * y, share * z])


def rotation_matrix(vector: np.ndarray) -> np.ndarray:
    """The rotation (3, 3) about an axis by an angle, which are a vector's (3,) direction and length [rad] (Rodrigues)."""
    x, y, z = vector.tolist()
    angle = math.sqrt(x * x + y * y + z * z)
    if angle > TINY:
        s, k = math.sin(angle) / angle, 2.0 * (math.sin(0.5 * angle) / angle) ** 2
    else:
        s, k = 1.0, 0.5
    return np.array(
        [
            [1.0 - k * (y * y + z * z), k * x * y - s * z, k * x * z + s * y],
            [k * x * y + s * z, 1.0 - k * (x * x + z * z), k * y * z - s * x],
            [k * x * z - s * y, k * y * z + s * x, 1.0 - k * (x * x + y * y)],
        ]
    )


def yaw_pitch_roll(rotation: np.ndarray) -> np.ndarray:
    """Angles (3,) [rad] of R_z(yaw) R_y(pitch) R_x(roll) that are a rotation (3, 3); what looks straight up or down has one angle 0."""
    (a, _, _), (d, _, _), (g, h, i) = rotation.tolist()
    if abs(g) > STEEP:
        return Rotation.from_matrix(rotation).as_euler("ZYX")
    return np.array([math.atan2(d, a), -math.asin(g), math.atan2(h, i)])
