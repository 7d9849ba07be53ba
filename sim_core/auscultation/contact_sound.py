"""From how a stethoscope touches a body, told at moments of simulated time, to the sound that it hears, in chunks of equal length.

    sound = ContactSound(lambda: SoundStream(field, conditions, rate), rate, chunk=882)
    for heard in sound.touch(t, Touch(place, force=7.0, slip=0.0)):
        publish(heard.t, heard.samples)

Chunks lie at multiples of their length since t = 0, so that the same time sounds the same however often and from when on it is told how
the stethoscope touches. A chunk is there as soon as its end has been told of.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.auscultation.sound_stream import SoundStream

__all__ = ["Chunk", "ContactSound", "Touch"]

LONGEST_GAP = 1.0  # [s] between two touches within which the stethoscope is taken to have moved steadily
COURSE = 0.01  # [s] between the points of a contact's course within a chunk, about
DAY = 86400.0  # [s] after which sounds come again: a stream is not made for the years since an epoch


@dataclass(frozen=True)
class Touch:
    """How a stethoscope touches: place on the side's coronal plane (2,) [m], force along the normal [N], slip over the skin [m/s]."""

    place: np.ndarray
    force: float
    slip: float

    def __post_init__(self) -> None:
        told = np.array([*self.place, self.force, self.slip], float)
        if len(told) != 4 or not np.isfinite(told).all():
            raise ValueError(
                f"expected a place of two finite numbers, a finite force and a finite slip, found {self.place}, {self.force}, "
                f"{self.slip}"
            )


@dataclass(frozen=True)
class Chunk:
    """Sound of equal length.

    Attributes:
        t: of the first sample [s]. samples: full scale at 1, shape (n,). gap: samples before it that are lost.
    """

    t: float
    samples: np.ndarray
    gap: int = 0


class ContactSound:
    """See the module's docstring.

    Args:
        stream: makes the sound, from its begin on. rate: samples per second [Hz]. chunk: samples.
    """

    def __init__(self, stream: Callable[[], SoundStream], rate: float, chunk: int) -> None:
        self._make, self._rate, self._chunk = stream, rate, chunk
        self._points = max(1, round(chunk / rate / COURSE))
        self.forget()

    @property
    def now(self) -> float | None:
        """When the stethoscope last was told to touch [s]; None: not yet."""
        return self._times[-1] if self._times else None

    def forget(self) -> None:
        """Begin anew: time was set."""
        self._times: list[float] = []
        self._touches: list[Touch] = []
        self._next: int | None = None  # number of the next chunk since t = 0
        self._gap = 0  # samples lost before it
        self._stream: SoundStream | None = None
        self._origin = 0  # of the stream, in samples since t = 0

    def touch(self, t: float, touch: Touch) -> list[Chunk]:
        """The chunks that have ended by time t [s], at which the stethoscope touches like this; nothing if it was told so already.

        Raises:
            ValueError: t is before what was told last; call `forget` if time was set.
        """
        now = self.now
        if now is not None and t < now:
            raise ValueError(f"expected a time from {now:g} s on, found {t:g} s")
        if t == now:
            return []
        if self._next is None or now is None or t - now > LONGEST_GAP:
            first = -(-round(t * self._rate) // self._chunk)
            self._gap += 0 if self._next is None else (first - self._next) * self._chunk
            self._times, self._touches, self._next = [], [], first
        self._times.append(t)
        self._touches.append(touch)
        ended: list[Chunk] = []
        while (self._next + 1) * self._chunk <= round(t * self._rate):
            ended.append(Chunk(self._next * self._chunk / self._rate, self._sound(self._next), self._gap))
            self._next, self._gap = self._next + 1, 0
        return ended

    def _sound(self, number: int) -> np.ndarray:
        begin, rate = number * self._chunk, self._rate
        times = begin / rate + self._chunk / rate * np.linspace(0.0, 1.0, self._points + 1)[1:]
        told = np.array([[*each.place, each.force, each.slip] for each in self._touches])
        course = np.stack([np.interp(times, self._times, column) for column in told.T])
        past = bisect_right(self._times, times[-1]) - 1  # what was told before it counts no more
        del self._times[: max(past, 0)], self._touches[: max(past, 0)]
        return self._heard_from(begin).block(course[:2].T, course[2], course[3], self._chunk)

    def _heard_from(self, begin: int) -> SoundStream:
        """The stream, moved on to a sample since t = 0."""
        day = round(DAY * self._rate)
        stream = self._stream
        if stream is None or begin - self._origin - stream.heard > day:
            stream = self._stream = self._make()
            self._origin = begin - begin % day
        if (ahead := begin - self._origin - stream.heard) > 0:
            stream.skip(ahead)
        return stream
