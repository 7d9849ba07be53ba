"""G3 in simulated time: what the emulated gripper does, exactly; and its Modbus, which is not the driver's."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.emulation.emulator import Faults
from hardware.emulation.modbus_slave import RegisterBank, RequestFinder, checksum, serve
from hardware.robotiq.emulator import RobotiqEmulator
from hardware.robotiq.fingers import OwnFingers
from hardware.robotiq.gripper import GRIPPERS, Gripper

DT = 0.001
MOVING, OPENING, CLOSING, ARRIVED = range(4)


class Bench:
    """A gripper and simulated time."""

    def __init__(self, model="2f_85"):
        self.gripper = Gripper(GRIPPERS[model], OwnFingers(GRIPPERS[model].stroke))
        self.fingers, self.t = self.gripper.fingers, 0.0
        self.gripper.hear(0.0)

    def write(self, action, position=0, speed=255, force=255):
        self.gripper.hear(self.t)
        self.gripper.write(0, [action << 8, position, speed << 8 | force])
        return self

    def run(self, seconds, polled=True):
        for _ in range(round(seconds / DT)):
            self.gripper.advance(DT)
            self.t += DT
            if polled:
                self.gripper.hear(self.t)
        return self

    def until(self, condition, limit=20.0):
        start = self.t
        while not condition():
            self.run(DT)
            assert self.t - start < limit
        return self.t - start

    def status(self):
        """(gACT, gGTO, gSTA, gOBJ, gFLT, gPR, gPO)"""
        self.gripper.hear(self.t)
        a, b, c = self.gripper.status()
        bits = a >> 8
        return bits & 1, bits >> 3 & 1, bits >> 4 & 3, bits >> 6, b >> 8, b & 0xFF, c >> 8

    def activated(self):
        self.write(0x01).run(5.0)
        assert self.status() == (1, 0, 3, 0, 0, 0, 3)
        return self


def test_activation_closes_and_opens_and_takes_its_time():
    bench = Bench().write(0x01)
    assert bench.status()[:3] == (1, 0, 1)
    assert bench.until(lambda: bench.gripper.state == 3) == pytest.approx(
        2 * 0.085 / 0.150, abs=0.01
    )  # to within half a count
    bench.run(0.1)
    assert bench.status()[2] == 3 and bench.fingers.width == pytest.approx(0.085)


def test_nothing_moves_before_the_activation():
    bench = Bench().write(0x08, 255).run(1.0)
    assert bench.status()[4] == 0x07 and bench.fingers.width == 0.085
    bench.write(0x09, 255).run(0.1)
    assert bench.status()[:5] == (1, 0, 1, 0, 0x05)  # delayed until the activation is complete
    bench.run(5.0)
    assert bench.status() == (1, 1, 3, ARRIVED, 0, 255, 230)


@pytest.mark.parametrize("speed, expected", [(0, 0.020), (255, 0.150), (128, 0.020 + 128 / 255 * 0.130)])
def test_speed(speed, expected):
    bench = Bench().activated().write(0x09, 255, speed)
    assert bench.status()[3] == MOVING
    bench.run(0.2)
    assert (0.085 - bench.fingers.width) / 0.2 == pytest.approx(expected, rel=1e-6)


def test_an_object_stops_the_fingers_and_is_lost():
    bench = Bench().activated()
    bench.fingers.object_width = 0.040
    bench.write(0x09, 255).run(1.0)
    assert bench.status()[:5] == (1, 1, 3, CLOSING, 0) and bench.fingers.width == 0.040
    assert bench.status()[6] == round(3 + 227 * 45 / 85)
    bench.fingers.object_width = 0.0
    bench.run(0.01)
    assert bench.status()[3] == MOVING
    bench.run(1.0)
    assert bench.status()[3] == ARRIVED and bench.fingers.width == 0.0


def test_a_grip_from_inside():
    bench = Bench().activated().write(0x09, 200).run(1.0)
    bench.fingers.cavity_width = 0.050
    bench.write(0x09, 0).run(1.0)
    assert bench.status()[3] == OPENING and bench.fingers.width == 0.050


def test_an_object_as_wide_as_asked_for_is_no_contact():
    bench = Bench().activated()
    bench.fingers.object_width = 0.040
    bench.write(0x09, round(3 + 227 * 45 / 85)).run(1.0)
    assert bench.status()[3] == ARRIVED


def test_stop_and_go():
    bench = Bench().activated().write(0x09, 255).run(0.2).write(0x01, 255)
    width = bench.fingers.width
    bench.run(1.0)
    assert bench.fingers.width == width and bench.status()[:3] == (1, 0, 3)
    assert bench.write(0x09, 255).status()[3] == MOVING
    bench.run(1.0)
    assert bench.status()[3] == ARRIVED


def test_silence_shows_once():
    bench = Bench().activated()
    bench.run(0.99, polled=False)
    assert bench.status()[4] == 0
    bench.run(1.01, polled=False)
    assert bench.status()[4] == 0x09 and bench.status()[4] == 0


def test_automatic_release():
    bench = Bench().activated().write(0x09, 255).run(1.0).write(0x19 | 0x20, 255)
    assert bench.status()[:5] == (1, 0, 0, 0, 0x0B)
    bench.run(0.5)
    assert bench.fingers.width == pytest.approx(0.5 * 0.020)  # slowly, whatever speed was asked for
    bench.write(0x09, 255).run(0.5)
    assert bench.status()[4] == 0x0B  # it overrides all else
    bench.run(5.0)
    assert bench.status()[4] == 0x0F and bench.fingers.width == pytest.approx(0.085)
    bench.write(0x09, 255).run(1.0)
    assert bench.status()[4] == 0x0F and bench.fingers.width == pytest.approx(0.085)
    bench.write(0x00).activated()
    assert bench.status()[4] == 0


def test_a_release_may_close():
    bench = Bench().activated().write(0x11).run(6.0)
    assert bench.status()[4] == 0x0F and bench.fingers.width == 0.0


def test_an_activation_that_meets_an_object_fails():
    bench = Bench()
    bench.fingers.object_width = 0.030
    bench.write(0x01).run(5.0)
    assert bench.status()[2] == 0 and bench.status()[4] == 0x0D
    bench.fingers.object_width = 0.0
    bench.write(0x00).activated()


@pytest.mark.parametrize("code", [0x0A, 0x0C, 0x0E])
def test_major_faults_stop_and_need_a_reset(code):
    bench = Bench().activated().write(0x09, 255).run(0.2)
    bench.gripper.fail(code)
    width = bench.fingers.width
    bench.run(1.0).write(0x09, 100).run(1.0)
    assert bench.status()[4] == code and bench.fingers.width == width
    bench.write(0x00)
    assert bench.status()[4] == 0
    bench.activated()


def test_heat_is_a_minor_fault():
    bench = Bench().activated()
    bench.gripper.hot = True
    assert bench.write(0x09, 255).status()[4] == 0x08
    bench.gripper.hot = False
    assert bench.status()[4] == 0


def test_power_failure_forgets_the_activation():
    bench = Bench().activated().write(0x09, 100).run(1.0)
    width = bench.fingers.width
    bench.gripper.power_on()
    bench.run(1.0)
    assert bench.status()[:3] == (0, 0, 0) and bench.fingers.width == width


# -- Modbus ----------------------------------------------------------------------------------------


@pytest.fixture
def emulator(wire):
    return RobotiqEmulator(wire(115200), Gripper(GRIPPERS["2f_85"], OwnFingers(0.085)), faults=Faults(0))


def ask(emulator, text):
    body = bytes.fromhex(text)
    emulator.port.coming, emulator.port.gone = body + checksum(body), []
    emulator.step(0.0)
    replies = emulator.port.gone
    assert all(checksum(reply[:-2]) == reply[-2:] for reply in replies)
    return [reply[:-2].hex() for reply in replies]


def test_the_manual_s_dialogue(emulator):
    assert ask(emulator, "09 10 03E8 0003 06 0100 0000 0000") == ["091003e80003"]
    assert ask(emulator, "09 04 07D0 0003")[0][6:8] == "11"  # activation in progress
    assert checksum(bytes.fromhex("091003E800030601000000000 0".replace(" ", ""))) == bytes.fromhex("72E1")
    assert checksum(bytes.fromhex("090407D00003")) == bytes.fromhex("B1CE")
    assert checksum(bytes.fromhex("090406B90000FFBD00")) == bytes.fromhex("5C9A")


def test_every_function_served(emulator):
    assert ask(emulator, "09 03 03E8 0003") == ["0903060000" + "00000000"]
    assert ask(emulator, "09 06 03E9 0080") == ["090603e90080"]
    assert ask(emulator, "09 03 03E9 0001") == ["0903020080"]
    assert ask(emulator, "09 10 03E8 0002 04 0100 00FF") == ["091003e80002"]
    (reply,) = ask(emulator, "09 17 07D0 0002 03E8 0001 02 0900")
    assert reply == "091704" + "1100" + "05ff"  # activating, action delayed
    assert ask(emulator, "00 06 03E9 0001") == []  # broadcast: carried out, not answered
    assert ask(emulator, "09 03 03E9 0001") == ["0903020001"]
    assert ask(emulator, "08 03 03E9 0001") == []  # another unit


@pytest.mark.parametrize(
    "request_, exception",
    [
        ("09 01 0000 0001", "098101"),
        ("09 2B 0E 01 00", "09ab01"),  # no such function
        ("09 03 0000 0001", "098302"),
        ("09 04 07D7 0002", "098402"),  # no such register
        ("09 06 07D0 0000", "098602"),  # status is not writable
        ("09 03 03E8 0000", "098303"),
        ("09 03 03E8 007E", "098303"),  # so many cannot be read
        ("09 10 03E8 0002 02 0000", "099003"),
        ("09 10 03E8 0000 00", "099003"),
        ("09 10 03E8 0001 01 00", "099003"),
        ("09 17 07D0 0003 03E8 0002 02 0000", "099703"),
        ("09 17 0000 0003 03E8 0001 02 0900", "099702"),
        ("09 17 07D0 0003 07D0 0001 02 0900", "099702"),
    ],
)
def test_exceptions(emulator, request_, exception):
    assert ask(emulator, request_) == [exception]
    assert emulator.gripper.output == [0, 0, 0] and emulator.refusals == 1


@given(st.binary(max_size=40), st.lists(st.integers(1, 9), max_size=30))
def test_requests_are_found_in_any_company_and_any_pieces(before, pieces):
    body = bytes.fromhex("090407D00003")
    finder, stream, at, found = RequestFinder(9), before + body + checksum(body), 0, []
    for length in [*pieces, len(stream)]:
        found += finder.feed(stream[at : at + length])
        at += length
    if not found:  # garbage that announces more bytes than came holds the rest up, until the line is silent
        heads = {before[k : k + 2] for k in range(len(before) - 1)}
        assert heads & {bytes((unit, function)) for unit in (0, 9) for function in (0x10, 0x17)}
        finder.forget()
        found = finder.feed(body + checksum(body))
    assert found[-1] == body


@given(st.binary(max_size=300))
def test_no_request_breaks_the_server(body):
    bank = RegisterBank([range(1000, 1008)], range(1000, 1008), lambda address: 0, lambda address, values: None)
    finder = RequestFinder(9)
    for request in finder.feed(b"\x09" + body + checksum(b"\x09" + body)):
        reply = serve(request, bank)
        assert reply[0] == 9 and checksum(reply[:-2]) == reply[-2:]


def test_a_million_random_bytes():
    rng, finder, found = random.Random(2), RequestFinder(9), 0
    for _ in range(1000):
        found += len(finder.feed(rng.randbytes(1000)))
        assert len(finder._pending) <= 256
    # Unit or broadcast, then a CRC that fits by chance at one length or at the end of what came: 2 / 256 / 65536 per byte.
    assert found <= 3
