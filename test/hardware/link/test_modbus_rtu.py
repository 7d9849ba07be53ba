"""Modbus RTU as the drivers speak it: frames of the manuals, replies in any company, and a master on a port."""

import random
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.link import Counters, NotAnswering
from hardware.link.modbus_rtu import (
    ModbusException,
    ModbusMaster,
    ReplyDecoder,
    crc16,
    frame,
    read_holding_registers,
    read_input_registers,
    read_write_registers,
    write_register,
    write_registers,
)

REPLY = bytes.fromhex("090406B90000FFBD005C9A")  # Robotiq manual: status while an object is held
STATUS = (0xB900, 0x00FF, 0xBD00)
REQUEST = read_input_registers(2000, 3)


@pytest.mark.parametrize(
    "request_, wire",
    [
        (write_registers(1000, (0x0100, 0, 0)), "09 10 03E8 0003 06 0100 0000 0000 72E1"),  # 2F-85: activate
        (write_registers(1000, (0x0900, 0x0000, 0xFFFF)), "09 10 03E8 0003 06 0900 0000 FFFF 7219"),  # open
        (REQUEST, "09 04 07D0 0003 B1CE"),
        (read_holding_registers(180, 6), "09 03 00B4 0006 84A6"),  # FT-300: force and moment
    ],
)
def test_requests_are_those_of_the_manuals(request_, wire):
    assert frame(9, request_) == bytes.fromhex(wire)


@pytest.mark.parametrize(
    "request_, pdu",
    [  # the examples of the Modbus specification, 6.3, 6.4, 6.6, 6.12, 6.17
        (read_holding_registers(0x6B, 3), "03 006B 0003"),
        (read_input_registers(8, 1), "04 0008 0001"),
        (write_register(1, 3), "06 0001 0003"),
        (write_registers(1, (0x0A, 0x0102)), "10 0001 0002 04 000A 0102"),
        (read_write_registers(3, 6, 14, (255, 255, 255)), "17 0003 0006 000E 0003 06 00FF 00FF 00FF"),
    ],
)
def test_requests_are_those_of_the_specification(request_, pdu):
    assert bytes((request_.function,)) + request_.payload == bytes.fromhex(pdu)


def test_crc_of_the_catalogue():
    assert crc16(b"123456789") == 0x4B37  # CRC RevEng: CRC-16/MODBUS, check value
    assert crc16(b"") == 0xFFFF


def test_replies():
    assert ReplyDecoder(9, REQUEST).feed(REPLY) == STATUS
    written = bytes.fromhex("091003E800030130")  # manual: reply to a write of three registers
    assert ReplyDecoder(9, write_registers(1000, (0, 0, 0))).feed(written) == ()
    one = frame(9, write_register(7, 513))
    assert ReplyDecoder(9, write_register(7, 513)).feed(one) == ()


def test_an_exception_is_an_error_that_says_why():
    body = bytes((9, 0x84, 2))
    with pytest.raises(ModbusException, match="illegal register address") as caught:
        ReplyDecoder(9, REQUEST).feed(body + crc16(body).to_bytes(2, "little"))
    assert (caught.value.function, caught.value.code) == (4, 2)


def test_no_other_frame_is_taken_for_the_reply():
    def with_crc(body):
        return body + crc16(body).to_bytes(2, "little")

    for other in (
        with_crc(b"\x08" + REPLY[1:-2]),
        with_crc(b"\x09\x03" + REPLY[2:-2]),
        with_crc(b"\x09\x04\x04" + REPLY[3:7]),
        frame(9, write_registers(1000, (0, 0, 0))),
    ):
        decoder = ReplyDecoder(9, REQUEST)
        assert decoder.feed(other) is None
        assert decoder.feed(REPLY) == STATUS and decoder.dropped
    # A write's reply must name what was written.
    assert ReplyDecoder(9, write_registers(1000, (0, 0))).feed(bytes.fromhex("091003E800030130")) is None


@given(st.binary(max_size=60), st.lists(st.integers(1, 20), max_size=40), st.binary(max_size=5))
def test_the_reply_is_found_in_any_company_and_any_pieces(before, pieces, after):
    decoder, stream = ReplyDecoder(9, REQUEST), before + REPLY + after
    found, at = None, 0
    for length in [*pieces, len(stream)]:
        try:
            found = decoder.feed(stream[at : at + length])
        except ModbusException:
            return  # five bytes of garbage that are an exception with its CRC
        at += length
        if found is not None:
            break
    # Whatever began like a reply before it is as long at most, so that it has failed by now.
    assert found == STATUS


@given(st.integers(0, len(REPLY) - 1), st.integers(1, 255))
def test_no_damaged_byte_passes(at, flip):
    damaged = bytearray(REPLY)
    damaged[at] ^= flip
    decoder = ReplyDecoder(9, REQUEST)
    assert decoder.feed(bytes(damaged)) is None


def test_a_million_random_bytes_are_bounded_and_silent():
    rng, decoder = random.Random(1), ReplyDecoder(9, REQUEST)
    for _ in range(1000):
        # A frame needs unit, function, length and CRC (2^-40 per byte), an exception all but the length (2^-32): none here.
        assert decoder.feed(rng.randbytes(1000)) is None
        assert len(decoder._buffer) <= 256
    assert decoder.dropped > 999_000


class Line:
    """A port whose other end is a list of replies, one for each request."""

    path, baud = "line", 115200

    def __init__(self, *replies):
        self.replies, self.sent, self._waiting = list(replies), [], b""

    def write(self, data):
        self.sent.append(data)
        self._waiting = self.replies.pop(0) if self.replies else b""

    def read(self, size=4096, timeout=0.0):
        data, self._waiting = self._waiting, b""
        if not data:
            time.sleep(min(timeout, 0.002))
        return data

    def discard_input(self):
        self._waiting = b""

    def drain(self, quiet, limit=1.0):
        self._waiting = b""
        return 0

    def transmission_time(self, n):
        return 10.0 * n / self.baud


def test_the_master_asks_again_and_counts():
    counters = Counters()
    damaged = REPLY[:-1] + b"\x00"
    line = Line(damaged, b"", b"noise" + REPLY)
    assert ModbusMaster(line, 9, timeout=0.01, counters=counters).transact(REQUEST) == STATUS
    assert line.sent == [frame(9, REQUEST)] * 3
    assert (counters.crc_errors, counters.timeouts, counters.resyncs) == (1, 1, 2)
    with pytest.raises(NotAnswering, match="did not answer 3 requests"):
        ModbusMaster(Line(), 9, timeout=0.01).transact(REQUEST)


def test_values_survive_the_way_there_and_back():
    request = read_write_registers(2000, 4, 1000, (1, 65535))
    assert struct.unpack(">HHHHB2H", request.payload) == (2000, 4, 1000, 2, 4, 1, 65535)
    body = bytes((9, 0x17, 8)) + struct.pack(">4H", 0, 1, 32768, 65535)
    assert ReplyDecoder(9, request).feed(body + crc16(body).to_bytes(2, "little")) == (0, 1, 32768, 65535)
