"""Rangefinder: the text of the data sheet, and the driver beside the emulator."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.emulation.process import EmulatorProcess
from hardware.link import State
from hardware.rangefinder.device import Rangefinder
from hardware.rangefinder.protocol import ReadingFinder


def test_the_text_of_the_data_sheet():
    finder = ReadingFinder()
    assert finder.feed(b"R1000\rR0300\rR5000\r") == [1000, 300, 5000] and finder.damaged == 0
    assert finder.feed(b"R12") == [] and finder.feed(b"34\r") == [1234] and finder.noise == 0
    noisy = ReadingFinder()
    assert noisy.feed(b"xR1000\rR0300\r") == [1000, 300] and noisy.noise == 1
    # Power-up text, a lost byte, a letter, what the sensor cannot say.
    assert finder.feed(b"HRLV-EZ\rR123\rR1x34\rR0299\rR5001\r1000\r") == [] and finder.damaged == 6


@given(st.integers(300, 5000), st.binary(max_size=30), st.lists(st.integers(1, 7), max_size=10))
def test_readings_are_found_in_any_company_and_any_pieces(millimetres, before, pieces):
    finder, stream, at, found = ReadingFinder(), before + b"R%04d\r" % millimetres, 0, []
    for length in [*pieces, len(stream)]:
        found += finder.feed(stream[at : at + length])
        at += length
    assert found[-1] == millimetres


def test_a_million_random_bytes():
    rng, finder, found = random.Random(4), ReadingFinder(), 0
    for _ in range(1000):
        found += len(finder.feed(rng.randbytes(1000)))
        assert len(finder._line) <= 6
    assert found <= 2  # R, four digits of those 256, a carriage return: 1e6 * 47 % * (10/256)^4 / 65536 = 2e-5


@pytest.fixture(scope="module")
def emulator():
    with EmulatorProcess("rangefinder", "--range", 2.0, seed=1) as process:
        yield process


class Driver(Rangefinder):
    def __init__(self, path, **options):
        self.ranges, self.stamps = [], []
        super().__init__(path, stale_timeout=0.3, **options, on_sample=self.keep)
        self.start()
        self.enable()

    def keep(self, reading, t):
        self.ranges.append(reading.range)
        self.stamps.append(t)

    def until(self, condition):
        assert self.wait_for(condition, 90), (self.state, self.last_error, self.ranges[-3:], self.counters.as_dict())


def test_ranges_echoes_and_a_stuck_sensor(emulator):
    driver = Driver(emulator.link, stuck_after=0.35)
    driver.until(lambda: len(driver.ranges) >= 8)
    assert driver.ranges == pytest.approx([2.0] * len(driver.ranges), abs=0.006) and not driver.warnings
    assert all(b > a for a, b in zip(driver.stamps, driver.stamps[1:], strict=False))
    emulator.set(range=0.1)
    driver.until(lambda: driver.ranges[-1] == 0.3)  # nearer than it can measure
    emulator.inject("no_echo")
    driver.until(lambda: driver.ranges[-1] == float("inf"))
    emulator.clear()
    emulator.set(range=1.5)
    driver.until(lambda: driver.ranges[-1] == pytest.approx(1.5, abs=0.006) and not driver.warnings)
    emulator.inject("stuck")
    driver.until(lambda: "stuck" in driver.warnings)
    emulator.clear()
    driver.until(lambda: not driver.warnings)
    emulator.inject("duplicate")
    driver.until(lambda: driver.counters.dropped >= 5)  # no echo is back as soon as that
    emulator.clear()
    emulator.inject("unplug", 0.3)
    driver.until(lambda: driver.state is State.RECONNECTING)
    count = len(driver.ranges)
    driver.until(lambda: driver.state is State.STREAMING and len(driver.ranges) > count)
    emulator.inject("silence")
    driver.until(lambda: driver.state is State.STALE)
    emulator.clear()
    driver.until(lambda: driver.state is State.STREAMING)
    assert driver.disable()
    count = len(driver.ranges)
    time.sleep(0.25)
    assert len(driver.ranges) == count
    driver.close()
