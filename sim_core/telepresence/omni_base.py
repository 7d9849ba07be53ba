"""An omnidirectional base that follows a stick and stops before what its rangefinders see.

    base = OmniBase(rangefinders)
    velocity = base.follow(stick, ranges, dt)          # forward, left [m/s], anticlockwise [rad/s]

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.2 (rangefinders); full stick is 0.2 m/s and 0.4 rad/s, ramped,
as its predecessor had it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["BaseLimits", "OmniBase", "Rangefinder"]


@dataclass(frozen=True)
class Rangefinder:
    """Where one looks.

    Attributes:
        name: in sentences.
        bearing: of its line of sight from straight ahead, anticlockwise [rad].
    """

    name: str
    bearing: float


@dataclass(frozen=True)
class BaseLimits:
    """Attributes:
    speed, turning: at full stick [m/s], [rad/s].
    acceleration, turning_acceleration: [m/s^2], [rad/s^2].
    dead_zone: share of the stick's way that is none.
    stop_distance: [m] that a rangefinder may see at least in the direction of motion.
    width: [rad] on either side of a rangefinder's bearing that counts as its direction.
    """

    speed: float = 0.2
    turning: float = 0.4
    acceleration: float = 0.4
    turning_acceleration: float = 0.8
    dead_zone: float = 0.08
    stop_distance: float = 0.35
    width: float = 1.0


class OmniBase:
    """Args:
        rangefinders: that look around.
        limits: of its motion.

    Attributes:
        velocity: forward, left [m/s], anticlockwise [rad/s] (3,).
        obstacle: the sentence why it does not go where the stick points; "" while it does.
    """

    def __init__(self, rangefinders: Sequence[Rangefinder] = (), limits: BaseLimits = BaseLimits()) -> None:
        self.rangefinders, self.limits = tuple(rangefinders), limits
        self.velocity, self.obstacle = np.zeros(3), ""

    def follow(self, stick: Sequence[float] | None, ranges: Mapping[str, float], dt: float) -> np.ndarray:
        """The velocity after `dt` [s].

        Args:
            stick: forward, left, anticlockwise, each -1 to 1; None: nobody moves it, stop.
            ranges: by name of a rangefinder [m]. One that is missing or not finite sees nothing that can be trusted, and the
                base does not go its way; infinity is a free view.
        """
        limits = self.limits
        wanted = np.zeros(3) if stick is None else self._wanted(stick)
        self.obstacle = self._in_the_way(wanted[:2], ranges)
        if self.obstacle:
            wanted[:2] = 0.0
        most = dt * np.array([limits.acceleration, limits.acceleration, limits.turning_acceleration])
        if stick is None or self.obstacle:
            most *= 2.0  # who brakes may do it harder than who starts
        self.velocity = self.velocity + np.clip(wanted - self.velocity, -most, most)
        return self.velocity

    def _wanted(self, stick: Sequence[float]) -> np.ndarray:
        limits = self.limits
        pushed = np.clip(np.asarray(stick, float), -1.0, 1.0)
        along = float(np.linalg.norm(pushed[:2]))
        share = float(np.clip((along - limits.dead_zone) / (1.0 - limits.dead_zone), 0.0, 1.0))
        forward, left = (limits.speed * share / along) * pushed[:2] if along > limits.dead_zone else (0.0, 0.0)
        turn = np.sign(pushed[2]) * max(0.0, (abs(pushed[2]) - limits.dead_zone) / (1.0 - limits.dead_zone))
        return np.array([forward, left, limits.turning * turn])

    def _in_the_way(self, wanted: np.ndarray, ranges: Mapping[str, float]) -> str:
        # What it still does counts as well as what it is asked for: it coasts.
        for going in (wanted, self.velocity[:2]):
            if np.linalg.norm(going) < 1e-3:
                continue
            heading = np.arctan2(going[1], going[0])
            for finder in self.rangefinders:
                off = abs(np.angle(np.exp(1j * (finder.bearing - heading))))
                if off > self.limits.width:
                    continue
                seen = ranges.get(finder.name, np.nan)
                if np.isnan(seen):
                    return f"The base stands: the rangefinder {finder.name} says nothing."
                if seen < self.limits.stop_distance:
                    return f"The base stands: the rangefinder {finder.name} sees something {seen:.2f} m away."
        return ""
