"""The bus against scripted servos: who answers what, late, damaged or not at all; and against real ones."""

import contextlib
import os
import threading
import time
import types

import numpy as np
import pytest

from hardware.dynamixel import protocol1, protocol2
from hardware.dynamixel.bus import Bus, GroupRead
from hardware.dynamixel.commands import Goals
from hardware.dynamixel.emulated_codec import fast_status2
from hardware.dynamixel.goal_writer import GoalWriter
from hardware.dynamixel.joints import GroupState, Joint, JointArrays
from hardware.dynamixel.readout import parts
from hardware.dynamixel.servo_setup import ServoLimits
from hardware.dynamixel.tables import MODELS
from hardware.dynamixel.transport import StatusError
from hardware.emulation.pty_port import PtyPort
from hardware.link import Counters, DeviceError, NotAnswering, SerialPort

BAUD = 1_000_000


def packets(data):
    """The packets of either protocol in `data`: a busy machine may bring several at once."""
    while data:
        size = 7 + int.from_bytes(data[5:7], "little") if data[2:4] == b"\xfd\0" else 4 + data[3]
        yield data[:size]
        data = data[size:]


class Script(threading.Thread):
    """Answers the n-th request with the n-th entry."""

    def __init__(self, link, replies):
        super().__init__(daemon=True)
        self.port, self.replies, self.requests = PtyPort(link, None), list(replies), []
        self.ended = threading.Event()
        self.start()

    def run(self):
        while not self.ended.is_set():
            for request in packets(self.port.read(0.01)):
                self.requests.append(request)
                self.port.write(self.replies.pop(0) if self.replies else b"")


@pytest.fixture
def scripted(tmp_path):
    made = []

    # So patient that a busy machine loses no reply: what is missing is not in the script.
    def make(*replies, protocol=2.0, latency=0.5):
        script = Script(tmp_path / "port", replies)
        port = SerialPort(script.port.link, BAUD)
        made.append((script, port))
        return Bus(port, protocol, Counters(), latency, return_delay=0.0), script

    yield make
    for script, port in made:
        script.ended.set()
        script.join()
        port.close()
        script.port.close()


def test_reads_writes_and_refusals(scripted):
    items = MODELS["XM430-W350"].items
    bus, script = scripted(
        protocol2.status(1, 0, b"\xfc\x03\x2a"),
        protocol2.status(1, 0, b"\x00\x08\x00\x00"),
        protocol2.status(1, 0),
        protocol2.status(1, 7),
        protocol2.status(1, 0x80, b"\x28"),
    )
    assert bus.ping(1) == (1, 1020, 42)
    assert bus.read_item(1, items["present_position"]) == 2048
    bus.write_item(1, items["goal_current"], -3)
    assert script.requests[-1] == protocol2.write(1, 102, b"\xfd\xff")
    with pytest.raises(StatusError, match="servo 1 refused to write 01 at 11: access error"):
        bus.write(1, 11, b"\1")
    assert bus.read(1, 146, 1) == b"\x28" and bus.alerts == {1}  # the alert is kept, the value too
    with pytest.raises(DeviceError, match="confirmed=True"):
        bus.factory_reset(1, confirmed=False)
    with pytest.raises(DeviceError, match="not the broadcast id"):
        bus.write(254, 64, b"\1")
    with pytest.raises(ValueError, match="does not fit"):
        items["goal_current"].pack(40000)


@pytest.mark.parametrize("moment", ["before the next request", "while the bus waits for it"])
def test_a_late_reply_is_not_the_next_answer(scripted, moment):
    """The maker's SDK takes the position that comes late for the voltage asked next.

    The reply leaves when the bus has given it up, at the moment that is meant, and not after a time.
    """
    position, voltage, pong = (
        protocol2.status(1, 0, b"\x00\x08"),
        protocol2.status(1, 0, b"\x78\x00"),
        protocol2.status(1, 0, b"\xfc\x03\x2a"),
    )
    bus, script = scripted(b"", pong, voltage, latency=0.05)
    with pytest.raises(NotAnswering):
        bus.read(1, 132, 2)
    while not script.requests:  # else it might be read together with the next one
        time.sleep(0.01)
    bus.latency = 10.0  # from now on whatever is missing has been lost, and is not late
    late, receive = [position], bus.receive

    def while_waiting(timeout):
        script.port.write(late.pop() if late else b"")
        return receive(timeout)

    if moment == "before the next request":
        script.port.write(late.pop())
    else:
        bus.receive = while_waiting
    assert bus.read(1, 144, 2) == b"\x78\x00" and not late
    assert bus.counters.timeouts == 1 and bus.counters.late_bytes == len(position)


def test_however_late_a_reply_comes_behind_it_there_is_a_fence(tmp_path):
    """A servo that hangs for 90 ms and then answers in order everything it was asked meanwhile."""
    port, requests = PtyPort(tmp_path / "port", None), []
    answers = {1: b"\xfc\x03\x2a", 132: b"\x00\x08", 144: b"\x78\x00"}
    ended = threading.Event()

    def servo():
        while not ended.is_set():
            for request in port.read(0.01).split(protocol2.HEADER)[1:]:
                requests.append(request)
                time.sleep(0.09 if len(requests) == 1 else 0.0)
                port.write(protocol2.status(1, 0, answers[request[4] if request[3] == 2 else 1]))

    thread = threading.Thread(target=servo, daemon=True)
    thread.start()
    bus = Bus(SerialPort(port.link, BAUD), 2.0, Counters(), 0.02, return_delay=0.0)
    with pytest.raises(NotAnswering):
        bus.read(1, 132, 2)
    end = time.monotonic() + 60.0
    for address in (144, 132):
        while True:
            assert time.monotonic() < end
            with contextlib.suppress(NotAnswering):  # on a busy machine a reply may take longer than 20 ms once more
                assert bus.read(1, address, 2) == answers[address]
                break
    assert len(requests) >= 3
    ended.set()
    thread.join()
    bus.port.close()
    port.close()


def test_one_missing_servo_does_not_hide_the_others(scripted):
    bus, _ = scripted(
        protocol2.status(1, 0, b"aaaa") + protocol2.status(3, 0x80, b"cccc"),
        b"",
        protocol2.status(1, 0, b"aaaa") + protocol2.status(3, 0, b"cccc"),
    )
    assert {id: reply.params for id, reply in bus.sync_read(132, 4, [1, 2, 3]).items()} == {1: b"aaaa", 3: b"cccc"}
    assert bus.alerts == {3}


@pytest.mark.parametrize("codec", [protocol1, protocol2])
def test_group_reads_salvage_and_ask_again(scripted, codec):
    """Of four replies one is damaged: three are kept, the fourth is asked for alone."""
    protocol = 1.0 if codec is protocol1 else 2.0
    good = [codec.status(id, 0, bytes([id] * 8)) for id in (1, 2, 3, 4)]
    damaged = bytearray(good[1])
    damaged[-3] ^= 0x10
    bus, script = scripted(
        b"".join(good),
        good[0] + bytes(damaged) + good[2] + good[3],
        good[1],
        b"\x55\xff" + b"".join(good),
        b"".join(good + good),
        protocol=protocol,
    )
    group = GroupRead(bus, (1, 2, 3, 4), 36, 8, "sync" if protocol == 2.0 else "bulk")
    expected = np.array([[id] * 8 for id in (1, 2, 3, 4)])
    for kind in ("clean", "damaged", "noise before", "doubled"):
        before = len(script.requests)
        assert group.read(), kind
        assert group.valid.all() and np.array_equal(group.values[:, 1:], expected), kind
        assert len(script.requests) - before == (2 if kind == "damaged" else 1), kind
        time.sleep(0.01)
    assert bus.counters.crc_errors == 1


def test_stuffed_replies_are_longer_than_expected(scripted):
    data = [b"\xff\xff\xfd\x00", b"abcd", b"\x00\xff\xff\xfd"]
    bus, _ = scripted(b"".join(protocol2.status(id + 1, 0, each) for id, each in enumerate(data)))
    group = GroupRead(bus, (1, 2, 3), 132, 4, "sync")
    assert group.read() and [row[1:].tobytes() for row in group.values] == data


def fast_frames(ids, data, until=None):
    """The emulator's common reply (its codec is not the driver's)."""
    return fast_status2(
        [(id, 0, each if id != until else None) for id, each in zip(ids, data, strict=True)], sum(map(len, data))
    )


def test_a_fast_read_that_fails_is_made_good_by_a_plain_one(scripted):
    """Damaged, broken off behind a missing servo, doubled, with noise: the same read still brings everybody who is there."""
    ids, data = (1, 2, 3), [b"\xff\xff\xfd\0", b"abcd", b"efgh"]
    fast, plain = (
        fast_frames(ids, data),
        b"".join(protocol2.status(id, 0, each) for id, each in zip(ids, data, strict=True)),
    )
    damaged = fast[:12] + bytes([fast[12] ^ 4]) + fast[13:]
    bus, script = scripted(
        fast,
        damaged,
        plain,
        fast_frames(ids, data, until=2),
        protocol2.status(1, 0, data[0]) + protocol2.status(3, 0, data[2]),
        b"",
        fast + fast,
        b"noise" + fast,
        plain,
    )
    group = GroupRead(bus, ids, 132, 4, "fast")
    for kind, requests in (("clean", 1), ("damaged", 2), ("broken chain", 3), ("doubled", 1), ("noise before", 2)):
        before = len(script.requests)
        complete = group.read()
        assert complete == (kind != "broken chain") and group.valid.tolist() == [True, complete, True], kind
        assert [row[1:].tobytes() for row in group.values] == data, kind
        assert len(script.requests) - before == requests and script.requests[before] == protocol2.sync_read(
            132, 4, ids, fast=True
        ), kind
        time.sleep(0.01)
    assert bus.counters.crc_errors == 2 and bus.counters.timeouts == 2 and group.how == "fast"


def test_firmware_without_fast_reads_is_found_out(scripted):
    plain = b"".join(protocol2.status(id, 0, b"abcd") for id in (1, 2))
    bus, script = scripted(b"", plain, b"", plain, b"", plain, plain)
    group = GroupRead(bus, (1, 2), 132, 4, "fast")
    assert all(group.read() for _ in range(4))
    assert group.how == "sync" and [request[7] for request in script.requests] == [0x8A, 0x82] * 3 + [0x82]


@pytest.mark.parametrize(
    ("n", "baud", "rate", "fast", "sizes"),
    [
        (12, 1_000_000, 100.0, True, [6, 6]),
        (12, 1_000_000, 100.0, False, [6, 6]),
        (7, 1_000_000, 100.0, True, [7]),
        (7, 4_000_000, 250.0, False, [7]),
        (12, 57_600, 10.0, True, [4, 4, 4]),
        (12, 57_600, 100.0, True, [12]),
    ],
)
def test_readings_are_divided_as_far_as_it_is_worth_it(n, baud, rate, fast, sizes):
    """At 1 Mbit/s no exchange takes more than 2 ms; where requests cost too much of the period there are fewer."""
    bus = types.SimpleNamespace(transmission_time=lambda n: 10.0 * n / baud, protocol=2.0)
    found = parts(range(n), bus, 1.0 / rate, fast)
    assert [len(part) for part in found] == sizes and np.concatenate(found).tolist() == list(range(n))
    if baud == 1_000_000:
        assert max(protocol2.sync_read_size(len(part), 16, fast) for part in found) <= 200


@pytest.mark.parametrize("model", ["XM430-W350", "MX-28"])
def test_a_joint_without_a_goal_gets_none(model):
    """A servo that has not answered yet has no position to hold; a NaN cast to counts would be one all the same."""
    joints = [Joint(f"j{id}", id, MODELS[model], 3) for id in (1, 2, 3)]
    arrays, sent = JointArrays(joints), []
    codec = protocol2 if joints[0].model.protocol == 2.0 else protocol1
    bus = types.SimpleNamespace(codec=codec, protocol=joints[0].model.protocol, send=sent.append)
    writer = GoalWriter(bus, joints, arrays, [ServoLimits(0, 80, 885, 0, 350, 0, 4095)] * 3)
    state, goals = GroupState([joint.name for joint in joints]), Goals(3)
    goals.position[:] = 0.5, np.nan, -20.0
    writer.send(state, goals)
    item = joints[0].model.items["goal_position"]
    data = {
        1: round(2048 + 0.5 / (2 * np.pi) * 4096).to_bytes(item.size, "little"),
        3: bytes(item.size),
    }  # -20 rad: the servo's lowest
    assert sent == [codec.sync_write(item.address, item.size, data)]
    goals.position[:] = np.nan
    writer.send(state, goals)
    assert len(sent) == 1
    zero = (2048).to_bytes(item.size, "little")
    # A frame is kept for whom it is, and says what it is to say now.
    for known in ((1, 2), (3,), (1, 2), (1, 3), (1, 2, 3)):
        goals.position[:] = np.nan
        goals.position[[id - 1 for id in known]] = 0.0
        writer.send(state, goals)
        assert sent[-1] == codec.sync_write(item.address, item.size, dict.fromkeys(known, zero))


def test_tables_fit_their_models():
    for model in MODELS.values():
        spans = sorted((item.address, item.address + item.size, name) for name, item in model.items.items())
        for (_, end, name), (start, _, following) in zip(spans, spans[1:], strict=False):
            assert end <= start, f"{model.name}: {name} overlaps {following}"
        assert model.items["torque_enable"].address == (64 if model.protocol == 2.0 else 24)
        if model.indirect:
            assert model.indirect.data >= model.indirect.address + 2 * model.indirect.slots
    xm = MODELS["XM430-W350"]
    assert (xm.number, xm.motor.resistance, xm.motor.torque_constant, xm.motor.back_emf) == pytest.approx(
        (1020, 5.22, 1.783, 2.491), rel=1e-3
    )
    mx = MODELS["MX-28"]
    assert (mx.number, mx.motor.resistance, mx.motor.torque_constant, mx.motor.back_emf) == pytest.approx(
        (29, 8.57, 1.786, 2.083), rel=1e-3
    )
    assert MODELS["XL330-M288"].indirect.data == 208
    speed = mx.items["present_velocity"]
    assert speed.unpack(b"\x64\x04") == -100 and speed.pack(-100) == b"\x64\x04" and speed.pack(100) == b"\x64\x00"


@pytest.mark.hardware
def test_real_servos_answer():
    """REFIT_DYNAMIXEL_PORT: path[@baud[@protocol]], for example /dev/ttyUSB0@1000000."""
    named = os.environ.get("REFIT_DYNAMIXEL_PORT")
    if not named:
        pytest.skip("REFIT_DYNAMIXEL_PORT names no port")
    path, _, rest = named.partition("@")
    baud, _, protocol = rest.partition("@")
    port = SerialPort(path, int(baud or 57600))
    try:
        bus = Bus(port, float(protocol or 2.0))
        found = bus.ping_all()
        assert found, f"no servo answers on {path} at {port.baud} baud"
        for who in found:
            assert bus.ping(who.id) == who
            assert bus.read(who.id, 0, 2) == who.model.to_bytes(2, "little")
    finally:
        port.close()
