"""Gyroscope and accelerometer as one stream at the gyroscope's rate."""

from __future__ import annotations

import enum
from collections import deque

import numpy as np

__all__ = ["ImuUniter", "Unite"]

WAITING = 400           # angular rates kept for an acceleration to come: a second at the highest rate


class Unite(enum.IntEnum):
    """As the parameter unite_imu_method numbers them."""

    NONE = 0
    COPY = 1            # the newest specific force as it is: no delay, up to a period old
    INTERPOLATE = 2     # between the two around the angular rate: exact to second order, late by a period of the accelerometer


class ImuUniter:
    """Give it samples in their order of arrival; it returns what is complete.

    Args:
        method: COPY or INTERPOLATE.
    """

    def __init__(self, method: Unite):
        self.method = Unite(method)
        self.reset()

    def reset(self) -> None:
        """The streams were interrupted: forget what waits."""
        self._waiting: deque[tuple[float, np.ndarray]] = deque(maxlen=WAITING)
        self._force: tuple[float, np.ndarray] | None = None

    def gyro(self, t: float, angular: np.ndarray) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """An angular rate (3,) at time t; returns (t, angular, linear) for each united sample."""
        if self._force is None:
            return []
        if self.method is Unite.COPY:
            return [(t, angular, self._force[1])]
        self._waiting.append((t, angular))
        return []

    def accel(self, t: float, linear: np.ndarray) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """A specific force (3,) at time t; returns as `gyro`."""
        before, self._force = self._force, (t, linear)
        if before is None or self.method is Unite.COPY:
            return []
        done = []
        while self._waiting and self._waiting[0][0] <= t:
            when, angular = self._waiting.popleft()
            if when >= before[0]:
                share = (when - before[0]) / (t - before[0]) if t > before[0] else 1.0
                done.append((when, angular, (1.0 - share) * before[1] + share * linear))
        return done
