"""The fifteen poses one after the other: what the operator is told, when a pose counts, and how it ends.

    procedure = GloveProcedure("Ada", now)
    procedure.hear(glove, now)                     # with every sample; None: nobody wears the glove
    procedure.prompt, procedure.pose, procedure.number
    procedure.calibration                          # not None: done
    procedure.failure                              # not "": why there will be none

Each pose is shown for a while, in which the operator takes it; then his hand has to rest. A hand that moves begins its rest anew.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.5 and table 8.6: donning and calibrating take seven minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.telepresence.hand.calibration import CalibrationError, GloveCalibration
from sim_core.telepresence.hand.poses import CALIBRATION_POSES, HandPose

__all__ = ["GloveProcedure", "Timing"]


@dataclass(frozen=True)
class Timing:
    """Attributes:
    taking: that the operator is given to take a pose [s].
    rest: of a hand that a pose is read from [s].
    still: by which a resting hand's channels may differ from where they rested [rad].
    patience: with a pose, all in all [s]. Fifteen of them are less than seven minutes.
    away: without a reading of the glove, after which nobody wears it [s].
    rows: that a pose has to be read from, at least.
    """

    taking: float = 4.0
    rest: float = 2.0
    still: float = 0.15
    patience: float = 25.0
    away: float = 2.0
    rows: int = 5


class GloveProcedure:
    """See the module's docstring.

    Args:
        operator: whose calibration it becomes. now: [s], on any clock that `hear` keeps to. made: when, as people write it.
        timing: of the poses.

    Attributes:
        number: of the pose that is shown, from 0. calibration: once all are done. failure: a sentence, once it has failed.
        readings: of the poses that are done.
    """

    def __init__(self, operator: str, now: float, made: str = "", timing: Timing = Timing()) -> None:
        self.operator, self.made, self.timing = operator, made, timing
        self.number, self.failure = 0, ""
        self.calibration: GloveCalibration | None = None
        self.readings: dict[str, np.ndarray] = {}
        self._worn = now
        self._rows: list[np.ndarray] = []
        self._show(now)

    @property
    def pose(self) -> HandPose:
        """That is shown; the last one when all are done."""
        return CALIBRATION_POSES[min(self.number, len(CALIBRATION_POSES) - 1)]

    @property
    def prompt(self) -> str:
        """What the operator is told now."""
        if self.failure:
            return self.failure
        if self.calibration is not None:
            return f"All {len(CALIBRATION_POSES)} poses are done."
        fingers = "" if len(self.pose.counts) == 5 else f" Only {_listed(self.pose.counts)} matter."
        return f"Pose {self.number + 1} of {len(CALIBRATION_POSES)}: {self.pose.prompt}{fingers} Then hold still."

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to hear."""
        return bool(self.failure) or self.calibration is not None

    def hear(self, glove: np.ndarray | None, now: float) -> None:
        """A reading of the glove (20,) [rad] at `now` [s]; None: there is none.

        What is heard after the end is of no effect.
        """
        if self.ended:
            return
        if glove is None:
            if now - self._worn > self.timing.away:
                self.failure = f"Nobody wears a glove: it has said nothing for {self.timing.away:g} s."
            return
        self._worn = now
        if now - self._shown > self.timing.patience:
            self.failure = (
                f"The hand did not rest for {self.timing.rest:g} s in the pose '{self.pose.name}' "
                f"within {self.timing.patience:g} s; begin anew."
            )
            return
        if now - self._shown < self.timing.taking:
            return
        if self._rows and np.abs(glove - np.mean(self._rows, axis=0)).max() > self.timing.still:
            self._rows, self._rested = [], now
        self._rows.append(np.array(glove, float))
        if now - self._rested >= self.timing.rest and len(self._rows) >= self.timing.rows:
            self.readings[self.pose.name] = np.array(self._rows)
            self.number += 1
            self._show(now)
            if self.number == len(CALIBRATION_POSES):
                self._complete()

    def _show(self, now: float) -> None:
        """The next pose begins to be shown."""
        self._shown, self._rested = now, now + self.timing.taking
        self._rows = []

    def _complete(self) -> None:
        try:
            self.calibration = GloveCalibration(self.operator, self.readings, self.made)
        except CalibrationError as error:
            self.failure = f"The glove cannot be calibrated: {error}."


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
