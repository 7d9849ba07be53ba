"""Between two clocks: sound comes in lumps, and goes out evenly, late by as little as the lumps allow."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

__all__ = ["JitterBuffer"]


class JitterBuffer:
    """Sound that waits to be played; from any thread.

    It begins to play when `target` has come, and after it has run dry it waits for as much again: in between is silence. What waits
    longer than `bound` is dropped from its old end, down to `target`.

    Args:
        rate: samples of each channel per second. channels: of the sound.
        target: that waits before anything is played [s]. bound: that waits at most [s].

    Attributes:
        dropped: samples of each channel that were dropped so far. dry: how often nothing waited that was wanted.
        played: samples of each channel that were no silence, so far.

    Raises:
        ValueError: the bound does not exceed the target.
    """

    def __init__(self, rate: int, channels: int, target: float, bound: float) -> None:
        if not 0.0 <= target < bound:
            raise ValueError(
                f"expected a target of 0 s or more and a bound above it, found {target:g} s and {bound:g} s"
            )
        self.rate, self.channels = rate, channels
        self._target, self._bound = round(target * rate), round(bound * rate)
        self._pieces: deque[np.ndarray] = deque()
        self._waiting = 0
        self._is_filling = True
        self._lock = threading.Lock()
        self.dropped = self.dry = self.played = 0

    @property
    def level(self) -> float:
        """Sound that waits [s]."""
        return self._waiting / self.rate

    @property
    def is_playing(self) -> bool:
        """Whether what comes out is sound that came in."""
        return not self._is_filling

    def push(self, sound: np.ndarray) -> None:
        """Sound has come: (frames, channels) of 16-bit samples."""
        with self._lock:
            self._pieces.append(sound)
            self._waiting += len(sound)
            if self._waiting > self._bound:
                excess = self._waiting - self._target
                self._take(excess)
                self.dropped += excess

    def pull(self, frames: int) -> np.ndarray:
        """The next samples of each channel, (frames, channels); silence where none wait."""
        with self._lock:
            if self._is_filling and self._waiting < max(self._target, 1):
                return np.zeros((frames, self.channels), np.int16)
            self._is_filling = self._waiting < frames
            self.dry += self._is_filling
            found = self._take(min(frames, self._waiting))
        self.played += len(found)
        if len(found) == frames:
            return found
        return np.concatenate([found, np.zeros((frames - len(found), self.channels), np.int16)])

    def clear(self) -> None:
        """Forget what waits."""
        with self._lock:
            self._pieces.clear()
            self._waiting, self._is_filling = 0, True

    def _take(self, frames: int) -> np.ndarray:
        """The oldest samples, of which so many wait."""
        taken, missing = [], frames
        while missing:
            piece = self._pieces.popleft()
            if len(piece) > missing:
                self._pieces.appendleft(piece[missing:])
                piece = piece[:missing]
            taken.append(piece)
            missing -= len(piece)
        self._waiting -= frames
        return np.concatenate(taken) if taken else np.zeros((0, self.channels), np.int16)
