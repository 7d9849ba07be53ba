"""Golden frames, both codecs against each other, and decoders that nothing breaks."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.ability_hand.emulator import AbilityHandEmulator, pack, unpack
from hardware.ability_hand.protocol import FrameFinder, Reply, command, decode, query, stuff

DEGREES = np.array([10.0, 20.0, 30.0, 40.0, 50.0, -60.0])
angles = st.lists(st.floats(-100.0, 100.0), min_size=6, max_size=6)


def test_a_command_by_hand():
    """The frame is 50 | 10 + mode | 6 x int16 LE at 32767/150 per degree | -sum. 10 deg is 2184.47 = 0888 and so on."""
    counts = [2184, 4369, 6553, 8738, 10922, -13107]
    payload = bytes((0x50, 0x12)) + struct.pack("<6h", *counts)
    frame = bytes((0x7E,)) + payload + bytes((-sum(payload) & 0xFF,)) + bytes((0x7E,))
    assert command(np.radians(DEGREES), Reply.CURRENT_VELOCITY) == frame
    assert frame.hex() == "7e5012880811119919 22 22aa2acdcc897e".replace(" ", "")


def test_flags_in_the_payload_are_escaped():
    assert stuff(bytes.fromhex("50107E7D00")) == bytes.fromhex("7E50107D5E7D5D007E")
    assert query(Reply.CURRENT_TOUCH) == bytes.fromhex("7E50A0107E")
    assert FrameFinder().feed(bytes.fromhex("7E50107D5E7D5D007E")) == [bytes.fromhex("50107E7D00")]


def test_what_may_not_be_asked_for_is_clipped():
    assert command(np.radians([200.0] * 6), 0) == command(np.radians([100.0] * 5 + [0.0]), 0)
    assert command(np.radians([-5.0] * 6), 0) == command(np.radians([0.0] * 5 + [-5.0]), 0)


def feedback_payload(reply, position=(0,) * 6, second=(0,) * 6, third=(0,) * 6, touch=(0,) * 30, status=0):
    body = bytes((0x10 + reply,)) + b"".join(struct.pack("<hh", a, b) for a, b in zip(position, second, strict=True))
    if reply == 2:
        body += struct.pack("<6h", *third)
    else:
        body += b"".join((a | b << 12).to_bytes(3, "little") for a, b in zip(touch[::2], touch[1::2], strict=True))
    body += bytes((status,))
    return body + bytes((-sum(body) & 0xFF,))


def test_both_sizes_of_reply():
    payload = feedback_payload(
        0, position=(32767, -32767, 0, 0, 0, 0), second=(621, 0, 0, 0, 0, 0), touch=range(30), status=1
    )
    assert len(payload) == 72
    feedback = decode(payload)
    assert np.degrees(feedback.position[:2]) == pytest.approx([150.0, -150.0])
    assert (
        feedback.current[0] == pytest.approx(621 / 620.606079)
        and np.isnan(feedback.velocity).all()
        and feedback.protection == 1
    )
    assert (
        feedback.touch.shape == (5, 6) and feedback.touch[0, 0] == 0.0 and np.all(np.diff(feedback.touch.ravel()) > 0)
    )
    # The maker's formula at a reading of 2048: 1.65 V of 3.3 V.
    touch = decode(feedback_payload(1, touch=[2048] * 30)).touch
    assert touch == pytest.approx(np.full((5, 6), 121591.0 / (33000.0 / 1.65 + 10000.0) + 0.878894))
    payload = feedback_payload(2, third=(4 * 32767 // 30, 0, 0, 0, 0, -437))
    assert len(payload) == 39
    feedback = decode(payload)
    assert np.degrees(feedback.velocity[0]) == pytest.approx(100.0, abs=0.03) and np.isnan(feedback.touch).all()


@given(st.integers(0, 2), st.integers(0, 71), st.integers(1, 255))
def test_no_damaged_byte_passes(reply, at, flip):
    payload = bytearray(feedback_payload(reply, position=(1, 2, 3, 4, 5, 6)))
    payload[at % len(payload)] ^= flip
    assert decode(bytes(payload)) is None


@given(st.binary(max_size=80))
def test_no_payload_breaks_the_decoder(payload):
    decode(payload)
    decode(payload + bytes((-sum(payload) & 0xFF,)))


@given(st.binary(max_size=72), st.binary(max_size=100), st.lists(st.integers(1, 30), max_size=20))
def test_frames_are_found_in_any_company_and_any_pieces(payload, before, pieces):
    finder, stream, at, found = FrameFinder(), before + b"\x7e" + stuff(payload), 0, []
    for length in [*pieces, len(stream)]:
        found += finder.feed(stream[at : at + length])
        at += length
    assert not payload or found[-1] == payload
    assert len(stuff(payload)) <= 2 * len(payload) + 2 and 0x7E not in stuff(payload)[1:-1]


def test_a_million_random_bytes():
    rng, finder, accepted = random.Random(3), FrameFinder(), 0
    for _ in range(1000):
        for payload in finder.feed(rng.randbytes(1000)):
            accepted += decode(payload) is not None
            assert len(payload) <= 72
    # About 4000 flags; a frame needs a header, one of two lengths and a sum: 15/256 * 1/256 of those 72 or 39 long.
    assert accepted <= 2


@given(angles)
def test_the_hand_understands_what_the_driver_says(degrees):
    clipped = np.clip(degrees, [0.0] * 5 + [-100.0], [100.0] * 5 + [0.0])
    frame = command(np.radians(degrees), Reply.VELOCITY_TOUCH)
    payload = unpack(frame.strip(b"\x7e"))
    assert payload[:2] == [0x50, 0x11]
    counts = struct.unpack("<6h", bytes(payload[2:]))
    assert np.array(counts) * 150 / 32767 == pytest.approx(clipped, abs=0.5 * 150 / 32767 + 1e-9)


@given(st.lists(st.floats(-100.0, 100.0), min_size=6, max_size=6), st.sampled_from(Reply))
def test_the_driver_understands_what_the_hand_says(wire, degrees, reply):
    hand = AbilityHandEmulator(wire(460800))
    hand.angles, hand.speeds = list(degrees), list(reversed(degrees))
    (payload,) = FrameFinder().feed(pack(hand._feedback(0x10 + reply, reply)))
    feedback = decode(payload)
    assert feedback.reply is reply
    assert np.degrees(feedback.position) == pytest.approx(degrees, abs=0.003)
    if reply != Reply.CURRENT_TOUCH:
        assert np.degrees(feedback.velocity) == pytest.approx(hand.speeds, abs=0.02)
    if reply != Reply.VELOCITY_TOUCH:
        assert feedback.current == pytest.approx(hand.currents, abs=0.001)


def test_the_hand_answers_its_own_address_and_whole_commands_only(wire):
    hand = AbilityHandEmulator(wire(460800))
    good = command(np.radians(DEGREES), Reply.CURRENT_TOUCH)
    for frame, answers in (
        (good, 1),
        (good + good[1:], 2),
        (command([0] * 6, 0, address=0x51), 0),
        (good[:10] + b"\x7e", 0),
        (query(Reply.CURRENT_VELOCITY), 1),
        (stuff(bytes((0x50, 0x1D, 0x93))), 0),
    ):
        hand.port.coming, hand.port.gone = frame, []
        hand.step(0.0)
        assert len(hand.port.gone) == answers, frame.hex()
    assert hand.damaged == 1 and hand.unknown == 1
