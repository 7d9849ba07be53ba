"""What a link counts over its whole life, reconnections included."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

__all__ = ["Counters", "RateMeter"]


class Counters:
    """Named totals and the latency of recent samples. Written by the device's thread, read by any.

    Attributes:
        last_error: newest failure, one sentence; "" if none.
    """

    COMMON = ("samples", "dropped", "crc_errors", "timeouts", "resyncs", "reconnects")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = dict.fromkeys(self.COMMON, 0)
        self._latencies: deque[float] = deque(maxlen=512)
        self.last_error = ""

    def add(self, name: str, n: int = 1) -> None:
        """Count; `name` may be a link's own."""
        with self._lock:
            self._totals[name] = self._totals.get(name, 0) + n

    def __getattr__(self, name: str) -> int:
        try:
            return self.__dict__["_totals"][name]
        except KeyError:
            raise AttributeError(name) from None

    def latency(self, seconds: float) -> None:
        """Time from measurement to hand-over of one sample."""
        self._latencies.append(seconds)

    def latency_percentile(self, percent: float) -> float:
        """Of the recent samples [s]; NaN without any."""
        recent = list(self._latencies)
        return float(np.percentile(recent, percent)) if recent else float("nan")

    def as_dict(self) -> dict[str, int]:
        """All totals by name."""
        with self._lock:
            return dict(self._totals)


class RateMeter:
    """Events per second over a sliding window.

    Args:
        window: [s].
        capacity: most events kept; beyond it the window is shorter.
    """

    def __init__(self, window: float = 5.0, capacity: int = 65536) -> None:
        self.window = window
        self._times: deque[float] = deque(maxlen=capacity)
        self._lock = threading.Lock()

    def tick(self, t: float, n: int = 1) -> None:
        """n events at time t [s]."""
        with self._lock:
            self._times.append(t) if n == 1 else self._times.extend([t] * n)
            self._forget(t)

    def rate(self, now: float) -> float:
        """[Hz]; 0 with fewer than two events in the window."""
        with self._lock:
            self._forget(now)
            if len(self._times) < 2:
                return 0.0
            span = max(self._times[-1] - self._times[0], 1e-9)
            return (len(self._times) - 1) / span

    def clear(self) -> None:
        """Begin anew, after a pause that was wanted."""
        with self._lock:
            self._times.clear()

    def _forget(self, now: float) -> None:
        while self._times and self._times[0] < now - self.window:
            self._times.popleft()
