"""Readings of a serial ultrasonic rangefinder: `R`, millimetres, carriage return.

Source: MaxBotix, HRLV-MaxSonar-EZ data sheet, "Pin 5, serial output": four digits, 9600 baud 8N1, 300 to 5000 mm; nearer
targets read 300, none at all 5000. There is no checksum: a damaged digit that is another digit is not seen.
"""

from __future__ import annotations

import re

__all__ = ["BAUD", "MAXIMUM", "MINIMUM", "READING", "ReadingFinder"]

BAUD = 9600
MINIMUM, MAXIMUM = 300, 5000  # [mm]
READING = 6  # bytes
_READING = re.compile(rb"R(\d{4})\r")


class ReadingFinder:
    """Readings in whatever arrives.

    Attributes:
        damaged: carriage returns that end no reading, and readings the sensor cannot have made.
        noise: good readings that something stood before.
    """

    def __init__(self) -> None:
        self.damaged = self.noise = 0
        self._line = b""

    def feed(self, data: bytes) -> list[int]:
        """Complete readings [mm], oldest first; 5000 means that nothing echoed."""
        *lines, self._line = (self._line + data).split(b"\r")
        self._line = self._line[-READING:]
        found = []
        for line in lines:
            # Whatever is before the last R is not part of the reading.
            match = _READING.fullmatch(line[-(READING - 1) :] + b"\r")
            if match and MINIMUM <= int(match[1]) <= MAXIMUM:
                found.append(int(match[1]))
                self.noise += len(line) > READING - 1
            else:
                self.damaged += 1
        return found
