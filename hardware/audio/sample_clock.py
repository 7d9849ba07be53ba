"""When samples were measured, from their number and the moments at which they came.

A sound card counts samples with a quartz; only that count is smooth. The driver hands sound over in lumps that beat
with the chunks, so that callbacks come late by up to a chunk, and later on a busy machine; none comes early. The age
that the driver states errs to both sides (by 6 ms through PulseAudio, which also drifts by 10 ms on a busy machine).
So

    t(n) = n / rate + offset,    offset = the earliest callback - latency

where the latency is that of the whole way from the converter to the callback, which is constant while a stream is
open and the same in all streams of one source. It is no shorter than a chunk, whose last sample must have been
measured. The first stream learns it from the ages of its first second; the smaller ones count, for those that lie are
too large. A later stream keeps it, unless its own ages disagree by more than AGREES.

PulseAudio's ages of a source that stands still are those of sound that is not there: they grow with the pause, by up
to what the buffers hold (0.1 s), and remain wrong for half a second after the sound is back. A stream whose first sound
let wait for longer than PAUSE was opened in such a pause, so nothing is asked of its ages for a second. Until then the
latency is that of the stream before, or else the length of a chunk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from hardware.audio.ring import Chunk
from hardware.link.clock import DeviceClock

__all__ = ["SampleClock"]

WINDOW = 10.0  # [s] in which the earliest callback counts: at 100 ppm the clocks part by 1 ms
LISTENING = 1.0  # [s] of sound in which ages are listened to
TRUSTED = 0.9  # quantile of the offsets they make
AGREES = 0.02  # [s] by which ages may contradict the latency of an earlier stream before they are believed
PAUSE = 0.3  # [s] from the opening to the first sound, for a source that was running
STEP = 0.5e-3  # [s] most that the offset changes per chunk: consecutive stamps differ by a chunk and no more than this
BEHIND_FOR = 0.5  # [s], and at least four chunks, for which every callback must be late before samples count as lost
BEHIND_BY = 0.03  # [s] beyond a chunk by which they must


class SampleClock:
    """Stamps of one open stream.

    Args:
        rate: nominal samples per second.
        chunk: samples per callback.
        latency: of an earlier stream of the same source [s]; None: there was none.
        opened: host time at which the stream was opened [s]; None: when its source was running.

    Attributes:
        lost: samples found missing so far.
        locked: whether the stream is old enough for its latency to be known.
        offset: host time of sample 0 [s]; None before the first chunk.
        latency: from a chunk's first sample to the earliest callback, as far as it is known [s]; of the earlier stream
            until then.
    """

    def __init__(self, rate: float, chunk: int, latency: float | None = None, opened: float | None = None) -> None:
        self.rate = rate
        self.latency = self._known = latency
        self.lost = 0
        self.locked = False
        self.offset: float | None = None
        self._chunk_seconds, self._opened = chunk / rate, opened
        self._arrivals = DeviceClock(window=WINDOW, slew=1.0)  # slewed by STEP, here
        self._foreseen = float("inf")  # offset of the earliest callback among those that were heard ahead of the stamps
        self._by_age: list[float] = []  # offsets, as ages say
        self._listen_from: float | None = None  # first elapsed time whose ages count [s]
        self._listened = float("-inf")  # newest elapsed time whose age was noted [s]
        self._latency = 0.0
        self._behind: deque[tuple[float, float]] = deque()  # (arrival, how late)
        self._behind_for, self._behind_by = max(BEHIND_FOR, 4 * chunk / rate), BEHIND_BY + chunk / rate

    def foresee(self, chunks: Iterable[Chunk]) -> None:
        """Learn from the first chunks before the first of them is stamped: one of several callbacks is punctual."""
        for chunk in chunks:
            elapsed = chunk.number / self.rate
            self._foreseen = min(self._foreseen, chunk.arrival - elapsed)
            self._listen(elapsed, chunk.arrival, chunk.age)

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
        assert self._arrivals.offset is not None  # to_host has just set it
        if elapsed >= LISTENING:
            self._foreseen = float("inf")  # by now each of them has come
        first = min(self._arrivals.offset, self._foreseen)
        gap = self._missing(arrival, late)
        self._listen(elapsed, arrival, age)
        if not self.locked:
            # Until the window is full an even earlier callback may come; the clocks part by no more than 1 ms meanwhile.
            self._judge_latency(elapsed, first)
            self.locked = elapsed >= WINDOW
            if self.locked and self.latency is not None:
                self._latency = self.latency
        wanted = first - self._latency
        self.offset = wanted if self.offset is None else self.offset + min(max(wanted - self.offset, -STEP), STEP)
        # More samples than time has passed: a card at another rate, or one that repeats itself. No stamp is of the future.
        self.offset = min(self.offset, arrival - elapsed)
        return elapsed + gap / self.rate + self.offset, gap

    def _listen(self, elapsed: float, arrival: float, age: float) -> None:
        """Note an age, if it is one of those that are listened to."""
        if self._listen_from is None:
            paused = self._opened is not None and arrival - self._opened > PAUSE
            self._listen_from = elapsed + LISTENING if paused else elapsed
        if self._listened < elapsed and self._listen_from <= elapsed < self._listen_from + LISTENING:
            self._by_age.append(arrival - age - elapsed)
            self._listened = elapsed

    def _judge_latency(self, elapsed: float, first: float) -> None:
        """The latency in use, from the earliest callback so far, the ages, and what an earlier stream has shown."""
        assert self._listen_from is not None
        known, least = self._known, self._chunk_seconds
        if not self._by_age:
            self._latency = least if known is None else known
            return
        stated = max(first - float(np.quantile(self._by_age, TRUSTED)), least)
        heard, agrees = elapsed >= self._listen_from + LISTENING, known is not None and abs(stated - known) <= AGREES
        if heard:
            self.latency = known if agrees else stated
        # As long as no callback was punctual, ages make good what the earliest one was late by.
        self._latency = stated if known is None or heard and not agrees else max(stated, known)

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
