"""What both protocols share: instructions, status replies, and finding frames in a stream of bytes."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import NamedTuple

__all__ = ["BROADCAST", "FrameParser", "Instruction", "Status"]

BROADCAST = 254


class Instruction(enum.IntEnum):
    """ROBOTIS e-manual, Protocol 2.0, 5.3; Protocol 1.0 has the first group, sync write and bulk read."""

    PING = 0x01
    READ = 0x02
    WRITE = 0x03
    REG_WRITE = 0x04
    ACTION = 0x05
    FACTORY_RESET = 0x06
    REBOOT = 0x08
    CLEAR = 0x10
    STATUS = 0x55
    SYNC_READ = 0x82
    SYNC_WRITE = 0x83
    FAST_SYNC_READ = 0x8A
    BULK_READ = 0x92
    BULK_WRITE = 0x93
    FAST_BULK_READ = 0x9A


class Status(NamedTuple):
    """One servo's reply: its id, its error byte (bits differ between protocols) and the parameters."""

    id: int
    error: int
    params: bytes


class FrameParser(ABC):
    """Status replies from a byte stream that may hold anything.

    The buffer is bounded: a frame longer than `limit` is no frame. A frame whose check fails costs one byte,
    then the search goes on behind it, so that damage never hides the frame that follows.

    Attributes:
        crc_errors: frames refused for their check value.
        skipped: bytes dropped outside frames.
    """

    HEADER: bytes
    HEAD: int  # bytes from which a frame's length is known

    def __init__(self, limit: int = 2048) -> None:
        self.limit = limit
        self.crc_errors = self.skipped = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Status]:
        """Replies completed by `data`, in order. Instructions (a half-duplex adapter's echo) are passed over."""
        buffer = self._buffer
        found: list[Status] = []
        buffer += data
        while True:
            start = buffer.find(self.HEADER)
            if start < 0:
                self._drop(max(0, len(buffer) - len(self.HEADER) + 1))  # a header may have begun
                return found
            self._drop(start)
            if len(buffer) < self.HEAD:
                return found
            size = self._size(buffer)
            if not 0 < size <= self.limit:
                self._drop(1)
            elif len(buffer) < size:
                return found
            else:
                frame = bytes(buffer[:size])
                if not self._valid(frame):
                    self.crc_errors += 1
                    self._drop(1)
                else:
                    del buffer[:size]
                    found += self._replies(frame)

    def resync(self) -> list[Status]:
        """Give up the frame that has begun: nothing more will come. Returns replies that it was hiding."""
        found = []
        while self._buffer:
            self._drop(1)
            found += self.feed(b"")
        return found

    def clear(self) -> None:
        """Forget what is buffered."""
        self._buffer.clear()

    @property
    def pending(self) -> int:
        """Bytes buffered; at most `limit` between two calls."""
        return len(self._buffer)

    def _drop(self, n: int) -> None:
        if n:
            del self._buffer[:n]
            self.skipped += n

    @abstractmethod
    def _size(self, head: bytearray) -> int:
        """Size of the frame whose first HEAD bytes are given; 0 if there is none like it."""

    @abstractmethod
    def _valid(self, frame: bytes) -> bool:
        """Whether the check value fits."""

    @abstractmethod
    def _replies(self, frame: bytes) -> list[Status]:
        """Replies in a valid frame."""
