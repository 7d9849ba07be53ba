"""FT-300: golden frames, what is found in damaged streams, who the sensor says it is."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.emulation.modbus_slave import checksum
from hardware.ft300 import protocol
from hardware.ft300.protocol import FRAME_LENGTH, HEADER, decode_frame, encode_frame, identity, register_wrench
from hardware.link.modbus_rtu import ReplyDecoder, frame
from hardware.wrench.stream import FrameDecoder

GOLDEN = bytes.fromhex("204ED204C9FDC4220A00ECFF1E00C76A")
WRENCH = [12.34, -5.67, 89.00, 0.010, -0.020, 0.030]


def decoder():
    return FrameDecoder(HEADER, FRAME_LENGTH, decode_frame)


def test_golden_frames():
    """F1. The second request is the one that a manual edition prints with a wrong CRC."""
    np.testing.assert_allclose(decode_frame(GOLDEN), WRENCH, atol=1e-12)
    assert encode_frame(WRENCH) == GOLDEN
    assert GOLDEN[:-2] + checksum(GOLDEN[:-2]) == GOLDEN  # by the emulator's own CRC
    assert frame(9, protocol.WRENCH).hex().upper() == "090300B4000684A6"
    assert frame(9, protocol.START_STREAM)[:9].hex() == "0910019a0001020200"
    assert protocol.JAM == b"\xff" * 50


def test_registers():
    registers = [0x04D2, 0xFDC9, 0x22C4, 0x000A, 0xFFEC, 0x001E]
    np.testing.assert_allclose(register_wrench(registers), WRENCH, atol=1e-12)
    reply = bytes((9, 3, 12)) + b"".join(r.to_bytes(2, "big") for r in registers)
    assert ReplyDecoder(9, protocol.WRENCH).feed(reply + checksum(reply)) == tuple(registers)
    who = identity([0x4646, 0x5402, 0x0100], [0x4654, 0x5300, 1234, 0])
    assert (who.firmware, who.serial) == ("FFT-2.1.0", "FTS-1234")
    assert identity([0x4646, 0x5402, 0x0100], [0x4654, 0x5300, 1, 2]).serial == "FTS-131073"
    assert identity([0x46FF, 0, 0], [0, 0, 0, 0]).serial == ""


def test_header_within_data_is_no_header():
    """Fx = 200.00 N is 4E20: the bytes 20 4E are in every such frame."""
    inside = encode_frame([200.0, 200.0, 200.0, 0.0, 0.0, 0.0])
    assert inside.count(HEADER) > 1
    found = decoder()
    wrenches = found.feed(inside[3:] + inside * 5)
    assert len(wrenches) == 5 and found.resyncs == 1
    np.testing.assert_allclose(wrenches, np.tile([200.0, 200.0, 200.0, 0, 0, 0], (5, 1)))


COUNTS = st.integers(-32768, 32767)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[COUNTS] * 6), min_size=1, max_size=8), st.data())
def test_whole_frames_are_found_among_garbage_in_any_pieces(frames, data):
    """No frame is lost to garbage before it, unless the garbage happens to hold a header in its last 15 bytes."""
    garbage = data.draw(
        st.lists(
            st.binary(max_size=20).filter(lambda b: 0x20 not in b and 0x4E not in b),
            min_size=len(frames),
            max_size=len(frames),
        )
    )
    sent = [np.array(c) / protocol.COUNTS for c in frames]
    stream = b"".join(g + encode_frame(w) for g, w in zip(garbage, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    found, wrenches = decoder(), []
    for a, b in zip([0, *cuts], [*cuts, len(stream)]):
        wrenches += found.feed(stream[a:b])
    assert len(wrenches) == len(sent)
    np.testing.assert_allclose(wrenches, sent, atol=1e-12)
    assert found.pending == 0 and found.resyncs == sum(map(bool, garbage))


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[COUNTS] * 6), st.integers(0, FRAME_LENGTH - 1), st.integers(1, 255))
def test_a_damaged_byte_is_never_accepted_and_costs_no_second_frame(counts, at, change):
    sent = encode_frame(np.array(counts) / protocol.COUNTS)
    damaged = bytearray(sent)
    damaged[at] ^= change
    found = decoder()
    wrenches = found.feed(bytes(damaged) + GOLDEN * 2)
    # Resumes within two frames: a header inside the damaged one may hide the first behind it.
    assert 1 <= len(wrenches) <= 2
    np.testing.assert_allclose(wrenches, np.tile(WRENCH, (len(wrenches), 1)), atol=1e-12)


def test_a_million_random_bytes():
    """Neither raise nor yield a frame beyond checksum chance: 1e6 / 2^16 headers / 2^16 CRCs."""
    found, data = decoder(), np.random.default_rng(0).bytes(1_000_000)
    wrenches = [w for k in range(0, len(data), 4096) for w in found.feed(data[k : k + 4096])]
    assert wrenches == [] and found.pending < FRAME_LENGTH and found.crc_errors > 5
    # Nor does a stream of headers alone, where every byte might begin a frame.
    assert found.feed(HEADER * 5000) == [] and found.pending <= FRAME_LENGTH
    # A frame that the header's beginnings in front of it still hide is found with the one that follows.
    assert len(found.feed(GOLDEN * 2)) >= 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=10))
def test_any_bytes(pieces):
    found = decoder()
    for piece in pieces:
        for wrench in found.feed(piece):
            assert np.isfinite(wrench).all()
    assert found.pending < FRAME_LENGTH


@settings(max_examples=50, deadline=None)
@given(*[st.lists(st.integers(0, 65535), min_size=4, max_size=4)] * 2)
def test_any_identity_is_printable(firmware, serial):
    who = identity(firmware, serial)
    assert (who.serial + who.firmware).isprintable()
