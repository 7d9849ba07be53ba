"""What a joint may be driven with, so that no stream of commands takes it beyond its limits.

A limit on a command says little about what the joint does: a torque within its limit, held long enough, reaches any
speed. So the effort that may act is bounded by the joint's motion. Towards a limit it falls linearly from the motor's
full effort to full braking, over a band of velocity that ends at the limit:

    effort <= effort_limit * clip((ceiling(q) - v) / band, -1, 1)

and the ceiling falls towards the position limit as the speed does from which the motor can still brake. The band is
the change of velocity that the full effort brings within the loop's lag, from the measurement of v to the moment at which
the next effort acts, so that the bound, which acts through a sampled loop, neither chatters nor comes too late.

A loop that a busy machine runs late has a band wider than the velocities that are allowed. Efforts then fall below the
full one already at rest; but what holds a joint against gravity and friction does not speed it up, and remains allowed:
the bound is one on what comes on top of that. The load is what the efforts that acted did not turn into acceleration,

    load = effort - inertia * dv/dt

averaged over a few lags, with the least inertia: so it is not overestimated where a free joint is pushed.

A motor also has a power that its amplifier or its maker's protection allows. An effort that drives a joint with more is cut
to it; one that brakes is left alone (Zhu, PhD thesis, University of Illinois (2023), eq. (8.7)).

A joint is also thrown by the motors of its neighbours, and its own may be too weak to brake that. So as any joint comes
within its band of its velocity limit, what all of them are commanded gives way to damping.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

__all__ = ["JointLimits", "MotionBound", "power_limit"]

#: share of the motor's effort that braking counts on; gravity and the other joints take the rest
BRAKING = 0.5
#: [1/s] rate at which a joint approaches its position limit in the last stretch
APPROACH = 10.0
#: the band as a share of the velocity limit, at least; and the part of it, at most, that lies below the limit
NARROWEST, WIDEST = 0.1, 0.5
#: lags over which a joint's load is averaged
AVERAGE = 3.0


@dataclass(frozen=True, eq=False)
class JointLimits:
    """What the joints of one robot may do; arrays have shape (n,) and are infinite where nothing limits.

    Attributes:
        joints: names, in the order of the arrays.
        lower, upper: positions [rad or m].
        velocity: [rad/s or m/s].
        effort: of the motor [N m or N]; 0 for a passive joint.
        inertia: what the motor moves at least, and at most, with the other joints free and held, (2, n) [kg m^2 or kg].
        power: that drives the joint [W]; one number for all joints, or (n,).

    Raises:
        ValueError: an array has another length, or a number that is none; the sentence names it.
    """

    joints: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    inertia: np.ndarray
    power: np.ndarray = field(default_factory=lambda: np.array(np.inf))

    def __post_init__(self) -> None:
        n = len(self.joints)
        if np.ndim(self.power) == 0:
            object.__setattr__(self, "power", np.full(n, float(self.power)))
        for name, shape in (
            ("lower", (n,)),
            ("upper", (n,)),
            ("velocity", (n,)),
            ("effort", (n,)),
            ("inertia", (2, n)),
            ("power", (n,)),
        ):
            array = np.asarray(getattr(self, name), dtype=float)
            if array.shape != shape or np.isnan(array).any():
                raise ValueError(f"{name} of {n} joints: expected numbers of shape {shape}, found {array.tolist()}")
            object.__setattr__(self, name, array)
        if not (self.lower <= self.upper).all():
            worst = self.joints[int(np.argmax(self.lower > self.upper))]
            raise ValueError(f"joint {worst}: expected a lower limit below the upper one")
        if not (np.isfinite(self.inertia) & (self.inertia > 0.0)).all():
            raise ValueError(f"inertia: expected positive numbers, found {self.inertia.tolist()}")
        for name in ("velocity", "effort", "power"):
            if (getattr(self, name) < 0.0).any():
                raise ValueError(f"{name}: expected no negative limit, found {getattr(self, name).tolist()}")


def _between(a: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """np.clip, which takes four times as long on a robot's few joints."""
    return np.minimum(np.maximum(a, low), high)


def power_limit(effort: np.ndarray, v: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Efforts (n,) [N m or N] that drive no joint with more than `most` [W]; what brakes is left alone."""
    drives = effort * v > most
    return np.where(drives, most / np.where(drives, v, 1.0), effort)


@dataclass(frozen=True, eq=False)
class _Band:
    """Near the velocity limits, at one lag [s]; arrays (n,) [rad/s or m/s].

    Attributes:
        width: change of velocity over which the effort falls from full to none. margin: how far below the limit that is.
        ceiling: velocity at which only what bears the load remains. held_share: of the load that is spared [1].
    """

    lag: float
    width: np.ndarray
    margin: np.ndarray
    ceiling: np.ndarray
    held_share: np.ndarray


class MotionBound:
    """Bounds joint efforts by the joints' motion; one object for each robot.

    Args:
        limits: of the joints.
        period: between two calls [s].
    """

    def __init__(self, limits: JointLimits, period: float) -> None:
        self.limits, self._period = limits, period
        least, most = limits.inertia
        # A passive joint has no effort to be bounded; any number that is not zero will do.
        self._deceleration = np.where(limits.effort > 0.0, BRAKING * limits.effort / most, 1.0)
        self._acceleration = limits.effort / least
        self._limited = np.isfinite(limits.velocity)
        self._reference = np.where(self._limited, limits.velocity, 1.0)
        self._least = least
        self._power = limits.power if np.isfinite(limits.power).any() else None
        self._load, self._acting, self._v = (np.zeros(len(limits.joints)) for _ in range(3))
        self._t = np.inf  # of the newest measurement [s]
        self._known: dict[int, _Band] = {}  # by lag [ms]

    def _at(self, milliseconds: int) -> _Band:
        """The band at a lag, worked out once: a late loop's lag is another one in every cycle."""
        if milliseconds not in self._known:
            self._known[milliseconds] = self._band(max(1e-3 * milliseconds, 2.0 * self._period))
        return self._known[milliseconds]

    def _band(self, lag: float) -> _Band:
        change, widest = self._acceleration * lag, WIDEST * self._reference
        # A slow servo that keeps its beat is none that is late: full effort stays there at rest.
        change -= np.where(self._limited, np.maximum(self._acceleration * 2.0 * self._period - widest, 0.0), 0.0)
        width = np.where(self._limited, np.maximum(change, NARROWEST * self._reference), change + 1e-6)
        margin = np.where(self._limited, np.minimum(width, widest), width)
        return _Band(lag, width, margin, self.limits.velocity - margin, 1.0 - margin / width)

    def __call__(self, effort: np.ndarray, q: np.ndarray, v: np.ndarray, t: float, lag: float = 0.0) -> np.ndarray:
        """The efforts that may act, (n,) [N m or N], of those wanted at positions q and velocities v, (n,) each.

        Args:
            t: when q and v were measured [s]; may be the same in several calls, and starts anew where it goes back.
            lag: from then until the next call's effort will act, as far as it is known [s]; it is never taken for less than
                two periods, and in whole milliseconds.
        """
        band = self._at(math.ceil(1e3 * lag - 1e-9))
        if t != self._t:
            self._observe(v, t, band.lag)
        limit, held = self.limits.effort, band.held_share * self._load
        calm = min(max(float(((self.limits.velocity - np.abs(v)) / band.margin).min(initial=1.0)), 0.0), 1.0)
        if calm < 1.0:
            effort = calm * effort + (1.0 - calm) * (held - limit * _between(v / band.width, -1.0, 1.0))
        up = np.minimum(band.ceiling, self._speed_before(self.limits.upper - q))
        down = np.minimum(band.ceiling, self._speed_before(q - self.limits.lower))
        highest = _between(held + limit * _between((up - v) / band.width, -1.0, 1.0), -limit, limit)
        lowest = _between(held - limit * _between((down + v) / band.width, -1.0, 1.0), -limit, limit)
        self._acting = _between(effort, np.minimum(lowest, highest), np.maximum(lowest, highest))
        if self._power is not None:
            self._acting = power_limit(self._acting, v, self._power)
        return self._acting

    def _observe(self, v: np.ndarray, t: float, lag: float) -> None:
        """What the joints bear, by what the efforts since the last measurement did not do."""
        dt = t - self._t
        if dt > 0.0:
            load = self._acting - self._least * (v - self._v) / dt
            self._load += min(1.0, dt / (AVERAGE * lag)) * (load - self._load)
            self._load = _between(self._load, -self.limits.effort, self.limits.effort)
        else:
            self._load = np.zeros_like(v)
        self._v, self._t = v.copy(), t

    def _speed_before(self, distance: np.ndarray) -> np.ndarray:
        """Speed from which a joint stops within a distance (n,): linear near the end, where braking would chatter."""
        a = self._deceleration
        end = a / APPROACH**2
        braking = np.sqrt(np.maximum(2.0 * a * (distance - 0.5 * end), 0.0))
        return np.where(distance < end, APPROACH * distance, braking)
