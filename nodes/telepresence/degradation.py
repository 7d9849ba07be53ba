"""What is given up first when the network carries less: the face, then the side cameras, then the eyes' resolution, then the sound.

Never the commands, which are small. One step down for every second of congestion; one
step up after a quiet time, which doubles each time that a step up brought the congestion back.

Source: the order is that of the telepresence specification; times and thresholds are this project's.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Degradation", "Step", "is_congested"]

#: share of a stream's packets that may be lost; a retransmission mends fewer
LOSS = 0.05
#: by how much the way there and back may be longer than at its best, as a factor and [ms]
STRETCH, SLACK = 2.0, 100.0
#: [s] of quiet before the first step up, and at most
QUIET, LONGEST_QUIET = 5.0, 80.0
#: [s] between two steps down
STEP = 1.0


class Step(IntEnum):
    """How much has been given up; each step includes those before it."""

    NOTHING = 0
    FACE = 1
    SIDE_CAMERAS = 2
    RESOLUTION = 3
    SOUND = 4


def is_congested(loss: float, rtt: float | None, best_rtt: float | None) -> bool:
    """Whether the network carries less than is sent.

    Args:
        loss: share of the media's packets that got lost. rtt, best_rtt: there and back now, and the shortest so far [ms].
    """
    if loss > LOSS:
        return True
    return rtt is not None and best_rtt is not None and rtt > STRETCH * best_rtt + SLACK


class Degradation:
    """The step that is in force.

    Attributes:
        step: see `Step`. steps_down: how often something was given up.
    """

    def __init__(self) -> None:
        self.step = Step.NOTHING
        self.steps_down = 0
        self._quiet = QUIET
        self._last_change = self._last_congestion = float("-inf")
        self._tried = False

    def update(self, congested: bool, now: float) -> Step:
        """Judge anew, at a time [s] of a clock that never goes back; returns the step in force."""
        if congested:
            self._last_congestion = now
            if self.step < max(Step) and now >= self._last_change + STEP:
                if self._tried:  # the last step up was one too many
                    self._quiet = min(2.0 * self._quiet, LONGEST_QUIET)
                self._tried = False
                self._change(Step(self.step + 1), now)
                self.steps_down += 1
        elif self.step > Step.NOTHING and now >= max(self._last_congestion, self._last_change) + self._quiet:
            self._tried = True
            self._change(Step(self.step - 1), now)
        elif self.step == Step.NOTHING and now >= max(self._last_congestion, self._last_change) + LONGEST_QUIET:
            self._quiet, self._tried = QUIET, False
        return self.step

    def _change(self, step: Step, now: float) -> None:
        self.step, self._last_change = step, now
