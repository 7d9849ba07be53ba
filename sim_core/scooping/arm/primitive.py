"""The four movements of a scoop as one timed trajectory of the blade: penetrate, drag, close, lift.

    trajectory = ScoopTrajectory(ScoopAction(point, yaw=0.0, depth=0.05, stiffness="hard"))
    state = trajectory.at(t)                       # pose and twist of the blade, t from 0 to trajectory.duration

The blade is a frame at the middle of the scoop's cutting edge: x forward along the floor, y to the left, z out of the floor
towards the load. All of a scoop stays in the vertical plane through its starting point that the yaw gives, without roll. The
angle of the blade in that plane is 90 degrees where the edge points straight down, 180 where the floor is level, and more where
the edge points up: at 135 degrees it goes into the ground at a slope of one, at 190 degrees nothing slides out.

Source: Zhu, PhD thesis (University of Illinois 2023), chapter 6: the order of the movements, both angles, drag and lift. The
thesis says neither how fast they are nor about which point the scoop closes. Here every movement begins and ends at rest, and it
closes about a point between the tops of its sides: the edge cuts its way out along an arc, while about the edge itself the back
would come down on the ground behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from sim_core.telepresence.clutch import Pose

__all__ = [
    "PEAK",
    "BladeState",
    "Phase",
    "PrimitiveConfig",
    "ScoopAction",
    "ScoopTrajectory",
    "Stiffness",
    "blade_rotation",
    "least_jerk",
]

Stiffness = Literal["soft", "hard"]
#: greatest speed of a movement of least jerk over its mean speed
PEAK = 1.875


class Phase(Enum):
    """The movements, in their order; the value says them in words."""

    PENETRATE = "going into the ground along the blade"
    DRAG = "dragging forward"
    CLOSE = "closing"
    LIFT = "lifting"


@dataclass(frozen=True, eq=False)
class ScoopAction:
    """One scoop.

    Attributes:
        point: where the edge meets the surface (3,) [m]. yaw: of the drag about the vertical [rad].
        depth: of the edge below that point [m]. stiffness: of the arm, "soft" or "hard".

    Raises:
        ValueError: the point is none, the depth is not positive, or there is no such stiffness.
    """

    point: np.ndarray
    yaw: float
    depth: float
    stiffness: Stiffness = "hard"

    def __post_init__(self) -> None:
        point = np.asarray(self.point, float)
        if point.shape != (3,) or not np.isfinite([*point, self.yaw]).all():
            raise ValueError(
                f"a scoop begins at three finite numbers with a finite yaw, found {self.point} and {self.yaw}"
            )
        if not (np.isfinite(self.depth) and self.depth > 0.0):
            raise ValueError(f"depth: expected a positive number [m], found {self.depth}")
        if self.stiffness not in ("soft", "hard"):
            raise ValueError(f"stiffness: expected soft or hard, found '{self.stiffness}'")
        object.__setattr__(self, "point", point)


@dataclass(frozen=True)
class PrimitiveConfig:
    """What all scoops have in common; those with an asterisk are published.

    Attributes:
        attack, closing: angle of the blade while it penetrates and drags, and when it is closed [rad] *.
        drag, lift: how far forward, and up at the end [m] *.
        pivot: about which it closes, along x and z of the blade [m].
        speed, turning: at most, of the edge [m/s] and of the scoop [rad/s].
    """

    attack: float = float(np.deg2rad(135.0))
    closing: float = float(np.deg2rad(190.0))
    drag: float = 0.06
    lift: float = 0.02
    pivot: tuple[float, float] = (-0.06, 0.036)
    speed: float = 0.08
    turning: float = 0.8

    def __post_init__(self) -> None:
        for name in ("drag", "lift", "speed", "turning"):
            if not (np.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ValueError(f"{name}: expected a positive number, found {value}")
        low, high = np.pi / 2.0, 1.5 * np.pi
        if not low < self.attack < np.pi <= self.closing < high:
            raise ValueError(
                "attack, closing: expected an edge that points down, between 90 and 180 degrees, and then up, between 180 and "
                f"270, found {np.rad2deg(self.attack):.0f} and {np.rad2deg(self.closing):.0f}"
            )


@dataclass(frozen=True, eq=False)
class BladeState:
    """The blade at one moment.

    Attributes:
        pose: of the blade in the world. twist: velocity of the edge and of the turn (6,) [m/s], [rad/s], in the world's axes.
        phase: the movement it belongs to. angle: of the blade [rad].
    """

    pose: Pose
    twist: np.ndarray
    phase: Phase
    angle: float


def blade_rotation(yaw: float, angle: float) -> np.ndarray:
    """Axes of a blade in the world's (3, 3), for its yaw and its angle in the vertical plane [rad]."""
    forward, left = np.array([np.cos(yaw), np.sin(yaw), 0.0]), np.array([-np.sin(yaw), np.cos(yaw), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    c, s = np.cos(angle), np.sin(angle)
    return np.column_stack([-c * forward - s * up, left, s * forward - c * up])


class ScoopTrajectory:
    """See the module's docstring.

    Args:
        action: where, and how deep. config: of the movements.

    Attributes:
        action, config: as given. duration: of all of it [s]. ends: when each of the four movements ends (4,) [s].
        start, end: poses of the blade before and after it.
    """

    def __init__(self, action: ScoopAction, config: PrimitiveConfig = PrimitiveConfig()) -> None:
        self.action, self.config = action, c = action, config
        forward = np.array([np.cos(action.yaw), np.sin(action.yaw), 0.0])
        up = np.array([0.0, 0.0, 1.0])
        into = blade_rotation(action.yaw, c.attack)[:, 0]
        # Down along itself: the slope of the blade says how far forward that leads.
        self._ways = (action.depth / -into[2] * into, c.drag * forward, np.zeros(3), c.lift * up)
        self._turn = c.closing - c.attack
        pivot = np.array([c.pivot[0], 0.0, c.pivot[1]])
        corners = [action.point, *(action.point + np.cumsum(self._ways[:2], axis=0))]
        self._pivot, self._arm = corners[2] + blade_rotation(action.yaw, c.attack) @ pivot, -pivot
        closed = self._pivot + blade_rotation(action.yaw, c.closing) @ self._arm
        self._corners = (*corners, closed)
        edge = max(float(np.linalg.norm(pivot)) / c.speed, 1.0 / c.turning)
        times = [float(np.linalg.norm(way)) / c.speed for way in self._ways]
        times[2] = abs(self._turn) * edge
        self.ends = PEAK * np.cumsum(times)
        self.duration = float(self.ends[-1])
        self.start, self.end = self.at(0.0).pose, self.at(self.duration).pose

    def at(self, t: float) -> BladeState:
        """The blade at a time [s]; before the first movement it is at its start, after the last one at its end."""
        c, yaw = self.config, self.action.yaw
        k = min(int(np.searchsorted(self.ends, t, side="right")), 3)
        begin = self.ends[k - 1] if k else 0.0
        span = float(self.ends[k] - begin)
        share, rate = least_jerk(float(np.clip((t - begin) / span, 0.0, 1.0)))
        rate /= span
        phase = tuple(Phase)[k]
        if phase is not Phase.CLOSE:
            angle = c.closing if phase is Phase.LIFT else c.attack
            position = self._corners[k] + share * self._ways[k]
            return BladeState(
                Pose(position, blade_rotation(yaw, angle)), np.r_[rate * self._ways[k], np.zeros(3)], phase, angle
            )
        angle = c.attack + share * self._turn
        rotation = blade_rotation(yaw, angle)
        spin = -rate * self._turn * rotation[:, 1]  # a growing angle lifts the edge
        arm = rotation @ self._arm
        return BladeState(Pose(self._pivot + arm, rotation), np.r_[np.cross(spin, arm), spin], phase, angle)


def least_jerk(share: float) -> tuple[float, float]:
    """Way and speed of a movement of least jerk at a share of its time, both from 0 to 1 and at rest at its ends."""
    return share**3 * (10.0 - 15.0 * share + 6.0 * share**2), 30.0 * share**2 * (1.0 - share) ** 2
