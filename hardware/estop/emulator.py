"""The emergency stop on a pseudo-terminal: `python -m hardware.emulate estop --link /tmp/estop`.

Values to set: pressed, format (2, or 1 for a transmitter with the old program). Faults besides the common ones: stuck_on, the transmitter repeats its last heartbeat.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.pty_port import PtyPort

__all__ = ["EstopEmulator", "arguments", "make"]

PERIOD = 0.02  # [s]


class EstopEmulator(Emulator):
    """pressed: the button's state; format: of the heartbeats; last: when the newest heartbeat left [s, monotonic]."""

    name = "estop"
    own_faults = {"stuck_on": "the last heartbeat is repeated, whatever the button does"}
    longest_step = 0.01

    def __init__(self, port: PtyPort, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.port, self.pressed, self.format, self.number, self.last = port, False, 2, 0, 0.0
        self._beat = self._compose()
        self._due = time.monotonic()

    def _compose(self) -> bytes:
        text = f"{'E' if self.format == 1 else 'E2'}{0 if self.pressed else 1}{self.number % 256:02X}"
        check = f"{sum(map(ord, text)) & 255:02X}" if self.format == 1 else f"{_remainder(text.encode()):04X}"
        return f"{text}{check}\r".encode()

    def step(self, timeout: float) -> None:
        self.port.read(min(timeout, max(0.0, self._due - time.monotonic())))
        now = time.monotonic()
        if now < self._due:
            return
        self._due = max(self._due + PERIOD, now)
        if not self.powered:
            return
        if self.faults.active("stuck_on") is None:
            self.number += 1
            self._beat = self._compose()
        if self.faults.active("silence") is None:
            self.last = now
        self.send(self._beat)

    def power_on(self) -> None:
        self.number = 0

    def set(self, **values: Any) -> None:
        self.pressed = bool(values.pop("pressed", self.pressed))
        self.format = int(values.pop("format", self.format))
        super().set(**values)

    def stats(self) -> dict:
        return {**super().stats(), "pressed": self.pressed, "number": self.number, "last": self.last}


def _remainder(body: bytes) -> int:
    """What dividing the body, its first 16 bits inverted and 16 zeros appended, by the generator leaves.

    The schoolbook division of polynomials over the integers modulo 2, on purpose another way than the driver's.
    """
    size = 8 * len(body) + 16
    rest = (int.from_bytes(body, "big") << 16) ^ (0xFFFF << size - 16)
    while rest.bit_length() > 16:
        rest ^= 0x13D65 << rest.bit_length() - 17
    return rest


def arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def make(options: argparse.Namespace, faults: Faults) -> EstopEmulator:
    """The emulated device that the options describe."""
    return EstopEmulator(PtyPort(options.link, 115200), faults)
