"""Force-torque sensors that send frames over a serial line: finding the frames, stamping them, noticing their absence."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from hardware.link import Disconnected, NotAnswering, SerialPort, WhileOpen
from hardware.wrench.sensor import WrenchSensor

__all__ = ["FrameDecoder", "SerialWrenchSensor", "WrenchDecoder"]

GIVE_UP = 1.0  # [s] without a valid frame after which the port is opened anew


class WrenchDecoder(Protocol):
    """What turns bytes into wrenches.

    Attributes:
        crc_errors: what looked like a frame and was none.
        resyncs: stretches of bytes that belonged to no frame.
        pending: bytes kept of a frame that has not come to its end.
        frame_length: of the frame that came last, where lengths differ [bytes].
    """

    crc_errors: int
    resyncs: int

    frame_length: int

    @property
    def pending(self) -> int: ...

    def feed(self, data: bytes) -> list[np.ndarray]:
        """Wrenches of the frames that are complete now, oldest first, each (6,) [N, N m]."""


class FrameDecoder:
    """Frames of fixed length behind a header that may occur in data too: only the check makes a frame.

    After a failed check one byte is dropped and the search goes on, so that a damaged frame hides no whole one.

    Args:
        header: first bytes, at least one.
        length: of a frame with its header [bytes].
        wrench: frame -> (6,) [N, N m], or None if it is none.
    """

    def __init__(self, header: bytes, length: int, wrench: Callable[[bytes], np.ndarray | None]) -> None:
        self.header, self.frame_length, self._wrench = header, length, wrench
        self.crc_errors = self.resyncs = 0
        self._buffer = bytearray()
        self._lost = False

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[np.ndarray]:
        """As `WrenchDecoder.feed`."""
        buffer = self._buffer
        found: list[np.ndarray] = []
        buffer += data
        while True:
            at = buffer.find(self.header)
            self._skip(at if at >= 0 else max(0, len(buffer) - len(self.header) + 1))
            if at < 0 or len(buffer) < self.frame_length:
                return found
            wrench = self._wrench(bytes(buffer[: self.frame_length]))
            if wrench is None:
                self.crc_errors += 1
                self._skip(1)
            else:
                found.append(wrench)
                del buffer[: self.frame_length]
                self._lost = False

    def _skip(self, n: int) -> None:
        if n:
            self.resyncs += not self._lost
            self._lost = True
            del self._buffer[:n]


class SerialWrenchSensor(WrenchSensor):
    """The part of the link that follows the stream. A subclass opens `_port`, starts and stops it, and makes the decoder.

    Stamps: when the last byte of a frame came, less the time that the frame takes on the line.

    Args:
        path: of the port.
        **common: as for `WrenchSensor`.
    """

    _port = WhileOpen[SerialPort]()

    def __init__(self, path: str, **common: Any) -> None:
        super().__init__(**common)
        self.path = str(path)

    @abstractmethod
    def _decoder_of_stream(self) -> WrenchDecoder:
        """A fresh decoder."""

    def _start(self) -> None:
        self.faults.clear()
        self._decoder = self._decoder_of_stream()
        self._counted = (0, 0)
        self._arrived = time.monotonic()

    def _serve(self) -> None:
        data = self._port.read(timeout=min(max(self._watch_silence(), 0.001), 0.02))
        arrival = time.monotonic()
        if data:
            wrenches = self._decoder.feed(data)
            self._count()
            if wrenches:
                self._use(np.array(wrenches), arrival)
        if arrival - self._arrived > max(GIVE_UP, 10.0 / self.nominal_rate):
            raise NotAnswering(
                f"{self.path} has brought no valid frame for {arrival - self._arrived:.1f} s: check power, cable and baud "
                f"rate ({self._port.baud})"
            )

    def _close(self) -> None:
        self._not_streaming()
        with contextlib.suppress(Disconnected):
            self._port.close()
        self._port = None

    def _use(self, wrenches: np.ndarray, arrival: float) -> None:
        """Frames that came together left the sensor a period apart; bytes behind the last one came after it."""
        wire = self._port.transmission_time(self._decoder.frame_length + self._decoder.pending)
        n = len(wrenches)
        t = arrival - wire - np.arange(n - 1, -1, -1) / self.nominal_rate
        t = np.maximum(t, self.last_sample + 1e-6 * np.arange(1, n + 1))
        self._block(t, wrenches, np.zeros(n, bool))

    def _count(self) -> None:
        now = self._decoder.crc_errors, self._decoder.resyncs
        for name, total, before in zip(("crc_errors", "resyncs"), now, self._counted):
            if total != before:
                self.counters.add(name, total - before)
        self._counted = now
