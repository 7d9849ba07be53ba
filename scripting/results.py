"""How a verb ended: an outcome whose text is the remedy, and what was measured on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from scripting.errors import ScriptError

__all__ = ["EpisodeResult", "Outcome", "PathResult"]

Checked = TypeVar("Checked", "PathResult", "EpisodeResult")


class Outcome(Enum):
    """How a verb ended; the value says what to do next."""

    SUCCEEDED = "it was done"
    CANCELED = "it was cancelled by this script; call the verb again to go on"
    HALTED = "the supervisor halted the robot: remove the cause, call resume(), then the verb again"
    REFUSED = "the controller refused it: wait until nothing else runs, or look at the graph's log for the reason"
    INTERRUPTED = "somebody reset the robot or ended the task meanwhile: call the verb again"


@dataclass(frozen=True)
class PathResult:
    """What came of `follow_path`. True where it succeeded.

    Attributes:
        outcome: how it ended.
        message: what happened, in one sentence; "" where nothing needs to be said.
        duration: time that the controller followed the path [s], of the robot's clock.
        tracking_error: root mean square of the distance to the path [m], sampled twenty times a second of wall time;
            NaN if no cycle was seen.
    """

    outcome: Outcome
    message: str = ""
    duration: float = 0.0
    tracking_error: float = math.nan

    def __bool__(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED

    def __str__(self) -> str:
        followed = f"followed the path for {self.duration:.2f} s, {1e3 * self.tracking_error:.1f} mm beside it (RMS)"
        return _said(self.outcome, followed, self.message)

    def check(self) -> PathResult:
        """Itself.

        Raises:
            ScriptError: it did not succeed.
        """
        return _checked(self)


@dataclass(frozen=True)
class EpisodeResult:
    """What came of `run_episode`, as the controller accounts for it. True where it succeeded.

    Attributes:
        outcome: how it ended.
        message: what happened, in one sentence.
        score: mean reward in [0, 1], where the task has one; else NaN.
        total_cost: sum of the task's stage costs.
        up_time: time spent at the goal [s].
        refits: number of parameter sets accepted during the episode and at its end.
    """

    outcome: Outcome
    message: str = ""
    score: float = math.nan
    total_cost: float = math.nan
    up_time: float = 0.0
    refits: int = 0

    def __bool__(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED

    def __str__(self) -> str:
        ran = f"score {self.score:.3f}, {self.up_time:.2f} s at the goal, {self.refits} refits accepted"
        return _said(self.outcome, ran, "" if self else self.message)

    def check(self) -> EpisodeResult:
        """Itself.

        Raises:
            ScriptError: it did not succeed.
        """
        return _checked(self)


def _said(outcome: Outcome, measured: str, message: str) -> str:
    told = "; ".join(filter(None, (measured, message)))
    return told if outcome is Outcome.SUCCEEDED else f"{outcome.name.lower()} ({outcome.value}): {told}"


def _checked(result: Checked) -> Checked:
    if not result:
        raise ScriptError(
            f"{result.outcome.name.lower()}: {result.message or 'no reason given'} ({result.outcome.value})"
        )
    return result
