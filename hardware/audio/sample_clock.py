"""When samples were measured, from their number and the moments at which they came.

A sound card counts samples with a quartz; only that count is smooth. The driver hands sound over in lumps that beat
with the chunks, so that callbacks come late by up to a chunk; the age that it states errs to both sides (by 6 ms
through PulseAudio, which also drifts by 10 ms on a busy machine, and is wrong by a second after a stall). So

    t(n) = n / rate + offset

where the offset is what ages say in the stream's first second, the smaller ones (those that lie are too large), and
later moves as the earliest callbacks of a window do: a callback can only be late, and a stream's latency is constant
while it is open. Ages of a stream that was opened while its source paused are 0.1 s too large for half a second; where
the latency of an earlier stream is known they are believed within AGREES of it until enough have been heard.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from hardware.link.clock import DeviceClock

__all__ = ["SampleClock"]

WINDOW = 10.0  # [s] in which the earliest callback counts: at 100 ppm the clocks part by 1 ms
LISTENING = 1.0  # [s] of sound in which ages are listened to
TRUSTED = 0.9  # quantile of the offsets they make
AGREES = 0.02  # [s] by which a stream's latency may exceed the one before, as long as few ages have been heard
STEP = 0.5e-3  # [s] most that the offset changes per chunk: consecutive stamps differ by a chunk and no more than this
BEHIND_FOR = 0.5  # [s], and at least four chunks, for which every callback must be late before samples count as lost
BEHIND_BY = 0.03  # [s] beyond a chunk by which they must


class SampleClock:
    """Stamps of one open stream.

    Args:
        rate: nominal samples per second.
        chunk: samples per callback.
        latency: of an earlier stream of the same source [s]; None: there was none.

    Attributes:
        lost: samples found missing so far.
        locked: whether the stream is old enough for its latency to be known.
        offset: host time of sample 0 [s]; None before the first chunk.
        latency: of the callbacks, as far as it is known [s]; of the earlier stream until then.
    """

    def __init__(self, rate: float, chunk: int, latency: float | None = None) -> None:
        self.rate, self.latency = rate, latency
        self.lost = 0
        self.locked = False
        self._arrivals = DeviceClock(window=WINDOW, slew=1.0)  # slewed by STEP, here
        self._by_age: list[float] = []  # offsets, as ages say
        self._start = self._latency = 0.0
        self.offset: float | None = None
        self._behind: deque[tuple[float, float]] = deque()  # (arrival, how late)
        self._behind_for, self._behind_by = max(BEHIND_FOR, 4 * chunk / rate), BEHIND_BY + chunk / rate

    def stamp(self, number: int, arrival: float, age: float) -> tuple[float, int]:
        """When a chunk's first sample was measured.

        Args:
            number: of the chunk's first sample, counted from the opening of the stream.
            arrival: host time of the callback [s].
            age: of that sample at that time, as the driver states it [s].

        Returns:
            (host time [s], samples missing just before this chunk). Samples are known to be missing once the stream
            has stayed behind for BEHIND_FOR; this and later stamps then account for them.
        """
        elapsed = (number + self.lost) / self.rate
        late = arrival - self._arrivals.to_host(elapsed, arrival)
        first = self._arrivals.offset
        assert first is not None  # to_host has just set it
        gap = self._missing(arrival, late)
        if elapsed < LISTENING or not self._by_age:
            self._by_age.append(arrival - age - elapsed)
            self._start = float(np.quantile(self._by_age, TRUSTED))
        if not self.locked:
            # Until the window is full an even earlier callback may come; the clocks part by no more than 1 ms meanwhile.
            self._latency = first - self._start
            self.locked = elapsed >= WINDOW
            if elapsed >= 2.0 * LISTENING:
                self.latency = self._latency
            elif elapsed < LISTENING and self.latency is not None:
                self._latency = min(self._latency, self.latency + AGREES)
        wanted = first - self._latency
        self.offset = wanted if self.offset is None else self.offset + min(max(wanted - self.offset, -STEP), STEP)
        # More samples than time has passed: a card at another rate, or one that repeats itself. No stamp is of the future.
        self.offset = min(self.offset, arrival - elapsed)
        return elapsed + gap / self.rate + self.offset, gap

    def _missing(self, arrival: float, late: float) -> int:
        """Samples lost, if every callback of the last while came later than jitter explains."""
        self._behind.append((arrival, late))
        while arrival - self._behind[0][0] > self._behind_for:
            self._behind.popleft()
        least = min(late for _, late in self._behind)
        if least < self._behind_by or arrival - self._behind[0][0] < 0.7 * self._behind_for:
            return 0
        self._behind.clear()
        gap = round(least * self.rate)
        self.lost += gap
        return gap
