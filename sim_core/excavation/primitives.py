"""The nine motions that a bucket can be asked for, as displacements of its commanded pose over time.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["ACTIONS", "NAMES", "NULL", "WIGGLE", "PrimitiveSettings", "displacements", "duration", "offset"]

NAMES = ("+x", "-x", "+y", "-y", "+z", "-z", "+alpha", "-alpha", "wiggle")
ACTIONS, WIGGLE = len(NAMES), 8
#: stands for no action in front of a trajectory; never executed
NULL = 9


@dataclass(frozen=True)
class PrimitiveSettings:
    """Sizes and speeds.

    Attributes:
        translation [m], speed [m/s]; rotation [rad], turning [rad/s]; amplitude [m], frequency [Hz] and time [s] of a wiggle.
    """

    translation: float = 0.015
    speed: float = 0.01
    rotation: float = 0.1
    turning: float = 1.0
    amplitude: float = 0.02
    frequency: float = 1.0
    time: float = 4.0


def displacements(settings: PrimitiveSettings = PrimitiveSettings()) -> np.ndarray:
    """Where each primitive takes the pose in free space (9, 4) [m, m, m, rad]; the wiggle returns."""
    found = np.zeros((ACTIONS, 4))
    for axis in range(4):
        size = settings.translation if axis < 3 else settings.rotation
        found[2 * axis, axis], found[2 * axis + 1, axis] = size, -size
    return found


def duration(primitive: int, settings: PrimitiveSettings = PrimitiveSettings()) -> float:
    """How long a primitive lasts [s].

    Raises:
        ValueError: there is no such primitive.
    """
    if not 0 <= primitive < ACTIONS:
        raise ValueError(f"there are the primitives 0 to {ACTIONS - 1}, found {primitive}; {NULL} only pads histories")
    if primitive == WIGGLE:
        return settings.time
    return settings.translation / settings.speed if primitive < 6 else settings.rotation / settings.turning


def offset(
    primitive: int, t: float, settings: PrimitiveSettings = PrimitiveSettings()
) -> tuple[np.ndarray, np.ndarray]:
    """Displacement (4,) [m, m, m, rad] and its rate (4,) at a time t [s] after the start; what comes after the end rests."""
    lasts = duration(primitive, settings)
    place, rate = np.zeros(4), np.zeros(4)
    if primitive == WIGGLE:
        if t < lasts:
            phase = 2.0 * np.pi * settings.frequency
            place[0] = settings.amplitude * np.sin(phase * t)
            rate[0] = settings.amplitude * phase * np.cos(phase * t)
        return place, rate
    whole = displacements(settings)[primitive]
    return whole * min(t / lasts, 1.0), whole / lasts if t < lasts else rate
