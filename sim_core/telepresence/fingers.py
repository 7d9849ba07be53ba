"""Fingers that follow a trigger or a glove, and never drop what they hold when somebody comes back.

    fingers = Fingers(lower, upper)
    positions = fingers.follow(positions, goal, together=True, most=0.02)

A device takes a finger over once it has been where the finger is; until then the finger stays.
"""

from __future__ import annotations

import numpy as np

__all__ = ["Fingers"]

#: share of its way by which a device may differ from the fingers that it takes over
TAKEN = 0.05


class Fingers:
    """The joints of a gripper or hand.

    Args:
        lower, upper: limits of its joints (n,) [rad or m].
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self.lower, self.upper = np.asarray(lower, float), np.asarray(upper, float)
        self._together: bool | None = None
        self.forget()

    def forget(self) -> None:
        """Whoever leads the fingers has to be where they are before they follow."""
        self._taken = np.zeros(len(self.lower), bool)
        self._above = np.full(len(self.lower), np.nan)

    def follow(self, at: np.ndarray, goal: np.ndarray, together: bool, most: float) -> np.ndarray:
        """Where the joints shall be next (n,) [rad or m].

        Args:
            at: where they are told to be (n,) [rad or m]. goal: where the device has them (n,) [rad or m].
            together: the device has one number for all of them, as a trigger does, and takes all over at once; a glove takes over
                each by itself. Another kind of device than the last has to take them over anew.
            most: share of its way that a joint may go.
        """
        if together is not self._together:
            self._together = together
            self.forget()
        way = self.upper - self.lower
        above = (goal - at) / way
        if together:
            above = np.full_like(above, above.mean())
        self._taken |= (np.abs(above) < TAKEN) | (above * self._above < 0.0)
        self._above = above
        return at + self._taken * np.clip(goal - at, -most * way, most * way)

    def show(self, at: np.ndarray, goal: np.ndarray, most: float) -> np.ndarray:
        """The same for a pose that the fingers shall show whoever leads them; he has to take them over afterwards."""
        self.forget()
        way = self.upper - self.lower
        return at + np.clip(goal - at, -most * way, most * way)
