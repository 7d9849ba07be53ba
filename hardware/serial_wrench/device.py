"""The link to a serial force-torque sensor that a YAML file describes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardware.link import Identity, NotAnswering, SerialPort
from hardware.serial_wrench.protocol import Description
from hardware.wrench.stream import SerialWrenchSensor, WrenchDecoder

__all__ = ["SerialWrenchDevice"]

FIRST_FRAME = 0.5  # [s] for a sensor that sends unasked to prove that it is there
QUIET = 0.1  # [s] of silence that confirms a stop


class SerialWrenchDevice(SerialWrenchSensor):
    """A sensor of a described format.

    Args:
        path: of the port.
        description: what it sends.
        **common: as for `WrenchSensor`.
    """

    def __init__(self, path: str, description: Description, **common: Any) -> None:
        super().__init__(path, **common)
        self.description = description
        self.rated, self.nominal_rate = np.array(description.rated), description.rate

    def _open(self) -> Identity:
        self._port = SerialPort(self.path, self.description.baud)
        if not self.description.start and not self._port.read(timeout=FIRST_FRAME):
            raise NotAnswering(
                f"nothing comes from {self.path} at {self.description.baud} baud: check power and cable, or give the "
                "description a start text if this sensor must be asked"
            )
        return Identity(self.description.model)

    def _decoder_of_stream(self) -> WrenchDecoder:
        return self.description.decoder()

    def _start(self) -> None:
        self._port.discard_input()
        if self.description.start:
            self._port.write(self.description.start)
        super()._start()

    def _stop(self) -> None:
        self._not_streaming()
        if not self.description.stop:
            return
        for _ in range(3):
            self._port.write(self.description.stop)
            self._port.discard_input()
            if not self._port.drain(quiet=QUIET, limit=3.0 * QUIET):
                return
        raise NotAnswering(
            f"the sensor at {self.path} goes on sending in spite of three stop texts: check 'stop' in its description"
        )
