"""The FT-300 link and its emulator; Modbus by two independent clients."""

import os
import time

import minimalmodbus
import numpy as np
import pytest
import serial
from pymodbus.client import ModbusSerialClient

from hardware.emulation.process import EmulatorProcess
from hardware.ft300 import protocol
from hardware.ft300.device import Ft300Device
from hardware.ft300.protocol import FRAME_LENGTH, HEADER, decode_frame, register_wrench
from hardware.link import Backoff, State
from hardware.wrench.stream import FrameDecoder

WRENCH = np.array([12.34, -5.67, 89.00, 0.010, -0.020, 0.030])
PATIENCE = 90.0


@pytest.fixture(scope="module")
def process():
    with EmulatorProcess("ft300", "--wrench", *WRENCH, seed=2) as emulator:
        yield emulator


@pytest.fixture
def box(process):
    """As after power-up: streaming."""
    process.clear()
    process.set(wrench=WRENCH.tolist())
    process.inject("power_cycle", 0.01)
    while process.stats()["log"][-1][1] != "clear:power_cycle":
        time.sleep(0.01)
    yield process
    process.clear()


@pytest.fixture
def streaming(box):
    """start(**options) -> a device that streams, and its blocks: (block, host time, CPU time of the device's thread)."""
    devices, blocks = [], []

    def start(**options):
        device = Ft300Device(
            box.link,
            on_sample=lambda block, t: blocks.append((block, time.monotonic(), time.thread_time())),
            backoff=Backoff(0.1, cap=0.3, seed=0),
            **{"reply_timeout": 1.0, **options},
        )
        device.verdicts = []
        device.on_valid = lambda valid, reason, t: device.verdicts.append((valid, reason))
        devices.append(device)
        device.start()
        device.enable()
        assert device.wait_for(lambda: device.counters.samples > 20, PATIENCE), device.last_error
        return device, blocks

    yield start
    for device in devices:
        device.close()


def jam(port):
    """What the maker's client does: 50 x FF, then a pause."""
    port.write(b"\xff" * 50)
    time.sleep(0.2)
    port.reset_input_buffer()


def test_independent_modbus_clients(box):
    """F2, with clients that know Modbus and nothing of the sensor."""
    with serial.Serial(str(box.link), 19200, timeout=1.0) as port:
        data = port.read(64)  # it streams from power-up on
        assert len(FrameDecoder(HEADER, FRAME_LENGTH, decode_frame).feed(data)) >= 3
        jam(port)
        assert not box.stats()["streaming"]
    instrument = minimalmodbus.Instrument(str(box.link), 9)
    instrument.serial.baudrate, instrument.serial.timeout = 19200, 1.0
    np.testing.assert_allclose(register_wrench(instrument.read_registers(180, 6)), WRENCH)
    assert instrument.read_register(500) >> 8 == ord("F")
    assert instrument.read_registers(510, 5) == [0x4654, 0x5300, 1234, 0, 2024]
    assert instrument.read_register(192, signed=True) == 1000  # 1 g upwards
    with pytest.raises(minimalmodbus.IllegalRequestError):
        instrument.read_register(999)
    instrument.serial.close()
    client = ModbusSerialClient(str(box.link), baudrate=19200, timeout=1.0)
    assert client.connect()
    assert client.read_holding_registers(180, count=6, device_id=9).registers == [
        w & 0xFFFF for w in (1234, -567, 8900, 10, -20, 30)
    ]
    assert client.read_holding_registers(600, count=1, device_id=9).isError()
    assert not client.write_registers(410, [0x0200], device_id=9).isError()
    client.close()
    with serial.Serial(str(box.link), 19200, timeout=1.0) as port:
        wrenches = FrameDecoder(HEADER, FRAME_LENGTH, decode_frame).feed(port.read(160))
        assert len(wrenches) >= 8
        np.testing.assert_allclose(wrenches[-1], WRENCH)


def test_a_stream_under_way_is_jammed_and_taken_over(box, streaming):
    """F9, first half; and a sensor that a crashed client left silent works as well."""
    assert box.stats()["streaming"]
    device, blocks = streaming()
    assert box.stats()["jams"] >= 1 and device.identity.serial == "FTS-1234" and device.identity.firmware == "FFT-2.1.0"
    assert device.wait_for(lambda: device.counters.samples > 100 and device.valid, PATIENCE)
    assert device.counters.crc_errors == 0
    t = np.concatenate([block.t for block, *_ in blocks])
    assert (np.diff(t) > 0).all() and np.median(np.diff(t)) == pytest.approx(0.01, abs=0.001)
    # Measured when the frame began, 8.3 ms of wire ago; handed on within 12 ms, the machine's other work apart: what was
    # not held up shows that the driver waits for nothing, and its thread's own time that it always does as little.
    delay = np.array([now - block.t[-1] for block, now, _ in blocks])
    assert 0.0083 < delay.min() < 0.012 and np.median(np.diff([cpu for *_, cpu in blocks])) < 0.012 - 0.0083
    np.testing.assert_allclose(blocks[-1][0].wrench[-1], WRENCH)
    assert device.disable(PATIENCE) and not box.stats()["streaming"] and not device.valid
    device.enable()
    n = device.counters.samples
    assert device.wait_for(lambda: device.counters.samples > n + 20, PATIENCE)


def test_damaged_frames_give_no_wrong_value(box, streaming):
    """F9, second half, at far more than 1 % so that it means something in a short time."""
    device, blocks = streaming()
    for fault in ("corrupt", "truncate", "garbage", "duplicate"):
        box.inject(fault, p=0.08)
    n = device.counters.samples
    assert device.wait_for(lambda: device.counters.samples > n + 120, PATIENCE)
    hit = box.stats()["faults"]
    assert hit["corrupt"] + hit["truncate"] >= 5 and device.counters.crc_errors + device.counters.resyncs >= 5
    np.testing.assert_allclose(np.concatenate([block.wrench for block, *_ in blocks]) - WRENCH, 0.0, atol=1e-9)
    box.clear()


def test_saturation_and_silence(box, streaming):
    device, blocks = streaming(silence_timeout=0.5)
    box.inject("saturate")
    assert device.wait_for(lambda: not device.valid and "saturation" in device.faults, PATIENCE)
    box.clear()
    assert device.wait_for(lambda: device.valid and not device.faults, PATIENCE)
    before = len(device.verdicts)
    box.inject("silence")
    assert device.wait_for(
        lambda: any(not valid and "No sample" in reason for valid, reason in device.verdicts[before:]), PATIENCE
    )
    box.clear()
    assert device.wait_for(lambda: device.valid, PATIENCE)


@pytest.mark.parametrize("fault", ["unplug", "power_cycle"])
def test_back_after(box, streaming, withheld, fault):
    """F11: within 2 s, less what both processes waited for a core."""
    device, blocks = streaming(reply_timeout=0.1)
    began, waited = time.monotonic(), withheld() + withheld(box.pid)
    before = len(device.verdicts)
    box.inject(fault, 0.4)
    assert device.wait_for(lambda: any(not valid for valid, _ in device.verdicts[before:]), PATIENCE)
    assert device.wait_for(lambda: device.state is State.STREAMING and device.valid, PATIENCE)
    seconds, waited = time.monotonic() - began, withheld() + withheld(box.pid) - waited
    assert seconds - waited - 0.4 <= 2.0
    t = np.concatenate([block.t for block, *_ in blocks])
    assert (np.diff(t) > 0).all() and np.diff(t).max() > 0.35 - waited  # what is read late is stamped late
    np.testing.assert_allclose(blocks[-1][0].wrench[-1], WRENCH)


def test_wrong_rate_is_no_sensor(box, streaming):
    device, _ = streaming()
    device.disable(PATIENCE)
    device.close()
    box.inject("wrong_baud", baud=9600)
    other = Ft300Device(box.link, backoff=Backoff(0.1, cap=0.1))
    other.start()
    try:
        assert other.wait_for(lambda: "did not answer" in other.last_error, PATIENCE)
    finally:
        other.close()
    assert "19200" in other.last_error


@pytest.mark.hardware
def test_a_real_sensor():
    """An FT-300 at REFIT_FT300_PORT, at rest: who it is, 100 Hz, a stop that is confirmed."""
    path = os.environ.get("REFIT_FT300_PORT")
    if not path:
        pytest.skip("REFIT_FT300_PORT is not set: the serial port of an FT-300")
    blocks = []
    device = Ft300Device(path, on_sample=lambda block, t: blocks.append(block))
    device.start()
    device.enable()
    try:
        assert device.wait_for(lambda: device.counters.samples > 500, 15.0), device.last_error
        assert device.identity.firmware.startswith("F") and device.counters.crc_errors == 0
        assert device.rate.rate(time.monotonic()) == pytest.approx(protocol.STREAM_RATE, rel=0.02)
        assert np.concatenate([b.wrench for b in blocks]).std(axis=0).max() < 1.0
        assert device.disable(5.0)
    finally:
        device.close()
