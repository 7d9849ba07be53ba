"""The link to an FT-300: silence the stream, ask who it is, start the stream, follow it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from hardware.ft300 import protocol
from hardware.ft300.protocol import BAUD, FRAME_LENGTH, HEADER, JAM, JAM_PAUSE, SLAVE, STREAM_RATE, decode_frame
from hardware.link import Identity, NotAnswering, SerialPort, WrongDevice
from hardware.link.modbus_rtu import ModbusMaster
from hardware.wrench.stream import FrameDecoder, SerialWrenchSensor

__all__ = ["Ft300Device"]

# Full scale of the FT-300 [N, N m]; the FT-300-S has the same.
RATED = np.array([300.0, 300.0, 300.0, 30.0, 30.0, 30.0])


class Ft300Device(SerialWrenchSensor):
    """An FT-300 on a serial port; further arguments as for `SerialWrenchSensor`.

    Args:
        reply_timeout: of a request while the stream is silent [s].
    """

    def __init__(self, path: str, reply_timeout: float = 0.1, **common: Any) -> None:
        super().__init__(path, **common)
        self.reply_timeout = reply_timeout
        self.rated, self.nominal_rate = RATED, STREAM_RATE

    def _open(self) -> Identity:
        self._port = SerialPort(self.path, BAUD)
        self._master = ModbusMaster(self._port, SLAVE, timeout=self.reply_timeout, counters=self.counters)
        self._silence()
        firmware = self._master.transact(protocol.FIRMWARE)
        if firmware[0] >> 8 != ord("F"):
            raise WrongDevice(
                f"the device at {self.path} answers as Modbus slave {SLAVE} but names no FT-300 firmware "
                f"({firmware[0]:#06x}): a 2F gripper has the same address and belongs on a port of its own"
            )
        return protocol.identity(firmware, self._master.transact(protocol.SERIAL))

    def _decoder_of_stream(self) -> FrameDecoder:
        return FrameDecoder(HEADER, FRAME_LENGTH, decode_frame)

    def _start(self) -> None:
        try:
            self._master.transact(protocol.START_STREAM)
        except NotAnswering:
            # The reply may be lost while the request was not: then frames come, and they say more than a reply.
            if not self._port.read(timeout=0.1):
                raise
        super()._start()

    def _stop(self) -> None:
        """Jam the stream; an answered request confirms that it has ended."""
        self._not_streaming()
        self._silence()
        self._master.transact(protocol.FIRMWARE)

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
        raise NotAnswering(
            f"the device at {self.path} goes on sending in spite of three jam signals: is it an FT-300 at {BAUD} baud?"
        )
