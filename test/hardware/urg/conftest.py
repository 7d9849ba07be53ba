"""An emulated sensor in a process of its own, and a driver that collects what it delivers."""

import time
import zlib

import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.link import Backoff, State
from hardware.urg.device import UrgDevice, UrgSettings


class Collector(UrgDevice):
    """A driver whose scans are kept: (scan, host time of the first ray)."""

    def __init__(self, port, **settings):
        self.got = []
        super().__init__(UrgSettings(port=str(port), **settings), on_sample=lambda scan, t: self.got.append((scan, t)),
                         backoff=Backoff(seed=1))

    def run(self, timeout=10.0):
        """Started and streaming."""
        self.start()
        self.enable()
        assert self.wait_for(lambda: len(self.got) > 0, timeout), f"no scan: {self.state} {self.counters.last_error}"
        return self

    def more(self, n, timeout=10.0):
        """The next n scans."""
        have = len(self.got)
        assert self.wait_for(lambda: len(self.got) >= have + n, timeout + 0.2 * n), (
            f"{len(self.got) - have} of {n} scans: {self.state} {self.counters.last_error} {self.faults}")
        return self.got[have : have + n]


def stamp_errors(got, emulator):
    """Stamp of each scan minus the emulated truth [s]."""
    truth = {timer: step_0 for timer, step_0, _ in emulator.stats()["scans"]}
    return np.array([t - scan.geometry.period * scan.window.first / 1024 - truth[scan.timer] for scan, t in got])


def wrong_scans(got, emulator):
    """How many scans are not what was sent."""
    sent = {timer: crc for timer, _, crc in emulator.stats()["scans"]}
    return sum(sent.get(scan.timer) != zlib.crc32(scan.distances.astype(np.int32).tobytes()) for scan, _ in got)


def recovery(driver, act):
    """Seconds from the end of `act` to the next scan."""
    act()
    begin, have = time.monotonic(), len(driver.got)
    assert driver.wait_for(lambda: len(driver.got) > have, 15.0), f"no recovery: {driver.state} {driver.counters.last_error}"
    return time.monotonic() - begin


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
