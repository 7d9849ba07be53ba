"""The emergency stop on a pseudo-terminal: `python -m hardware.emulate estop --link /tmp/estop`.

Values to set: pressed. Faults besides the common ones: stuck_on, the transmitter repeats its last heartbeat.
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
    """pressed: the button's state; last: when the newest heartbeat left [s, monotonic]."""

    name = "estop"
    own_faults = {"stuck_on": "the last heartbeat is repeated, whatever the button does"}
    longest_step = 0.01

    def __init__(self, port: PtyPort, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.port, self.pressed, self.number, self.last = port, False, 0, 0.0
        self._beat = self._compose()
        self._due = time.monotonic()

    def _compose(self) -> bytes:
        text = f"E{0 if self.pressed else 1}{self.number % 256:02X}"
        return f"{text}{sum(map(ord, text)) & 255:02X}\r".encode()

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
        super().set(**values)

    def stats(self) -> dict:
        return {**super().stats(), "pressed": self.pressed, "number": self.number, "last": self.last}


def arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def make(options: argparse.Namespace, faults: Faults) -> EstopEmulator:
    return EstopEmulator(PtyPort(options.link, 115200), faults)
