"""When a recorded robot stood still, for everything that is measured at rest.

    for rest in still_stretches(t, q):          # rest.begin, rest.end
        chosen = rest.covers(stamps)

Speed is the way over a fifth of a second rather than the reported velocity, which for an encoder of 4096 counts a turn
flickers between 0 and 0.02 rad/s at rest. A stretch so begins and ends a tenth of a second away from motion. 0.05 rad/s because
servos with friction and an integral term never stand quite still: they creep, stick and slip by some counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Rest", "still_stretches"]

REACH = 0.1  # [s] to either side, over which speed is taken
GAP = 0.1  # [s] without a sample, after which nobody knows whether the robot moved
CREEP = 0.05  # [rad or m] that a joint may move within a stretch: slow motion is no rest


@dataclass(frozen=True)
class Rest:
    """A stretch at rest: begin, end [s]."""

    begin: float
    end: float

    def covers(self, t: np.ndarray) -> np.ndarray:
        """Which of the times t lie in it."""
        return (t >= self.begin) & (t <= self.end)


def still_stretches(t: np.ndarray, q: np.ndarray, speed: float = 0.05, duration: float = 0.5) -> list[Rest]:
    """Stretches of at least `duration` [s] in which no joint is faster than `speed` [rad/s or m/s].

    Args:
        t: stamps, (T,) [s]; repeated ones are dropped.
        q: joint positions, (T, n) [rad or m].

    Raises:
        ValueError: times run backwards, or a position is not finite.
    """
    t, q = np.asarray(t, float), np.asarray(q, float)
    if (np.diff(t) < 0.0).any():
        k = int(np.argmax(np.diff(t) < 0.0)) + 1
        raise ValueError(f"time jumps back at sample {k}, from {t[k - 1]:.3f} s to {t[k]:.3f} s: record without resets")
    if not np.isfinite(q).all():
        raise ValueError(
            f"joint positions are not finite at {t[np.argmin(np.isfinite(q).all(axis=1))]:.3f} s: repair the driver"
        )
    fresh = np.concatenate([[True], np.diff(t) > 1e-9])[: len(t)]
    t, q = t[fresh], q[fresh]
    found = []
    for part in np.split(np.arange(len(t)), np.flatnonzero(np.diff(t) > GAP) + 1):
        if len(part) < 2:
            continue
        still = _speed(t[part], q[part]) < speed
        edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(int)))
        for first, last in zip(part[edges[::2]], part[edges[1::2] - 1]):
            if t[last] - t[first] >= duration and np.ptp(q[first : last + 1], axis=0).max() <= CREEP:
                found.append(Rest(float(t[first]), float(t[last])))
    return found


def _speed(t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of the fastest joint, (T,)."""
    before, after = np.maximum(t - REACH, t[0]), np.minimum(t + REACH, t[-1])
    way = np.stack([np.interp(after, t, x) - np.interp(before, t, x) for x in q.T], axis=1)
    return np.abs(way).max(axis=1) / np.maximum(after - before, 1e-9)
