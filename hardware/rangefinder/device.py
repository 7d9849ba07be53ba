"""The link to a serial rangefinder, which speaks by itself."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any

from hardware.link import Device, Disconnected, Identity, NotAnswering, SerialPort, WhileOpen
from hardware.rangefinder.protocol import BAUD, MAXIMUM, READING, ReadingFinder

__all__ = ["Rangefinder", "Reading"]

PATIENCE = 1.0  # [s] for the first reading; the sensor starts 0.25 s after its power
ECHO = 0.02  # [s] at least between two readings: the sound itself travels 29 ms to the farthest target and back
SILENCE = 2.0  # [s] without a reading, after which the port is opened anew


@dataclass(frozen=True)
class Reading:
    """range [m]; inf: nothing echoed."""

    range: float


class Rangefinder(Device):
    """See the module's docstring. Samples are Reading.

    Args:
        path: serial port.
        baud: of the sensor.
        stuck_after: the same reading for longer [s] is a warning; 0: never, as a scene may stand still.
    """

    _port = WhileOpen[SerialPort]()

    def __init__(self, path: str | os.PathLike, baud: int = BAUD, stuck_after: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.path, self.baud, self.stuck_after = path, baud, stuck_after
        self._last: tuple[int, float] | None = None  # reading [mm], when it first came

    def _open(self) -> Identity:
        self._port, self._finder, self._last = SerialPort(self.path, self.baud), ReadingFinder(), None
        end = time.monotonic() + PATIENCE
        while not self._read():
            if time.monotonic() > end:
                raise NotAnswering(
                    f"no reading came on {self.path} at {self.baud} baud within {PATIENCE:.0f} s: check power "
                    "and wiring"
                )
        return Identity("serial rangefinder")

    def _start(self) -> None:
        self._heard = time.monotonic()

    def _serve(self) -> None:
        for millimetres, t in self._read():
            if t - self.last_sample < ECHO:
                self.counters.add("dropped")  # the same once more, or one that waited somewhere: no new measurement
                continue
            self._heard = t
            self._watch(millimetres, t)
            self._sample(Reading(float("inf") if millimetres >= MAXIMUM else 1e-3 * millimetres), t)
        if time.monotonic() - self._heard > SILENCE:
            raise NotAnswering(f"no reading came on {self.path} for {SILENCE:.0f} s: check power and wiring")

    def _idle(self) -> None:
        self._read()

    def _close(self) -> None:
        with contextlib.suppress(Disconnected):
            self._port.close()

    def _read(self) -> list[tuple[int, float]]:
        """Readings [mm] and when they began to be sent [s]: what the wire took is known, the flight of the sound is not."""
        damaged, noise = self._finder.damaged, self._finder.noise
        data = self._port.read(timeout=0.05)
        t = time.monotonic() - self._port.transmission_time(READING)
        found = self._finder.feed(data)
        if self._finder.damaged > damaged:
            self.counters.add("crc_errors", self._finder.damaged - damaged)
        if self._finder.noise > noise:
            self.counters.add("resyncs", self._finder.noise - noise)
        # Of several that waited only the last is known to be new.
        self.counters.add("dropped", max(0, len(found) - 1))
        return [(millimetres, t) for millimetres in found[-1:]]

    def _watch(self, millimetres: int, t: float) -> None:
        if self._last is None or self._last[0] != millimetres:
            self._last = millimetres, t
        if self.stuck_after and t - self._last[1] > self.stuck_after:
            self.warnings["stuck"] = (
                f"the reading has been {millimetres} mm for {t - self._last[1]:.0f} s: is the sensor stuck?"
            )
        else:
            self.warnings.pop("stuck", None)
