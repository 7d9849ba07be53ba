"""A way of the blade through the air: from a pose through places where it rests for a moment, without a jump in speed.

    path = BladePath(pose, [Place(above, yaw, angle), Place(there, yaw, angle)], speed=0.25, turning=1.0)
    pose, twist = path.at(t)                       # t from 0 to path.duration

A place is a position, a yaw and an angle of the blade (`primitive.py`), so that a load is carried level and never rolled off. The yaw
goes from its number to the next one, not the shorter way round: a wrist that always goes the shorter way winds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.scooping.arm.primitive import PEAK, blade_rotation, least_jerk
from sim_core.telepresence.clutch import Pose

__all__ = ["LEAST", "BladePath", "Place", "place_of"]

#: [s] that a leg takes at least
LEAST = 0.1


@dataclass(frozen=True, eq=False)
class Place:
    """Where the blade is, without roll: position of its edge (3,) [m], yaw, of which whole turns count, and angle [rad]."""

    position: np.ndarray
    yaw: float
    angle: float

    @property
    def pose(self) -> Pose:
        """Of the blade."""
        return Pose(np.asarray(self.position, float), blade_rotation(self.yaw, self.angle))


def place_of(pose: Pose, near: float = 0.0) -> Place:
    """The place of a blade, but for its roll.

    Args:
        near: of all numbers of its yaw, which differ by whole turns, the one nearest to this is meant [rad].
    """
    left, x = pose.rotation[:, 1], pose.rotation[:, 0]
    yaw = float(np.arctan2(-left[0], left[1]))
    yaw += 2.0 * np.pi * round((near - yaw) / (2.0 * np.pi))
    forward = x[0] * np.cos(yaw) + x[1] * np.sin(yaw)
    return Place(pose.position, yaw, float(np.arctan2(-x[2], -forward)) % (2.0 * np.pi))


class BladePath:
    """See the module's docstring.

    Args:
        begin: where the blade is; a roll of it is taken back on the first leg. way: places, the last one is the goal.
        speed, turning: at most [m/s], [rad/s]. near: of the yaw that it has, see `place_of` [rad].

    Attributes:
        duration: of all of it [s]. goal: the last place.
    """

    def __init__(self, begin: Pose, way: Sequence[Place], speed: float, turning: float, near: float = 0.0) -> None:
        first = place_of(begin, near)
        self._roll = Rotation.from_matrix(blade_rotation(first.yaw, first.angle).T @ begin.rotation).as_rotvec()
        self._places = [first, *way]
        self.goal = self._places[-1]
        times = [0.0]
        for k, (a, b) in enumerate(zip(self._places, self._places[1:])):
            turn = abs(b.yaw - a.yaw) + abs(b.angle - a.angle)
            turn += float(np.linalg.norm(self._roll)) if k == 0 else 0.0
            far = float(np.linalg.norm(np.asarray(b.position) - a.position))
            times.append(times[-1] + max(LEAST, PEAK * far / speed, PEAK * turn / turning))
        self._times = np.array(times)
        self.duration = float(times[-1])

    def at(self, t: float) -> tuple[Pose, np.ndarray]:
        """Pose, and velocity of the edge and of the turn (6,) [m/s], [rad/s], at a time [s]; it rests before and after its time."""
        if len(self._places) == 1:
            return self.goal.pose, np.zeros(6)
        k = min(max(int(np.searchsorted(self._times, t, side="right")) - 1, 0), len(self._places) - 2)
        begin, span = self._times[k], self._times[k + 1] - self._times[k]
        share, rate = least_jerk(float(np.clip((t - begin) / span, 0.0, 1.0)))
        a, b = self._places[k], self._places[k + 1]
        way = np.asarray(b.position) - a.position
        yaw, angle = a.yaw + share * (b.yaw - a.yaw), a.angle + share * (b.angle - a.angle)
        rotation = blade_rotation(yaw, angle)
        spin = np.array([0.0, 0.0, b.yaw - a.yaw]) - (b.angle - a.angle) * rotation[:, 1]
        if k == 0 and self._roll.any():
            spin = spin - rotation @ self._roll
            rotation = rotation @ Rotation.from_rotvec((1.0 - share) * self._roll).as_matrix()
        return Pose(a.position + share * way, rotation), rate / span * np.r_[way, spin]
