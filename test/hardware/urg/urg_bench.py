"""What tests of the URG share: a driver that collects, the emulated truth beside it, and the sensor's published words."""

import time
import zlib

import numpy as np

from hardware.emulation.machine_time import withheld
from hardware.link import Backoff, State
from hardware.urg.device import UrgDevice, UrgSettings
from hardware.urg.protocol import Geometry

PATIENCE = 90.0  # [s] for what has to happen, on however busy a machine

GEOMETRY = Geometry("URG-04LX(Hokuyo Automatic Co.,Ltd.)", 20, 5600, 1024, 44, 725, 384, 600)


class Collector(UrgDevice):
    """A driver whose scans are kept: (scan, host time of the first ray), and why its link was lost, each time."""

    def __init__(self, port, stale_timeout=0.3, **settings):
        self.got, self.losses = [], []
        super().__init__(
            UrgSettings(port=str(port), **settings),
            on_sample=lambda scan, t: self.got.append((scan, t)),
            backoff=Backoff(seed=1),
            stale_timeout=stale_timeout,
        )
        self.on_state = self._note

    def _note(self):
        if self.state is State.RECONNECTING:
            self.losses.append(self.counters.last_error)

    def run(self, timeout=PATIENCE):
        """Started and streaming."""
        self.start()
        self.enable()
        assert self.wait_for(lambda: len(self.got) > 0, timeout), f"no scan: {self.state} {self.counters.last_error}"
        return self

    def more(self, n, timeout=PATIENCE):
        """The next n scans."""
        have = len(self.got)
        assert self.wait_for(lambda: len(self.got) >= have + n, timeout + 0.2 * n), (
            f"{len(self.got) - have} of {n} scans: {self.state} {self.counters.last_error} {self.faults}"
        )
        return self.got[have : have + n]


def stamp_errors(got, emulator):
    """Stamp of each scan minus the emulated truth [s]."""
    truth = {timer: step_0 for timer, step_0, _ in emulator.stats()["scans"]}
    return np.array([t - scan.geometry.period * scan.window.first / 1024 - truth[scan.timer] for scan, t in got])


def stamps_come_true(driver, emulator, within):
    """Whether twelve stamps in succession are within that of the truth [s].

    The clock is set by the most punctual arrival, and on a busy machine that may not be one of the first.
    """
    end = time.monotonic() + PATIENCE
    while abs(stamp_errors(driver.more(12), emulator)).max() >= within:
        if time.monotonic() > end:
            return False
    return True


def wrong_scans(got, emulator):
    """How many scans are not what was sent."""
    got = list(got)  # the driver goes on collecting, and what comes after the emulator's answer is not in it
    sent = {timer: crc for timer, _, crc in emulator.stats()["scans"]}
    return sum(sent.get(scan.timer) != zlib.crc32(scan.distances.astype(np.int32).tobytes()) for scan, _ in got)


def recovery(driver, emulator, act):
    """Seconds from the end of `act` to the next scan, less what both processes waited for a core."""
    act()
    begin, have = time.monotonic() - withheld() - withheld(emulator.pid), len(driver.got)
    assert driver.wait_for(lambda: len(driver.got) > have, PATIENCE), (
        f"no recovery: {driver.state} {driver.counters.last_error}"
    )
    return time.monotonic() - withheld() - withheld(emulator.pid) - begin
