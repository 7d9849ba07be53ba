"""Gyroscope and accelerometer as one stream at the gyroscope's rate."""

from __future__ import annotations

import enum
from collections import deque

import numpy as np

__all__ = ["ImuUniter", "Unite"]

WAITING = 400  # angular rates kept for a specific force to come: a second at the highest rate
LATE = 16  # specific forces kept for angular rates that arrive after them


class Unite(enum.IntEnum):
    """As the parameter unite_imu_method numbers them."""

    NONE = 0
    COPY = 1  # the newest specific force as it is: no delay, up to a period old
    INTERPOLATE = (
        2  # between the two around the angular rate: exact to second order, late by a period of the accelerometer
    )


class ImuUniter:
    """Give it samples in their order of arrival, which between the two sensors need not be that of their times.

    Args:
        method: COPY or INTERPOLATE.
    """

    def __init__(self, method: Unite) -> None:
        self.method = Unite(method)
        self.reset()

    def reset(self) -> None:
        """The streams were interrupted: forget what waits."""
        self._waiting: deque[tuple[float, np.ndarray]] = deque(maxlen=WAITING)
        self._forces: deque[tuple[float, np.ndarray]] = deque(maxlen=LATE)

    def gyro(self, t: float, angular: np.ndarray) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """An angular rate (3,) at time t; returns (t, angular, linear) for each united sample."""
        if self.method is Unite.COPY:
            return [(t, angular, self._forces[-1][1])] if self._forces else []
        self._waiting.append((t, angular))
        return self._complete()

    def accel(self, t: float, linear: np.ndarray) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """A specific force (3,) at time t; returns as `gyro`."""
        self._forces.append((t, linear))
        return self._complete() if self.method is Unite.INTERPOLATE else []

    def _complete(self) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """Those that wait and lie between two specific forces."""
        done = []
        while self._forces and self._waiting and self._waiting[0][0] <= self._forces[-1][0]:
            t, angular = self._waiting.popleft()
            after = next(i for i, (when, _) in enumerate(self._forces) if when >= t)
            if after == 0:
                continue  # before the first specific force
            (t0, f0), (t1, f1) = self._forces[after - 1], self._forces[after]
            share = (t - t0) / (t1 - t0)
            done.append((t, angular, (1.0 - share) * f0 + share * f1))
        return done
