"""Robotiq FT-300 and FT-300-S: registers over Modbus RTU, and a stream of frames once it is asked for.

Source: Robotiq, FT 300 Instruction Manual, section "Communication"; the maker's driver for the layout of identity
registers. 19,200 baud 8N1, slave 9. Registers are big-endian, the stream is little-endian. One manual edition
prints the CRC of the request for wrench registers as 04A6; it is 84A6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware.link import Identity
from hardware.link.modbus_rtu import Request, crc16, read_holding_registers, write_registers

__all__ = [
    "ACCELERATION",
    "BAUD",
    "COUNTS",
    "FIRMWARE",
    "FRAME_LENGTH",
    "HEADER",
    "JAM",
    "JAM_PAUSE",
    "SERIAL",
    "SLAVE",
    "START_STREAM",
    "STREAM_RATE",
    "WRENCH",
    "YEAR",
    "decode_frame",
    "encode_frame",
    "identity",
    "register_wrench",
]

BAUD, SLAVE = 19200, 9
STREAM_RATE = 100.0  # frames per second
#: Counts per N and per N m, in registers and in the stream.
COUNTS = np.array([100.0, 100.0, 100.0, 1000.0, 1000.0, 1000.0])

WRENCH: Request = read_holding_registers(180, 6)
ACCELERATION: Request = read_holding_registers(190, 3)  # in g / 1000
FIRMWARE: Request = read_holding_registers(500, 3)
SERIAL: Request = read_holding_registers(510, 4)
YEAR: Request = read_holding_registers(514, 1)
START_STREAM: Request = write_registers(410, [0x0200])

#: What ends the stream; then the line must be left alone for JAM_PAUSE [s].
JAM, JAM_PAUSE = b"\xff" * 50, 0.1

HEADER, FRAME_LENGTH = b"\x20\x4e", 16


def register_wrench(registers: Sequence[int]) -> np.ndarray:
    """Wrench of registers 180-185, (6,) [N, N m]."""
    return np.array(registers, np.uint16).view(np.int16) / COUNTS


def identity(firmware: Sequence[int], serial: Sequence[int]) -> Identity:
    """Who the sensor is, from registers 500-502 and 510-513.

    Three letters and three numbers of firmware, FFT-2.1.0; three letters and 32 bits of serial number, low word first.
    """
    letters = _letters(firmware)
    number = serial[2] | serial[3] << 16
    return Identity(
        "Robotiq FT-300",
        f"{_letters(serial)}-{number:04d}" if number else "",
        f"{letters}-{firmware[1] & 0xFF}.{firmware[2] >> 8}.{firmware[2] & 0xFF}",
    )


def _letters(registers: Sequence[int]) -> str:
    codes = registers[0] >> 8, registers[0] & 0xFF, registers[1] >> 8
    return "".join(chr(code) if 0x21 <= code < 0x7F else "?" for code in codes)


def encode_frame(wrench: Sequence[float]) -> bytes:
    """A frame of the stream; wrench (6,) [N, N m]."""
    body = HEADER + np.rint(np.asarray(wrench) * COUNTS).astype("<i2").tobytes()
    return body + crc16(body).to_bytes(2, "little")


def decode_frame(frame: bytes) -> np.ndarray | None:
    """Wrench of 16 bytes of the stream, (6,) [N, N m]; None if their CRC is wrong."""
    if crc16(frame[:-2]) != int.from_bytes(frame[-2:], "little"):
        return None
    return np.frombuffer(frame, "<i2", 6, 2) / COUNTS
