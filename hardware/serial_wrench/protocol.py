"""Frames of a serial force-torque sensor that a YAML file describes: binary, or lines of text.

    model: Example F/T                      | model: Example that prints
    baud: 115200                            | baud: 57600
    rate: 500                               | rate: 100
    start: "S\\r"                            | pattern: '^(?P<fx>\\S+) (?P<fy>\\S+) (?P<fz>\\S+) (?P<tx>...'
    stop: "X\\r"                             | scale: {tx: 0.001, ty: 0.001, tz: 0.001}
    rated: [200, 200, 400, 10, 10, 10]
    header: AA 55
    fields:
      - {name: fx, type: i16, endian: big, scale: 0.01}
      ...                                     # fx fy fz tx ty tz must be there, others are skipped
    checksum: {type: crc16-modbus, endian: little, header: true}

`docs/hardware/force_torque.md` explains every key.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from hardware.link.modbus_rtu import crc16
from hardware.wrench.stream import FrameDecoder, WrenchDecoder

__all__ = [
    "AXES",
    "CHECKSUMS",
    "Description",
    "DescriptionError",
    "Field",
    "LineDecoder",
    "describe",
    "load_description",
]

AXES = ("fx", "fy", "fz", "tx", "ty", "tz")
TYPES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "f32": "f", "f64": "d"}
ENDIAN = {"little": "<", "big": ">"}
LONGEST_LINE = 512


class DescriptionError(ValueError):
    """A description that no sensor can be read by; the text says what is wrong in which key."""


def _xor8(data: bytes) -> int:
    value = 0
    for byte in data:
        value ^= byte
    return value


def _crc16_ccitt(data: bytes) -> int:
    """Polynomial 0x1021, initially 0xFFFF, not reflected (CRC-16/CCITT-FALSE)."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


#: name -> (bytes on the wire, function)
CHECKSUMS = {
    "none": (0, lambda data: 0),
    "sum8": (1, lambda data: sum(data) & 0xFF),
    "xor8": (1, _xor8),
    "crc16-modbus": (2, crc16),
    "crc16-ccitt": (2, _crc16_ccitt),
}


@dataclass(frozen=True)
class Field:
    """One number of a binary frame; SI value = number * scale."""

    name: str
    type: str
    endian: str
    scale: float


@dataclass(frozen=True)
class Description:
    """A sensor's serial format. Either `fields` or `pattern` is given.

    Attributes:
        rate: frames per second.
        start, stop: sent when streaming begins and ends; b"" for a sensor that always sends.
        rated: largest load (6,) [N, N m]; inf where not given.
        header, fields, checksum, checksum_endian, checksum_header: of a binary frame; the checksum is its last part and covers
            the header if `checksum_header`.
        pattern, scale: of a line of text, and the SI value of one unit of each axis, (6,).
    """

    model: str
    baud: int
    rate: float
    start: bytes
    stop: bytes
    rated: tuple[float, ...]
    header: bytes = b""
    fields: tuple[Field, ...] = ()
    checksum: str = "none"
    checksum_endian: Literal["little", "big"] = "little"
    checksum_header: bool = True
    pattern: re.Pattern | None = None
    scale: tuple[float, ...] = (1.0,) * 6

    @property
    def frame_length(self) -> int:
        """Of a binary frame [bytes]."""
        return (
            len(self.header)
            + sum(struct.calcsize("<" + TYPES[f.type]) for f in self.fields)
            + CHECKSUMS[self.checksum][0]
        )

    def decoder(self) -> WrenchDecoder:
        """What finds the wrenches in a stream."""
        if self.pattern is not None:
            return LineDecoder(self.pattern, np.array(self.scale))
        return FrameDecoder(self.header, self.frame_length, self.decode_frame)

    def decode_frame(self, frame: bytes) -> np.ndarray | None:
        """Wrench of one whole binary frame, (6,) [N, N m]; None if the checksum is wrong or a value is not finite."""
        size, function = CHECKSUMS[self.checksum]
        end = len(frame) - size
        if function(frame[0 if self.checksum_header else len(self.header) : end]) != int.from_bytes(
            frame[end:], self.checksum_endian
        ):
            return None
        at, values = len(self.header), {}
        for field in self.fields:
            code = ENDIAN[field.endian] + TYPES[field.type]
            values[field.name] = struct.unpack_from(code, frame, at)[0] * field.scale
            at += struct.calcsize(code)
        wrench = np.array([values[axis] for axis in AXES])
        return wrench if np.isfinite(wrench).all() else None


class LineDecoder:
    """Lines that a regular expression with the groups fx fy fz tx ty tz matches; attributes as `WrenchDecoder`.

    The first line after the start may be the end of one, and is not counted against the sensor if it does not match.
    """

    def __init__(self, pattern: re.Pattern, scale: np.ndarray) -> None:
        self.pattern, self.scale = pattern, scale
        self.crc_errors = self.resyncs = 0
        self.frame_length = 0
        self._buffer = bytearray()
        self._first = True

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[np.ndarray]:
        """As `WrenchDecoder.feed`."""
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        if len(rest) > LONGEST_LINE:
            self.resyncs += 1
            rest = rest[-LONGEST_LINE:]
        self._buffer = bytearray(rest)
        wrenches = [wrench for line in lines if line.strip() and (wrench := self._read(bytes(line))) is not None]
        return wrenches

    def _read(self, line: bytes) -> np.ndarray | None:
        match = self.pattern.search(line.decode("latin-1").rstrip("\r"))
        first, self._first = self._first, False
        try:
            wrench = None if match is None else np.array([float(match[axis]) for axis in AXES]) * self.scale
        except (TypeError, ValueError):
            wrench = None
        if wrench is None or not np.isfinite(wrench).all():
            self.crc_errors += not first
            return None
        self.frame_length = len(line) + 1
        return wrench


def load_description(path: str | Path) -> Description:
    """Read a description.

    Raises:
        DescriptionError: the file cannot be read or used.
    """
    try:
        return describe(yaml.safe_load(Path(path).expanduser().read_text()))
    except OSError as error:
        raise DescriptionError(
            f"{path} cannot be read ({error.strerror}): 'description' names the YAML file of the sensor"
        ) from None
    except yaml.YAMLError as error:
        raise DescriptionError(f"{path} is no YAML: {error}") from None


def describe(values: dict[str, Any]) -> Description:
    """A description from the content of a file.

    Raises:
        DescriptionError: a key is missing, unknown or impossible.
    """
    if not isinstance(values, dict):
        raise DescriptionError("a description is a mapping with model, baud, rate, and header and fields or pattern")
    known = {"model", "baud", "rate", "start", "stop", "rated", "header", "fields", "checksum", "pattern", "scale"}
    unknown = sorted(map(str, set(values) - known))
    if unknown:
        raise DescriptionError(f"unknown key {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if ("pattern" in values) == ("fields" in values):
        raise DescriptionError("give either fields (binary frames) or pattern (lines of text)")
    baud, rate = (_positive(values, key) for key in ("baud", "rate"))
    rated = _six(values.get("rated", [float("inf")] * 6), "rated")
    common: dict[str, Any] = dict(
        model=str(values.get("model", "serial force-torque sensor")),
        baud=int(baud),
        rate=rate,
        start=_text(values, "start"),
        stop=_text(values, "stop"),
        rated=rated,
    )
    if "pattern" in values:
        scale = values.get("scale") or {}
        if not isinstance(scale, dict) or set(scale) - set(AXES):
            raise DescriptionError(f"scale maps some of {', '.join(AXES)} to numbers, not {scale!r}")
        return Description(
            **common, pattern=_pattern(values["pattern"]), scale=_six([scale.get(axis, 1.0) for axis in AXES], "scale")
        )
    kind, endian, covers_header = _checksum(values.get("checksum"))
    return Description(
        **common,
        header=_hex(values.get("header")),
        fields=_fields(values["fields"]),
        checksum=kind,
        checksum_endian=endian,
        checksum_header=covers_header,
    )


def _positive(values: dict, key: str) -> float:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < float("inf"):
        raise DescriptionError(f"{key} is {value!r}, expected a positive number")
    return float(value)


def _six(values: Any, key: str) -> tuple[float, ...]:
    if (
        not isinstance(values, (list, tuple))
        or len(values) != 6
        or not all(isinstance(v, (int, float)) for v in values)
    ):
        raise DescriptionError(f"{key} is {values!r}, expected six numbers in the order {' '.join(AXES)}")
    return tuple(map(float, values))


def _text(values: dict, key: str) -> bytes:
    try:
        return str(values.get(key) or "").encode("latin-1")
    except UnicodeEncodeError:
        raise DescriptionError(f"{key} has characters beyond one byte") from None


def _hex(header: Any) -> bytes:
    try:
        found = bytes.fromhex(header)
    except (TypeError, ValueError):
        found = b""
    if not found:
        raise DescriptionError(f"header is {header!r}, expected at least one byte as hexadecimal text, such as 'AA 55'")
    return found


def _fields(entries: Any) -> tuple[Field, ...]:
    fields = []
    for entry in entries if isinstance(entries, list) else []:
        try:
            field = Field(
                str(entry["name"]),
                str(entry["type"]),
                str(entry.get("endian", "little")),
                float(entry.get("scale", 1.0)),
            )
        except (KeyError, TypeError, AttributeError, ValueError):
            raise DescriptionError(f"field {entry!r} needs name and type, and may have endian and scale") from None
        if field.type not in TYPES or field.endian not in ENDIAN:
            raise DescriptionError(
                f"field {field.name} is {field.endian} {field.type}; types are {', '.join(TYPES)}, endian little or big"
            )
        fields.append(field)
    missing = [axis for axis in AXES if [f.name for f in fields].count(axis) != 1]
    if missing:
        raise DescriptionError(f"fields must have each of {', '.join(AXES)} once; {', '.join(missing)} is not")
    return tuple(fields)


def _checksum(entry: Any) -> tuple[str, Literal["little", "big"], bool]:
    entry = {"type": entry or "none"} if not isinstance(entry, dict) else entry
    kind, endian = str(entry.get("type", "none")), str(entry.get("endian", "little"))
    if kind not in CHECKSUMS or endian not in ENDIAN:
        raise DescriptionError(f"checksum is {endian} {kind}; types are {', '.join(CHECKSUMS)}, endian little or big")
    return kind, "little" if endian == "little" else "big", bool(entry.get("header", True))


def _pattern(text: Any) -> re.Pattern:
    try:
        pattern = re.compile(text)
    except (re.error, TypeError) as error:
        raise DescriptionError(f"pattern is no regular expression: {error}") from None
    missing = [axis for axis in AXES if axis not in pattern.groupindex]
    if missing:
        raise DescriptionError(f"pattern has no group (?P<{missing[0]}>...); each of {', '.join(AXES)} needs one")
    return pattern
