"""The driver's codecs: golden frames, stuffing, and streams that hold anything."""

import random
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.dynamixel import protocol1, protocol2
from hardware.dynamixel.packets import Status

PROTOCOLS = [protocol1, protocol2]
PATTERN = b"\xff\xff\xfd"
ids = st.integers(0, 252)
#: bytes in which stuffing and headers are frequent
awkward = st.lists(
    st.sampled_from([b"\xff", b"\xfd", b"\x00", b"\x55", PATTERN, protocol2.HEADER, b"\x07\x00", b"\x01"]), max_size=30
).map(b"".join)


@pytest.mark.parametrize(
    ("made", "golden"),
    [
        (lambda: protocol2.ping(1), "FFFFFD00 01 0300 01 194E"),
        (lambda: protocol2.sync_read(132, 4, [1, 2]), "FFFFFD00 FE 0900 82 8400 0400 01 02 CEFA"),
        (
            lambda: protocol2.sync_write(116, 4, {1: struct.pack("<i", 150), 2: struct.pack("<i", 170)}),
            "FFFFFD00 FE 1100 83 7400 0400 01 96000000 02 AA000000 8287",
        ),
        (lambda: protocol2.clear_turns(1), "FFFFFD00 01 0800 10 01 44584C22 B1DC"),
        # e-manual, Protocol 1.0: read the temperature of servo 1; ping it
        (lambda: protocol1.read(1, 0x2B, 1), "FFFF 01 04 02 2B 01 CC"),
        (lambda: protocol1.ping(1), "FFFF 01 02 01 FB"),
    ],
)
def test_golden_frames(made, golden):
    assert made() == bytes.fromhex(golden)


def test_golden_replies():
    # e-manual, Protocol 2.0: answer of servo 1, an XM430-W210 with firmware 38, to a ping
    assert protocol2.Parser().feed(bytes.fromhex("FFFFFD00 01 0700 55 00 0604 26 655D")) == [
        Status(1, 0, b"\x06\x04\x26")
    ]
    # e-manual, Protocol 1.0: 32 degrees
    assert protocol1.Parser().feed(bytes.fromhex("FFFF 01 03 00 20 DB")) == [Status(1, 0, b"\x20")]


def test_goals_that_hold_the_pattern_are_stuffed():
    """Goal current -1 beside goal velocity -3: what the maker's Python SDK sends unstuffed."""
    data = struct.pack("<hi", -1, -3)
    frame = protocol2.write(1, 102, data)
    assert data.startswith(PATTERN) and frame[10:] == b"\xff\xff\xfd\xfd\xff\xff\xff" + frame[-2:]
    assert frame[5:7] == struct.pack("<H", len(frame) - 7)
    reply = protocol2.status(1, 0, data)
    assert protocol2.Parser().feed(reply) == [Status(1, 0, data)]


@given(ids, st.integers(0, 255), awkward)
def test_replies_survive_the_wire(id, error, params):
    for codec in PROTOCOLS:
        if codec is protocol1 and len(params) > 200:
            continue
        frame = codec.status(id, error, params)
        assert codec is protocol1 or not re.search(PATTERN + b"(?!\xfd)", frame[7:-2])
        assert codec.Parser().feed(frame) == [Status(id, error, params)]


@given(
    st.lists(st.tuples(ids, awkward), min_size=1, max_size=6),
    st.lists(st.integers(1, 9), min_size=1),
    st.binary(max_size=12),
)
def test_replies_are_found_however_they_arrive(sent, cuts, noise):
    """Any chopping of the stream, noise in front (that cannot pass for a header)."""
    noise = noise.replace(b"\xff", b"\xfe")
    stream = noise + b"".join(protocol2.status(id, 0, params) for id, params in sent)
    parser, found, k = protocol2.Parser(), [], 0
    while stream:
        n = cuts[k % len(cuts)]
        found += parser.feed(stream[:n])
        stream, k = stream[n:], k + 1
    assert found == [Status(id, 0, params) for id, params in sent]
    assert parser.skipped == len(noise) and parser.pending == 0


@pytest.mark.parametrize("codec", PROTOCOLS)
@given(data=st.data())
def test_one_damaged_byte_costs_one_frame_at_most_two(codec, data):
    frames = [codec.status(k + 1, 0, bytes([k, 2 * k, 3 * k])) for k in range(6)]
    which = data.draw(st.integers(0, 3))
    damaged = bytearray(frames[which])
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    parser = codec.Parser()
    found = [
        reply for frame in [*frames[:which], bytes(damaged), *frames[which + 1 :]] for reply in parser.feed(frame)
    ] + parser.resync()
    good = {Status(k + 1, 0, bytes([k, 2 * k, 3 * k])) for k in range(6) if k != which}
    if codec is protocol2:
        assert set(found) == good  # the CRC catches every single byte
    else:
        # A length two too large takes in the next frame's FF FF, and the sum still fits: the bus looks at the size.
        assert len(good - set(found)) <= 1


@pytest.mark.parametrize("codec", PROTOCOLS)
def test_a_million_random_bytes(codec):
    """Neither an exception, nor an endless loop, nor more frames than chance gives the check value."""
    rng = random.Random(7)
    parser, frames = codec.Parser(), 0
    for _ in range(250):
        frames += len(parser.feed(rng.randbytes(4000)))
        assert parser.pending <= parser.limit
    # Protocol 1.0: 15 headers a million bytes, one in 256 passes; Protocol 2.0: one header in 4295 million.
    assert frames <= (3 if codec is protocol1 else 0)


@settings(max_examples=60)
@given(st.lists(st.one_of(awkward, st.binary(max_size=40)), max_size=40))
def test_no_wrong_check_is_accepted(pieces):
    """Whatever is found was in the stream, check value and all."""
    stream = b"".join(pieces)
    for codec in PROTOCOLS:
        parser = codec.Parser()
        found = [reply for piece in pieces for reply in parser.feed(piece)] + parser.resync()
        for reply in found:
            body = reply.params
            assert codec.status(*reply) in stream or codec is protocol2 and body.count(PATTERN)
        assert parser.pending < parser.HEAD


def test_a_wrong_length_does_not_swallow_what_follows():
    good = protocol2.status(3, 0, b"abcd")
    bad = bytearray(good)
    bad[6] = 0x07  # the length says 1.8 KB more than there is
    parser = protocol2.Parser()
    assert parser.feed(bytes(bad) + good) == [Status(3, 0, b"abcd")]  # a header within shows that the first was false
    assert (parser.crc_errors, parser.pending) == (1, 0)
    bad[6] = 0x7F  # longer than any frame: not even waited for
    assert protocol2.Parser().feed(bytes(bad) + good) == [Status(3, 0, b"abcd")]


def reference(stream):
    """Status replies in a whole stream, by trying every place for a frame; one that is found is stepped over."""
    found, at = [], 0
    while at + 11 <= len(stream):
        size = 7 + int.from_bytes(stream[at + 5 : at + 7], "little")
        frame = stream[at : at + size]
        body = frame[7:-2]
        good = frame[:4] == protocol2.HEADER and 10 <= size <= 2048 and len(frame) == size
        if good and protocol2.HEADER not in body and protocol2.crc16(frame[:-2]) == frame[-2] | frame[-1] << 8:
            if body[0] == 0x55 and len(body) >= 2 and frame[4] < 254:
                found.append(Status(frame[4], body[1], body[2:].replace(b"\xff\xff\xfd\xfd", PATTERN)))
            at += size
        else:
            at += 1
    return found


headers = st.builds(
    lambda id, length: protocol2.HEADER + bytes([id]) + length.to_bytes(2, "little"),
    st.integers(0, 255),
    st.one_of(st.integers(0, 60), st.integers(0, 65535)),
)
replies = st.builds(protocol2.status, ids, st.integers(0, 255), awkward)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.one_of(replies, headers, awkward, st.just(protocol2.HEADER), st.binary(max_size=30)), max_size=30),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
)
def test_hostile_streams_are_read_as_by_a_simple_parser(pieces, cuts):
    """False headers, wrong lengths, stuffing and good replies, chopped anyhow: the same packets in the same order."""
    stream = b"".join(pieces)
    parser, found, at, k = protocol2.Parser(), [], 0, 0
    while at < len(stream):
        n = cuts[k % len(cuts)]
        found += parser.feed(stream[at : at + n])
        at, k = at + n, k + 1
    assert found + parser.resync() == reference(stream)


LONGEST_FALSE = protocol2.HEADER + bytes.fromhex("01 F9 07")


@pytest.mark.parametrize(
    "hostile",
    [
        protocol2.HEADER * 10_000,
        LONGEST_FALSE * 6000,
        (protocol2.HEADER + b"\x01\xff\xff") * 6000,
        (LONGEST_FALSE + b"\xff\xff\xfd\xfd" * 508) * 20,
        b"".join(protocol2.HEADER + b"\x01" + (k * 37 % 2045).to_bytes(2, "little") for k in range(6000)),
        b"\xff" * 40_000,
    ],
    ids=["headers", "longest", "65535", "stuffing", "lengths", "FF"],
)
@pytest.mark.parametrize("chunk", [1, 64, 4096])
def test_no_byte_is_checked_more_than_twice(hostile, chunk):
    """The work is linear: a count of the bytes that go through the CRC, where a false header used to cost its whole length."""
    parser = protocol2.Parser()
    for at in range(0, len(hostile), chunk):
        assert parser.feed(hostile[at : at + chunk]) == []
    parser.resync()
    assert parser.checked <= 2 * len(hostile) and parser.pending <= 6


def test_what_is_no_reply_of_a_servo_is_passed_over():
    """The echo of an instruction, a status without an error byte, a status from the broadcast id."""
    for codec in PROTOCOLS:
        good = codec.status(1, 0, b"1234")
        for other in (
            codec.sync_write(30, 2, {1: b"ab"}),
            protocol2.sync_read(132, 4, [1]),
            protocol2.encode(1, 0x55),
            codec.status(254, 0, b"1234"),
        ):
            if codec is protocol2 or not other.startswith(protocol2.HEADER):
                assert codec.Parser().feed(other + good) == [Status(1, 0, b"1234")], other.hex()


@given(st.lists(ids, min_size=1, max_size=8, unique=True), st.integers(1, 40), st.randoms(use_true_random=False))
def test_blocks_decode_what_the_parser_does(ids, length, rng):
    params = [rng.randbytes(length).replace(PATTERN, b"\0\0\0") for _ in ids]
    for codec in PROTOCOLS:
        data = b"".join(
            codec.status(id, 0x80 * (codec is protocol2), each) for id, each in zip(ids, params, strict=True)
        )
        block = codec.ReplyBlock(ids, length)
        values = block.decode(data)
        assert len(data) == block.size and [row[1:].tobytes() for row in values] == params
        at = rng.randrange(len(data))
        damaged = bytearray(data)
        damaged[at] ^= rng.randrange(1, 256)
        assert block.decode(bytes(damaged)) is None


def fast_reply(params):
    """What servos make of a fast sync read: error, id and data of each, then the CRC of all so far; nothing is stuffed."""
    each = len(params[0][1]) + 4
    frame = protocol2.HEADER + struct.pack("<BHB", 254, 1 + each * len(params), 0x55)
    for id, data in params:
        frame += bytes([0, id]) + data
        frame += struct.pack("<H", protocol2.crc16(frame))
    return frame


def test_a_fast_reply_is_decoded_whole():
    params = [(3, b"abcd"), (7, b"efgh"), (4, b"\xff\xff\xfd!")]
    data = fast_reply(params)
    block = protocol2.FastReplyBlock([3, 7, 4], 4)
    assert len(data) == block.size
    assert [row.tobytes() for row in block.decode(data)] == [b"\0" + each for _, each in params]
    assert protocol2.Parser().feed(data + protocol2.status(9, 0, b"next")) == [
        Status(9, 0, b"next")
    ]  # which is of one servo


@given(st.lists(ids, min_size=1, max_size=8, unique=True), st.integers(1, 30), st.randoms(use_true_random=False))
def test_no_damaged_fast_reply_is_accepted(ids, length, rng):
    data = fast_reply([(id, rng.randbytes(length)) for id in ids])
    block = protocol2.FastReplyBlock(ids, length)
    assert block.decode(data)[:, 1:].shape == (len(ids), length)
    damaged = bytearray(data)
    damaged[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    assert block.decode(bytes(damaged)) is None
    # Undamaged, but of other servos: a late answer to another request.
    others = fast_reply([((id + 1) % 253, rng.randbytes(length)) for id in ids])
    assert block.decode(others) is None


@given(st.integers(1, 12), st.integers(1, 30))
def test_sizes_on_the_wire(n, length):
    ids = range(1, n + 1)
    assert (
        protocol2.sync_read_size(n, length)
        == len(protocol2.sync_read(132, length, ids)) + protocol2.ReplyBlock(ids, length).size
    )
    assert (
        protocol2.sync_read_size(n, length, True)
        == len(protocol2.sync_read(132, length, ids, True)) + protocol2.FastReplyBlock(ids, length).size
    )
    assert (
        protocol1.bulk_read_size(n, length)
        == len(protocol1.bulk_read([(k, 36, length) for k in ids])) + protocol1.ReplyBlock(ids, length).size
    )


@given(st.lists(ids, min_size=1, max_size=8, unique=True), st.sampled_from([1, 2, 4]), st.integers(0, 255), st.data())
def test_prepared_writes_equal_built_ones(ids, size, address, data):
    values = np.array(
        data.draw(
            st.lists(
                st.integers(-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1) | st.just(-1),
                min_size=len(ids),
                max_size=len(ids),
            )
        )
    )
    for codec in PROTOCOLS:
        frame = codec.SyncWriteFrame(address, size, ids)
        for sent in (values, -1 - values, values):
            expected = {
                id: int(value).to_bytes(size, "little", signed=True) for id, value in zip(ids, sent, strict=True)
            }
            assert frame.encode(sent) == codec.sync_write(address, size, expected)


def test_prepared_writes_are_stuffed_where_goals_hold_the_pattern():
    frame = protocol2.SyncWriteFrame(116, 4, [1, 252])
    for goals in ([0x07FDFFFF, 0x12345678], [0, -131073], [5, 6]):  # FF FF FD 07; FF FF FD FF; none
        data = {id: struct.pack("<i", goal) for id, goal in zip((1, 252), goals, strict=True)}
        assert frame.encode(np.array(goals)) == protocol2.sync_write(116, 4, data)
    assert PATTERN + b"\xfd\x07" in frame.encode(np.array([0x07FDFFFF, 0]))


def test_instructions_of_unequal_sizes_are_refused():
    for codec in PROTOCOLS:
        with pytest.raises(ValueError, match="4 bytes for each id"):
            codec.sync_write(116, 4, {1: b"1234", 2: b"12"})
    assert protocol2.bulk_write([(1, 64, b"\1")])[8:-2] == b"\x01\x40\x00\x01\x00\x01"
    assert protocol2.bulk_read([(1, 64, 2)])[8:-2] == b"\x01\x40\x00\x02\x00"
    assert protocol1.bulk_read([(1, 36, 8)])[4:-1] == b"\x92\x00\x08\x01\x24"
