"""DYNAMIXEL Protocol 1.0: bytes <-> instructions and status replies. Pure, no I/O.

    FF FF | ID | LEN | INST or ERR | params | ~(sum from ID to last parameter)          LEN = params + 2

A reply and an instruction look alike; only who speaks tells them apart. No sync read; bulk read on MX only.

Source: ROBOTIS e-manual, DYNAMIXEL Protocol 1.0.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hardware.dynamixel.packets import BROADCAST, FrameParser, Instruction, Status

__all__ = [
    "Parser",
    "ReplyBlock",
    "StatusBit",
    "SyncWriteFrame",
    "action",
    "bulk_read",
    "bulk_read_size",
    "encode",
    "factory_reset",
    "ping",
    "read",
    "reg_write",
    "reply_size",
    "status",
    "sync_write",
    "write",
]

HEADER = b"\xff\xff"
BODY = 4  # index of INST or ERR


class StatusBit(enum.IntFlag):
    """Of the error byte. Voltage, overheat and overload lie where Protocol 2.0's hardware error has them."""

    VOLTAGE = 1
    ANGLE = 2
    OVERHEAT = 4
    RANGE = 8
    CHECKSUM = 16
    OVERLOAD = 32
    INSTRUCTION = 64


def checksum(body: bytes) -> int:
    """Of everything between the header and itself."""
    return ~sum(body) & 0xFF


def encode(id: int, instruction: int, params: bytes = b"") -> bytes:
    """One instruction as it travels."""
    body = bytes((id, len(params) + 2, instruction)) + params
    return HEADER + body + bytes((checksum(body),))


def status(id: int, error: int, params: bytes = b"") -> bytes:
    """One status reply as it travels (for tests of the driver alone)."""
    return encode(id, error, params)


def ping(id: int) -> bytes:
    """Are you there? The answer has no parameters."""
    return encode(id, Instruction.PING)


def read(id: int, address: int, length: int) -> bytes:
    """`length` bytes of the control table from `address`."""
    return encode(id, Instruction.READ, bytes((address, length)))


def write(id: int, address: int, data: bytes) -> bytes:
    """`data` into the control table from `address`, at once."""
    return encode(id, Instruction.WRITE, bytes((address,)) + data)


def reg_write(id: int, address: int, data: bytes) -> bytes:
    """Kept by the servo until `action`."""
    return encode(id, Instruction.REG_WRITE, bytes((address,)) + data)


def action(id: int = BROADCAST) -> bytes:
    """Carry out what `reg_write` left."""
    return encode(id, Instruction.ACTION)


def factory_reset(id: int) -> bytes:
    """Everything, the id included."""
    return encode(id, Instruction.FACTORY_RESET)


def sync_write(address: int, length: int, data: Mapping[int, bytes]) -> bytes:
    """`length` bytes for each id, at one address."""
    params = b"".join(bytes((id,)) + each for id, each in data.items())
    if len(params) != len(data) * (1 + length):
        raise ValueError(
            f"sync write takes {length} bytes for each id, got {sorted({len(each) for each in data.values()})}"
        )
    return encode(BROADCAST, Instruction.SYNC_WRITE, bytes((address, length)) + params)


def bulk_read(items: Iterable[tuple[int, int, int]]) -> bytes:
    """items: (id, address, length); on the wire length comes first."""
    return encode(
        BROADCAST,
        Instruction.BULK_READ,
        b"\x00" + b"".join(bytes((length, id, address)) for id, address, length in items),
    )


def reply_size(length: int) -> int:
    """Bytes of a status reply with so many parameters."""
    return 6 + length


def bulk_read_size(n: int, length: int) -> int:
    """Bytes on the wire of a bulk read of n servos: request and replies."""
    return 7 + n * (3 + reply_size(length))


class Parser(FrameParser):
    """Status replies from a stream."""

    HEADER, HEAD = HEADER, BODY

    def _size(self, head: bytearray) -> int:
        # An id of FF is none: one more FF in front of a header, and the frame begins a byte later.
        return BODY + head[3] if head[3] >= 2 and head[2] != 0xFF else 0

    def _valid(self, frame: bytes) -> bool:
        return sum(frame[2:]) & 0xFF == 0xFF

    def _replies(self, frame: bytes) -> list[Status]:
        return [Status(frame[2], frame[4], frame[5:-1])] if frame[2] < BROADCAST else []


class ReplyBlock:
    """The replies of a bulk read at once, if all are there, in order and undamaged; see Protocol 2.0's.

    Args:
        ids: in the order asked for.
        length: parameters of each reply.
    """

    def __init__(self, ids: Sequence[int], length: int) -> None:
        self.frame = reply_size(length)
        self.size = len(ids) * self.frame
        self._heads = np.frombuffer(b"".join(HEADER + bytes((id, length + 2)) for id in ids), np.uint8).reshape(
            -1, BODY
        )

    def decode(self, data: bytes) -> np.ndarray | None:
        """(error, parameters) of each servo, shape (n, 1 + length) uint8; None: take the parser."""
        frames = np.frombuffer(data, np.uint8).reshape(-1, self.frame)
        if not (frames[:, :BODY] == self._heads).all() or (frames[:, 2:].sum(axis=1) & 0xFF != 0xFF).any():
            return None
        return frames[:, BODY:-1]


class SyncWriteFrame:
    """A sync write of one integer for each servo.

    Args:
        address, size: of the item written; size 1, 2 or 4 bytes.
        ids: servos written to.
    """

    def __init__(self, address: int, size: int, ids: Sequence[int]) -> None:
        self.address, self.size, self.ids = address, size, tuple(ids)

    def encode(self, values: np.ndarray) -> bytes:
        """The frame with one integer for each id, shape (n,)."""
        data = {id: struct.pack("<q", int(value))[: self.size] for id, value in zip(self.ids, values, strict=True)}
        return sync_write(self.address, self.size, data)
