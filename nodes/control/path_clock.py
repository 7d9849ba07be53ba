"""Time along a path that is followed: it waits for an arm that nobody has controlled for a while. Pure."""

from __future__ import annotations

__all__ = ["PathClock"]


class PathClock:
    """Runs with the stamps of the states; after an outage it goes on from where it was.

    A reference that runs away while commands are missing is chased at full effort when they return: after 1 s the
    Panda passes its velocity limits (2.7 rad/s), from where it was it does not (0.8 rad/s). What was lost is made
    up for at CATCH_UP times the path's speed.

    Args:
        begin: stamp at which the path begins [s].
        longest: gap between two states that is no outage yet [s].
    """

    CATCH_UP = 1.5

    def __init__(self, begin: float, longest: float) -> None:
        self._begin, self._longest = begin, longest
        self._stamp, self._time = begin, 0.0

    def advance(self, stamp: float) -> float:
        """Time along the path [s] of a state stamped so."""
        step = self.CATCH_UP * min(stamp - self._stamp, self._longest)
        self._stamp, self._time = stamp, min(stamp - self._begin, self._time + step)
        return self._time

    def stand_still(self, stamp: float) -> None:
        """The path has waited until this stamp on purpose, which is not made up for."""
        self._begin, self._stamp = stamp - self._time, stamp
