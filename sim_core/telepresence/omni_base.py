"""An omnidirectional base that follows a stick and stops before what its rangefinders see.

    base = OmniBase(rangefinders, footprint=footprint)
    velocity = base.follow(stick, ranges, dt)          # forward, left [m/s], anticlockwise [rad/s]

It is no faster than it can brake: with d left to go to a place (`base_clearance.py`), a base that obeys T later and brakes with a,
v T + v^2 / (2 a) <= d for the velocity v of its footprint towards it. What of the stick's forward, left and turn leads towards such a
place becomes smaller until that holds; nothing that was not asked for is added, so that the base goes along a wall at its side and
not around a post. Before what is straight ahead of where it drives it stands. What leads away is never held. Where no rangefinder
looks it is slow.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.2 (rangefinders); full stick is 0.2 m/s and 0.4 rad/s, ramped,
as its predecessor had it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from config.description import Footprint
from sim_core.telepresence.base_clearance import Around, BaseClearance, Rangefinder
from sim_core.telepresence.range_readings import HeardRange

__all__ = ["BaseLimits", "OmniBase", "Rangefinder"]

#: times the acceleration with which it brakes: who brakes may do it harder than who starts. Turning, it has to brake so hard that
#: the points of the footprint that turning moves come to rest within the way that the others would take
BRAKING, TURN_BRAKING = 2.0, 4.0
#: [m/s] below which it stands rather than creeps after the last millimetres
CREEP = 0.02
#: [m/s] that it has to be allowed before it goes on towards what it stands before: a reading's noise alone shall not let it
GO_ON = 0.06
#: [m/s] and [rad/s] below which it goes nowhere
STILL = 1e-3
#: of the speed at full stick that is asked of the base: its loop passes what it is told by up to 0.8 % at a ramp's end
TOLD = 0.99
#: [rad] between a heading and straight ahead or behind up to which it drives there
WIDTH = 1.0
#: places that are given way to one after the other, before the whole motion becomes smaller
ROUNDS = 8


@dataclass(frozen=True)
class BaseLimits:
    """Attributes:
    speed, turning: at full stick [m/s], [rad/s].
    blind_speed: in a direction that none of its rangefinders sees [m/s]; where it has none at all, `speed` holds.
    acceleration, turning_acceleration: [m/s^2], [rad/s^2].
    dead_zone: share of the stick's way that is none.
    stop_distance: [m] kept to what is straight ahead of the base or straight behind it, also when it has come to rest.
    side_distance: [m] kept to everything else.
    reading_age: that a reading may have [s].
    reaction: time that the base takes to obey [s].
    """

    speed: float = 0.2
    turning: float = 0.4
    blind_speed: float = 0.1
    acceleration: float = 0.4
    turning_acceleration: float = 0.8
    dead_zone: float = 0.08
    stop_distance: float = 0.35
    side_distance: float = 0.03
    reading_age: float = 0.3
    reaction: float = 0.15

    def approach_speed(self, to_go: np.ndarray | float, least: np.ndarray | float = CREEP) -> np.ndarray:
        """At most, with so far to go [m]: the v of v T + v^2 / (2 a) = to_go [m/s]; none where that is less than `least` [m/s]."""
        a, left = BRAKING * self.acceleration, np.maximum(np.asarray(to_go, float), 0.0)
        speed = a * (np.sqrt(self.reaction**2 + 2.0 * left / a) - self.reaction)
        return np.where(speed < np.minimum(least, self.speed), 0.0, speed)


class OmniBase:
    """Args:
        rangefinders: that look around.
        limits: of its motion.
        footprint: of the base; it may be left out where nothing looks.

    Attributes:
        velocity: forward, left [m/s], anticlockwise [rad/s] (3,).
        obstacle: the sentence why it does not go where the stick points; "" while it does.

    Raises:
        ValueError: a rangefinder that cannot tell what is at the distance that it has to keep.
    """

    def __init__(
        self,
        rangefinders: Sequence[Rangefinder] = (),
        limits: BaseLimits = BaseLimits(),
        footprint: Footprint | None = None,
    ) -> None:
        if rangefinders and footprint is None:
            raise ValueError("footprint: expected the base's, since rangefinders keep things away from it, found none")
        self.rangefinders, self.limits = tuple(rangefinders), limits
        area = Footprint(0.0, 0.0, 0.0) if footprint is None else footprint
        self.clearance = BaseClearance(self.rangefinders, area, limits.stop_distance, limits.side_distance)
        self.velocity, self.obstacle = np.zeros(3), ""
        self._went: deque[tuple[float, np.ndarray]] = deque()  # duration [s] and motion of the last steps

    def follow(self, stick: Sequence[float] | None, ranges: Mapping[str, HeardRange], dt: float) -> np.ndarray:
        """The velocity after `dt` [s].

        Args:
            stick: forward, left, anticlockwise, each -1 to 1; None: nobody moves it, stop.
            ranges: by name of a rangefinder. One that is missing or not a number sees nothing that can be trusted, and the
                base does not go its way; infinity is a free view.
        """
        limits = self.limits
        asked = np.zeros(3) if stick is None else self._wanted(stick)
        around = self.clearance.around(ranges, self.moved)
        most = limits.approach_speed(around.to_go, np.where(around.straight & bool(self.obstacle), GO_ON, CREEP))
        wanted, held_by = _given_way(asked, around, most)
        self.obstacle = "" if held_by is None else self._sentence(asked, wanted, int(around.who[held_by]), ranges)
        # What it still does counts as well as what it is asked for: it coasts.
        too_fast = bool((around.approach(self.velocity) > most + 1e-9).any())
        brakes = stick is None or held_by is not None or too_fast
        self._ramp(wanted, brakes, dt)
        self._went.append((dt, self.velocity.copy()))
        while sum(took for took, _ in self._went) > limits.reading_age + dt:
            self._went.popleft()
        return self.velocity

    def stopping_way(self, stick: Sequence[float]) -> np.ndarray:
        """How far it would go after the stick's motion until it has stopped: forward, left [m], anticlockwise [rad] (3,)."""
        limits, motion = self.limits, self._wanted(stick)
        speed = float(np.linalg.norm(motion[:2]))
        times = [speed / (BRAKING * limits.acceleration)] * 2
        times.append(abs(float(motion[2])) / (TURN_BRAKING * limits.turning_acceleration))
        return motion * (limits.reaction + 0.5 * np.array(times))

    def moved(self, ages: np.ndarray | float) -> np.ndarray:
        """How far it has come since `ages` (...) [s] ago: forward, left [m], anticlockwise [rad], in its axes of then (..., 3)."""
        took = np.array([took for took, _ in self._went])
        steps = took[:, None] * np.array([velocity for _, velocity in self._went]).reshape(-1, 3)
        yaw = _summed(steps[:, 2])
        cosine, sine = np.cos(yaw[:-1] + 0.5 * steps[:, 2]), np.sin(yaw[:-1] + 0.5 * steps[:, 2])
        x = _summed(cosine * steps[:, 0] - sine * steps[:, 1])
        y = _summed(sine * steps[:, 0] + cosine * steps[:, 1])
        ago = _summed(took[::-1])[::-1]  # when each step began, and now
        k = np.maximum((ago >= np.asarray(ages, float)[..., None] - 1e-9).sum(-1) - 1, 0)
        dx, dy, cosine, sine = x[-1] - x[k], y[-1] - y[k], np.cos(yaw[k]), np.sin(yaw[k])
        return np.stack([cosine * dx + sine * dy, cosine * dy - sine * dx, yaw[-1] - yaw[k]], axis=-1)

    def _ramp(self, wanted: np.ndarray, brakes: bool, dt: float) -> None:
        limits = self.limits
        most = limits.acceleration * dt * (BRAKING if brakes else 1.0)
        most_turning = limits.turning_acceleration * dt * (TURN_BRAKING if brakes else 1.0)
        change = wanted - self.velocity
        # Straight towards what is wanted: axis by axis, the heading would stray on its way.
        change[:2] *= min(1.0, most / max(float(np.linalg.norm(change[:2])), 1e-12))
        change[2] = np.clip(change[2], -most_turning, most_turning)
        self.velocity = self.velocity + change

    def _wanted(self, stick: Sequence[float]) -> np.ndarray:
        limits = self.limits
        pushed = np.clip(np.asarray(stick, float), -1.0, 1.0)
        along = float(np.linalg.norm(pushed[:2]))
        share = float(np.clip((along - limits.dead_zone) / (1.0 - limits.dead_zone), 0.0, 1.0))
        most = TOLD * limits.speed * share
        forward, left = (most / along) * pushed[:2] if along > limits.dead_zone else (0.0, 0.0)
        if most > limits.blind_speed and not self.clearance.sees(float(np.arctan2(left, forward))):
            forward, left = limits.blind_speed / most * forward, limits.blind_speed / most * left
        turn = np.sign(pushed[2]) * max(0.0, (abs(pushed[2]) - limits.dead_zone) / (1.0 - limits.dead_zone))
        return np.array([forward, left, limits.turning * turn])

    def _sentence(self, asked: np.ndarray, wanted: np.ndarray, finder: int, ranges: Mapping[str, HeardRange]) -> str:
        """Why something that was asked for is not done at all; "": everything is, be it slowly."""
        stands = (np.abs(asked) >= STILL) & (np.abs(wanted) < STILL)
        if not stands.any():
            return ""
        name = self.rangefinders[finder].name
        seen = ranges[name].distance if name in ranges else np.nan
        said = "says nothing" if np.isnan(seen) else f"sees something {seen:.2f} m away"
        what = "stands" if (np.abs(wanted) < STILL).all() else "keeps off"
        return f"The base {what}: the rangefinder {name} {said}."


def _summed(values: np.ndarray) -> np.ndarray:
    """0 and the sums of values (n,) up to each (n + 1,)."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _given_way(asked: np.ndarray, around: Around, most: np.ndarray) -> tuple[np.ndarray, int | None]:
    """What of a motion (3,) may be done, with each place approached at `most` (k,) [m/s].

    Returns:
        (the motion, each part of it between nothing and what was asked; the place that held it first, or None).
    """
    motion, first = asked.copy(), None
    for _ in range(ROUNDS if len(most) else 0):
        over = around.approach(motion) - most
        worst = int(np.argmax(over))
        if over[worst] <= 1e-9:
            return motion, first
        first = worst if first is None else first
        motion = _slower(motion, around.towards[worst], float(most[worst]), bool(around.straight[worst]))
    approach = around.approach(motion)
    fast = approach > np.maximum(most, 1e-12)
    if fast.any():
        motion = motion * float((most[fast] / approach[fast]).min())
    return motion, first


def _slower(motion: np.ndarray, towards: np.ndarray, most: float, straight: bool) -> np.ndarray:
    """The motion (3,) with what leads towards one place made so small that it is approached at `most` [m/s]."""
    parts = towards * motion
    leads = parts > 0.0
    away = float(np.minimum(parts[:2], 0.0).sum())
    if parts[:2].sum() <= 0.0:
        leads[:2], away = False, 0.0
    share = (most - away) / float(parts[leads].sum())
    if straight and leads[0] and abs(motion[0]) >= np.cos(WIDTH) * np.linalg.norm(motion[:2]):
        leads[1] = True
    return np.where(leads, share * motion, motion)
