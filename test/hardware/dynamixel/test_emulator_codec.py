"""The emulator's own codec: the manual's packets, stuffing, and whatever else may arrive."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.dynamixel.emulated_codec import Receiver1, Receiver2, checksum, crc16, fast_status2, status1, status2

PATTERN = b"\xff\xff\xfd"


def packet2(id, instruction, parameters=b"", stuff=True):
    body = bytes((instruction,)) + parameters
    if stuff:
        body = body.replace(PATTERN, PATTERN + b"\xfd")
    head = b"\xff\xff\xfd\x00" + bytes((id,)) + (len(body) + 2).to_bytes(2, "little") + body
    return head + crc16(head).to_bytes(2, "little")


def packet1(id, instruction, parameters=b""):
    body = bytes((id, len(parameters) + 2, instruction)) + parameters
    return b"\xff\xff" + body + bytes((checksum(body),))


GOLDEN = [
    ("FFFFFD00 01 0300 01 194E", 1, 0x01, ""),
    ("FFFFFD00 FE 0900 82 8400 0400 01 02 CEFA", 254, 0x82, "8400 0400 01 02"),
    ("FFFFFD00 FE 1100 83 7400 0400 01 96000000 02 AA000000 8287", 254, 0x83, "7400 0400 01 96000000 02 AA000000"),
    ("FFFFFD00 01 0800 10 01 44584C22 B1DC", 1, 0x10, "01 44584C22"),
    ("FFFFFD00 01 0700 02 8400 0400 1D15", 1, 0x02, "8400 0400"),
    ("FFFFFD00 01 0900 03 7400 00020000 CA89", 1, 0x03, "7400 00020000"),
]


@pytest.mark.parametrize(("frame", "id", "instruction", "parameters"), GOLDEN)
def test_manuals_instruction_packets(frame, id, instruction, parameters):
    (request,) = Receiver2().feed(bytes.fromhex(frame))
    assert (request.id, request.instruction, request.parameters) == (id, instruction, bytes.fromhex(parameters))
    assert request.valid and not request.unstuffed
    assert packet2(id, instruction, bytes.fromhex(parameters)) == bytes.fromhex(frame)  # and the tests' own encoder


def test_manuals_status_packets():
    assert status2(1, 0, bytes.fromhex("060426")) == bytes.fromhex("FFFFFD00 01 0700 55 00 060426 655D")
    assert status2(1, 0, bytes.fromhex("A6000000")) == bytes.fromhex("FFFFFD00 01 0800 55 00 A6000000 8CC0")
    assert status2(1, 0) == bytes.fromhex("FFFFFD00 01 0400 55 00 A10C")
    assert status1(1, 0) == bytes.fromhex("FFFF 01 02 00 FC")  # Protocol 1.0, ping
    assert status1(1, 0, b"\x20") == bytes.fromhex("FFFF 01 03 00 20 DB")


def test_stuffing_is_removed_and_its_absence_noticed():
    data = b"\x66\x00" + PATTERN + b"\x07" + PATTERN + b"\xfd" + PATTERN
    (stuffed,) = Receiver2().feed(packet2(1, 3, data))
    assert stuffed.parameters == data and not stuffed.unstuffed
    bare = b"\x66\x00" + PATTERN + b"\x07"
    (unstuffed,) = Receiver2().feed(packet2(1, 3, bare, stuff=False))
    assert unstuffed.parameters == bare and unstuffed.unstuffed


def test_status_packets_are_stuffed():
    packet = status2(1, 0, b"\x01" + PATTERN + b"\x00")
    assert PATTERN + b"\xfd\x00" in packet and packet[5] == 4 + 5 + 1
    assert crc16(packet[:-2]).to_bytes(2, "little") == packet[-2:]


def test_fast_status_packet_carries_a_crc_after_each_servo():
    packet = fast_status2([(3, 0, b"\x01\x02"), (7, 0x80, b"\x03\x04")], 4)
    assert packet[:8] == b"\xff\xff\xfd\x00\xfe\x0d\x00\x55" and len(packet) == 7 + packet[5]
    assert packet[8:12] == b"\x00\x03\x01\x02" and packet[14:18] == b"\x80\x07\x03\x04"
    for end in (12, 18):
        assert crc16(packet[:end]).to_bytes(2, "little") == packet[end : end + 2]
    assert fast_status2([(3, 0, PATTERN)], 3)[10:13] == PATTERN  # its length was given before: no stuffing
    broken = fast_status2([(3, 0, b"\x01\x02"), (7, 0, None), (8, 0, b"\x05\x06")], 6)
    assert broken[8:12] == b"\x00\x03\x01\x02" and len(broken) == 14 and broken[5] > len(broken) - 7


@pytest.mark.parametrize("receiver", [Receiver1, Receiver2])
def test_a_damaged_packet_is_reported_and_the_next_one_found(receiver):
    make = packet1 if receiver is Receiver1 else packet2
    good = make(5, 2, b"\x24\x02" if receiver is Receiver1 else b"\x84\x00\x04\x00")
    bad = bytearray(good)
    bad[-3] ^= 0x40
    found = receiver().feed(bytes(bad) + good)
    assert [request.valid for request in found] == [False, True] and found[0].id == 5


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 252), st.integers(1, 0x20), st.binary(max_size=60), st.binary(max_size=9)), max_size=6
    ),
    st.integers(1, 20),
)
def test_packets_between_noise_come_through_in_any_pieces(packets, piece):
    """Noise without FF cannot swallow a packet; how the stream is cut does not matter."""
    stream = b"".join(
        noise.replace(b"\xff", b"\x00") + packet2(id, instruction, data) for id, instruction, data, noise in packets
    )
    receiver, found = Receiver2(), []
    for at in range(0, len(stream), piece):
        found += receiver.feed(stream[at : at + piece])
    assert [(r.id, r.instruction, r.parameters) for r in found if r.valid] == [p[:3] for p in packets]
    assert not any(r.unstuffed for r in found)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 252), st.integers(1, 0x20), st.binary(max_size=40)), max_size=6),
    st.integers(1, 20),
)
def test_protocol_1_in_any_pieces(packets, piece):
    stream = b"".join(packet1(*packet) for packet in packets)
    receiver, found = Receiver1(), []
    for at in range(0, len(stream), piece):
        found += receiver.feed(stream[at : at + piece])
    assert [(r.id, r.instruction, r.parameters) for r in found] == packets


@pytest.mark.parametrize(("receiver", "chance"), [(Receiver1, 1 / 256), (Receiver2, 1 / 65536)])
def test_noise_neither_raises_nor_passes_beyond_checksum_chance(receiver, chance):
    rng = random.Random(7)
    # headers in half of the noise, else nothing would ever get as far as a checksum
    parts = [
        rng.choice([b"\xff\xff", b"\xff\xff\xfd\x00\x01\x08\x00", b""]) + rng.randbytes(rng.randrange(40))
        for _ in range(20_000)
    ]
    noise, found, receiver = b"".join(parts), [], receiver()
    for at in range(0, len(noise), 512):
        found += receiver.feed(noise[at : at + 512])
    passed = sum(request.valid for request in found)
    assert len(found) > 1000
    assert passed <= 4.0 * chance * len(found) + 4  # some 5 sigma above what a checksum lets through
    assert len(receiver.buffer) < 2048


def test_what_no_servo_answers_is_passed_over():
    """Status packets, ids that nobody has, lengths that cannot be, half a packet."""
    ping = packet2(1, 1)
    for other in (
        packet2(7, 0x55, b"\0\1\2"),
        packet2(253, 1),
        b"\xff\xff\xfd\x00\x01\x02\x00",
        b"\xff\xff\xfd\x00\x01\xff\xff",
        b"\xff\xff\xfd",
    ):
        found = Receiver2().feed(other + ping)
        assert [(r.id, r.instruction, r.valid) for r in found] == [(1, 1, True)], other.hex()
    for other in (b"\xff\xff\xfd\x00", b"\xff\xff\x01\x01", b"\xff", b"\xff\xff\xff"):
        assert [(r.id, r.valid) for r in Receiver1().feed(other + packet1(1, 1))] == [(1, True)], other.hex()
    receiver = Receiver2()
    assert receiver.feed(ping[:6]) == [] and receiver.feed(ping[6:8]) == [] and len(receiver.feed(ping[8:])) == 1
