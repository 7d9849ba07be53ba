"""Sound behind the link that every device has: stamps, losses, level, and a source that is opened anew when it falls silent."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardware.audio.pcm import LevelMeter, clipped, from_float, to_float
from hardware.audio.ring import Chunk
from hardware.audio.sample_clock import SampleClock
from hardware.audio.sources import Source
from hardware.link import Device, Identity, NotAnswering, State

__all__ = ["AudioDevice", "Sound"]

CLIPPING_LIMIT = 1e-3  # share of samples at full scale above which the gain is too high
QUIET_LIMIT = 2.0  # [s] below the floor
FIRST_SOUND = 1.0  # [s] for a started source to deliver
ONE_LOSS = 1.0  # [s] within which an announced loss and the gap it turns out to be are one overrun


@dataclass(frozen=True)
class Sound:
    """One chunk.

    Attributes:
        data: samples, interleaved, gain applied.
        frames: samples of each channel.
        gap: samples of each channel known to be missing just before.
        overrun: a loss has just become known, whether or not its size is.
        clipped: samples at full scale.
    """

    data: bytes
    frames: int
    gap: int = 0
    overrun: bool = False
    clipped: int = 0


class AudioDevice(Device):
    """A microphone or stethoscope: `on_sample` gets every `Sound` with the host time of its first sample.

    Counts overruns and lost_samples besides the usual. Warnings: "clipping", "quiet".

    Args:
        source: of the sound.
        gain_db: applied to every sample; what it drives beyond full scale is clipped, and counted so.
        floor_dbfs: level that no living microphone stays below [dB of full scale], before the gain.
        stale_timeout: silence of the source after which it is closed and opened anew [s].
        **link: of every Device.
    """

    def __init__(
        self, source: Source, gain_db: float = 0.0, floor_dbfs: float = -80.0, stale_timeout: float = 0.5, **link: Any
    ) -> None:
        super().__init__(stale_timeout=stale_timeout, **link)
        self.source, self.gain, self.floor_dbfs = source, 10.0 ** (gain_db / 20.0), floor_dbfs
        self.level = LevelMeter(floor_dbfs)
        self.clock: SampleClock | None = None
        self._started = False
        self._held: deque[Chunk] = deque()  # heard before the first of them could be stamped
        self._end: float | None = None  # of the newest chunk [s]
        self._interrupted: float | None = None  # where sound broke off, until it is back [s]

    # -- hooks -------------------------------------------------------------------------------------
    def _open(self) -> Identity:
        identity = self.source.open()
        if self._enabled:
            self._start()  # a source that has fallen silent can be opened at any time: it is back when it sounds
        return identity

    def _start(self) -> None:
        if self._started:
            return
        form = self.source.form
        known = self.clock.latency if self.clock is not None else None
        self.level = LevelMeter(self.floor_dbfs)
        self._next_number, self._announced, self._heard = 0, float("-inf"), time.monotonic()
        self._interrupted = self._end
        self.source.start()
        self._started = True
        self.clock = SampleClock(form.rate, form.frames, known, opened=time.monotonic())
        limit = max(FIRST_SOUND, self.stale_timeout)
        wanted = max(1, math.ceil(self.source.settling / form.chunk_seconds))
        while len(self._held) < wanted and self._enabled and not self._closing:
            if (chunk := self._read(limit)) is not None:
                self._held.append(chunk)
        self.clock.foresee(self._held)

    def _serve(self) -> None:
        chunk = self._next()
        if chunk is None:
            return
        assert self.clock is not None, "`_start` has made it"
        t, missing = self.clock.stamp(chunk.number, chunk.arrival, chunk.age)
        # What our own ring had no room for its numbers tell exactly; what was lost before it the clock finds out.
        gap = missing + chunk.number - self._next_number
        self._next_number = chunk.number + self.source.form.frames
        if self._interrupted is not None:
            gap, self._interrupted = max(round((t - self._interrupted) * self.source.form.rate), 0), None
        self._end = t + self.source.form.chunk_seconds
        data, n_clipped = self._amplified(chunk.data)
        self._judge_level()
        self._sample(Sound(data, self.source.form.frames, gap, self._count_loss(chunk, gap), n_clipped), t)

    def _stop(self) -> None:
        self.source.stop()
        self._forget()
        self._end = None  # what is not heard after a wanted stop is not lost

    def _close(self) -> None:
        self.source.close()
        self._forget()

    def _forget(self) -> None:
        self._started = False
        self._held.clear()
        self.warnings.clear()

    # -- sound -------------------------------------------------------------------------------------
    def _next(self) -> Chunk | None:
        """The next chunk to be stamped, if there is one within a turn."""
        if not self._held:
            return self._read(self.stale_timeout)
        time.sleep(0.25 * self.source.form.chunk_seconds)  # what was held back overruns nobody's queue
        return self._held.popleft()

    def _read(self, limit: float) -> Chunk | None:
        """The next chunk, if it comes within a turn.

        Raises:
            NotAnswering: none has come for `limit` [s].
        """
        chunk, now = self.source.read(0.05), time.monotonic()
        if chunk is not None:
            self._heard = now
        elif now - self._heard > limit:
            self.counters.add("timeouts")
            if self.state is State.STREAMING:
                self._set_state(State.STALE)  # now: a sound server that hangs may hold up the closing
            raise NotAnswering(f"no sound from {self.source} for {now - self._heard:.1f} s: is it plugged in?")
        return chunk

    def _count_loss(self, chunk: Chunk, gap: int) -> bool:
        """Whether a loss has become known that was not yet counted."""
        known = chunk.arrival - self._announced < ONE_LOSS
        if chunk.overflow:
            self._announced = chunk.arrival
        if gap:
            self.counters.add("lost_samples", gap)
        if known or not (gap or chunk.overflow):
            return False
        self.counters.add("overruns")
        self.counters.add("dropped")
        return True

    def _amplified(self, data: bytes) -> tuple[bytes, int]:
        """The chunk with gain; how many of its samples stand at full scale, before it or because of it."""
        form = self.source.form
        samples = np.frombuffer(data, form.sample.dtype)
        n_clipped = clipped(samples, form.sample)
        if self.gain != 1.0:
            louder = from_float(self.gain * to_float(samples, form.sample), form.sample)
            data, n_clipped = louder.tobytes(), max(n_clipped, clipped(louder, form.sample))
        self.level.add(samples, form.sample, form.chunk_seconds, n_clipped)
        return data, n_clipped

    def _judge_level(self) -> None:
        """Warnings that stand as long as their reason."""
        level = self.level
        self._warn(
            "clipping",
            level.clipping > CLIPPING_LIMIT,
            f"{100 * level.clipping:.1f} % of the samples are clipped: lower the gain",
        )
        self._warn(
            "quiet",
            level.quiet > QUIET_LIMIT,
            f"level {level.rms_dbfs:.0f} dBFS for {level.quiet:.0f} s, a living microphone stays above {level.floor_dbfs:g}: "
            "is it muted or unplugged from its codec?",
        )

    def _warn(self, name: str, holds: bool, sentence: str) -> None:
        if holds:
            self.warnings[name] = sentence
        else:
            self.warnings.pop(name, None)
