"""Frames of the Psyonic Ability Hand: commands and feedback in SI units to and from bytes.

A frame is 7E, payload, 7E; in the payload 7E and 7D are written as 7D and the byte with bit 5 flipped. A command's
payload is the hand's address, a header, six values, a checksum; the hand answers each command with feedback in the
form that the header's low digit asks for. Source: the maker's client, psyonicinc/ability-hand-api (ah_api.py,
ah_parser.py, api.h, parser.cpp), and its README: ranges, and that the hand leaves its API mode after 0.3 s without a command.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

__all__ = [
    "ADDRESS",
    "BAUD",
    "JOINTS",
    "LOWER",
    "UPPER",
    "Feedback",
    "FrameFinder",
    "Reply",
    "command",
    "decode",
    "query",
    "stuff",
]

ADDRESS, BAUD = 0x50, 460800
JOINTS = ("index", "middle", "ring", "pinky", "thumb_flexor", "thumb_rotator")
LOWER = np.radians((0.0, 0.0, 0.0, 0.0, 0.0, -100.0))  # [rad] what may be asked for
UPPER = np.radians((100.0, 100.0, 100.0, 100.0, 100.0, 0.0))

FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20
POSITION, READ_ONLY = 0x10, 0xA0  # headers without their reply mode
LONGEST = 72  # payload of any reply
RADIAN = 32767 / np.radians(150.0)  # counts per rad
RADIAN_PER_SECOND = 4 * 32767 / np.radians(3000.0)  # counts per rad/s of a finger, in feedback
AMPERE = 620.606079  # counts per A


class Reply(enum.IntEnum):
    """What the hand answers with; the low digit of a header."""

    CURRENT_TOUCH = 0
    VELOCITY_TOUCH = 1
    CURRENT_VELOCITY = 2


SIZES = {Reply.CURRENT_TOUCH: 72, Reply.VELOCITY_TOUCH: 72, Reply.CURRENT_VELOCITY: 39}


def checksum(data: bytes) -> int:
    """The byte that makes the sum of all zero modulo 256."""
    return -sum(data) & 0xFF


def stuff(payload: bytes) -> bytes:
    """A payload as it goes over the line."""
    escape = bytes((ESCAPE,))
    body = payload.replace(escape, bytes((ESCAPE, ESCAPE ^ FLIP))).replace(bytes((FLAG,)), bytes((ESCAPE, FLAG ^ FLIP)))
    return bytes((FLAG,)) + body + bytes((FLAG,))


def command(position: Iterable[float], reply: Reply, address: int = ADDRESS) -> bytes:
    """A frame that moves the fingers, in the order of JOINTS, to `position` (6,) [rad], clipped to LOWER and UPPER."""
    counts = np.rint(np.clip(np.asarray(position, float), LOWER, UPPER) * RADIAN).astype(int)
    payload = struct.pack("<BB6h", address, POSITION + reply, *counts)
    return stuff(payload + bytes((checksum(payload),)))


def query(reply: Reply, address: int = ADDRESS) -> bytes:
    """A frame that asks for feedback and moves nothing."""
    payload = bytes((address, READ_ONLY + reply))
    return stuff(payload + bytes((checksum(payload),)))


@dataclass(frozen=True)
class Feedback:
    """position [rad], velocity of the fingers [rad/s], current [A]: (6,) in the order of JOINTS; touch (5, 6) [N], index to
    thumb; what a reply mode leaves out is NaN. protection: status byte, not 0 while the hand limits itself (heat, collision)."""

    reply: Reply
    position: np.ndarray
    velocity: np.ndarray
    current: np.ndarray
    touch: np.ndarray
    protection: int


def decode(payload: bytes) -> Feedback | None:
    """The feedback in a payload; None unless header, size and checksum agree."""
    if not payload or payload[0] & 0x0F not in SIZES or payload[0] & 0xF0 not in (0x10, 0x20, 0x30, 0x40, READ_ONLY):
        return None
    reply = Reply(payload[0] & 0x0F)
    if len(payload) != SIZES[reply] or checksum(payload):
        return None
    first, second = np.frombuffer(payload, "<i2", 12, 1).reshape(6, 2).T
    nothing = np.full(6, np.nan)
    if reply is Reply.CURRENT_VELOCITY:
        velocity = np.frombuffer(payload, "<i2", 6, 25) / RADIAN_PER_SECOND
        return Feedback(reply, first / RADIAN, velocity, second / AMPERE, np.full((5, 6), np.nan), payload[-2])
    touch = _touch(np.frombuffer(payload, np.uint8, 45, 25)).reshape(5, 6)
    if reply is Reply.CURRENT_TOUCH:
        return Feedback(reply, first / RADIAN, nothing, second / AMPERE, touch, payload[-2])
    return Feedback(reply, first / RADIAN, second / RADIAN_PER_SECOND, nothing, touch, payload[-2])


def _touch(packed: np.ndarray) -> np.ndarray:
    """Forces [N] of 30 sensors, 12 bits each, two in three bytes: the maker's fit to a resistive sensor in a divider."""
    low, middle, high = packed.reshape(15, 3).T.astype(int)
    raw = np.stack((low | (middle & 0x0F) << 8, middle >> 4 | high << 4), axis=1).ravel()
    volts = raw * (3.3 / 4096)
    with np.errstate(divide="ignore"):
        force = 121591.0 / (33000.0 / volts + 10000.0) + 0.878894
    return np.where(raw > 0, force, 0.0)


class FrameFinder:
    """Payloads between flags in whatever arrives. A flag ends one frame and may begin the next.

    Attributes:
        dropped: bytes that belong to no frame: before the first flag, or of one too long.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._frame: bytearray | None = None  # None: no flag yet
        self._escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        """Complete payloads, oldest first; their checksums are not looked at."""
        found = []
        for byte in data:
            if byte == FLAG:
                # An escape that nothing follows is a damaged frame.
                if self._frame and not self._escaped:
                    found.append(bytes(self._frame))
                self._frame, self._escaped = bytearray(), False
            elif self._frame is None:
                self.dropped += 1
            elif byte == ESCAPE:
                self._escaped = True
            elif len(self._frame) >= LONGEST:
                self.dropped += len(self._frame) + 1
                self._frame = None
            else:
                self._frame.append(byte ^ FLIP if self._escaped else byte)
                self._escaped = False
        return found
