"""Protocol 1.0 and 2.0 as a servo sees them: instruction packets in, status packets out.

The emulator's own codec; the driver's (protocol1.py, protocol2.py) shares nothing with it, so that
each is checked against the other.

Source: ROBOTIS e-manual, DYNAMIXEL Protocol 1.0 and Protocol 2.0.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "BROADCAST",
    "LONGEST",
    "Request",
    "Receiver1",
    "Receiver2",
    "checksum",
    "crc16",
    "fast_status2",
    "status1",
    "status2",
]

BROADCAST = 0xFE
#: No servo takes, or gives, a longer packet; a length beyond it is noise that would swallow what follows.
LONGEST = 1024
STATUS = 0x55
HEADER1 = b"\xff\xff"
HEADER2 = b"\xff\xff\xfd\x00"
PATTERN, STUFFED = b"\xff\xff\xfd", b"\xff\xff\xfd\xfd"


class Request(NamedTuple):
    """One instruction packet.

    `valid` is False where the checksum fails (a servo answers so, if the packet was for it).
    `unstuffed`: the packet holds FF FF FD without the stuffing byte that Protocol 2.0 asks for.
    `size`: bytes on the wire.
    """

    protocol: int
    id: int
    instruction: int
    parameters: bytes
    size: int
    valid: bool = True
    unstuffed: bool = False


def _crc_table() -> tuple[int, ...]:
    """CRC-16 with polynomial 0x8005, not reflected, one entry per leading byte."""
    table = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x8005 if crc & 0x8000 else crc << 1
        table.append(crc & 0xFFFF)
    return tuple(table)


_CRC = _crc_table()


def crc16(data: bytes, crc: int = 0) -> int:
    """CRC of Protocol 2.0, started from `crc`."""
    for byte in data:
        crc = (crc << 8 & 0xFF00) ^ _CRC[crc >> 8 ^ byte]
    return crc


def checksum(body: bytes) -> int:
    """Checksum of Protocol 1.0 over ID..last parameter."""
    return ~sum(body) & 0xFF


def status1(id: int, error: int, data: bytes = b"") -> bytes:
    """A Protocol 1.0 status packet."""
    body = bytes((id, len(data) + 2, error)) + data
    return HEADER1 + body + bytes((checksum(body),))


def status2(id: int, error: int, data: bytes = b"") -> bytes:
    """A Protocol 2.0 status packet, stuffed."""
    body = (bytes((STATUS, error)) + data).replace(PATTERN, STUFFED)
    packet = HEADER2 + bytes((id,)) + (len(body) + 2).to_bytes(2, "little") + body
    return packet + crc16(packet).to_bytes(2, "little")


def fast_status2(answers: list[tuple[int, int, bytes | None]], asked: int) -> bytes:
    """The one status packet that several servos make together: fast sync read, fast bulk read.

    The first sends the header with the length of the whole, before anybody knows the others' data: so nothing is
    stuffed. Each appends error, id and data, and the CRC of all that was sent so far. A servo that is missing (data
    None) breaks the chain: nobody speaks after it, and the packet stays shorter than its header says.

    Args:
        answers: (id, error, data) in the order of the request.
        asked: bytes of data asked of all together.
    """
    packet = HEADER2 + bytes((BROADCAST,)) + (1 + asked + 4 * len(answers)).to_bytes(2, "little") + bytes((STATUS,))
    for id, error, data in answers:
        if data is None:
            break
        packet += bytes((error, id)) + data
        packet += crc16(packet).to_bytes(2, "little")
    return packet


class _Receiver:
    """Finds packets in what arrives; bytes that belong to none are dropped."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def feed(self, data: bytes) -> list[Request]:
        """Packets completed by `data`."""
        self.buffer += data
        found = []
        while (request := self._next()) is not None:
            found.append(request)
        return found

    def _next(self) -> Request | None:
        raise NotImplementedError


class Receiver2(_Receiver):
    """Protocol 2.0."""

    def _next(self) -> Request | None:
        buffer = self.buffer
        while True:
            start = buffer.find(HEADER2)
            if start < 0:
                del buffer[: max(0, len(buffer) - 3)]
                return None
            del buffer[:start]
            if len(buffer) < 7:
                return None
            length = buffer[5] | buffer[6] << 8
            if buffer[4] > 252 and buffer[4] != BROADCAST or not 3 <= length <= LONGEST:
                del buffer[0]
                continue
            if len(buffer) < 7 + length:
                return None
            packet = bytes(buffer[: 7 + length])
            body = packet[7:-2]
            if crc16(packet[:-2]) != packet[-2] | packet[-1] << 8:
                del buffer[0]
                return Request(2, packet[4], body[0], b"", len(packet), valid=False)
            del buffer[: 7 + length]
            if body[0] == STATUS:
                continue
            stuffed = body.count(STUFFED)
            unstuffed = body.count(PATTERN) != stuffed
            if stuffed:
                body = body.replace(STUFFED, PATTERN)
            return Request(2, packet[4], body[0], body[1:], len(packet), unstuffed=unstuffed)


class Receiver1(_Receiver):
    """Protocol 1.0. ID 253 is left out: FF FF FD opens a packet of Protocol 2.0."""

    def _next(self) -> Request | None:
        buffer = self.buffer
        while True:
            start = buffer.find(HEADER1)
            if start < 0:
                del buffer[: max(0, len(buffer) - 1)]
                return None
            del buffer[:start]
            if len(buffer) < 4:
                return None
            id, length = buffer[2], buffer[3]
            if id > 252 and id != BROADCAST or length < 2:
                del buffer[0]
                continue
            if len(buffer) < 4 + length:
                return None
            packet = bytes(buffer[: 4 + length])
            if checksum(packet[2:-1]) != packet[-1]:
                del buffer[0]
                return Request(1, id, packet[4], b"", len(packet), valid=False)
            del buffer[: 4 + length]
            return Request(1, id, packet[4], packet[5:-1], len(packet))
