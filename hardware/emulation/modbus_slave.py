"""Modbus RTU as emulated devices speak it: requests from a byte stream, register tables, replies, exceptions.

Written apart from hardware/link/modbus_rtu.py on purpose: what both get wrong in the same way, no test would find.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["RegisterBank", "RequestFinder", "checksum", "serve"]

READ_HOLDING, READ_INPUT, WRITE_ONE, WRITE_MANY, READ_WRITE = 3, 4, 6, 16, 23
ILLEGAL_FUNCTION, ILLEGAL_ADDRESS, ILLEGAL_VALUE = 1, 2, 3
# Function -> (length without its values, index of the byte that says how many bytes of values follow).
LAYOUT = {
    READ_HOLDING: (8, None),
    READ_INPUT: (8, None),
    WRITE_ONE: (8, None),
    WRITE_MANY: (9, 6),
    READ_WRITE: (13, 10),
}
LONGEST = 256
LONGEST_UNKNOWN = 12  # of a function that is not served: its end is where a CRC fits


def checksum(data: bytes) -> bytes:
    """The two bytes of CRC that end a frame."""
    remainder = 0xFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            carry = remainder & 1
            remainder >>= 1
            if carry:
                remainder ^= 0xA001
    return bytes((remainder & 0xFF, remainder >> 8))


class RequestFinder:
    """Requests to one unit in a stream of bytes, whatever surrounds them.

    A frame's end is known from its function, as pauses do not survive a pseudo-terminal. A function that is not
    served has no known length: it is found when the CRC fits at the end of what has arrived.
    """

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.damaged = 0  # frames whose CRC was wrong
        self._pending = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Complete requests without their CRC, oldest first."""
        self._pending += data
        found, start = [], 0
        while len(self._pending) - start >= 4:
            candidate = self._pending[start:]
            length = self._length(candidate)
            if length is not None and length > len(candidate):
                break
            if length is not None and checksum(candidate[: length - 2]) == candidate[length - 2 : length]:
                found.append(candidate[: length - 2])
                start += length
            else:
                self.damaged += length is not None
                start += 1
        self._pending = self._pending[start:][-LONGEST:]
        return found

    def forget(self) -> None:
        """The line was silent: what has come of a frame will not be completed."""
        self._pending = b""

    @property
    def incomplete(self) -> bool:
        return bool(self._pending)

    def _length(self, candidate: bytes) -> int | None:
        if candidate[0] not in (self.unit, 0):
            return None
        if candidate[1] not in LAYOUT:
            return (
                len(candidate)
                if len(candidate) <= LONGEST_UNKNOWN and checksum(candidate[:-2]) == candidate[-2:]
                else None
            )
        length, count_at = LAYOUT[candidate[1]]
        if count_at is None:
            return length
        return length + candidate[count_at] if len(candidate) > count_at else length


class RegisterBank:
    """Which registers there are: ranges that can be read, ranges that can be written.

    Args:
        read: address -> value, called for each register of `readable`.
        write: called with (first address, values) once for each request.
    """

    def __init__(
        self,
        readable: list[range],
        writable: range,
        read: Callable[[int], int],
        write: Callable[[int, list[int]], None],
    ) -> None:
        self.readable, self.writable, self.read, self.write = readable, writable, read, write

    def can_read(self, addresses: range) -> bool:
        return any(addresses[0] in r and addresses[-1] in r for r in self.readable)

    def can_write(self, addresses: range) -> bool:
        return addresses[0] in self.writable and addresses[-1] in self.writable


def serve(request: bytes, bank: RegisterBank) -> bytes:
    """Carry a request out; the reply with its CRC, or b"" to a broadcast."""
    unit, function, body = request[0], request[1], request[2:]
    payload = _serve(function, body, bank)
    if isinstance(payload, int):
        reply = bytes((unit, function | 0x80, payload))
    else:
        reply = bytes((unit, function)) + payload
    return b"" if unit == 0 else reply + checksum(reply)


def _serve(function: int, body: bytes, bank: RegisterBank) -> bytes | int:
    """Payload of the reply, or the exception's code."""
    words = [int.from_bytes(body[k : k + 2], "big") for k in range(0, len(body) - 1, 2)]
    if function in (READ_HOLDING, READ_INPUT):
        return _read(words[0], words[1], bank)
    if function == WRITE_ONE:
        return _write(words[0], [words[1]], bank) or body
    if function == WRITE_MANY:
        if not 1 <= words[1] <= 123 or body[4] != 2 * words[1]:
            return ILLEGAL_VALUE
        return _write(words[0], _values(body[5:]), bank) or body[:4]
    if function == READ_WRITE:
        if not 1 <= words[3] <= 121 or body[8] != 2 * words[3]:
            return ILLEGAL_VALUE
        # The write is carried out first; nothing is written if what is to be read does not exist.
        refusal = _refusal(words[0], words[1], bank)
        return refusal or _write(words[2], _values(body[9:]), bank) or _read(words[0], words[1], bank)
    return ILLEGAL_FUNCTION


def _values(block: bytes) -> list[int]:
    return [high << 8 | low for high, low in zip(block[::2], block[1::2], strict=True)]


def _refusal(address: int, count: int, bank: RegisterBank) -> int:
    if not 1 <= count <= 125:
        return ILLEGAL_VALUE
    return 0 if bank.can_read(range(address, address + count)) else ILLEGAL_ADDRESS


def _read(address: int, count: int, bank: RegisterBank) -> bytes | int:
    refusal = _refusal(address, count, bank)
    if refusal:
        return refusal
    values = [bank.read(address + k) for k in range(count)]
    return bytes((2 * count,)) + b"".join(value.to_bytes(2, "big") for value in values)


def _write(address: int, values: list[int], bank: RegisterBank) -> int:
    """0, or the exception's code."""
    if not bank.can_write(range(address, address + len(values))):
        return ILLEGAL_ADDRESS
    bank.write(address, values)
    return 0
