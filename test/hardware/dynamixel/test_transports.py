"""The driver's own engine and the maker's library, each over the same emulated bus: one story, equal values."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dynamixel_sdk")

from hardware.dynamixel.commands import PositionStream
from hardware.dynamixel.device import GroupOptions, ServoGroup
from hardware.dynamixel.joints import Joint
from hardware.dynamixel.scan import scan
from hardware.dynamixel.tables import MODELS
from hardware.dynamixel.transport import StatusError
from hardware.dynamixel.transports import TRANSPORTS, transport_named
from hardware.emulation.process import EmulatorProcess
from hardware.link import Backoff, Counters, DeviceError, Disconnected, NotAnswering, State

ROOT = Path(__file__).resolve().parents[3]
BAUD, PATIENCE, POSITION = 1_000_000, 60.0, 3
XM, MX = MODELS["XM430-W350"], MODELS["MX-28"]
SERVOS = [
    {"id": 1, "model": "XM430-W350", "initial": 0.3},
    {"id": 2, "model": "XM430-W350", "initial": -0.4},
    {"id": 3, "model": "XM430-W350", "initial": 0.1},
    {"id": 11, "model": "MX-28", "registers": {"baud_rate": 1}},
    {"id": 12, "model": "MX-28", "registers": {"baud_rate": 1}},
]


@pytest.fixture
def emulator():
    with EmulatorProcess("dynamixel", "--servos", str(SERVOS), "--baud", BAUD, "--return-delay", 0) as process:
        yield process


@pytest.fixture
def opened(emulator):
    """`opened(name, protocol)`: a bus of that transport, so patient that a busy machine loses no reply."""
    buses = []

    def start(name, protocol=2.0, latency=0.5, baud=BAUD):
        buses.append(transport_named(name).open(str(emulator.link), baud, protocol, Counters(), latency))
        return buses[-1]

    yield start
    for bus in buses:
        bus.close()


@pytest.fixture
def grouped(emulator):
    groups = []

    def start(transport, joints, **options):
        samples, losses = [], []
        options = {"torque_on_activate": True, "latency": 0.1, "bus_watchdog": 1.0, "error_timeout": 2.0, **options}
        group = ServoGroup(
            str(emulator.link),
            BAUD,
            joints,
            GroupOptions(**options, transport=transport),
            backoff=Backoff(seed=1),
            on_sample=lambda state, t: samples.append((t, state.q.copy(), state.valid.copy())),
        )
        group.samples, group.losses = samples, losses
        group.on_state = lambda: losses.append(group.last_error) if group.state is State.RECONNECTING else None
        groups.append(group)
        group.start()
        group.enable()
        begun = group.wait_for(lambda: len(samples) > 2 and np.isfinite(group.joint_state.q).all(), PATIENCE)
        assert begun, group.last_error
        return group

    yield start
    for group in groups:
        group.close()


def until(condition, what="condition", timeout=PATIENCE):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {timeout:g} s"
        time.sleep(0.01)


def arm():
    return [Joint(name, id, XM, POSITION) for name, id in (("a", 1), ("b", 2), ("c", 3))]


def everything(bus):
    """What a bus says of the same servos."""
    if bus.protocol == 2.0:
        group = bus.group_read((1, 2, 3), 128, 8, "sync")
        tables = [bus.read(id, 0, 64) for id in (1, 2, 3)]
        several = bus.sync_read(132, 4, (1, 2, 3)), bus.bulk_read([(1, 132, 4), (3, 144, 2)])
    else:
        group = bus.group_read((11, 12), 36, 8, "bulk")
        tables = [bus.read(id, 0, 24) for id in (11, 12)]
        several = (bus.bulk_read([(11, 36, 8), (12, 43, 1)]),)
    assert group.read()
    return bus.ping_all() if bus.protocol == 2.0 else bus.ping(11), tables, several, group.values.tolist(), bus.alerts


# ---- one bus ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", [1.0, 2.0])
def test_both_read_the_same(opened, protocol):
    found = []
    for name in TRANSPORTS:
        bus = opened(name, protocol)
        found.append(everything(bus))
        assert not any(bus.counters.as_dict().values())
        bus.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("name", TRANSPORTS)
def test_writes_refusals_and_silence(opened, emulator, name):
    bus, items = opened(name), XM.items
    bus.write_item(1, items["torque_enable"], 1)
    assert bus.read_item(1, items["torque_enable"]) == 1
    with pytest.raises(StatusError, match="servo 1 refused to write 00 at 11: access error"):
        bus.write_item(1, items["operating_mode"], 0)
    bus.sync_write(items["profile_velocity"].address, 4, {1: bytes((7, 0, 0, 0)), 2: bytes((9, 0, 0, 0))})
    assert [bus.read_item(id, items["profile_velocity"]) for id in (1, 2)] == [7, 9]
    bus.reg_write(2, 112, bytes((5, 0, 0, 0)))
    bus.action()
    assert bus.read_item(2, items["profile_velocity"]) == 5
    with pytest.raises(NotAnswering, match="servo 77"):
        bus.read(77, 0, 2)
    with pytest.raises(DeviceError, match="not the broadcast id"):
        bus.write(254, 64, b"\1")
    assert bus.counters.timeouts == 1
    with pytest.raises(Disconnected, match="in use by another process"):
        opened(name)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_data_that_look_like_a_header_travel_stuffed(opened, emulator, name):
    bus, data = opened(name), b"\xff\xff\xfd\xff\xff\xff"  # goal current -1, goal velocity -3
    emulator.set(strict_stuffing=True)
    bus.write_item(1, XM.items["operating_mode"], 0)
    bus.write(1, 102, data)
    assert bus.read(1, 102, 6) == data and emulator.stats()["unstuffed"] == 0
    group = bus.group_read((1,), 102, 6, "sync")
    assert group.read() and group.values[0, 1:].tobytes() == data


@pytest.mark.parametrize("name", TRANSPORTS)
@pytest.mark.parametrize("protocol", [1.0, 2.0])
def test_a_scan_finds_everybody(opened, name, protocol):
    bus = opened(name, protocol, 0.2, baud=57_600)
    found = scan(bus, (57_600, BAUD), likely_ids=(1, 11, 12))
    assert [(who.baud, who.id, who.model) for who in found] == (
        [(BAUD, id, "XM430-W350") for id in (1, 2, 3)] if protocol == 2.0 else [(BAUD, id, "MX-28") for id in (11, 12)]
    )


@pytest.mark.parametrize("name", TRANSPORTS)
def test_a_missing_servo_hides_nobody(opened, emulator, name):
    bus = opened(name)
    group = bus.group_read((1, 2, 3), 132, 4, "sync")
    assert group.read()
    expected = group.values.copy()
    emulator.inject("drop_id", id=2)
    assert not group.read() and group.valid.tolist() == [True, False, True]
    assert np.array_equal(group.values[[0, 2]], expected[[0, 2]])
    emulator.clear("drop_id")
    assert group.read() and np.array_equal(group.values, expected)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_damaged_replies_are_asked_for_again(opened, emulator, name):
    bus = opened(name, latency=0.2)
    group = bus.group_read((1, 2, 3), 132, 4, "sync")
    assert group.read()
    expected, complete = group.values.copy(), 0
    emulator.inject("corrupt", p=0.05)
    for _ in range(200):
        complete += group.read()
        assert np.array_equal(group.values[group.valid], expected[group.valid])
    assert complete >= 180 and bus.counters.crc_errors > 5


@pytest.mark.parametrize("name", TRANSPORTS)
def test_late_replies_bring_no_wrong_value(opened, emulator, name):
    """Replies that come 80 ms late, past the time-out of 60 ms, on a busy machine any later."""
    bus = opened(name)
    spans = {132: 4, 144: 2, 116: 4, 146: 1, 32: 2}
    expected = {address: bus.read(1, address, length) for address, length in spans.items()}
    bus.latency = 0.06
    emulator.inject("late_reply", p=0.1, by=0.08)
    missed = 0
    for k in range(300):
        address = list(expected)[k % 5]
        try:
            assert bus.read(1, address, len(expected[address])) == expected[address], f"read {k}"
        except NotAnswering:
            missed += 1
    assert missed >= 15 and emulator.stats()["faults"]["late_reply"] >= 15


@pytest.mark.parametrize("name", TRANSPORTS)
def test_noise_without_end_does_not_hold_the_bus(opened, emulator, name, withheld):
    bus = opened(name, latency=0.05)
    emulator.inject("garbage", p=1.0)
    begun, kept_waiting = time.monotonic(), withheld()
    for _ in range(5):
        try:
            assert bus.read(1, 132, 4)
        except NotAnswering:
            pass
    assert time.monotonic() - begun < 5.0 + withheld() - kept_waiting


# ---- the group -------------------------------------------------------------------------------------
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_moves_loses_a_servo_and_the_port_and_comes_back(emulator, grouped, transport):
    group = grouped(transport, arm())
    assert group.identity.model == "XM430-W350" and np.abs(group.joint_state.q - [0.3, -0.4, 0.1]).max() < 2e-3
    stream = PositionStream(range(3), 60.0)
    assert group.take(stream) == ""
    goal = np.array([0.5, -0.2, 0.3])
    stream.set(goal, time.monotonic())
    until(lambda: np.abs(group.joint_state.q - goal).max() < 0.02, "the goal")
    emulator.inject("drop_id", id=2)
    until(lambda: "b/absent" in group.faults, "the loss of a servo")
    before = len(group.samples)
    until(lambda: len(group.samples) > before + 20, "the others")
    assert group.state is State.STREAMING
    emulator.clear("drop_id")
    until(lambda: group.joint_state.valid.all() and not group.faults, "its return")
    emulator.inject("unplug")
    until(lambda: group.losses, "the loss of the port")
    assert "unplugged?" in group.losses[0]
    emulator.clear("unplug")
    before = len(group.samples)
    until(lambda: len(group.samples) > before + 10, "data")
    assert np.abs(np.array([q for _, q, valid in group.samples[before:] if valid.all()]) - goal).max() < 0.02
    assert group.torque_on and group.counters.reconnects == 1
    assert group.disable(PATIENCE)
    assert all(servo["torque_enable"] == 0 for servo in emulator.stats()["servos"][:3])


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_servos_of_protocol_1_move(emulator, grouped, transport):
    group = grouped(transport, [Joint("tilt", 11, MX, POSITION), Joint("pan", 12, MX, POSITION)], rate=20.0)
    stream = PositionStream(range(2), 60.0)
    assert group.take(stream) == ""
    stream.set(np.array([0.4, -0.2]), time.monotonic())
    until(lambda: np.abs(group.joint_state.q - [0.4, -0.2]).max() < 0.03, "the goal")
    assert group.joint_state.voltage[0] == pytest.approx(12.0, abs=0.2)


# ---- the choice ------------------------------------------------------------------------------------
def test_a_transport_that_is_not_there_is_one_sentence(monkeypatch):
    with pytest.raises(DeviceError, match="transport is 'usb': use refit or dynamixel_sdk"):
        transport_named("usb")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="pip install dynamixel-sdk==4.1.0, or set transport to refit"):
        ServoGroup("/dev/null", BAUD, arm(), GroupOptions(transport="dynamixel_sdk"))


def test_a_rate_that_the_library_does_not_list_is_said(opened):
    with pytest.raises(DeviceError, match="knows no rate of 1234 baud"):
        opened("dynamixel_sdk", baud=1234)
    with pytest.raises(Disconnected, match="is the device plugged in"):
        transport_named("dynamixel_sdk").open("/dev/no-such-port", BAUD, 2.0, Counters(), 0.02)


def test_the_driver_does_not_load_the_library():
    code = "import sys, hardware.dynamixel.device; assert 'dynamixel_sdk' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
