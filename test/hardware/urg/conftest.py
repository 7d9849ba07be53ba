"""An emulated sensor in a process of its own, and a driver that collects what it delivers."""

import sys
from pathlib import Path

import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.link import State

# Test modules are imported by path; what they share is found here.
sys.path.insert(0, str(Path(__file__).parent))

from urg_bench import Collector


@pytest.fixture
def emulate():
    """emulate(*arguments) -> EmulatorProcess of a URG, ended after the test."""
    made = []

    def start(*arguments, **keywords):
        made.append(EmulatorProcess("urg", *arguments, **keywords))
        return made[-1]

    yield start
    for emulator in made:
        emulator.stop()


@pytest.fixture
def drive():
    """drive(port, **settings) -> Collector, closed after the test."""
    made = []

    def make(port, **settings):
        made.append(Collector(port, **settings))
        return made[-1]

    yield make
    for driver in made:
        driver.close()
        assert driver.state in (State.CLOSED, State.FAILED)


@pytest.fixture(scope="module")
def fast_emulator():
    """One for all tests of a module that leave it as they found it: four times as fast, without noise and error codes."""
    with EmulatorProcess("urg", "--rpm", "2400", "--noise", "0", "--no-codes") as emulator:
        yield emulator


@pytest.fixture
def fast(fast_emulator):
    """The module's emulator, without faults afterwards."""
    yield fast_emulator
    fast_emulator.clear()
