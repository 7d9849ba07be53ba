"""The link to the emergency stop. Whatever is not known to be well is a stop: silence, repetition, damage, a lost port."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from hardware.estop.protocol import BAUD, LENGTH, Heartbeat, HeartbeatFinder
from hardware.link import Device, DeviceError, Disconnected, Identity, NotAnswering, SerialPort, WhileOpen

__all__ = ["EmergencyStop"]

TURN = 0.005  # [s] the longest a silence is overlooked
PATIENCE = 1.0  # [s] for the first heartbeat
REARM = 5  # good heartbeats in a row, before motion is permitted again


class EmergencyStop(Device):
    """See the module's docstring. Samples are Heartbeat.

    Attributes:
        stopped: whether motion is forbidden; reason: why, "" if it is not.

    Args:
        path: serial port.
        silence: without a good heartbeat for longer [s] motion is forbidden.
        on_change: called as on_change(stopped, reason) on the device's thread, for every change.
    """

    _port = WhileOpen[SerialPort]()

    def __init__(
        self,
        path: str | os.PathLike,
        silence: float = 0.1,
        on_change: Callable[[bool, str], None] = lambda stopped, reason: None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.path, self.silence, self.on_change = path, silence, on_change
        self.stopped, self.reason = True, "no heartbeat has come yet"
        self._counter, self._good, self._heard = -1, 0, float("-inf")

    # -- hooks -------------------------------------------------------------------------------------
    def _open(self) -> Identity:
        self._port, self._finder = SerialPort(self.path, BAUD), HeartbeatFinder()
        end = time.monotonic() + PATIENCE
        while not self._finder.feed(self._port.read(timeout=TURN)):
            if self._finder.outdated:
                raise DeviceError(
                    f"the button on {self.path} sends heartbeats of format 1, whose checksum two wrong bits can pass; "
                    "expected is format 2: give its transmitter the program of docs/hardware/estop.md"
                )
            if time.monotonic() > end:
                raise NotAnswering(
                    f"no heartbeat came on {self.path} within {PATIENCE:.0f} s: check the button's power and cable"
                )
        return Identity("serial emergency stop")

    def _start(self) -> None:
        self._good, self._heard = 0, time.monotonic()

    def _serve(self) -> None:
        damaged, noise = self._finder.damaged, self._finder.noise
        data = self._port.read(timeout=TURN)
        t = time.monotonic() - self._port.transmission_time(LENGTH)
        for heartbeat in self._finder.feed(data):
            self._judge(heartbeat, t)
        if self._finder.damaged > damaged:
            self.counters.add("crc_errors", self._finder.damaged - damaged)
        if self._finder.noise > noise:
            self.counters.add("resyncs", self._finder.noise - noise)
        quiet = time.monotonic() - self._heard
        if quiet > self.silence:
            self._forbid(f"no good heartbeat for {1e3 * quiet:.0f} ms")
        if quiet > PATIENCE:
            raise NotAnswering(
                f"no good heartbeat came on {self.path} for {PATIENCE:.0f} s: check the button's power and cable"
            )

    def _idle(self) -> None:
        self._port.read(timeout=0.02)

    def _stop(self) -> None:
        self._forbid("the button is not being listened to")

    def _close(self) -> None:
        self._forbid("the button's port is closed")
        with contextlib.suppress(Disconnected):
            self._port.close()

    # -- judgement ---------------------------------------------------------------------------------
    def _judge(self, heartbeat: Heartbeat, t: float) -> None:
        repeated, self._counter = heartbeat.counter == self._counter, heartbeat.counter
        if repeated:
            self.counters.add("repeated")
            return
        self._heard = time.monotonic()
        if not heartbeat.permitted:
            self._forbid("the button is pressed")
        else:
            self._good += 1
            if self._good >= REARM and self.stopped:
                self._tell(False, "")
        self._sample(heartbeat, t)

    def _forbid(self, reason: str) -> None:
        self._good = 0
        if not self.stopped:
            self._tell(True, reason)

    def _tell(self, stopped: bool, reason: str) -> None:
        self.stopped, self.reason = stopped, reason
        self.on_change(stopped, reason)
