"""SCIP 1.1 start and SCIP 2.0, the host's side: requests to bytes, bytes to replies and scans; no I/O.

A reply is the request's echo, a status, lines with a sum each, and a blank line. Scans are decoded block by block with
array operations, about 30 us for 682 points.

Source: Hokuyo, Communication Protocol Specification for SCIP 2.0, C-42-03320B (2008); section numbers below are its own.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

__all__ = [
    "BIT_RATES",
    "ERROR_CODES",
    "BadReply",
    "Geometry",
    "Reply",
    "ReplyStream",
    "Window",
    "checksum",
    "decode_number",
    "describe",
    "ranges",
    "request",
    "reply_size",
]

LF = 0x0A
BLOCK = 64  # characters of data per line (section 7)
TIMER_PERIOD = 2**24 / 1000.0  # the 24-bit millisecond timer starts again after this time [s] (8.1)
BIT_RATES = (19_200, 57_600, 115_200, 250_000, 500_000, 750_000)  # of the URG-04LX (8.7); it has no 38,400
ERROR_CODES = 20  # distances below are error codes (8.1, table 3)
SATURATION_2 = 4095  # two characters cannot say more [mm] (section 6)


class BadReply(ValueError):
    """Bytes that are no valid reply: wrong sum, length or character."""


# ---- characters ----------------------------------------------------------------------------------


def checksum(data: bytes) -> int:
    """Sum character of a line (section 7): the low six bits of the sum, from '0' on."""
    return (sum(data) & 0x3F) + 0x30


def decode_number(characters: bytes) -> int:
    """Value of up to four characters of six bits each, most significant first (section 6).

    Raises:
        BadReply: a character outside '0' to 'o'.
    """
    value = 0
    for character in characters:
        if not 0x30 <= character <= 0x6F:
            raise BadReply(f"character {character:#04x} is no six-bit digit")
        value = value << 6 | character - 0x30
    return value


def _decode_blocks(blocks: bytes, count: int, width: int) -> np.ndarray:
    """Distances of `count` points of `width` characters, in lines of 64, each with sum and LF; shape (count,) [mm].

    Raises:
        BadReply: a line's length or sum is wrong, or a character is no digit.
    """
    n = count * width
    whole, rest = divmod(n, BLOCK)
    if len(blocks) != n + 2 * (whole + (rest > 0)):
        raise BadReply(f"{len(blocks)} bytes where {count} points of {width} characters are expected")
    raw = np.frombuffer(blocks, np.uint8)
    lines = raw[: whole * (BLOCK + 2)].reshape(whole, BLOCK + 2)
    sums = (lines[:, :BLOCK].sum(axis=1, dtype=np.uint16) & 0x3F) + 0x30
    last = blocks[whole * (BLOCK + 2) :]
    if (
        (lines[:, BLOCK] != sums).any()
        or (lines[:, BLOCK + 1] != LF).any()
        or (rest and (last[rest] != checksum(last[:rest]) or last[rest + 1] != LF))
    ):
        raise BadReply("a block's sum is wrong")
    digits = np.concatenate((lines[:, :BLOCK].ravel(), raw[len(blocks) - len(last) :][:rest])) - np.uint8(0x30)
    # A byte changed by 0x40 or 0x80 keeps the sum, but leaves the digits.
    if digits.max() > 0x3F:
        raise BadReply("a character of the data is no six-bit digit")
    columns = digits.reshape(count, width).astype(np.int32)
    value = columns[:, 0]
    for k in range(1, width):
        value = value << 6 | columns[:, k]
    return value


# ---- requests ------------------------------------------------------------------------------------


def request(command: str, parameters: str = "", string: str = "") -> bytes:
    """A request line (section 7).

    Raises:
        ValueError: `string` is longer than 16 characters or not printable.
    """
    if len(string) > 16 or not string.isascii() or not (string.isprintable() or not string):
        raise ValueError(f"The string of a request has at most 16 printable characters, not {string!r}.")
    return f"{command}{parameters}{';' if string else ''}{string}\n".encode("ascii")


@dataclass(frozen=True)
class Window:
    """What part of a turn is asked for, and how densely.

    `first` and `last` are steps, both included; `cluster` steps become one point, their smallest valid distance;
    `skip` turns are left out after each measured one; `width` is 3 characters a point (MD) or 2 (MS).
    """

    first: int
    last: int
    cluster: int = 1
    skip: int = 0
    width: int = 3

    @property
    def count(self) -> int:
        """Points of a scan; the last group may be of fewer steps."""
        return -(-(self.last - self.first + 1) // self.cluster)

    def stream(self, scans: int = 0) -> bytes:
        """MD or MS request (8.1); 0 scans: without end."""
        parameters = f"{self.first:04}{self.last:04}{self.cluster:02}{self.skip}{scans:02}"
        return request("MD" if self.width == 3 else "MS", parameters)

    def latest(self) -> bytes:
        """GD or GS request (8.2): the latest scan, once; the laser must be on."""
        return request("GD" if self.width == 3 else "GS", f"{self.first:04}{self.last:04}{self.cluster:02}")


def reply_size(window: Window) -> int:
    """Bytes of one scan of an MD or MS stream, blank line included."""
    n = window.count * window.width
    return len(window.stream()) + len("99b\n") + len("TTTTs\n") + n + 2 * -(-n // BLOCK) + 1


# ---- replies -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """A reply whose sums are right.

    `status` has two characters; of SCIP 1.1 replies, which have no sum, one ("0" or "E"). `time` is the device's timer
    at step 0 of the scan, or at the answer to TM1 [ms]; `distances` the scan, shape (count,) [mm], values below
    ERROR_CODES being error codes; `info` the entries of VV, PP and II.
    """

    echo: str
    status: str
    time: int | None = None
    distances: np.ndarray | None = None
    info: dict[str, str] | None = None

    @property
    def command(self) -> str:
        return self.echo[:2]

    def answers(self, line: bytes) -> bool:
        """Whether this is the reply to a request; a stream's echo counts its scans down."""
        asked = line.decode("ascii").rstrip("\n")
        return self.echo == asked or self.command in ("MD", "MS") and self.echo[:13] == asked[:13]


_HEADER = re.compile(
    rb"((?:SCIP2\.0|VV|PP|II|BM|QT|RS|TM|SS|CR|HS|DB|MD|MS|GD|GS)[ -~]{0,34})\n"
    rb"(?:([0-9A-Z]{2})([0-o])|([0E]))\n"
)
_SCAN = re.compile(r"(?:G([DS])|M([DS]))(\d{4})(\d{4})(\d\d)(?(2)\d(\d\d))(?:;.*)?")


def _read(header: re.Match, body: bytes) -> Reply:
    """The reply of a header and what follows it, up to the blank line.

    Raises:
        BadReply: a sum is wrong, or the lines are not those that the request asks for.
    """
    echo = header[1].decode("ascii")
    if header[4]:
        if body:
            raise BadReply("data after a SCIP 1.1 status")
        return Reply(echo, header[4].decode("ascii"))
    status = header[2].decode("ascii")
    if checksum(header[2]) != header[3][0]:
        raise BadReply("the status' sum is wrong")
    command = echo[:2]
    if not body:
        if status == "99" or status == "00" and command in ("VV", "PP", "II", "GD", "GS"):
            raise BadReply("the data is missing")
        return Reply(echo, status)
    if command in ("VV", "PP", "II"):
        return Reply(echo, status, info=_info(body))
    if status not in ("99", "00") or command not in ("MD", "MS", "GD", "GS", "TM"):
        raise BadReply("data where none is expected")
    if len(body) < 6 or body[5] != LF or checksum(body[:4]) != body[4]:
        raise BadReply("the time stamp's sum is wrong")
    time = decode_number(body[:4])
    if command == "TM":
        if len(body) != 6:
            raise BadReply("data after the time")
        return Reply(echo, status, time)
    asked = _SCAN.fullmatch(echo)
    if asked is None:
        raise BadReply("the echo is no request for a scan")
    first, last, cluster = int(asked[3]), int(asked[4]), int(asked[5])
    if last < first:
        raise BadReply("the echo asks for no points")
    window = Window(first, last, max(cluster, 1), width=3 if "D" in (asked[1], asked[2]) else 2)
    return Reply(echo, status, time, _decode_blocks(body[6:], window.count, window.width))


def _info(body: bytes) -> dict[str, str]:
    """Entries `KEY:value;s` of VV, PP and II (8.11 to 8.13); the sum is over what precedes the semicolon."""
    entries = {}
    for line in body.splitlines():
        if len(line) < 2 or line[-2:-1] != b";" or checksum(line[:-2]) != line[-1]:
            raise BadReply("the sum of an entry is wrong")
        key, _, value = line[:-2].decode("latin-1").partition(":")
        entries[key] = value
    return entries


class ReplyStream:
    """Replies from a stream of bytes, whatever is between and inside them.

    `bad_sums` counts replies that were recognised but damaged, `resyncs` how often bytes were skipped to find the next.
    """

    #: more without a blank line is no reply: the longest, 769 steps of three characters, has 2,410 bytes
    LIMIT = 4096

    def __init__(self) -> None:
        self.bad_sums = 0
        self.resyncs = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Reply]:
        """The valid replies that `data` completes, in order."""
        self._buffer += data
        replies = []
        while (end := self._buffer.find(b"\n\n")) >= 0:
            lines = bytes(self._buffer[: end + 1]).lstrip(b"\n")
            del self._buffer[: end + 2]
            if lines:
                replies += self._parse(lines)
        if len(self._buffer) > self.LIMIT:
            self.resyncs += 1
            del self._buffer[: -self.LIMIT // 2]
        return replies

    def clear(self) -> None:
        """Forget an unfinished reply."""
        self._buffer.clear()

    def _parse(self, lines: bytes) -> list[Reply]:
        """The valid reply that these lines end with, if any: one that lost its blank line is lost, the next is not."""
        header = _HEADER.search(lines)
        damaged = False
        skipped = header is None or header.start() > 0
        while header is not None:
            try:
                reply = _read(header, lines[header.end() :])
            except BadReply:
                damaged = skipped = True
                header = _HEADER.search(lines, header.start() + 1)
                continue
            self.bad_sums += damaged
            self.resyncs += skipped
            return [reply]
        self.bad_sums += damaged
        self.resyncs += not damaged
        return []


# ---- meaning -------------------------------------------------------------------------------------

_ANY = {
    "0A": "the sensor could not make the reply",
    "0B": "the sensor is busy or has this command already",
    "0C": "parameters are missing",
    "0D": "the command is not defined",
    "0E": "the command is not defined",
    "0F": "parameters are missing",
    "0G": "the string has more than 16 letters",
    "0H": "the string has invalid letters",
    "0I": "the sensor is in firmware update mode",
    "E": "the sensor speaks SCIP 1.1",
}
_WINDOW = {
    "01": "the starting step is no number",
    "02": "the end step is no number",
    "03": "the cluster count is no number",
    "04": "the end step is out of range",
    "05": "the end step is below the starting step",
}
_BY_COMMAND = {
    "BM": {"01": "the laser is faulty", "02": "the laser is on already"},
    "GD": {**_WINDOW, "10": "the laser is off"},
    "MD": {
        **_WINDOW,
        "06": "the scan interval is no number",
        "07": "the number of scans is no number",
        "98": "the sensor resumed after a check",
    },
    "TM": {
        "01": "the control code is invalid",
        "02": "adjust mode is on already",
        "03": "adjust mode is off already",
        "04": "adjust mode is off",
    },
    "SS": {
        "01": "the bit rate is no number",
        "02": "the bit rate is invalid",
        "03": "the bit rate is set already",
        "04": "the model has no such bit rate",
    },
    "CR": {
        "01": "the speed is no number",
        "02": "the speed is out of range",
        "03": "the motor has this speed already",
        "04": "the model cannot change its speed",
    },
    "HS": {
        "01": "the sensitivity is invalid",
        "02": "the sensitivity is set already",
        "03": "the model has one sensitivity",
    },
    "DB": {
        "01": "the malfunction is unknown",
        "02": "the malfunction is simulated already",
        "03": "no malfunction is simulated",
        "04": "the model simulates no malfunctions",
        "05": "the sensor has an error",
    },
}
_BY_COMMAND["GS"], _BY_COMMAND["MS"] = _BY_COMMAND["GD"], _BY_COMMAND["MD"]


def describe(command: str, status: str) -> str:
    """What a status means, in words (section 8 by command, section 9 for all)."""
    if status in ("00", "99", "0"):
        return "accepted"
    known = _BY_COMMAND.get(command, {}).get(status) or _ANY.get(status)
    if known is None and command in ("MD", "MS", "GD", "GS") and status.isdigit():
        if 21 <= int(status) <= 49:
            known = "the sensor stopped to check an error"
        elif 50 <= int(status) <= 97:
            known = "hardware trouble, of laser or motor for instance"
    return known or f"unknown status {status}"


@dataclass(frozen=True)
class Geometry:
    """The sensor's own description of itself (PP, 8.12), in steps, millimetres and rpm."""

    model: str
    range_min: int
    range_max: int
    steps_per_turn: int
    first: int
    last: int
    front: int
    rpm: int

    @classmethod
    def from_info(cls, info: dict[str, str]) -> Geometry:
        """From the entries of PP.

        Raises:
            BadReply: an entry is missing or no number.
        """
        try:
            numbers = [int(info[key]) for key in ("DMIN", "DMAX", "ARES", "AMIN", "AMAX", "AFRT", "SCAN")]
            model = info["MODL"]
        except (KeyError, ValueError) as error:
            raise BadReply(f"PP lacks a usable entry: {error}") from error
        if not (0 < numbers[2] and 0 <= numbers[3] <= numbers[4] and numbers[6] > 0):
            raise BadReply(f"PP describes no scanner: {numbers}")
        return cls(model, *numbers)

    @property
    def period(self) -> float:
        """Time of a turn [s]."""
        return 60.0 / self.rpm

    @property
    def increment(self) -> float:
        """Angle of a step [rad]."""
        return 2.0 * math.pi / self.steps_per_turn

    def angle(self, step: int) -> float:
        """Angle of a step, 0 ahead, counter-clockwise [rad]."""
        return (step - self.front) * self.increment

    def steps(self, angle_min: float, angle_max: float) -> tuple[int, int]:
        """First and last step inside an interval of angles [rad], clipped to what the sensor has.

        Raises:
            ValueError: no step is inside.
        """
        # A millionth of a step: an angle given as exactly a step's own may be rounded either way.
        first = max(math.ceil(self.front + angle_min / self.increment - 1e-6), self.first)
        last = min(math.floor(self.front + angle_max / self.increment + 1e-6), self.last)
        if last < first:
            raise ValueError(
                f"angle_min {angle_min:g} to angle_max {angle_max:g} rad has no step of the scanner, which sees "
                f"{self.angle(self.first):.4f} to {self.angle(self.last):.4f}; widen it."
            )
        return first, last


def ranges(distances: np.ndarray, geometry: Geometry, width: int = 3) -> np.ndarray:
    """Distances [mm] as ranges by REP 117, shape as given, float32 [m].

    Error codes become NaN, what is nearer than the sensor's minimum -inf, what is farther than its maximum +inf. Two
    characters saturate at 4095 mm, which then says "at least so far".
    """
    metres = distances.astype(np.float32)
    metres *= np.float32(1e-3)
    metres[distances < geometry.range_min] = -np.inf
    metres[distances > geometry.range_max] = np.inf
    if width == 2:
        metres[distances >= SATURATION_2] = np.inf
    metres[distances < ERROR_CODES] = np.nan
    return metres
