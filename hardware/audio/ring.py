"""From the sound card's thread to ours: chunks in memory that was allocated beforehand."""

from __future__ import annotations

import os
import select
from array import array
from dataclasses import dataclass

__all__ = ["Chunk", "Ring"]


@dataclass(frozen=True)
class Chunk:
    """Sound as a source delivers it.

    Attributes:
        data: samples of all channels, interleaved.
        number: of the first sample of each channel, counted from the opening of the source; a jump means a loss.
        arrival: host time of delivery [s].
        age: of the first sample then [s].
        overflow: the driver lost sound before this chunk and does not say how much.
    """

    data: bytes
    number: int
    arrival: float
    age: float
    overflow: bool = False


class Ring:
    """Chunks of equal size between one writer and one reader, without locks.

    The writer is PortAudio's callback: it copies into place and never waits; when the reader is too slow, what does
    not fit is lost, and the numbers of the chunks tell.

    Args:
        frames: samples of each channel per chunk.
        frame_bytes: bytes of one sample of all channels.
        capacity: chunks.
    """

    def __init__(self, frames: int, frame_bytes: int, capacity: int) -> None:
        self.frames, self.capacity = frames, capacity
        size = frames * frame_bytes
        memory = memoryview(bytearray(size * capacity))
        self._slots = [memory[i * size : (i + 1) * size] for i in range(capacity)]
        self._numbers, self._overflows = array("q", bytes(8 * capacity)), array("b", bytes(capacity))
        self._arrivals, self._ages = array("d", bytes(8 * capacity)), array("d", bytes(8 * capacity))
        self._heard = self._written = self._read = 0  # chunks; each is written by one thread only
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def put(self, data: bytes | bytearray | memoryview, arrival: float, age: float, overflow: bool) -> bool:
        """One chunk (any buffer of the right size); False if there was no room."""
        number = self._heard * self.frames
        self._heard += 1
        if self._written - self._read >= self.capacity:
            return False
        at = self._written % self.capacity
        self._slots[at][:] = data
        self._numbers[at], self._arrivals[at], self._ages[at], self._overflows[at] = number, arrival, age, overflow
        self._written += 1  # last: from here on the reader may look
        os.eventfd_write(self._bell, 1)
        return True

    def get(self, timeout: float = 0.0) -> Chunk | None:
        """The oldest chunk; waits at most `timeout` [s] for one."""
        if self._read == self._written:
            if not self._poll.poll(1e3 * timeout):
                return None
            os.eventfd_read(self._bell)
            if self._read == self._written:  # the bell of chunks that were taken without waiting
                return None
        at = self._read % self.capacity
        chunk = Chunk(
            bytes(self._slots[at]), self._numbers[at], self._arrivals[at], self._ages[at], bool(self._overflows[at])
        )
        self._read += 1
        return chunk

    def clear(self) -> None:
        """Forget everything, while nobody writes; samples are counted from zero."""
        self._heard = self._read = self._written = 0

    def close(self) -> None:
        """Free the bell."""
        if self._bell >= 0:
            os.close(self._bell)
            self._bell = -1
