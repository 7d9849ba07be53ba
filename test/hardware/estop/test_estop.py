"""Emergency stop: whatever is not known to be well is a stop, and soon enough."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.emulation.process import EmulatorProcess
from hardware.estop.device import EmergencyStop
from hardware.estop.emulator import EstopEmulator
from hardware.estop.protocol import Heartbeat, HeartbeatFinder, decode, encode

SILENCE = 0.1


def test_a_heartbeat_by_hand():
    """45 + 31 + 30 + 37 hexadecimal is DD."""
    assert encode(Heartbeat(True, 7)) == b"E107DD\r" and decode(b"E107DD") == Heartbeat(True, 7)
    assert encode(Heartbeat(False, 255)) == b"E0FF01\r"


@given(st.booleans(), st.integers(0, 255), st.integers(0, 5), st.integers(1, 255))
def test_no_damaged_byte_passes(permitted, counter, at, flip):
    line = bytearray(encode(Heartbeat(permitted, counter))[:-1])
    line[at] ^= flip
    assert decode(bytes(line)) is None


@given(st.booleans(), st.integers(0, 255))
def test_both_codecs_mean_the_same(permitted, counter):
    emulator = EstopEmulator.__new__(EstopEmulator)
    emulator.pressed, emulator.number = not permitted, counter
    assert HeartbeatFinder().feed(b"\x00E1" + b"\r" + emulator._compose()) == [Heartbeat(permitted, counter)]
    finder = HeartbeatFinder()
    assert (
        len(finder.feed(b"noise" + encode(Heartbeat(True, 1)) + encode(Heartbeat(True, 2)))) == 2 and finder.noise == 1
    )


def test_a_million_random_bytes():
    rng, finder, found = random.Random(5), HeartbeatFinder(), 0
    for _ in range(1000):
        found += len(finder.feed(rng.randbytes(1000)))
        assert len(finder._line) <= 7
    assert found == 0


@pytest.fixture(scope="module")
def emulator():
    with EmulatorProcess("estop") as process:
        yield process


@pytest.fixture
def button(emulator):
    """A driver that says when motion is permitted, and its changes: (time, stopped, reason)."""
    emulator.clear()
    emulator.set(pressed=False)
    changes = []
    driver = EmergencyStop(
        emulator.link, SILENCE, lambda stopped, reason: changes.append((time.monotonic(), stopped, reason))
    )
    driver.changes = changes
    assert driver.stopped and "no heartbeat" in driver.reason
    driver.start()
    driver.enable()
    assert driver.wait_for(lambda: not driver.stopped, 20), (driver.state, driver.last_error)
    changes.clear()
    yield driver
    driver.close()
    assert driver.stopped


def stopped(button, reason):
    assert button.wait_for(lambda: button.stopped, 20)
    t, is_stop, why = button.changes[0]
    assert is_stop and reason in why
    return t


def test_pressed_and_released(button, emulator):
    emulator.set(pressed=True)
    stopped(button, "the button is pressed")
    time.sleep(0.15)
    assert button.stopped and len(button.changes) == 1
    emulator.set(pressed=False)
    assert button.wait_for(lambda: not button.stopped, 20) and button.reason == ""


def test_silence_is_a_stop_after_a_tenth_of_a_second(button, emulator):
    """Measured between the last heartbeat that left and the stop; the upper bound allows for a busy machine."""
    emulator.inject("silence", 0.5)
    t = stopped(button, "no good heartbeat")
    assert SILENCE <= t - emulator.stats()["last"] + 0.02 and t - emulator.stats()["last"] < SILENCE + 0.1
    assert button.wait_for(lambda: not button.stopped, 20)


@pytest.mark.parametrize(
    "fault, parameters, reason",
    [
        ("stuck_on", {}, "no good heartbeat"),
        ("corrupt", {}, "no good heartbeat"),
        ("truncate", {}, "no good heartbeat"),
        ("delay", {"by": 0.3}, "no good heartbeat"),
        ("wrong_baud", {"baud": 9600}, "no good heartbeat"),
        ("unplug", {}, ""),
    ],
)
def test_every_fault_is_a_stop(button, emulator, fault, parameters, reason):
    emulator.inject(fault, **parameters)
    stopped(button, reason)
    emulator.clear()
    assert button.wait_for(lambda: not button.stopped, 20), button.last_error


def test_garbage_between_good_heartbeats_is_none(button, emulator):
    emulator.inject("garbage", 0.5, p=0.3)
    time.sleep(0.6)
    assert not button.changes


def test_nobody_listening_is_a_stop(button):
    assert button.disable()
    assert button.stopped and "not being listened to" in button.reason
