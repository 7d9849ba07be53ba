"""Time along a path that is followed: it waits for an arm that nobody has controlled for a while. Pure."""

from __future__ import annotations

import math

__all__ = ["PathClock"]


class PathClock:
    """Runs with the stamps of the states; after an outage it goes on from where it was.

    A reference that runs away while commands are missing is chased at full effort when they return: after 1 s the
    Panda passes its velocity limits (2.7 rad/s), from where it was it does not (0.8 rad/s). What was lost is made
    up for at CATCH_UP times the path's speed.

    Args:
        begin: stamp at which the path begins [s].
        longest: gap between two states that is no outage yet [s].

    Attributes:
        time: along the path, at the last stamp [s].
    """

    CATCH_UP = 1.5
    #: [s] over which the path's speed grows to its full value after it has stood still
    RAMP = 1.0

    def __init__(self, begin: float, longest: float) -> None:
        self._begin, self._longest = begin, longest
        self._stamp, self.time = begin, 0.0
        self._stood, self._ramp = 0.0, 0.0  # time along the path at `begin`, and how long it takes to full speed
        self._waited_until = -math.inf

    def outage(self, stamp: float) -> bool:
        """Whether a state stamped so comes after a gap."""
        return stamp - self._stamp > self._longest

    def advance(self, stamp: float) -> float:
        """Time along the path [s] of a state stamped so."""
        speed = self.CATCH_UP * min((stamp - self._waited_until) / self.RAMP, 1.0)
        step = speed * min(stamp - self._stamp, self._longest)
        self._stamp, self.time = stamp, min(self._due(stamp), self.time + step)
        return self.time

    def wait(self, stamp: float) -> None:
        """The path waits until this stamp, and that is made up for; it goes on from rest."""
        self._stamp = self._waited_until = stamp

    def stand_still(self, stamp: float) -> None:
        """The path has waited until this stamp on purpose, which is not made up for; it goes on from rest."""
        self._begin, self._stamp = stamp, stamp
        self._stood, self._ramp = self.time, self.RAMP

    def _due(self, stamp: float) -> float:
        """Where the path would be without outages [s]."""
        since, ramp = stamp - self._begin, self._ramp
        return self._stood + (since * since / (2 * ramp) if 0.0 <= since < ramp else since - ramp / 2)
