"""A camera fed by hand, and a driver that keeps what it delivers."""

import contextlib
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what all tests share

from witness import Witness

rs = pytest.importorskip("pyrealsense2")

from hardware.link import Backoff, DeviceError
from hardware.realsense.device import RealSenseDevice
from hardware.realsense.frame_link import Record
from hardware.realsense.profiles import MODELS, Mode
from hardware.realsense.software_camera import build_device, motion_frame, video_frame


class HandFed:
    """A camera whose frames a test injects; `device` is the SDK's."""

    playback = None

    def __init__(self, model=MODELS["d435i"], serial="1"):
        self.model, self.connected, self.resets, self.resettable = model, True, 0, True
        self.device, self.sensors, self.profiles = build_device(model, serial)
        self.number = defaultdict(int)

    def still(self):
        return contextlib.nullcontext()

    def push(self, stream, values, ms, mode=None, number=None):
        """Inject an image in `mode` (None: the default), or three numbers of gyro or accel."""
        self.number[stream] = self.number[stream] + 1 if number is None else number
        values = np.ascontiguousarray(values)
        if stream in ("gyro", "accel"):
            rates = self.model.gyro_rates if stream == "gyro" else self.model.accel_rates
            record = Record(stream, self.number[stream], ms, 0, 0, 0, 0, values.astype(np.float32).view(np.uint8))
            self.sensors[stream].on_motion_frame(
                motion_frame(record, self.profiles[stream, rates[0]].as_motion_stream_profile())
            )
            return
        imager = self.model.stream(stream)
        mode = mode or imager.modes[0]
        record = Record(
            stream,
            self.number[stream],
            ms,
            8500.0,
            16.0,
            values.shape[1],
            values.shape[0],
            values.reshape(-1).view(np.uint8),
        )
        frame = video_frame(
            record, imager.format, mode, self.profiles[stream, mode].as_video_stream_profile(), self.model.depth_units
        )
        self.sensors[stream].on_video_frame(frame)

    def push_until(self, condition, push, seconds=60.0):
        """push(n) for n = 0, 1, ... until `condition()`: on a busy machine the SDK leaves some out."""
        end, n = time.monotonic() + seconds, 0
        while not condition():
            assert time.monotonic() < end, f"{n} pushes were not enough"
            push(n)
            n += 1
            time.sleep(0.02)

    def reset(self):
        self.resets += 1
        if not self.resettable:
            raise DeviceError("hardware_reset is not implemented for this device")

    def close(self):
        pass


class Collector(RealSenseDevice):
    """A driver whose records are kept by stream (the others by their class's name)."""

    def __init__(self, source, settings, **others):
        self.got, self.layouts = defaultdict(list), []
        others.setdefault("backoff", Backoff(0.02, cap=0.2, seed=1))
        super().__init__(
            source,
            settings,
            on_sample=lambda s, t: self.got[getattr(s, "stream", type(s).__name__)].append(s),
            on_layout=self.layouts.append,
            **others,
        )

    def run(self, timeout=60.0):
        """Started, its streams open."""
        self.start()
        self.enable()
        assert self.wait_for(lambda: bool(self.layouts), timeout), f"{self.state}: {self.last_error}"
        return self

    def until(self, condition, timeout=60.0):
        assert self.wait_for(condition, timeout), (
            f"{self.state} {self.last_error} {self.counters.as_dict()} {self.faults}"
        )

    def more(self, stream, n, timeout=60.0):
        """The next n records of a stream."""
        have = len(self.got[stream])
        self.until(lambda: len(self.got[stream]) >= have + n, timeout)
        return self.got[stream][have : have + n]


@pytest.fixture
def small():
    """The smallest mode of the D435i."""
    return Mode(424, 240, 30)


@pytest.fixture
def witness():
    """A running Witness."""
    with Witness() as each:
        yield each


@pytest.fixture
def hand_fed():
    return HandFed


@pytest.fixture
def collect():
    """A function that makes a running Collector; all are closed afterwards."""
    made = []

    def make(source, settings, run=True, **others):
        made.append(Collector(source, settings, **others))
        return made[-1].run() if run else made[-1]

    yield make
    for device in made:
        device.close()


@pytest.fixture
def patiently():
    """Wait for a condition."""

    def wait(condition, timeout=60.0):
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.005)

    return wait
