"""A real URG-04LX: REFIT_URG_PORT=/dev/ttyACM0 python -m pytest -m hardware test/hardware/urg."""

import os
import time

import numpy as np
import pytest

from hardware.link import State

PORT = os.environ.get("REFIT_URG_PORT", "")
pytestmark = [pytest.mark.hardware, pytest.mark.skipif(not PORT, reason="REFIT_URG_PORT names no port of a URG-04LX")]


def test_ten_seconds_of_a_real_sensor(drive):
    """Rate, points, laser, clock; and that most of what it sees is valid."""
    baud = int(os.environ.get("REFIT_URG_BAUD", "115200"))
    driver = drive(PORT, baud=baud, calibrate_time=True, synchronize_time=True).run(20.0)
    begin = time.monotonic()
    got = driver.more(100, 20.0)
    assert 100 / (time.monotonic() - begin) == pytest.approx(10.0, rel=0.02)
    assert len(got[-1][0].ranges) == 682 and driver.counters.crc_errors == 0
    stamps, timers = np.array([t for _, t in got]), np.array([scan.timer for scan, _ in got])
    jitter = np.diff(stamps) - 1e-3 * (np.diff(timers) % 2**24)
    assert np.percentile(abs(jitter), 95) < 0.002
    assert np.isfinite(got[-1][0].ranges).mean() > 0.3, "the sensor sees next to nothing: is its window covered?"
    assert driver.laser(False) and driver.laser(True)
    driver.more(5)
    assert driver.disable() and driver.state is State.READY
