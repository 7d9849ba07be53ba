"""R9, R10, R11 in processes of their own, as a mistake here ends in the SDK's abort; CI's size, full size by the environment.

REFIT_REALSENSE_CYCLES=1000 REFIT_REALSENSE_FRAMES=100000 python -m pytest test/hardware/realsense/test_endurance.py
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyrealsense2")

ROOT = Path(__file__).resolve().parents[3]
CYCLES = int(os.environ.get("REFIT_REALSENSE_CYCLES", "15"))
FRAMES = int(os.environ.get("REFIT_REALSENSE_FRAMES", "600"))

COMMON = """
import gc, os, sys, threading, time
import numpy as np
from hardware.emulation.emulator import running
from hardware.link import Backoff, State
from hardware.realsense import camera
from hardware.realsense.device import RealSenseDevice, Settings
from hardware.realsense.emulator import RealSenseEmulator
from hardware.realsense.profiles import MODELS, Mode
SMALL = Mode(424, 240, 60)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

def wait(condition, timeout=60.0):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"not within {timeout:g} s"
        time.sleep(0.001)
"""


def run(program, *arguments, timeout):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", COMMON + program, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}\n{done.stderr[-3000:]}"
    return dict(word.split("=") for word in done.stdout.split())


def test_reconnections(tmp_path):
    """R9: unplugged and back again and again, in the midst of streaming; each time a frame within 10 s; nothing is left over."""
    found = run(
        """
emulator = RealSenseEmulator(link=sys.argv[1])
with running(emulator):
    count, slowest = [0], 0.0
    device = RealSenseDevice(camera.emulated(sys.argv[1]), Settings(video={"depth": SMALL, "color": SMALL}),
                             on_sample=lambda s, t: count.__setitem__(0, count[0] + 1), backoff=Backoff(0.005, cap=0.02))
    device.start(); device.enable()
    for cycle in range(int(sys.argv[2])):
        if cycle == 10:
            threads, files, memory = threading.active_count(), len(os.listdir("/proc/self/fd")), resident()
        seen = count[0]
        begin = time.monotonic()
        wait(lambda: count[0] > seen and device.state is State.STREAMING)
        slowest = max(slowest, time.monotonic() - begin)
        reconnects = device.counters.reconnects
        emulator.call(emulator.unplug)
        wait(lambda: device.state is not State.STREAMING)
        emulator.call(emulator.replug)
        wait(lambda: device.counters.reconnects > reconnects)
    wait(lambda: device.state is State.STREAMING)
    print(f"threads={threading.active_count() - threads} files={len(os.listdir('/proc/self/fd')) - files} "
          f"memory={resident() - memory:.1f} slowest={slowest:.2f} reconnects={device.counters.reconnects}")
    device.close()
""",
        tmp_path / "camera",
        CYCLES,
        timeout=300 + CYCLES,
    )
    print(found)
    assert int(found["reconnects"]) >= CYCLES and float(found["slowest"]) < 10.0
    assert abs(int(found["threads"])) <= 1 and abs(int(found["files"])) <= 2
    assert float(found["memory"]) < 10.0 + 0.02 * CYCLES


def test_memory_stays_flat_over_frames(tmp_path):
    """R10: depth, colour and what is made of them; growth after the first tenth."""
    found = run(
        """
sys.path.insert(0, "test/hardware/realsense")
from conftest import HandFed
from hardware.realsense.processing import PointCloud
hand_fed = HandFed()
count = [0]
device = RealSenseDevice(lambda: hand_fed, Settings(video={"depth": SMALL, "color": SMALL}, align=True, cloud=PointCloud()),
                         on_sample=lambda s, t: count.__setitem__(0, count[0] + 1))
device.start(); device.enable()
wait(lambda: device.state is State.STREAMING)
depth, color = np.full((240, 424), 1000, np.uint16), np.zeros((240, 424, 3), np.uint8)
frames, memory = int(sys.argv[1]), None

def idle():
    derived = device._derived
    return derived is None or derived.idle

for n in range(frames // 2):
    if n == frames // 20:
        gc.collect(); memory = resident()
    depth[0, :] = n % 5000
    color[0, :] = n % 251
    samples = device.counters.samples
    hand_fed.push("depth", depth, 16.7 * n, SMALL)
    hand_fed.push("color", color, 16.7 * n, SMALL)
    end = time.monotonic() + 2.0
    while (device.counters.samples == samples or not idle()) and time.monotonic() < end:
        time.sleep(0.0002)
gc.collect()
c = device.counters.as_dict()
print(f"growth={resident() - memory:.2f} samples={device.counters.samples} records={count[0]} "
      f"skipped={c.get('align_skipped', 0) + c.get('cloud_skipped', 0)}")
device.close()
""",
        FRAMES,
        timeout=300 + FRAMES / 100,
    )
    print(found)
    assert int(found["samples"]) >= 0.9 * FRAMES / 2 and int(found["records"]) >= 2.5 * FRAMES / 2
    assert int(found["records"]) + int(found["skipped"]) >= 3.5 * FRAMES / 2
    assert float(found["growth"]) < 5.0


def test_malformed_frames_are_refused_and_the_process_survives():
    """R11: through the same function that feeds the SDK; then good frames still arrive."""
    found = run(
        """
from hardware.realsense.frame_link import Record
from hardware.realsense.pixels import MalformedFrame, checked
from hardware.realsense.software_camera import build_device, video_frame
model = MODELS["d435i"]
device, sensors, profiles = build_device(model, "1")
profile, sensor, got = profiles["depth", SMALL].as_video_stream_profile(), sensors["depth"], []
sensor.open(profile); sensor.start(lambda frame: got.append(frame.get_frame_number()))
good = np.full((240, 424), 7, np.uint16)
bad = [good[:10], np.zeros((240, 848), np.uint16)[:, ::2], good.astype(np.float32), np.zeros((480, 848), np.uint16), good[:0]]
def frame(n, pixels):
    record = Record("depth", n, 16.7 * n, 0, 0, pixels.shape[1], pixels.shape[0], np.ascontiguousarray(pixels).reshape(-1).view(np.uint8))
    return video_frame(record, "z16", SMALL, profile, 0.001)
refused = 0
for n in range(60):
    try:
        sensor.on_video_frame(frame(n, bad[n % 5]) if n % 5 != 1 else checked(bad[1], "z16", 424, 240))
    except MalformedFrame:
        refused += 1
    if n % 2:
        sensor.on_video_frame(frame(n, good))
wait(lambda: len(got) == 30)
sensor.stop(); sensor.close()
print(f"refused={refused} delivered={len(got)}")
""",
        timeout=300,
    )
    assert found == {"refused": "60", "delivered": "30"}
