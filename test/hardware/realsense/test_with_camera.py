"""With a real camera: REFIT_REALSENSE_SERIAL names it; something must stand 0.4 to 3 m before it."""

import os
import time

import numpy as np
import pytest

from hardware.link import State
from hardware.realsense import camera as cameras
from hardware.realsense.device import Settings
from hardware.realsense.imu import Unite
from hardware.realsense.processing import PointCloud
from hardware.realsense.profiles import Mode

SERIAL = os.environ.get("REFIT_REALSENSE_SERIAL", "")
pytestmark = [
    pytest.mark.hardware,
    pytest.mark.skipif(not SERIAL, reason="REFIT_REALSENSE_SERIAL names no camera: set it to a serial number"),
]


@pytest.fixture
def source():
    return cameras.usb(SERIAL)


def test_rate_latency_and_stamps(source, collect):
    """848x480 at 30 Hz, depth, colour and alignment: at least 29.5 Hz."""
    mode = Mode(848, 480, 30)
    device = collect(source, Settings(video={"depth": mode, "color": mode}, align=True), stale_timeout=0.15)
    device.more("aligned_depth_to_color", 30)
    images = device.more("depth", 300, 60.0)
    times = np.array([image.t for image in images])
    assert (len(times) - 1) / (times[-1] - times[0]) >= 29.5
    assert (np.diff(times) > 0).all() and np.percentile([image.arrival - image.t for image in images], 95) < 0.15
    assert (images[-1].pixels > 0).mean() > 0.1


def test_cloud_and_imu(source, collect):
    device = collect(
        source,
        Settings(motion={"gyro": 0, "accel": 0}, unite=Unite.INTERPOLATE, cloud=PointCloud()),
        stale_timeout=0.15,
    )
    device.more("Cloud", 5)
    samples = device.more("imu", 400)
    assert np.linalg.norm(np.mean([s.linear for s in samples], axis=0)) == pytest.approx(9.81, abs=0.5)
    assert 0.2 < np.median(device.got["Cloud"][-1].points[:, 2]) < 10.0
    assert 10.0 < device.temperature < 70.0


def test_profile_changes(source, collect):
    device = collect(source, Settings(video={"depth": Mode(848, 480, 30)}), stale_timeout=0.15)
    device.more("depth", 5)
    device.apply(Settings(video={"depth": Mode(640, 480, 30)}))
    device.until(lambda: device.got["depth"][-1].pixels.shape == (480, 640))


def test_hardware_reset_and_return(source, collect):
    device = collect(source, Settings(video={"depth": Mode()}), stale_timeout=0.15)
    device.more("depth", 5)
    device.hardware_reset()
    device.until(lambda: device.state is State.RECONNECTING)
    begin = time.monotonic()
    device.more("depth", 5, 30.0)
    assert time.monotonic() - begin <= 10.0


def test_recording(source, collect, tmp_path):
    device = collect(source, Settings(video={"depth": Mode()}), record=str(tmp_path / "real.db3"), stale_timeout=0.15)
    device.more("depth", 60)
    device.close()
    played = collect(cameras.recording(tmp_path / "real.db3", False), Settings(video={"depth": Mode()}))
    played.until(lambda: played.finished, 60.0)
    live = {image.number: image.pixels for image in device.got["depth"]}
    both = [image for image in played.got["depth"] if image.number in live]
    assert len(both) >= 50 and all((image.pixels == live[image.number]).all() for image in both)
