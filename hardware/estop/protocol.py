"""The heartbeat of the emergency stop: seven bytes, `E`, `1` or `0`, counter, checksum, carriage return.

`1`: motion is permitted, `0`: the button is pressed. The counter, two hexadecimal digits, goes up by one with every
heartbeat, so that a transmitter that repeats itself is not taken for one that lives. The checksum, two more, is the sum of
the four bytes before it modulo 256. The button sends at 115,200 baud 8N1, 50 times a second. The protocol is this project's.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BAUD", "LENGTH", "PERIOD", "Heartbeat", "HeartbeatFinder", "decode", "encode"]

BAUD, PERIOD, LENGTH = 115200, 0.02, 7


@dataclass(frozen=True)
class Heartbeat:
    """permitted: the button is not pressed; counter: 0-255."""

    permitted: bool
    counter: int


def encode(heartbeat: Heartbeat) -> bytes:
    """As it goes over the line."""
    body = b"E%d%02X" % (heartbeat.permitted, heartbeat.counter)
    return body + b"%02X\r" % (sum(body) % 256)


def decode(line: bytes) -> Heartbeat | None:
    """The heartbeat in a line without its carriage return; None if anything about it is wrong."""
    try:
        heartbeat = Heartbeat({ord("1"): True, ord("0"): False}[line[1]], int(line[2:4], 16))
    except (IndexError, KeyError, ValueError):
        return None
    return heartbeat if encode(heartbeat) == line + b"\r" else None


class HeartbeatFinder:
    """Heartbeats in whatever arrives.

    Attributes:
        damaged: lines that are none.
        noise: good heartbeats that something stood before.
    """

    def __init__(self) -> None:
        self.damaged = self.noise = 0
        self._line = b""

    def feed(self, data: bytes) -> list[Heartbeat]:
        """Complete heartbeats, oldest first."""
        *lines, self._line = (self._line + data).split(b"\r")
        self._line = self._line[-LENGTH:]
        found = [decode(line[-(LENGTH - 1) :]) for line in lines]
        self.damaged += found.count(None)
        self.noise += sum(heartbeat is not None and len(line) >= LENGTH for heartbeat, line in zip(found, lines))
        return [heartbeat for heartbeat in found if heartbeat is not None]
