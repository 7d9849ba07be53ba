"""The heartbeat of the emergency stop, format 2: ten bytes, `E2`, `1` or `0`, counter, CRC, carriage return.

`1`: motion is permitted, `0`: the button is pressed. The counter, two hexadecimal digits, goes up by one with every
heartbeat, so that a transmitter that repeats itself is not taken for one that lives. The CRC, four more, is that of the
five bytes before it: 16 bits, polynomial x^16 + x^13 + x^12 + x^11 + x^10 + x^8 + x^6 + x^5 + x^2 + 1 (0x3D65), initial
value 0xFFFF, not reflected. Any two heartbeats differ in at least five bits as they travel, so every error of one to four
bits is noticed. The button sends at 115,200 baud 8N1, 50 times a second. The protocol is this project's.

Format 1, seven bytes, had the sum of its bytes for a check, which two errors that cancel each other pass. It is refused.

Source of the polynomial: P. Koopman and T. Chakravarty, Cyclic Redundancy Code (CRC) Polynomial Selection for Embedded
Networks, DSN 2004 (0x9EB2 in their notation: distance 6 up to 135 bits of data; hexadecimal digits cost one).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BAUD", "LENGTH", "PERIOD", "Heartbeat", "HeartbeatFinder", "crc16", "decode", "encode"]

BAUD, PERIOD, LENGTH = 115200, 0.02, 10
POLYNOMIAL = 0x3D65


@dataclass(frozen=True)
class Heartbeat:
    """permitted: the button is not pressed; counter: 0-255."""

    permitted: bool
    counter: int


def crc16(data: bytes) -> int:
    """The check value of `data`; see the module's docstring."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (POLYNOMIAL if crc & 0x8000 else 0)) & 0xFFFF
    return crc


def encode(heartbeat: Heartbeat) -> bytes:
    """As it goes over the line."""
    body = b"E2%d%02X" % (heartbeat.permitted, heartbeat.counter)
    return body + b"%04X\r" % crc16(body)


_HEARTBEATS = {
    encode(heartbeat): heartbeat for heartbeat in (Heartbeat(p, n) for p in (False, True) for n in range(256))
}


def decode(line: bytes) -> Heartbeat | None:
    """The heartbeat in a line without its carriage return; None if anything about it is wrong."""
    return _HEARTBEATS.get(line + b"\r")


class HeartbeatFinder:
    """Heartbeats in whatever arrives.

    Attributes:
        damaged: lines that are none.
        noise: good heartbeats that something stood before.
        outdated: heartbeats of format 1; they count as damaged, too.
    """

    def __init__(self) -> None:
        self.damaged = self.noise = self.outdated = 0
        self._line = b""

    def feed(self, data: bytes) -> list[Heartbeat]:
        """Complete heartbeats, oldest first."""
        *lines, self._line = (self._line + data).split(b"\r")
        self._line = self._line[-LENGTH:]
        found = [decode(line[-(LENGTH - 1) :]) for line in lines]
        self.damaged += found.count(None)
        self.outdated += sum(map(_is_format_1, lines))
        self.noise += sum(heartbeat is not None and len(line) >= LENGTH for heartbeat, line in zip(found, lines))
        return [heartbeat for heartbeat in found if heartbeat is not None]


def _is_format_1(line: bytes) -> bool:
    """Six characters: `E`, `1` or `0`, counter, sum of the four modulo 256."""
    return len(line) == 6 and line[:2] in (b"E0", b"E1") and line[4:] == b"%02X" % (sum(line[:4]) % 256)
