"""An emulated FT-300: `python -m hardware.emulate ft300 --link /tmp/ft300`.

It streams from power-up on, and while it does it hears nothing but the jam signal. Not imitated: temperature drift, the
accelerometer's motion (it stands still, z up). Registers that the manual does not list are refused with exception 2.
"""

from __future__ import annotations

import argparse
import re
import struct
import time
from typing import Any

import numpy as np

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.modbus_slave import RegisterBank, RequestFinder, checksum, serve
from hardware.emulation.pty_port import PtyPort
from hardware.emulation.wrench_source import WrenchSource

__all__ = ["Ft300Emulator", "arguments", "make"]

SLAVE, PERIOD = 9, 0.01
JAM, JAM_REST = re.compile(rb"\xff{50,}"), 0.1
SIX_SHORTS = struct.Struct("<6h")
RATED = np.array([300.0] * 3 + [30.0] * 3)


class Ft300Emulator(Emulator):
    """See the module's docstring.

    Args:
        port: PtyPort at 19,200 baud.
        source: what the sensor feels.
        serial: letters and number, as in "FTS-1234".
    """

    name = "ft300"
    own_faults = {"saturate": "the transducer is overloaded"}

    def __init__(
        self, port: PtyPort, source: WrenchSource | None = None, serial: str = "FTS-1234", faults: Faults | None = None
    ) -> None:
        super().__init__(faults)
        self.port, self.source = port, source or WrenchSource()
        letters, digits = serial.split("-")
        number = int(digits)
        self._registers = {
            190: 0,
            191: 0,
            192: 1000,
            410: 0,
            500: int.from_bytes(b"FF", "big"),
            501: ord("T") << 8 | 2,
            502: 1 << 8,
            510: int.from_bytes(letters[:2].encode(), "big"),
            511: ord(letters[2]) << 8,
            512: number & 0xFFFF,
            513: number >> 16,
            514: 2024,
        }
        self._bank = RegisterBank(
            [range(180, 186), range(190, 193), range(410, 411), range(500, 503), range(510, 515)],
            range(410, 411),
            self._read,
            self._write,
        )
        self.frames = self.jams = self.ignored = 0
        self.power_on()

    def power_on(self) -> None:
        self.streaming, self._due = True, time.monotonic()
        self._ones, self._deaf_until, self._requests = 0, 0.0, RequestFinder(SLAVE)
        self._looked = time.monotonic()

    def step(self, timeout: float) -> None:
        if self.streaming:
            timeout = min(timeout, max(0.0, self._due - time.monotonic()))
        # Polling counts whole milliseconds, rounded up: frames are due in between.
        data = self.port.read(max(0.0, timeout - 0.001))
        if not data and self.streaming:
            time.sleep(min(0.001, max(0.0, self._due - time.monotonic())))
        if not self.powered:
            return
        now = time.monotonic()
        if data:
            self._hear(data, self._looked, now)
        self._looked = now
        if self.streaming and now >= self._due:
            self._due = max(self._due + PERIOD, now - 5 * PERIOD)
            self.frames += 1
            frame = b"\x20\x4e" + SIX_SHORTS.pack(*self.counts(now))
            self.send(frame + checksum(frame))

    def counts(self, t: float) -> list[int]:
        """What it feels, as integers of stream and registers."""
        load = self.source.at(np.array([t]))[0]
        if self.faults.active("saturate") is not None:
            load = np.where(load < 0.0, -RATED, RATED)
        scale = (100, 100, 100, 1000, 1000, 1000)
        return [max(-32768, min(32767, round(c * s))) for c, s in zip(np.clip(load, -RATED, RATED).tolist(), scale)]

    def _hear(self, data: bytes, since: float, now: float) -> None:
        """What came between two looks at the line, `since` and `now` [s].

        Where a busy machine left long between them, a jam, the pause after it and a request are found at once: the
        pause counts from the earlier look.
        """
        if self.streaming:
            line = b"\xff" * self._ones + data
            jam = JAM.search(line)
            if jam is None:
                tail = len(line) - len(line.rstrip(b"\xff"))
                self.ignored += len(line) - tail
                self._ones = tail
                return
            self.streaming, self._ones, self._deaf_until = False, 0, since + JAM_REST
            self.jams += 1
            data = line[jam.end() :]
        if not data:
            return
        if now < self._deaf_until:
            self.ignored += len(data)
            # A jam repeated just now is no request either.
            if data.strip(b"\xff") == b"":
                self._deaf_until = now + JAM_REST
            return
        for request in self._requests.feed(data):
            self.send(serve(request, self._bank))

    def _read(self, address: int) -> int:
        if 180 <= address <= 185:
            return self.counts(time.monotonic())[address - 180] & 0xFFFF
        return self._registers[address]

    def _write(self, address: int, values: list[int]) -> None:
        self._registers[address] = values[0]
        if values[0] == 0x0200:
            # The stream begins behind the reply, which takes its time on the line.
            self.streaming, self._due, self._ones = True, time.monotonic() + PERIOD, 0

    def stats(self) -> dict:
        return {
            **super().stats(),
            "frames": self.frames,
            "jams": self.jams,
            "ignored": self.ignored,
            "streaming": self.streaming,
        }

    def set(self, **values: Any) -> None:
        self.source.set(**values)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `refit emulate` that this device has alone."""
    parser.add_argument("--serial", default="FTS-1234", help="three letters, a hyphen, a number")
    WrenchSource.arguments(parser)


def make(options: argparse.Namespace, faults: Faults) -> Ft300Emulator:
    """The emulated device that the options describe.

    Raises:
        ValueError: no `--link`.
    """
    if options.link is None:
        raise ValueError("--link is needed: the path that clients open as the serial port")
    return Ft300Emulator(PtyPort(options.link, 19200), WrenchSource.from_options(options), options.serial, faults)
