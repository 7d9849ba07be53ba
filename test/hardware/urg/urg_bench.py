"""What tests of the URG share: a driver that collects, the emulated truth beside it, and the sensor's published words."""

import time
import zlib

import numpy as np

from hardware.link import Backoff
from hardware.urg.device import UrgDevice, UrgSettings
from hardware.urg.protocol import Geometry

GEOMETRY = Geometry("URG-04LX(Hokuyo Automatic Co.,Ltd.)", 20, 5600, 1024, 44, 725, 384, 600)


class Collector(UrgDevice):
    """A driver whose scans are kept: (scan, host time of the first ray)."""

    def __init__(self, port, **settings):
        self.got = []
        super().__init__(
            UrgSettings(port=str(port), **settings),
            on_sample=lambda scan, t: self.got.append((scan, t)),
            backoff=Backoff(seed=1),
        )

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
            f"{len(self.got) - have} of {n} scans: {self.state} {self.counters.last_error} {self.faults}"
        )
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
    assert driver.wait_for(lambda: len(driver.got) > have, 15.0), (
        f"no recovery: {driver.state} {driver.counters.last_error}"
    )
    return time.monotonic() - begin
