"""When each foot stands and when it swings, by the clock alone; and by which force it is said to touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["CONTACT_FORCE", "Gait", "TROT", "STAND"]

CONTACT_FORCE = 5.0  # [N] from which on a foot counts as touching


@dataclass(frozen=True)
class Gait:
    """Every leg stands for `stance` [s], then swings for `swing` [s]; `offsets` (FL, FR, RL, RR) are shares of the period.

    Offsets below the share of stance let all feet stand at time zero.
    """

    stance: float
    swing: float
    offsets: tuple[float, float, float, float]

    def __post_init__(self) -> None:
        if not self.stance > 0 or self.swing < 0 or not all(0 <= o < 1 for o in self.offsets):
            raise ValueError("A gait needs a stance > 0 s, a swing >= 0 s and four offsets in [0, 1).")

    @property
    def period(self) -> float:
        """[s]"""
        return self.stance + self.swing

    @property
    def duty(self) -> float:
        """Share of the period that a foot stands."""
        return self.stance / self.period

    def swing_phase(self, t: float) -> np.ndarray:
        """(4,): from 0 at lift-off to 1 at touch-down; NaN while standing."""
        if self.swing == 0.0:
            return np.full(4, np.nan)
        phase = (t / self.period + np.array(self.offsets)) % 1.0
        return np.where(phase < self.duty, np.nan, (phase - self.duty) / (1.0 - self.duty))


#: Diagonal pairs; durations of the published controller on the A1. At zero velocity it trots in place.
TROT = Gait(stance=0.3, swing=0.2, offsets=(0.0, 0.5, 0.5, 0.0))
STAND = Gait(stance=1.0, swing=0.0, offsets=(0.0, 0.0, 0.0, 0.0))
