"""The driver's SCIP codec on published examples, damaged streams and noise, and beside the emulator's own codec."""

import math
import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urg_bench import GEOMETRY

from hardware.urg import protocol, sensor
from hardware.urg.protocol import (
    BadReply,
    Geometry,
    ReplyStream,
    Window,
    checksum,
    decode_number,
    describe,
    ranges,
    reply_size,
    request,
)

#: C-42-03320B and the maker's pages: entries of VV, PP and II with their sums, the semicolon excluded
PUBLISHED = [
    b"VEND:Hokuyo Automatic Co.,Ltd.;[", b"PROD:SOKUIKI Sensor URG-04LX;[", b"FIRM:3.1.00(18/Jan./2007);`", b"PROT:SCIP 2.0;N",
    b"SERI:H0614967;V", b"MODL:URG-04LX(Hokuyo Automatic Co.,Ltd.);N", b"DMIN:20;4", b"DMAX:5600;_", b"ARES:1024;\\", b"AMIN:44;7",
    b"AMAX:725;o", b"AFRT:384;6", b"SCAN:600;e", b"LASR:OFF;7", b"SCSP:Initial(600[rpm])<-Default setting by user;A",
    b"SBPS:19200[bps]<-Default setting by user;A", b"STAT:Sensor works well.;8",
]  # fmt: skip
FULL = Window(44, 725)
PP = b"PP\n00P\n" + b"\n".join(PUBLISHED[5:13]) + b"\n\n"


def scan_reply(distances, window=FULL, timer=1234, remaining=0):
    """One scan of a stream, by the emulator's codec."""
    echo = window.stream().decode().strip()[:-2] + f"{remaining:02}"
    return sensor.reply(echo, "99", sensor.data_lines(timer, np.asarray(distances), window.width))


@pytest.fixture(scope="module")
def distances():
    return np.random.default_rng(3).integers(0, 5600, FULL.count)


# ---- vectors (U1) --------------------------------------------------------------------------------


@pytest.mark.parametrize("value, characters", [(1234, b"CB"), (5432, b"1Dh"), (16_000_000, b"m2@0")])
def test_numbers_of_the_manual(value, characters):
    assert decode_number(characters) == value
    assert sensor.encode(value, len(characters)) == characters


@pytest.mark.parametrize("line", PUBLISHED)
def test_published_sums_exclude_the_semicolon(line):
    assert checksum(line[:-2]) == line[-1]
    assert sensor.info_line(line[:-2].decode()) == line
    if checksum(line[:-1]) != line[-1]:
        with_semicolon = line[:-1] + bytes([checksum(line[:-1])])
        stream = ReplyStream()
        assert stream.feed(b"VV\n00P\n" + with_semicolon + b"\n\n") == [] and stream.bad_sums == 1


def test_golden_frames():
    assert request("QT") == b"QT\n" and request("BM", string="hello") == b"BM;hello\n"
    assert FULL.stream() == b"MD0044072501000\n" and FULL.latest() == b"GD0044072501\n"
    assert Window(10, 750, 3, 9, 2).stream(7) == b"MS0010075003907\n"
    assert (reply_size(FULL), reply_size(Window(44, 725, width=2))) == (
        2137,
        1435,
    )  # as the specification computes them
    assert sensor.reply("QT", "00") == b"QT\n00P\n\n"
    # Three points by hand: 5432 is 1Dh; 1Dh1Dh1Dh sums to 3 (0x31 + 0x44 + 0x68) = 663, and 663 mod 64 = 23.
    frame = b"MD0044004601000\n99b\nm2@0" + bytes([checksum(b"m2@0")]) + b"\n1Dh1Dh1Dh" + bytes([0x30 + 23]) + b"\n\n"
    assert scan_reply([5432] * 3, Window(44, 46), 16_000_000) == frame
    (reply,) = ReplyStream().feed(frame)
    assert reply.time == 16_000_000 and reply.distances.tolist() == [5432] * 3 and reply.status == "99"
    with pytest.raises(ValueError, match="16 printable"):
        request("QT", string="x" * 17)
    with pytest.raises(BadReply, match="six-bit"):
        decode_number(b"~0")


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 21, 22, 32, 33, 64, 128, 682, 769])
def test_both_codecs_agree(count, width):
    values = np.random.default_rng(count).integers(0, 64**width, count)
    window = Window(0, count - 1, width=width)
    frame = scan_reply(values, window)
    assert len(frame) == reply_size(window)
    (reply,) = ReplyStream().feed(frame)
    assert reply.distances.tolist() == values.tolist() and reply.answers(window.stream())


def test_geometry_is_that_of_the_sensor():
    assert Geometry.from_info(ReplyStream().feed(PP)[0].info) == GEOMETRY
    assert GEOMETRY.steps(-math.pi, math.pi) == (44, 725)
    assert GEOMETRY.angle(44) == pytest.approx(-2.0862, abs=5e-5) and GEOMETRY.angle(725) == pytest.approx(
        2.0923, abs=5e-5
    )
    for first, last in ((100, 384), (384, 384), (200, 600)):
        assert GEOMETRY.steps(GEOMETRY.angle(first), GEOMETRY.angle(last)) == (first, last)
    with pytest.raises(ValueError, match="widen"):
        GEOMETRY.steps(2.5, 3.0)
    for broken in (
        dict(),
        dict.fromkeys(("DMIN", "DMAX", "ARES", "AMIN", "AMAX", "AFRT", "SCAN", "MODL"), "x"),
        dict.fromkeys(("DMIN", "DMAX", "ARES", "AMIN", "AMAX", "AFRT", "SCAN", "MODL"), "0"),
    ):
        with pytest.raises(BadReply):
            Geometry.from_info(broken)


def test_ranges_by_rep_117():
    values = np.array([0, 1, 7, 19, 20, 1000, 4094, 4095, 5600, 5601])
    full = ranges(values, GEOMETRY)
    assert np.isnan(full[:4]).all() and full.dtype == np.float32
    np.testing.assert_allclose(full[4:9], [0.02, 1.0, 4.094, 4.095, 5.6], rtol=1e-6)
    assert full[9] == np.inf
    assert np.isinf(ranges(values[7:8], GEOMETRY, width=2)).all()
    other = Geometry("UHG-08LX", 100, 8000, 1024, 0, 768, 384, 900)
    assert ranges(np.array([50, 8001]), other).tolist() == [-math.inf, math.inf]


# ---- status words (U3) ---------------------------------------------------------------------------


def test_every_status_has_words():
    general = ["0A", "0B", "0C", "0D", "0E", "0F", "0G", "0H", "0I", "E"]
    cases = [(command, status) for command in ("VV", "MD", "QT") for status in general]
    cases += [(c, f"{n:02}") for c in ("MD", "MS") for n in (*range(1, 8), *range(21, 50), *range(50, 99))]
    cases += [(c, s) for c in ("GD", "GS") for s in ("01", "02", "03", "04", "05", "10", "50", "97")]
    counts = {"BM": 2, "TM": 4, "SS": 4, "CR": 4, "HS": 3, "DB": 5}
    cases += [(c, f"{k:02}") for c, n in counts.items() for k in range(1, n + 1)]
    assert [case for case in cases if "unknown status" in describe(*case)] == []
    assert describe("MD", "99") == describe("QT", "00") == "accepted"
    assert "unknown status 77" in describe("VV", "77")


# ---- damaged streams -----------------------------------------------------------------------------


def test_any_cut_of_the_stream_gives_the_same_replies(distances):
    stream = PP + b"MD0044072501000\n00P\n\n" + scan_reply(distances) + b"QT\n00P\n\n"
    rng = random.Random(1)
    for _ in range(20):
        reader, replies, rest = ReplyStream(), [], stream
        while rest:
            n = rng.randint(1, 700)
            replies += reader.feed(rest[:n])
            rest = rest[n:]
        assert [r.command for r in replies] == ["PP", "MD", "MD", "QT"] and reader.bad_sums == reader.resyncs == 0
        assert (replies[2].distances == distances).all()


def test_no_change_of_one_byte_of_the_data_passes(distances):
    frame = scan_reply(distances[:70], Window(44, 113))
    begin, rng = frame.index(b"99b"), random.Random(2)
    for at in range(begin, len(frame) - 1):
        for bit in (0x01, 0x10, 0x40, 0x80, rng.randrange(1, 256)):
            changed = frame[:at] + bytes([frame[at] ^ bit]) + frame[at + 1 :]
            reader = ReplyStream()
            for reply in reader.feed(changed + frame):
                assert (reply.distances == distances[:70]).all() and reply.time == 1234


def test_each_lost_byte_costs_at_most_its_own_scan_and_the_next(distances):
    frames = [scan_reply(distances[:70], Window(44, 113), timer) for timer in (1, 2, 3)]
    for at in range(len(frames[0])):
        reader = ReplyStream()
        replies = reader.feed(frames[0][:at] + frames[0][at + 1 :] + frames[1] + frames[2])
        assert [r.time for r in replies] in ([2, 3], [3], [1, 2, 3])
        # A lost blank line merges two replies: the second is still there.
        assert replies[-1].time == 3 and (at < len(frames[0]) - 2 or replies[0].time == 2)
    for at in range(len(frames[0])):  # a line feed too many
        reader = ReplyStream()
        assert [r.time for r in reader.feed(frames[0][:at] + b"\n" + frames[0][at:] + frames[1] + frames[2])][-2:] == [
            2,
            3,
        ]


def test_damage_is_counted_where_it_happened(distances):
    frame, reader = scan_reply(distances), ReplyStream()
    assert len(reader.feed(b"\x00\xffnoise" + frame)) == 1 and (reader.bad_sums, reader.resyncs) == (0, 1)
    assert reader.feed(frame[:500] + b"!" + frame[501:]) == [] and (reader.bad_sums, reader.resyncs) == (1, 1)
    assert reader.feed(b"complete nonsense\n\n") == [] and (reader.bad_sums, reader.resyncs) == (1, 2)
    assert len(reader.feed(frame)) == 1


BAD = {
    "status sum": b"QT\n00Q\n\n",
    "SCIP 1.1 with data": b"QT\nE\nmore\n\n",
    "scan without data": b"MD0044072501000\n99b\n\n",
    "VV without data": b"VV\n00P\n\n",
    "data with an error": b"MD0044072501000\n05U\n00000\n\n",
    "data of QT": b"QT\n00P\n0000\x30\n\n",
    "time stamp sum": b"TM1\n00P\n0000q\n\n",
    "time stamp digits": b"TM1\n00P\n\x20\x20\x20\x20\x30\n\n",
    "two times": b"TM1\n00P\n00000\n00000\n\n",
    "echo of no request": b"MD44\n99b\n00000\n000\x30\n\n",
    "echo of no points": b"MD0500040001000\n99b\n00000\n000\x30\n\n",
    "entry without semicolon": b"VV\n00P\nVEND:Hokuyo[\n\n",
    "entry too short": b"VV\n00P\n;\n\n",
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_sensor_sends_is_refused(what):
    reader = ReplyStream()
    assert reader.feed(BAD[what]) == [] and reader.bad_sums == 1
    assert len(reader.feed(b"QT\n00P\n\n")) == 1


def test_a_million_random_bytes():
    data, reader = random.Random(4).randbytes(1_000_000), ReplyStream()
    begin = time.process_time()
    replies = [reply for at in range(0, len(data), 1000) for reply in reader.feed(data[at : at + 1000])]
    assert replies == [] and time.process_time() - begin < 5.0
    assert len(reader._buffer) <= ReplyStream.LIMIT + 1000
    assert len(reader.feed(b"\n\nQT\n00P\n\n")) == 1


ALPHABET = st.sampled_from(
    [
        b"\n",
        b"\n\n",
        b"MD0044004601000",
        b"99b",
        b"00P",
        b"QT",
        b"VV",
        b"E",
        b"TM1",
        b"0000",
        b"000000000",
        b"0",
        b";",
        b"SCIP2.0",
        PP,
        scan_reply([100, 200, 300], Window(44, 46)),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=80), ALPHABET), max_size=20))
def test_fuzz_neither_raises_nor_accepts_a_wrong_sum(pieces):
    reader = ReplyStream()
    for piece in pieces:
        for reply in reader.feed(piece):
            if reply.distances is not None:  # whatever passes encodes to what it was read from
                lines = sensor.data_lines(reply.time, reply.distances, 3 if reply.echo[1] == "D" else 2)
                assert sensor.reply(reply.echo, reply.status, lines) in b"".join(pieces)
    assert len(reader._buffer) <= ReplyStream.LIMIT + 5000


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 681), st.integers(0, 255), st.data())
def test_fuzz_two_wrong_bytes_of_one_line_are_found_or_change_nothing_outside_it(point, value, data):
    """The sum has six bits: two changes can cancel, then only the points of that line may differ."""
    true = np.arange(682) + 1000
    frame = bytearray(scan_reply(true))
    block = 3 * point // 64
    begin = frame.index(b"\n", frame.index(b"99b") + 4) + 1 + 66 * block
    for at in data.draw(st.lists(st.integers(0, 63), min_size=2, max_size=2, unique=True)):
        if begin + at < len(frame) - 2 and value != 0x0A:
            frame[begin + at] = value
    for reply in ReplyStream().feed(bytes(frame)):
        wrong = np.flatnonzero(reply.distances != true)
        assert ((wrong + 1) * 3 > 64 * block).all() and (wrong * 3 < 64 * (block + 1)).all()


def test_decoding_is_several_times_cheaper_than_hokuyolx(distances):
    from hokuyolx import HokuyoLX

    frame = scan_reply(distances)

    class Fed(HokuyoLX):
        def __init__(self):  # no connection: the bytes are handed to its decoder
            self._tn, self.convert_time = 0, False

    theirs = Fed()

    def rival():
        lines = frame[:-2].decode().split("\n")
        theirs._check_sum(lines[1])
        theirs._convert2ts(lines[2])
        return theirs._process_scan_data(lines[3:], False)

    reader = ReplyStream()
    assert (rival() == distances).all() and (reader.feed(frame)[0].distances == distances).all()

    def cpu(function, n):
        begin = time.process_time()
        for _ in range(n):
            function()
        return (time.process_time() - begin) / n

    ours = min(cpu(lambda: reader.feed(frame), 200) for _ in range(3))
    rivals = min(cpu(rival, 40) for _ in range(3))
    print(f"decode of 682 points: {1e6 * ours:.0f} us, hokuyolx {1e6 * rivals:.0f} us")
    assert rivals > 4.0 * ours


def test_nothing_accumulates(distances):
    """U10, the decoder's part: memory does not depend on how many scans there were."""
    import tracemalloc

    frame, reader = scan_reply(distances), ReplyStream()
    damaged = frame[:900] + b"\x00" + frame[901:]

    def many(n):
        for _ in range(n):
            for reply in reader.feed(frame + damaged[:-1]):
                ranges(reply.distances, GEOMETRY)

    def held():
        """By the decoder's own lines: threads that other tests left behind allocate as well [bytes]."""
        own = tracemalloc.Filter(True, "*/hardware/urg/*")
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([own]).traces)

    many(50)
    tracemalloc.start()
    try:
        many(50)
        before = held()
        many(1000)
        growth = held() - before
    finally:
        tracemalloc.stop()
    assert growth < 20_000


def test_the_codecs_share_no_code():
    import ast
    from pathlib import Path

    for module, other in ((protocol, "hardware.urg.sensor"), (sensor, "hardware.urg.protocol")):
        tree = ast.parse(Path(module.__file__).read_text())
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == other]
