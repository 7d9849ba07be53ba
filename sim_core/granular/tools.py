"""What grains meet besides grains: tools made of boxes with rounded edges, which move as they are told or stand still."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Part", "PartData", "Tool", "ToolData", "box", "container"]


@dataclass(frozen=True)
class Part:
    """A box with half lengths `half` [m] whose surface is `rounding` [m] outside of it; half lengths may be 0: a plate, a rod, a ball.

    Attributes:
        offset: of its middle in the tool's frame (3,) [m]. quaternion: of its axes there, w first (4,).
        material: name.
    """

    half: tuple[float, float, float]
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    rounding: float = 0.0
    material: str = "tool"


@dataclass(frozen=True)
class Tool:
    """Parts that move as one.

    Attributes:
        name: unique in a world. parts: see there. position: (3,) [m] and quaternion (4,) in the world at first.
    """

    name: str
    parts: tuple[Part, ...]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


class PartData(ctypes.Structure):
    """`granular_part` of runtime/law.h."""

    _fields_ = [
        ("tool", ctypes.c_int32),
        ("material", ctypes.c_int32),
        ("half", ctypes.c_float * 3),
        ("rounding", ctypes.c_float),
        ("offset", ctypes.c_float * 3),
        ("quaternion", ctypes.c_float * 4),
    ]


class ToolData(ctypes.Structure):
    """`granular_tool` of runtime/law.h."""

    _fields_ = [
        ("position", ctypes.c_double * 3),
        ("quaternion", ctypes.c_double * 4),
        ("velocity", ctypes.c_double * 3),
        ("spin", ctypes.c_double * 3),
    ]


def box(low: Sequence[float], high: Sequence[float], material: str = "tool", rounding: float = 0.0) -> Part:
    """The part that fills a box along the tool's axes, from corner to corner (3,) [m]."""
    low_, high_ = np.asarray(low, float), np.asarray(high, float)
    half = 0.5 * (high_ - low_) - rounding
    if (half < 0.0).any():
        raise ValueError(f"a box of {(high_ - low_).tolist()} m has no room for edges rounded by {rounding} m")
    x, y, z = 0.5 * (low_ + high_)
    return Part((half[0], half[1], half[2]), (x, y, z), rounding=rounding, material=material)


def container(size: Sequence[float], wall: float = 0.1, material: str = "tool", name: str = "world") -> Tool:
    """A box that is open above: inside from -size/2 to size/2 in x and y, from 0 to size[2] in z [m]; walls are `wall` thick."""
    x, y, z = 0.5 * size[0], 0.5 * size[1], size[2]
    out = wall
    return Tool(
        name,
        (
            box((-x - out, -y - out, -out), (x + out, y + out, 0.0), material),
            box((-x - out, -y - out, -out), (-x, y + out, z), material),
            box((x, -y - out, -out), (x + out, y + out, z), material),
            box((-x - out, -y - out, -out), (x + out, -y, z), material),
            box((-x - out, y, -out), (x + out, y + out, z), material),
        ),
    )
