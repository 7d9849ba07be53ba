"""Modbus RTU as a master speaks it: requests to bytes, replies to register values, and transactions over a port.

    master = ModbusMaster(SerialPort("/dev/ttyUSB0", 115200), unit=9)
    status = master.transact(read_input_registers(2000, 3))

A request is a function code, its payload and how many registers come back; the unit's address and the CRC
are added when it is framed. Source: MODBUS Application Protocol V1.1b3, section 6; MODBUS over Serial Line
V1.02, section 2.5.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hardware.link.counters import Counters
from hardware.link.errors import DeviceError, NotAnswering
from hardware.link.serial_port import SerialPort

__all__ = [
    "ModbusException",
    "ModbusMaster",
    "ReplyDecoder",
    "Request",
    "crc16",
    "frame",
    "read_holding_registers",
    "read_input_registers",
    "read_write_registers",
    "write_register",
    "write_registers",
]

EXCEPTIONS = {
    1: "illegal function",
    2: "illegal register address",
    3: "illegal value",
    4: "device failure",
    5: "acknowledge",
    6: "device busy",
    8: "memory parity error",
}
# The longest frame of the serial line: address, 253 bytes, CRC.
MAX_FRAME = 256


class ModbusException(DeviceError):
    """The device understood a request and refused it; `code` says why (EXCEPTIONS)."""

    def __init__(self, function: int, code: int) -> None:
        super().__init__(
            f"Modbus function {function:#04x} was refused: {EXCEPTIONS.get(code, 'unknown')} (exception {code}); "
            "check that the port leads to the device that is configured"
        )
        self.function, self.code = function, code


@dataclass(frozen=True)
class Request:
    """function: code; payload: what follows it; registers: how many come back; echo: payload of the reply if none come."""

    function: int
    payload: bytes
    registers: int = 0
    echo: bytes = b""

    @property
    def reply_length(self) -> int:
        """Bytes of the whole reply frame."""
        return 5 + 2 * self.registers if self.registers else 4 + len(self.echo)


def read_holding_registers(address: int, count: int) -> Request:
    """FC 03."""
    return Request(0x03, struct.pack(">HH", address, count), registers=count)


def read_input_registers(address: int, count: int) -> Request:
    """FC 04."""
    return Request(0x04, struct.pack(">HH", address, count), registers=count)


def write_register(address: int, value: int) -> Request:
    """FC 06."""
    payload = struct.pack(">HH", address, value)
    return Request(0x06, payload, echo=payload)


def write_registers(address: int, values: Sequence[int]) -> Request:
    """FC 16."""
    head = struct.pack(">HH", address, len(values))
    return Request(0x10, head + _block(values), echo=head)


def read_write_registers(read_address: int, read_count: int, write_address: int, values: Sequence[int]) -> Request:
    """FC 23: the device writes first, then reads."""
    head = struct.pack(">HHHH", read_address, read_count, write_address, len(values))
    return Request(0x17, head + _block(values), registers=read_count)


def _block(values: Sequence[int]) -> bytes:
    return struct.pack(f">B{len(values)}H", 2 * len(values), *values)


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ 0xA001 if value & 1 else value >> 1
        table.append(value)
    return tuple(table)


_CRC = _crc_table()


def crc16(data: bytes) -> int:
    """CRC-16/MODBUS: polynomial 0x8005 reflected, initially 0xFFFF; sent low byte first."""
    crc = 0xFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xFF]
    return crc


def frame(unit: int, request: Request) -> bytes:
    """A request as it goes over the line."""
    body = bytes((unit, request.function)) + request.payload
    return body + crc16(body).to_bytes(2, "little")


class ReplyDecoder:
    """Finds the reply to one request in whatever arrives.

    A frame counts only with the unit, function, length and CRC that the request calls for; from a place
    where there is none, one byte is dropped and the search goes on.

    Attributes:
        crc_errors: frames that began like the reply and failed their CRC.
        dropped: bytes thrown away.
    """

    def __init__(self, unit: int, request: Request) -> None:
        self.unit, self.request = unit, request
        self.crc_errors = self.dropped = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> tuple[int, ...] | None:
        """Registers of the reply (empty for a write) once it is complete, else None.

        Raises:
            ModbusException: the device refused the request.
        """
        self._buffer += data
        while len(self._buffer) >= 2:
            length = self._length()
            if length is not None and len(self._buffer) < length:
                break
            if length is not None:
                reply = bytes(self._buffer[:length])
                if crc16(reply[:-2]) == int.from_bytes(reply[-2:], "little"):
                    self.dropped += len(self._buffer) - length  # nobody asked for what is behind it
                    if reply[1] & 0x80:
                        raise ModbusException(reply[1] & 0x7F, reply[2])
                    if self.request.registers:
                        return struct.unpack(f">{self.request.registers}H", reply[3:-2])
                    if reply[2:-2] == self.request.echo:
                        return ()
                else:
                    self.crc_errors += 1
            del self._buffer[0]
            self.dropped += 1
        surplus = len(self._buffer) - MAX_FRAME
        if surplus > 0:
            del self._buffer[:surplus]
            self.dropped += surplus
        return None

    def _length(self) -> int | None:
        """Bytes of the frame that the buffer may begin with; None: it begins with no such frame."""
        if self._buffer[0] != self.unit:
            return None
        if self._buffer[1] == self.request.function | 0x80:
            return 5
        if self._buffer[1] != self.request.function:
            return None
        if self.request.registers and len(self._buffer) > 2 and self._buffer[2] != 2 * self.request.registers:
            return None
        return self.request.reply_length


class ModbusMaster:
    """Transactions with one unit on a port; counts crc_errors, resyncs and timeouts.

    Args:
        port: open port; replaced by whoever reopens it.
        unit: the device's address, 1-247.
        timeout: for a reply, beyond the time its bytes take on the line [s].
        retries: further attempts after a reply that did not come or was damaged.
        counters: where to count.
    """

    def __init__(
        self, port: SerialPort, unit: int, timeout: float = 0.1, retries: int = 2, counters: Counters | None = None
    ) -> None:
        self.port, self.unit, self.timeout, self.retries = port, unit, timeout, retries
        self.counters = counters or Counters()

    def transact(self, request: Request) -> tuple[int, ...]:
        """The registers read; () for a write. Any request here may safely be repeated.

        Raises:
            NotAnswering: no valid reply to any attempt.
            ModbusException: refused.
            Disconnected: the port is gone.
        """
        out = frame(self.unit, request)
        for _ in range(1 + self.retries):
            # A reply that came too late, or twice, must not be taken for the next one.
            if self.port.discard_input():
                self.counters.add("resyncs")
            self.port.write(out)
            decoder = ReplyDecoder(self.unit, request)
            end = time.monotonic() + self.timeout + self.port.transmission_time(len(out) + request.reply_length)
            try:
                while (rest := end - time.monotonic()) > 0.0:
                    data = self.port.read(timeout=rest)
                    if data and (registers := decoder.feed(data)) is not None:
                        return registers
            finally:
                self._count(decoder)
            if not decoder.crc_errors:
                self.counters.add("timeouts")
            # Whatever still comes is damaged or too late: the line is free when a whole time-out brought nothing.
            self.port.drain(self.timeout)
        raise NotAnswering(
            f"unit {self.unit} on {self.port.path} did not answer {1 + self.retries} requests within "
            f"{1e3 * self.timeout:.0f} ms each: check power, wiring, baud rate ({self.port.baud}) and unit address"
        )

    def _count(self, decoder: ReplyDecoder) -> None:
        if decoder.crc_errors:
            self.counters.add("crc_errors", decoder.crc_errors)
        if decoder.dropped:
            self.counters.add("resyncs")
