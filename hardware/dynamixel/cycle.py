"""The beat of a bus cycle: when the next one is due, how far off the last ones were."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

from hardware.link import Counters

__all__ = ["Beat"]

RECENT = 1.0  # [s] in which a slow cycle is forgotten
STANDSTILL = 0.05  # [s]: a cycle that took longer says nothing about the others; watchdogs mind it


class Beat:
    """Moments one period apart.

    Args:
        period: [s].
        counters: "overruns" counts the periods lost.

    Attributes:
        slowest: from one cycle to the next, recently [s]: what the next one may take.
    """

    def __init__(self, period: float, counters: Counters) -> None:
        self.period, self.counters = period, counters
        self.slowest = period
        self._next = self._last = 0.0
        self._jitter: deque[float] = deque(maxlen=1000)

    def begin(self) -> None:
        """The first moment is now."""
        self._next, self._last = time.monotonic(), 0.0

    def wait(self) -> None:
        """Until the next moment; a cycle that is late by more than a period starts the beat anew."""
        now = time.monotonic()
        if now > self._next + self.period:
            if self._last:
                self.counters.add("overruns", int((now - self._next) / self.period))
            self._next = now
        elif now < self._next:
            time.sleep(self._next - now)
            now = time.monotonic()
        if self._last:
            took = now - self._last
            self._jitter.append(abs(took - self.period))
            fading = max(self.slowest * (1.0 - min(took / RECENT, 1.0)), self.period)
            self.slowest = max(took, fading) if took <= STANDSTILL else fading
        self._last = now
        self._next += self.period

    @property
    def rest(self) -> float:
        """Time until the next moment [s]."""
        return self._next - time.monotonic()

    def jitter(self, percent: float = 99.0) -> float:
        """Percentile of the deviation of recent cycles from the period [s]; NaN without any."""
        recent = list(self._jitter)
        return float(np.percentile(recent, percent)) if recent else float("nan")
