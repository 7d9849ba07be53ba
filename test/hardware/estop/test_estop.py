"""Emergency stop: whatever is not known to be well is a stop, and soon enough."""

import random
import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.emulation.process import EmulatorProcess
from hardware.estop.device import EmergencyStop
from hardware.estop.emulator import EstopEmulator
from hardware.estop.protocol import Heartbeat, HeartbeatFinder, decode, encode

SILENCE = 0.1


ALL = [Heartbeat(permitted, counter) for permitted in (False, True) for counter in range(256)]


def test_a_heartbeat_by_hand():
    """The CRC by an independent way: the remainder of a division of polynomials (the emulator's) and two by hand."""
    assert encode(Heartbeat(True, 7)) == b"E2107E979\r" and decode(b"E2107E979") == Heartbeat(True, 7)
    assert encode(Heartbeat(False, 255)) == b"E20FF1E3C\r"


def test_any_two_heartbeats_differ_in_five_bits():
    """So no error of one to four bits turns a heartbeat into another one: all pairs of all 512."""
    bits = np.unpackbits(np.array([list(encode(each)) for each in ALL], np.uint8), axis=1).astype(np.int16)
    distance = bits.sum(1)[:, None] + bits.sum(1) - 2 * bits @ bits.T
    assert distance[~np.eye(len(ALL), dtype=bool)].min() == 5


def test_every_error_of_one_to_three_bits_is_refused():
    """Exhaustively: 85,400 errors of each of the 512 heartbeats leave none that the decoder knows.

    What the decoder knows is the 512 and nothing else, as the errors of a few heartbeats show on the decoder itself.
    """
    width = 8 * len(encode(ALL[0]))
    errors = np.array(
        [sum(1 << k for k in places) for n in (1, 2, 3) for places in combinations(range(width), n)], object
    )
    assert len(errors) == 80 + 3160 + 82160
    known = {int.from_bytes(encode(each), "big") for each in ALL}
    differences = {a ^ b for a in known for b in known}
    assert not differences.intersection(errors.tolist())
    for each in (ALL[0], ALL[300]):
        right = int.from_bytes(encode(each), "big")
        for error in errors:
            line = int(right ^ error).to_bytes(width // 8, "big")
            assert decode(line[:-1]) is None or line[-1:] != b"\r"


def test_a_damaged_heartbeat_hides_no_other_and_none_appears():
    """One to three wrong bits anywhere in the middle one of three, carriage return included."""
    rng = random.Random(3)
    for _ in range(5000):
        first, middle, last = (encode(each) for each in rng.sample(ALL, 3))
        error = sum(1 << k for k in rng.sample(range(8 * len(middle)), rng.randint(1, 3)))
        damaged = (int.from_bytes(middle, "big") ^ error).to_bytes(len(middle), "big")
        found = HeartbeatFinder().feed(first + damaged + last)
        assert found[0] == decode(first[:-1]) and found[-1] == decode(last[:-1])
        assert len(found) == 2 or damaged[:-1] == middle[:-1]  # its carriage return alone was hit


def test_format_1_is_no_heartbeat():
    finder = HeartbeatFinder()
    assert finder.feed(b"E107DD\rE0FF01\r") == [] and (finder.outdated, finder.damaged) == (2, 2)
    assert finder.feed(b"E107DE\r") == [] and finder.outdated == 2


@given(st.booleans(), st.integers(0, 255))
def test_both_codecs_mean_the_same(permitted, counter):
    emulator = EstopEmulator.__new__(EstopEmulator)
    emulator.pressed, emulator.format, emulator.number = not permitted, 2, counter
    assert HeartbeatFinder().feed(b"\x00E2" + b"\r" + emulator._compose()) == [Heartbeat(permitted, counter)]
    finder = HeartbeatFinder()
    assert (
        len(finder.feed(b"noise" + encode(Heartbeat(True, 1)) + encode(Heartbeat(True, 2)))) == 2 and finder.noise == 1
    )


def test_a_million_random_bytes():
    rng, finder, found = random.Random(5), HeartbeatFinder(), 0
    for _ in range(1000):
        found += len(finder.feed(rng.randbytes(1000)))
        assert len(finder._line) <= 10
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
    # A machine that withholds the processor for longer than a heartbeat may be late stops the robot as well, but not every time.
    tries = []
    while not tries or (tries[-1] and len(tries) < 20):
        assert button.wait_for(lambda: not button.stopped, 20), button.last_error
        button.changes.clear()
        emulator.inject("garbage", 0.5, p=0.3)
        time.sleep(0.6)
        tries.append(list(button.changes))
        assert all("no good heartbeat" in reason for _, stopped, reason in tries[-1] if stopped), tries
    assert not tries[-1], tries


def test_nobody_listening_is_a_stop(button):
    assert button.disable()
    assert button.stopped and "not being listened to" in button.reason


def test_a_transmitter_of_format_1_is_refused_in_a_sentence(button, emulator):
    emulator.set(format=1)
    try:
        assert button.wait_for(lambda: "format 1" in button.last_error, 20)
        assert button.stopped and "docs/hardware/estop.md" in button.last_error
    finally:
        emulator.set(format=2)
    assert button.wait_for(lambda: not button.stopped, 20), button.last_error
