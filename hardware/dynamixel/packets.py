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
    then the search goes on behind it, so that damage never hides the frame that follows. Where frames are stuffed a
    header within one shows it to be false, before its end has come and without its check value: so each byte enters
    the check of one frame only (a few of two), and hostile streams cost what good ones do.

    Attributes:
        checked: bytes that went into check values.
        crc_errors: frames refused for their check value.
        skipped: bytes dropped outside frames.
    """

    HEADER: bytes
    HEAD: int  # bytes from which a frame's length is known
    CHECK = 0  # bytes of the check value, which alone is not stuffed; 0: nothing is

    def __init__(self, limit: int = 2048) -> None:
        self.limit = limit
        self.crc_errors = self.skipped = self.checked = 0
        self._buffer = bytearray()
        self._searched = 0  # of the frame that has begun, without a header behind its own

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
            elif (inner := self._header_within(size)) > 0:
                self.crc_errors += 1
                self._drop(inner)
            elif len(buffer) < size:
                return found
            else:
                frame = bytes(buffer[:size])
                self.checked += size
                if not self._valid(frame):
                    self.crc_errors += 1
                    self._drop(1)
                else:
                    del buffer[:size]
                    self._searched = 0
                    found += self._replies(frame)

    def _header_within(self, size: int) -> int:
        """Where the next header begins in the frame of `size` bytes that has begun; -1 if there is none so far."""
        if not self.CHECK:
            return -1
        end = min(size - self.CHECK, len(self._buffer))
        inner = self._buffer.find(self.HEADER, max(self.HEAD, self._searched), end)
        self._searched = max(0, end - len(self.HEADER) + 1)
        return inner

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
        self._searched = 0

    @property
    def pending(self) -> int:
        """Bytes buffered; at most `limit` between two calls."""
        return len(self._buffer)

    def _drop(self, n: int) -> None:
        if n:
            del self._buffer[:n]
            self._searched = 0
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
