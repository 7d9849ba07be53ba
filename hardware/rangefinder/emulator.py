"""A serial rangefinder on a pseudo-terminal: `python -m hardware.emulate rangefinder --link /tmp/range`.

Values to set: range [m], null: nothing echoes; noise [m]. Faults besides the common ones: stuck, no_echo. It does not
imitate the beam's width, the filter of the real sensor, and two sensors that hear each other.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.pty_port import PtyPort

__all__ = ["RangefinderEmulator", "arguments", "make"]

PERIOD = 0.1  # [s]


class RangefinderEmulator(Emulator):
    """range, noise: what the sensor senses and its standard deviation [m]."""

    name = "rangefinder"
    own_faults = {"stuck": "every reading is the last one", "no_echo": "every reading is the largest, 5000 mm"}

    def __init__(
        self, port: PtyPort, range: float | None = 1.0, noise: float = 0.001, faults: Faults | None = None
    ) -> None:
        super().__init__(faults)
        self.port, self.range, self.noise = port, range, noise
        self.sent = self._reading = 0
        self._due = time.monotonic()

    def step(self, timeout: float) -> None:
        self.port.read(min(timeout, max(0.0, self._due - time.monotonic())))
        if time.monotonic() < self._due:
            return
        self._due = max(self._due + PERIOD, time.monotonic())
        if self.powered:
            self.send(b"R%04d\r" % self._measure())
            self.sent += 1

    def _measure(self) -> int:
        if self.faults.active("stuck") is None or not self._reading:
            if self.range is None or self.faults.active("no_echo") is not None:
                sensed = 5000
            else:
                sensed = round(1e3 * (self.range + self.faults.rng.gauss(0.0, self.noise)))
            self._reading = min(max(sensed, 300), 5000)
        return self._reading

    def set(self, **values: Any) -> None:
        if "range" in values:
            value = values.pop("range")
            self.range = None if value is None else float(value)
        self.noise = float(values.pop("noise", self.noise))
        super().set(**values)

    def stats(self) -> dict:
        return {**super().stats(), "sent": self.sent, "reading": self._reading}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `refit emulate` that this device has alone."""
    parser.add_argument("--baud", type=int, default=9600)
    parser.add_argument("--range", type=float, default=1.0, help="to the target [m]")
    parser.add_argument("--noise", type=float, default=0.001, help="standard deviation [m]")


def make(options: argparse.Namespace, faults: Faults) -> RangefinderEmulator:
    """The emulated device that the options describe."""
    return RangefinderEmulator(PtyPort(options.link, options.baud), options.range, options.noise, faults)
