"""The beat of a controller that answers joint states: which of them begin a cycle, and which the plant only says again.

beat = ControlBeat(period=0.008, lockstep=False)
if beat.is_repeated(stamp, sent):  # in lock-step: the plant has heard no answer
    publish(sent) ...
elif beat.is_due(stamp):
    ... read the message, then
    since = beat.begin(stamp)
"""

from __future__ import annotations

import numpy as np

from nodes.framework.joint_state_gate import seconds

__all__ = ["ControlBeat"]

#: [s] by which a stamp may be early, for rounding
EARLY = 1e-6


class ControlBeat:
    """See the module's docstring.

    Args:
        period: between two cycles [s]. lockstep: the plant waits for every answer.

    Attributes:
        stamp: of the joint state that was answered last [s]; minus infinity before the first.
    """

    def __init__(self, period: float, lockstep: bool) -> None:
        self.period, self.lockstep = period, lockstep
        self.start_over()

    def start_over(self) -> None:
        """Forget everything that has a time in it."""
        self.stamp = self._due = -np.inf
        self._seen = np.nan  # the newest stamp of all

    def is_repeated(self, stamp: float, sent) -> bool:
        """Whether a message `sent`, which is stamped, or None, has answered this stamp already, in lock-step."""
        return self.lockstep and sent is not None and stamp == seconds(sent.header.stamp)

    def is_due(self, stamp: float) -> bool:
        """Whether a joint state of this stamp [s] begins a cycle: when a period is over, and when time has gone back."""
        if self.lockstep and stamp == self._seen:
            self._due = -np.inf  # the plant waits at this state, wherever the beat here began
        self._seen = stamp
        return not self.stamp <= stamp < self._due

    def went_back(self, stamp: float) -> bool:
        """Whether time has gone back since the last cycle."""
        return stamp < self.stamp

    def begin(self, stamp: float) -> float:
        """Begin a cycle; time since the last one [s], infinity at the first.

        The beat keeps its phase; a state that comes late shifts it by half a period at most.
        """
        since, self.stamp = stamp - self.stamp, stamp
        after = (
            max(self._due + self.period, stamp + 0.5 * self.period) if np.isfinite(self._due) else stamp + self.period
        )
        self._due = after - EARLY
        return since
