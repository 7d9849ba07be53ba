"""DYNAMIXEL Protocol 2.0: bytes <-> instructions and status replies. Pure, no I/O.

    FF FF FD 00 | ID | LEN_L LEN_H | INST | params | CRC_L CRC_H          LEN = params + 3

From INST to the last parameter `FF FF FD` travels as `FF FF FD FD`; length and CRC are those of what travels.
CRC-16: polynomial 0x8005, initial 0, not reflected, over everything before it. A status reply has INST 0x55
and an error byte before its parameters.

Source: ROBOTIS e-manual, DYNAMIXEL Protocol 2.0.
"""

from __future__ import annotations

import enum
import functools
import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hardware.dynamixel.packets import BROADCAST, FrameParser, Instruction, Status

__all__ = [
    "ALERT",
    "FastReplyBlock",
    "Parser",
    "ReplyBlock",
    "StatusCode",
    "SyncWriteFrame",
    "action",
    "bulk_read",
    "bulk_write",
    "clear_turns",
    "crc16",
    "encode",
    "factory_reset",
    "ping",
    "read",
    "reboot",
    "reg_write",
    "reply_size",
    "status",
    "sync_read",
    "sync_read_size",
    "sync_write",
    "write",
]

HEADER = b"\xff\xff\xfd\x00"
PATTERN, STUFFED = b"\xff\xff\xfd", b"\xff\xff\xfd\xfd"
BODY = 7  # index of INST
FAST_HEAD = BODY + 1  # of a fast read's reply: up to INST
ALERT = 0x80  # of the error byte: a hardware error waits in the control table


class StatusCode(enum.IntEnum):
    """Low bits of the error byte."""

    OK = 0
    RESULT_FAIL = 1
    INSTRUCTION_ERROR = 2
    CRC_ERROR = 3
    DATA_RANGE_ERROR = 4
    DATA_LENGTH_ERROR = 5
    DATA_LIMIT_ERROR = 6
    ACCESS_ERROR = 7


# -- CRC -------------------------------------------------------------------------------------------
def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x8005 if crc & 0x8000 else crc << 1
        table.append(crc & 0xFFFF)
    return table


_TABLE = _table()


def crc16(data: bytes, crc: int = 0) -> int:
    """CRC-16 of `data`, continued from `crc`."""
    table = _TABLE
    for byte in data:
        crc = (crc << 8) & 0xFFFF ^ table[crc >> 8 ^ byte]
    return crc


@functools.lru_cache(maxsize=64)
def _position_tables(n: int) -> np.ndarray:
    """What each byte of an n-byte message adds to its CRC, shape (n, 256) uint16.

    The CRC with initial value 0 is linear: that of a message is the exclusive or of what its bytes give
    alone, each followed by zeros. So many messages are checked at once by looking up and reducing.
    """
    zeros = np.array(_TABLE, dtype=np.uint16)
    tables = np.empty((n, 256), dtype=np.uint16)
    tables[n - 1] = zeros
    for k in range(n - 2, -1, -1):
        tables[k] = (tables[k + 1] << 8) ^ zeros[tables[k + 1] >> 8]
    return tables


# -- instructions ------------------------------------------------------------------------------------
def encode(id: int, instruction: int, params: bytes = b"") -> bytes:
    """One instruction as it travels, stuffing included."""
    body = (bytes((instruction,)) + params).replace(PATTERN, STUFFED)
    frame = HEADER + struct.pack("<BH", id, len(body) + 2) + body
    return frame + struct.pack("<H", crc16(frame))


def status(id: int, error: int, params: bytes = b"") -> bytes:
    """One status reply as it travels (for tests of the driver alone)."""
    return encode(id, Instruction.STATUS, bytes((error,)) + params)


def ping(id: int = BROADCAST) -> bytes:
    """Are you there? The answer names model and firmware; to a broadcast every servo answers in its turn."""
    return encode(id, Instruction.PING)


def read(id: int, address: int, length: int) -> bytes:
    """`length` bytes of the control table from `address`."""
    return encode(id, Instruction.READ, struct.pack("<HH", address, length))


def write(id: int, address: int, data: bytes) -> bytes:
    """`data` into the control table from `address`, at once."""
    return encode(id, Instruction.WRITE, struct.pack("<H", address) + data)


def reg_write(id: int, address: int, data: bytes) -> bytes:
    """Kept by the servo until `action`."""
    return encode(id, Instruction.REG_WRITE, struct.pack("<H", address) + data)


def action(id: int = BROADCAST) -> bytes:
    """Carry out what `reg_write` left."""
    return encode(id, Instruction.ACTION)


def reboot(id: int) -> bytes:
    """Start again; clears hardware errors."""
    return encode(id, Instruction.REBOOT)


def clear_turns(id: int) -> bytes:
    """Forget whole turns of the multi-turn position."""
    return encode(id, Instruction.CLEAR, b"\x01\x44\x58\x4c\x22")


def factory_reset(id: int, keep: int = 0x02) -> bytes:
    """`keep`: 0xFF nothing, 0x01 the id, 0x02 id and baud rate."""
    return encode(id, Instruction.FACTORY_RESET, bytes((keep,)))


def sync_read(address: int, length: int, ids: Iterable[int], fast: bool = False) -> bytes:
    """`length` bytes of each id from one address; `fast`: they answer in one packet."""
    instruction = Instruction.FAST_SYNC_READ if fast else Instruction.SYNC_READ
    return encode(BROADCAST, instruction, struct.pack("<HH", address, length) + bytes(ids))


def sync_write(address: int, length: int, data: Mapping[int, bytes]) -> bytes:
    """`length` bytes for each id, at one address."""
    params = b"".join(bytes((id,)) + each for id, each in data.items())
    if len(params) != len(data) * (1 + length):
        raise ValueError(
            f"sync write takes {length} bytes for each id, got {sorted({len(each) for each in data.values()})}"
        )
    return encode(BROADCAST, Instruction.SYNC_WRITE, struct.pack("<HH", address, length) + params)


def bulk_read(items: Iterable[tuple[int, int, int]]) -> bytes:
    """items: (id, address, length); no id twice."""
    items = list(items)
    _refuse_twice([item[0] for item in items])
    return encode(BROADCAST, Instruction.BULK_READ, b"".join(struct.pack("<BHH", *item) for item in items))


def bulk_write(items: Iterable[tuple[int, int, bytes]]) -> bytes:
    """items: (id, address, data); no id twice."""
    items = list(items)
    _refuse_twice([item[0] for item in items])
    return encode(
        BROADCAST,
        Instruction.BULK_WRITE,
        b"".join(struct.pack("<BHH", id, address, len(data)) + data for id, address, data in items),
    )


def _refuse_twice(ids: list[int]) -> None:
    """Raises ValueError: a bulk instruction names a servo twice, which the protocol forbids."""
    if len(set(ids)) < len(ids):
        raise ValueError(f"a bulk instruction takes each servo once, got ids {ids}: send two instructions")


def reply_size(length: int) -> int:
    """Bytes of an unstuffed status reply with so many parameters."""
    return 11 + length


def sync_read_size(n: int, length: int, fast: bool = False) -> int:
    """Bytes on the wire of a sync read of n servos: request and, unstuffed, replies."""
    return BODY + 7 + n + (FAST_HEAD + n * (length + 4) if fast else n * reply_size(length))


# -- replies ---------------------------------------------------------------------------------------
class Parser(FrameParser):
    """Status replies from a stream, each of one servo: the common reply of a fast sync read is FastReplyBlock's."""

    HEADER, HEAD, CHECK = HEADER, BODY, 2

    def _size(self, head: bytearray) -> int:
        length = head[5] | head[6] << 8
        return BODY + length if length >= 3 else 0

    def _valid(self, frame: bytes) -> bool:
        return crc16(frame[:-2]) == frame[-2] | frame[-1] << 8

    def _replies(self, frame: bytes) -> list[Status]:
        body = frame[BODY:-2]
        if body[0] != Instruction.STATUS or len(body) < 2 or frame[4] >= BROADCAST:
            return []
        body = body.replace(STUFFED, PATTERN)
        return [Status(frame[4], body[1], body[2:])]


class ReplyBlock:
    """The replies of a sync read at once, if all are there, in order and undamaged.

    Args:
        ids: in the order asked for.
        length: parameters of each reply.

    Attributes:
        size: bytes of all replies.
    """

    def __init__(self, ids: Sequence[int], length: int) -> None:
        n, self.frame = len(ids), reply_size(length)
        self.size = n * self.frame
        heads = b"".join(HEADER + struct.pack("<BHB", id, length + 4, Instruction.STATUS) for id in ids)
        self._heads = np.frombuffer(heads, np.uint8).reshape(n, BODY + 1)
        tables = _position_tables(self.frame - 2)
        self._head_crc = np.bitwise_xor.reduce(tables[np.arange(BODY + 1), self._heads], axis=1)
        self._tables = np.ascontiguousarray(tables[BODY + 1 :]).ravel()
        self._rows = 256 * np.arange(length + 1, dtype=np.intp)

    def decode(self, data: bytes) -> np.ndarray | None:
        """(error, parameters) of each servo, shape (n, 1 + length) uint8; None: take the parser."""
        frames = np.frombuffer(data, np.uint8).reshape(-1, self.frame)
        if not (frames[:, : BODY + 1] == self._heads).all():
            return None
        values = frames[:, BODY + 1 : -2]
        crc = self._head_crc ^ np.bitwise_xor.reduce(self._tables.take(values + self._rows), axis=1)
        if not (crc == np.ascontiguousarray(frames[:, -2:]).view("<u2")[:, 0]).all():
            return None
        return values


class FastReplyBlock:
    """The common reply of a fast sync read, if it is whole and undamaged; otherwise like ReplyBlock.

        FF FF FD 00 | FE | LEN_L LEN_H | 55 | ERR ID data CRC | ERR ID data CRC | ...

    Each servo appends its part with the CRC of all that was sent so far; so the last CRC stands for the whole. The
    first servo gives the length of the whole before the others have spoken, so there is no stuffing.

    Source: ROBOTIS e-manual, Protocol 2.0, "Fast Sync Read".
    """

    def __init__(self, ids: Sequence[int], length: int) -> None:
        self._n, self._each = len(ids), length + 4
        self.size = self.frame = FAST_HEAD + self._n * self._each
        self._head = HEADER + struct.pack("<BHB", BROADCAST, 1 + self._n * self._each, Instruction.STATUS)
        self._ids = np.frombuffer(bytes(ids), np.uint8)
        self._columns = np.array([0, *range(2, 2 + length)])  # the error byte and the data, without the id
        self._tables = _position_tables(self.size - 2).ravel()
        self._rows = 256 * np.arange(self.size - 2, dtype=np.intp)

    def decode(self, data: bytes) -> np.ndarray | None:
        """(error, parameters) of each servo, shape (n, 1 + length) uint8; None: damaged."""
        if not data.startswith(self._head):
            return None
        frame = np.frombuffer(data, np.uint8)
        if np.bitwise_xor.reduce(self._tables.take(frame[:-2] + self._rows)) != data[-2] | data[-1] << 8:
            return None
        parts = frame[FAST_HEAD:].reshape(self._n, self._each)
        if not (parts[:, 1] == self._ids).all():
            return None
        return parts[:, self._columns]


class SyncWriteFrame:
    """A sync write prepared once, refilled every cycle.

    Args:
        address, size: of the item written; size 1, 2 or 4 bytes.
        ids: servos written to.
    """

    def __init__(self, address: int, size: int, ids: Sequence[int]) -> None:
        n = len(ids)
        self.address, self.size, self.ids = address, size, tuple(ids)
        self._frame = bytearray(sync_write(address, size, dict.fromkeys(ids, bytes(size))))
        start = BODY + 5
        self._data = np.frombuffer(self._frame, np.uint8)[start : start + n * (1 + size)].reshape(n, 1 + size)[:, 1:]
        tables = _position_tables(len(self._frame) - 2)
        self._crc = crc16(self._frame[:-2])
        places = (start + 1 + (1 + size) * np.arange(n)[:, None] + np.arange(size)).ravel()
        self._tables = tables[places].ravel()
        self._rows = (256 * np.arange(n * size, dtype=np.intp)).reshape(n, size)
        self._type = f"<i{size}"

    def encode(self, values: np.ndarray) -> bytes:
        """The frame with one integer for each id, shape (n,); signed values as two's complement."""
        raw = np.asarray(values).astype(self._type).view(np.uint8).reshape(-1, self.size)
        frame = self._frame
        self._data[:] = raw
        if frame.find(PATTERN, BODY, -2) < 0:
            crc = self._crc ^ int(np.bitwise_xor.reduce(self._tables.take(raw + self._rows), axis=None))
            frame[-2:] = crc & 0xFF, crc >> 8
            return bytes(frame)
        return sync_write(self.address, self.size, {id: each.tobytes() for id, each in zip(self.ids, raw, strict=True)})
