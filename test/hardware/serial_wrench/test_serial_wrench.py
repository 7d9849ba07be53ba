"""Sensors of a described format: binary and text, every checksum, descriptions that cannot work, and the link."""

import binascii

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.emulation.process import EmulatorProcess
from hardware.link import Backoff, State
from hardware.serial_wrench.device import SerialWrenchDevice
from hardware.serial_wrench.emulator import SerialWrenchEmulator
from hardware.serial_wrench.protocol import AXES, CHECKSUMS, DescriptionError, describe, load_description

WRENCH = np.array([1.25, -2.5, 40.0, 0.125, -0.25, 0.5])
PATIENCE = 90.0
BINARY = {
    "model": "Example F/T",
    "baud": 115200,
    "rate": 200,
    "start": "S\r",
    "stop": "X\r",
    "rated": [100, 100, 200, 10, 10, 10],
    "header": "AA 55",
    "fields": [{"name": "counter", "type": "u8"}]
    + [{"name": axis, "type": "i16", "endian": "big", "scale": 0.0078125} for axis in AXES],
    "checksum": {"type": "crc16-ccitt", "endian": "big"},
}
NUMBER = r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
TEXT = {
    "model": "Printer",
    "baud": 57600,
    "rate": 100,
    "scale": {"tx": 0.001, "ty": 0.001, "tz": 0.001},
    "pattern": "^" + r"\s+".join(f"(?P<{axis}>{NUMBER})" for axis in AXES) + "$",
}


class NoPort:
    """An emulator's frames without a line."""

    stats: dict = {}

    def close(self):
        pass


def frame(described, wrench=WRENCH):
    emulator = SerialWrenchEmulator(NoPort(), described)
    emulator.source.set(wrench=list(wrench))
    return emulator.frame(0.0)


def test_checksums_against_published_values():
    """The check values of the CRC catalogue for "123456789"; CCITT also against binascii, whose register starts as it is told."""
    data = b"123456789"
    check = {"none": 0, "sum8": 0xDD, "xor8": 0x31, "crc16-modbus": 0x4B37, "crc16-ccitt": 0x29B1}
    assert {name: function(data) for name, (_, function) in CHECKSUMS.items()} == check
    assert binascii.crc_hqx(data, 0xFFFF) == check["crc16-ccitt"]


def test_golden_frame():
    """By hand: AA 55, counter 0, then 160, -320, 5120, 16, -32, 64 in 1/128, and their CRC."""
    body = bytes.fromhex("AA55 00 00A0 FEC0 1400 0010 FFE0 0040".replace(" ", ""))
    golden = body + binascii.crc_hqx(body, 0xFFFF).to_bytes(2, "big")
    description = describe(BINARY)
    assert frame(BINARY) == golden and description.frame_length == 17
    np.testing.assert_array_equal(description.decode_frame(golden), WRENCH)
    assert description.decode_frame(golden[:-1] + b"\x00") is None


@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("kind", CHECKSUMS)
@pytest.mark.parametrize("type_", ["i32", "f32", "f64"])
def test_driver_and_emulator_agree(kind, endian, header, type_):
    described = {
        **BINARY,
        "checksum": {"type": kind, "endian": endian, "header": header},
        "fields": [{"name": axis, "type": type_, "endian": endian, "scale": 2.0**-10} for axis in AXES],
    }
    decoder = describe(described).decoder()
    sent = frame(described)
    wrenches = decoder.feed(b"\x00\xaa" + sent[:5]) + decoder.feed(sent[5:] + sent)
    np.testing.assert_array_equal(wrenches, [WRENCH, WRENCH])
    assert decoder.resyncs == 1


def test_text_lines():
    decoder = describe(TEXT).decoder()
    line = frame({**TEXT})
    assert line == b"1.25 -2.5 40 125 -250 500\r\n"
    # The first, partial line is forgiven; a broken one and an empty one are not taken for wrenches.
    wrenches = decoder.feed(b"40 125 -250 500\r\n" + line[:7]) + decoder.feed(
        line[7:] + b"1.25 -2.5 4x0 125 -250 500\r\n\r\n" + line
    )
    np.testing.assert_allclose(wrenches, [WRENCH, WRENCH])
    assert decoder.crc_errors == 1
    assert decoder.feed(b"9" * 5000) == [] and decoder.pending <= 512
    nan = describe({**TEXT, "pattern": " ".join(f"(?P<{a}>\\S+)" for a in AXES)}).decoder()
    assert nan.feed(b"1 2 3 4 5 6\n1 2 nan 4 5 6\n1 2 3 4 5 inf\n1 2 3 4 5 six\n") != [] and nan.crc_errors == 3


@pytest.mark.parametrize(
    "change, what",
    [
        ({"baud": 0}, "baud"),
        ({"rate": None}, "rate"),
        ({"colour": 1}, "colour"),
        ({"header": "XYZ"}, "hexadecimal"),
        ({"header": ""}, "header"),
        ({"fields": [{"name": "fx"}]}, "type"),
        ({"fields": BINARY["fields"][:-1]}, "tz"),
        ({"fields": [*BINARY["fields"], BINARY["fields"][1]]}, "fx"),
        ({"fields": [{"name": "fx", "type": "i17"}]}, "i17"),
        ({"checksum": {"type": "md5"}}, "md5"),
        ({"checksum": {"type": []}}, "checksum"),
        ({"fields": [1]}, "needs name"),
        ({"rated": [1, 2]}, "six numbers"),
        ({"pattern": "x"}, "either"),
    ],
)
def test_descriptions_that_cannot_work(change, what):
    with pytest.raises(DescriptionError, match=what):
        describe({**BINARY, **change})


@pytest.mark.parametrize(
    "change, what",
    [({"pattern": "("}, "regular expression"), ({"pattern": "(?P<fx>.)"}, "fy"), ({"scale": {"mass": 2}}, "scale")],
)
def test_patterns_that_cannot_work(change, what, tmp_path):
    with pytest.raises(DescriptionError, match=what):
        describe({**TEXT, **change})
    (tmp_path / "broken.yaml").write_text("a: [")
    for path, why in ((tmp_path / "none.yaml", "cannot be read"), (tmp_path / "broken.yaml", "no YAML")):
        with pytest.raises(DescriptionError, match=why):
            load_description(path)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([BINARY, TEXT]), st.lists(st.binary(max_size=80), max_size=10))
def test_any_bytes(described, pieces):
    decoder = describe(described).decoder()
    for piece in pieces:
        for wrench in decoder.feed(piece):
            assert np.isfinite(wrench).all()


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*BINARY, *TEXT]),
        st.one_of(
            st.none(),
            st.integers(),
            st.text(max_size=5),
            st.lists(st.integers()),
            st.dictionaries(st.text(max_size=4), st.integers()),
        ),
    )
)
def test_any_description_is_used_or_refused(values):
    for base in (BINARY, TEXT):
        try:
            describe({**base, **values})
        except DescriptionError:
            pass


def test_a_million_random_bytes():
    decoder, data = describe(BINARY).decoder(), np.random.default_rng(1).bytes(1_000_000)
    wrenches = [w for k in range(0, len(data), 4096) for w in decoder.feed(data[k : k + 4096])]
    assert len(wrenches) <= 1 and decoder.crc_errors > 5


@pytest.mark.parametrize("described", [BINARY, TEXT], ids=["binary", "text"])
def test_the_link(described, tmp_path):
    path = tmp_path / "sensor.yaml"
    path.write_text(yaml.safe_dump(described))
    blocks = []
    with EmulatorProcess("serial_wrench", "--description", path, "--wrench", *WRENCH) as box:
        device = SerialWrenchDevice(
            box.link,
            load_description(path),
            on_sample=lambda block, t: blocks.append(block),
            backoff=Backoff(0.1, cap=0.3, seed=0),
            silence_timeout=0.03,
        )
        device.start()
        device.enable()
        try:
            assert device.wait_for(lambda: device.counters.samples > 50 and device.valid, PATIENCE), device.last_error
            box.inject("corrupt", p=0.1)
            n = device.counters.samples
            assert device.wait_for(lambda: device.counters.samples > n + 50, PATIENCE)
            box.clear()
            if "pattern" not in described:  # text without a checksum cannot know a changed digit
                np.testing.assert_array_equal(np.concatenate([b.wrench for b in blocks]) - WRENCH, 0.0)
                assert device.counters.crc_errors + device.counters.resyncs > 0
                assert device.disable(5.0) and not box.stats()["streaming"]
                device.enable()
                box.inject("saturate")
                assert device.wait_for(lambda: "saturation" in device.faults and not device.valid, PATIENCE)
                box.clear()
            box.inject("unplug", 0.3)
            assert device.wait_for(
                lambda: device.counters.reconnects == 1 and device.state is State.STREAMING and device.valid, PATIENCE
            )
            assert (np.diff(np.concatenate([b.t for b in blocks])) > 0).all()
        finally:
            device.close()
        assert device.state is State.CLOSED
