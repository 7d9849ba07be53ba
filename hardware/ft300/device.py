"""The link to an FT-300: silence the stream, ask who it is, start the stream, follow it."""

from __future__ import annotations

import time

import numpy as np

from hardware.ft300 import protocol
from hardware.ft300.protocol import BAUD, FRAME_LENGTH, JAM, JAM_PAUSE, SLAVE, STREAM_RATE, StreamDecoder
from hardware.link import Identity, NotAnswering, SerialPort, WrongDevice
from hardware.link.modbus_rtu import ModbusMaster
from hardware.wrench_sensor import WrenchSensor

__all__ = ["Ft300Device"]

GIVE_UP = 1.0       # [s] of silence after which the port is opened anew
# Full scale of the FT-300 [N, N m]; the FT-300-S has the same.
RATED = np.array([300.0, 300.0, 300.0, 30.0, 30.0, 30.0])


class Ft300Device(WrenchSensor):
    """An FT-300 on a serial port.

    Stamps: when the last byte of a frame came, less the time that the frame takes on the line.

    Args:
        path: of the port.
        **common: as for `WrenchSensor`.
    """

    def __init__(self, path: str, **common):
        super().__init__(**common)
        self.path = str(path)
        self.rated, self.nominal_rate = RATED, STREAM_RATE
        self._port: SerialPort | None = None

    def _open(self) -> Identity:
        self._port = SerialPort(self.path, BAUD)
        self._master = ModbusMaster(self._port, SLAVE, timeout=0.1, counters=self.counters)
        self._silence()
        firmware = self._master.transact(protocol.FIRMWARE)
        if firmware[0] >> 8 != ord("F"):
            raise WrongDevice(f"the device at {self.path} answers like a Modbus slave {SLAVE} but names no FT-300 firmware "
                              f"({firmware[0]:#06x}): a 2F gripper has the same address and belongs on a port of its own")
        return protocol.identity(firmware, self._master.transact(protocol.SERIAL))

    def _start(self) -> None:
        self.faults.clear()
        self._decoder = StreamDecoder()
        self._counted = (0, 0)
        try:
            self._master.transact(protocol.START_STREAM)
        except NotAnswering:
            # The reply may be lost while the request was not: then frames come, and they say more than a reply.
            if not self._port.read(timeout=0.1):
                raise
        self._arrived = time.monotonic()

    def _serve(self) -> None:
        data = self._port.read(timeout=min(max(self._watch_silence(), 0.001), 0.02))
        arrival = time.monotonic()
        if data:
            wrenches = self._decoder.feed(data)
            self._count()
            if wrenches:
                self._use(np.array(wrenches), arrival)
        if arrival - self._arrived > GIVE_UP:
            raise NotAnswering(f"the FT-300 at {self.path} has sent no valid frame for {GIVE_UP:g} s: check power and cable")

    def _stop(self) -> None:
        """Jam the stream; an answered request confirms that it has ended."""
        self._not_streaming()
        self._silence()
        self._master.transact(protocol.FIRMWARE)

    def _close(self) -> None:
        self._not_streaming()
        if self._port is not None:
            self._port.close()
        self._port = None

    def _silence(self) -> None:
        """End a stream that may be under way since power-up or since a crashed client.

        Raises:
            NotAnswering: it goes on.
        """
        for _ in range(3):
            self._port.write(JAM)
            time.sleep(self._port.transmission_time(len(JAM)))
            self._port.discard_input()
            if not self._port.drain(quiet=JAM_PAUSE, limit=3.0 * JAM_PAUSE):
                return
        raise NotAnswering(f"the device at {self.path} goes on sending in spite of three jam signals: is it an FT-300 at {BAUD} baud?")

    def _use(self, wrenches: np.ndarray, arrival: float) -> None:
        """Frames that came together left the sensor a period apart; bytes behind the last one came after it."""
        wire = self._port.transmission_time(FRAME_LENGTH + self._decoder.pending)
        n = len(wrenches)
        t = arrival - wire - np.arange(n - 1, -1, -1) / STREAM_RATE
        t = np.maximum(t, self.last_sample + 1e-6 * np.arange(1, n + 1))
        self._block(t, wrenches, np.zeros(n, bool))

    def _count(self) -> None:
        now = self._decoder.crc_errors, self._decoder.resyncs
        for name, total, before in zip(("crc_errors", "resyncs"), now, self._counted):
            if total != before:
                self.counters.add(name, total - before)
        self._counted = now
