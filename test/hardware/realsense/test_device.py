"""The link against the emulated camera: streams, settings, faults and the way back."""

import time
from types import SimpleNamespace

import numpy as np
import pyrealsense2 as rs
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.link import Counters, State
from hardware.realsense import camera as cameras
from hardware.realsense.device import RealSenseDevice, Settings
from hardware.realsense.imager import Swing
from hardware.realsense.imu import Unite
from hardware.realsense.processing import Filters
from hardware.realsense.profiles import Mode
from hardware.realsense.streams import select

SMALL = Mode(424, 240, 30)
TWO = {"depth": SMALL, "color": SMALL}


@pytest.fixture(scope="module")
def process():
    with EmulatorProcess("realsense") as emulator:
        yield emulator


@pytest.fixture
def emulator(process):
    yield process
    process.clear()
    process.set(temperature=35.0, imu_noise=1.0, swing={})


@pytest.fixture
def source(emulator):
    return cameras.emulated(emulator.link)


def test_streams_carry_numbers_stamps_and_metadata(emulator, source, collect, monkeypatch):
    # A busy machine must not have the streams started anew, with numbers that nobody compares.
    monkeypatch.setattr("hardware.realsense.device.SHORTEST_SILENCE", 60.0)
    device = collect(source, Settings(video=TWO))
    assert device.identity.model == "Intel RealSense D435I" and device.identity.serial == "031522070000"
    depth, color = device.more("depth", 20), device.more("color", 5)
    ages = np.array([image.arrival - image.t for image in depth])
    assert (np.diff([image.t for image in depth]) > 0).all()
    assert np.median(np.abs(np.diff([image.t for image in depth]) - 1 / 30)) < 2e-3
    # The camera's clock began when it was switched on: stamps are as true as the least delayed image.
    assert ages.min() < 0.05 and -1e-3 < device.clock.offset - emulator.stats()["boot"] < ages.min() + 0.02
    assert depth[0].domain == "hardware_clock" and depth[0].format == "z16" and color[0].format == "rgb8"
    assert depth[0].metadata["actual_exposure"] == 8500 and depth[0].metadata["frame_counter"] == depth[0].number
    assert device.modes["depth"] >= {SMALL, Mode(848, 480, 30)} and device.modes["gyro"] == {200, 400}
    assert device.clock.locked
    layout = device.layouts[0]
    np.testing.assert_allclose(layout.poses["color"][:3, 3], [0.015, 0, 0], atol=1e-6)
    z = depth[-1].pixels * depth[-1].depth_units
    wall = z[5:15, 30:120]
    assert np.median(wall) == pytest.approx(2.2, abs=0.01)
    # Whatever a busy machine lost is accounted for, frame by frame.
    assert device.disable(5.0)
    numbers = {stream: [image.number for image in device.got[stream]] for stream in TWO}
    assert all(sorted(set(each)) == each for each in numbers.values())
    lost = sum(each[-1] - each[0] + 1 - len(each) for each in numbers.values())
    assert device.counters.dropped == lost
    assert lost <= 3 + device._camera._reader.missed + device.counters.as_dict().get("queue_overruns", 0)


def test_imu_united_at_gyro_rate_follows_the_truth(emulator, source, collect):
    """R8 through the SDK: the emulated body swings, the unit has no noise."""
    swing = dict(amplitude=0.05, angle=0.3, frequency=2.0)
    emulator.set(imu_noise=0.0, swing=swing)
    device = collect(source, Settings(video={}, motion={"gyro": 400, "accel": 200}, unite=Unite.INTERPOLATE))
    device.until(lambda: len(device.got["imu"]) >= 400)
    samples, boot = device.got["imu"][50:350], emulator.stats()["boot"]
    times = np.array([s.t for s in samples])
    # The offset between the clocks moves by no more than 1 ms per second.
    assert np.median(np.diff(times)) == pytest.approx(1 / 400, rel=1.1e-3) and (np.diff(times) > 0).all()
    assert abs(device.clock.offset - boot) < 0.02
    # The gyroscope samples at multiples of its period; host times say which, give or take one.
    numbers = round((times[0] - device.clock.offset) * 400) + np.rint((times - times[0]) * 400)
    omega, force = np.array([s.angular for s in samples]), np.array([s.linear for s in samples])
    angular, linear = min(
        (
            [
                np.array(each)
                for each in zip(*(Swing(**swing).inertial((n + shift) / 400) for n in numbers), strict=True)
            ]
            for shift in range(-3, 4)
        ),
        key=lambda truth: np.abs(truth[0] - omega).max(),
    )
    np.testing.assert_allclose(omega, angular, atol=1e-5)
    assert np.abs(force - linear).max() < 0.01 * 0.05 * (2 * np.pi * 2.0) ** 2


def test_profiles_and_filters_change_while_streaming(source, collect):
    """R5."""
    device = collect(source, Settings(video={"depth": SMALL}))

    def shape(expected):
        device.until(lambda: device.got["depth"] and device.got["depth"][-1].pixels.shape == expected)

    shape((240, 424))
    device.apply(Settings(video={"depth": SMALL}, filters=Filters(decimation=True)))
    shape((120, 212))
    image = device.got["depth"][-1]
    assert image.lens.K[0, 0] == pytest.approx(0.885 * 240 / 2, rel=1e-4)  # intrinsics follow
    device.apply(Settings(video={"depth": Mode(640, 360, 15)}, filters=Filters(clip_distance=1.5)))
    shape((360, 640))
    assert 0 < device.more("depth", 2)[-1].pixels.max() <= 1500
    chain = Filters(disparity=True, spatial=True, temporal=True, hole_filling=True)
    before = (device.got["depth"][-1].pixels == 0).mean()
    device.apply(Settings(video={"depth": Mode(640, 360, 15)}, filters=chain))
    device.until(lambda: (device.got["depth"][-1].pixels == 0).mean() < 0.1 * before)
    device.apply(Settings(video={"color": SMALL}, motion={"gyro": 0}))
    device.until(lambda: set(device.layouts[-1].rates) == {"color", "gyro"})
    device.got.clear()
    device.until(lambda: len(device.got["color"]) > 3 and len(device.got["gyro"]) > 10)
    assert not device.got["depth"]
    device.apply(Settings(video={"depth": Mode(641, 360, 15)}))
    device.until(lambda: "640x360x15" in device.counters.last_error)


def test_stop_is_a_stop(emulator, source, collect, patiently):
    device = collect(source, Settings(video=TWO))
    device.more("depth", 3)
    assert device.disable(60.0)
    patiently(lambda: not emulator.stats()["wanted"])
    count = len(device.got["depth"])
    time.sleep(0.2)
    assert len(device.got["depth"]) == count and device.state is State.READY
    device.enable()
    device.more("depth", 3)


# -- faults ------------------------------------------------------------------------------------------
def test_lost_frames_are_counted_exactly(emulator, source, collect, patiently, monkeypatch):
    monkeypatch.setattr(
        "hardware.realsense.device.SHORTEST_SILENCE", 60.0
    )  # or a busy machine has streams started anew
    device = collect(source, Settings(video={"depth": SMALL}))
    device.more("depth", 5)
    lost_before = emulator.stats()["faults"].get("drop", 0)
    emulator.inject("drop", p=0.3)
    device.more("depth", 40)
    emulator.clear()
    device.more("depth", 5)
    got = list(device.got["depth"])
    lost = got[-1].number - got[0].number + 1 - len(got)
    assert device.counters.dropped >= lost > 3
    # A busy machine may lose some on the cable too; those are counted there.
    patiently(
        lambda: (
            device.counters.frame_gaps
            == emulator.stats()["faults"]["drop"]
            - lost_before
            + device._camera._reader.missed
            + device.counters.as_dict().get("queue_overruns", 0)
        )
    )


def test_malformed_images_are_refused_and_the_process_lives(emulator, source, collect):
    """R11, on the cable: the SDK never sees them, their numbers are missing."""
    device = collect(source, Settings(video={"depth": SMALL}))
    device.more("depth", 3)
    emulator.inject("malformed", p=0.5)
    device.more("depth", 10)
    assert device._camera.refused > 0 and device.counters.frame_gaps > 0
    assert all(image.pixels.shape == (240, 424) for image in device.got["depth"])


def test_frames_sent_twice_are_handed_on_once(emulator, source, collect):
    device = collect(source, Settings(video={"depth": SMALL}))
    device.more("depth", 3)
    emulator.inject("duplicate")
    device.more("depth", 10)
    assert device.counters.dropped >= 8
    numbers = [image.number for image in device.got["depth"]]
    assert numbers == sorted(set(numbers))


def test_frozen_imager_is_noticed(emulator, source, collect):
    device = collect(source, Settings(video={"depth": SMALL}))
    device.more("depth", 15)
    assert not device.warnings
    emulator.inject("freeze")
    device.until(lambda: "frozen" in device.warnings)
    assert "hw_reset" in device.warnings["frozen"] and device.counters.freezes == 1
    emulator.clear("freeze")
    device.until(lambda: not device.warnings)


@pytest.mark.parametrize("by", [-20.0, 20.0])
def test_a_jump_of_the_cameras_clock_moves_no_stamp(emulator, source, collect, by):
    device = collect(source, Settings(video={"depth": SMALL}, motion={"gyro": 0}))
    device.more("depth", 10)
    emulator.inject("time_jump", by=by)
    device.until(lambda: device.counters.as_dict().get("clock_jumps", 0) >= 1)
    device.more("depth", 10)
    times = np.array([image.t for image in device.got["depth"]])
    assert (np.diff(times) > 0).all() and np.diff(times).max() < 2.0
    assert all(abs(image.arrival - image.t) < 1.0 for image in device.got["depth"])


def test_temperature_levels(emulator, source, collect):
    device = collect(source, Settings(video={"depth": SMALL}))
    device.more("depth", 2)
    assert not device.warnings and not device.faults
    emulator.inject("temp", celsius=62.0)
    device.until(lambda: "62 degC" in device.warnings.get("temperature", ""))
    emulator.inject("overtemp")
    device.until(lambda: "75 degC" in device.faults.get("temperature", ""))
    assert "temperature" not in device.warnings
    emulator.clear()
    device.until(lambda: not device.faults and not device.warnings)


def test_vanished_camera_comes_back(emulator, source, collect):
    device = collect(source, Settings(video={"depth": SMALL}))
    device.more("depth", 3)
    t = device.got["depth"][-1].t
    emulator.inject("disconnect")
    device.until(lambda: device.state is State.RECONNECTING)
    assert "vanished" in device.counters.last_error or "no emulated camera" in device.counters.last_error
    emulator.clear("disconnect")
    begin = time.monotonic()
    device.more("depth", 3)
    assert time.monotonic() - begin < 10.0 and device.counters.reconnects >= 1
    assert all(image.t > t for image in device.got["depth"][-3:])
    emulator.inject("power_cycle", seconds=0.3)
    device.until(lambda: device.counters.reconnects >= 2)
    device.more("depth", 3)


def test_stalled_stream_is_restarted_then_reset_then_opened_anew(hand_fed, collect):
    """With a camera that answers a reset and one that cannot (a software device)."""
    for resettable in (True, False):
        camera = hand_fed()
        camera.resettable = resettable
        opened = []
        device = collect(
            lambda camera=camera, opened=opened: opened.append(1) or camera, Settings(video={"depth": SMALL})
        )
        device._heard["depth"] = time.monotonic()  # spares the two seconds that a first frame may take
        device.until(lambda device=device: device.counters.as_dict().get("stream_restarts") == 1)
        assert camera.resets == 0 and len(opened) == 1
        device._heard["depth"] = time.monotonic() - 1.0
        device.until(lambda device=device: device.counters.as_dict().get("hardware_resets") == 1 and len(opened) == 2)
        assert camera.resets == 1 and "no depth frames" in device.counters.last_error
        device.until(lambda device=device: device.layouts and device.state is State.STREAMING)
        device._heard["depth"] = time.monotonic() - 1.0
        device.until(lambda opened=opened: len(opened) == 3)
        assert "opened anew" in device.counters.last_error and camera.resets == 1
        device.until(lambda device=device: device.state is State.STREAMING)
        deadline = time.monotonic() + 10.0
        n = 0
        while not device.got["depth"] and time.monotonic() < deadline:
            n += 1
            camera.push("depth", np.full((240, 424), 900 + n, np.uint16), 33.3 * n, SMALL)
            time.sleep(0.03)
        assert device.got["depth"] and not device.faults


def test_a_host_that_was_busy_blames_no_camera():
    """Turns of the device's thread, by the clock: one of 0.6 s is the host's, a silence over many short ones the camera's."""
    restarts = []
    device = SimpleNamespace(
        _heard={"depth": 10.0},
        _looked=10.0,
        _flowing_since=0.0,
        _step=0,
        stream_rates={"depth": 30},
        faults={},
        counters=Counters(),
        _restart=lambda: restarts.append(1),
    )
    for now in (10.03, 10.06, 10.66, 10.69):
        RealSenseDevice._watch(device, now)
    assert not restarts
    RealSenseDevice._watch(device, 10.72)
    assert len(restarts) == 1 and "no depth frames" in device.counters.last_error


def test_stalled_stream_of_the_emulator(emulator, source, collect):
    device = collect(source, Settings(video=TWO))
    device.more("depth", 3)
    device.more("color", 3)
    emulator.inject("stall_stream", stream="color")
    device.until(lambda: "no color frames" in device.faults.get("stall", ""))
    device.more("depth", 3)
    emulator.clear("stall_stream")
    device.more("color", 5)
    device.until(lambda: not device.faults)


def test_errors_that_the_camera_tells(hand_fed, collect):
    """A software device's notifications do not reach the callback; it is called as the SDK would."""
    camera = hand_fed()
    device = collect(lambda: camera, Settings(video={"depth": SMALL}))

    class Notice:
        def get_category(self):
            return rs.notification_category.hardware_error

        def get_description(self):
            return "Hardware error 5"

    device._notice(Notice())
    device.until(lambda: "Hardware error 5" in device.faults.get("notice", ""))
    device._notices[0] = (time.monotonic() - 6.0, *device._notices[0][1:])
    device.until(lambda: "notice" not in device.faults)


def test_another_camera_is_refused(hand_fed, collect):
    first, second = hand_fed(), hand_fed(serial="2")
    there = [first]
    device = collect(lambda: there[0], Settings(video={"depth": SMALL}))
    there[0] = second
    first.connected = False
    device.until(
        lambda: "expected Intel RealSense D435I 1, found Intel RealSense D435I 2" in device.counters.last_error
    )


def test_absent_cameras_say_what_to_do(collect, tmp_path):
    for source, says in (
        (cameras.usb("_123"), "udev"),
        (cameras.emulated(tmp_path / "no"), "refit emulate"),
        (cameras.recording(tmp_path / "no.db3"), "rosbag_filename"),
    ):
        device = collect(source, Settings(), run=False)
        device.start()
        device.until(lambda device=device, says=says: says in device.last_error)


def test_no_frame_enters_the_sdk_while_its_streams_are_started_or_stopped(source):
    """With the interpreter held on one side and the SDK's lock on the other a stop beside a frame hung for ever."""
    camera, syncer = source(), rs.syncer(100)
    try:
        for sensor in camera.device.query_sensors():
            if profiles := select(sensor, TWO, {}, False):
                with camera.still():
                    sensor.open(profiles)
                    sensor.start(syncer)
        end = time.monotonic() + 60.0
        while not syncer.try_wait_for_frames(100)[0]:
            assert time.monotonic() < end, "no frames"
        with camera.still():
            while syncer.try_wait_for_frames(300)[0]:  # what is under way
                assert time.monotonic() < end, "frames go on"
            assert not syncer.try_wait_for_frames(500)[0]
        while not syncer.try_wait_for_frames(100)[0]:
            assert time.monotonic() < end, "no frames any more"
    finally:
        camera.close()
