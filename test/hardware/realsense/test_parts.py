"""Pure parts: uniting inertial data, stamps, modes as text, pixels, sensor noise, the frame cable."""

import math
import sys
import threading

import numpy as np
import pytest

from hardware.link import Disconnected
from hardware.realsense.frame_link import MOTION_SLOTS, FramePort, FrameReader
from hardware.realsense.imager import DepthSensor, InertialUnit, Swing, holes
from hardware.realsense.imu import ImuUniter, Unite
from hardware.realsense.pixels import MalformedFrame, checked
from hardware.realsense.processing import PointCloud, cloud_points
from hardware.realsense.profiles import D435I, L515, Mode, parse_mode
from hardware.realsense.scene import cast
from hardware.realsense.stamps import LiveStamps, PlaybackStamps


# -- inertial data -----------------------------------------------------------------------------------
def united(method, swing, seconds=4.0, gyro_rate=200, accel_rate=100):
    """All united samples of a swing, both sensors in their order of arrival."""
    uniter, found = ImuUniter(method), []
    times = sorted(
        [(k / gyro_rate + 0.0013, "gyro") for k in range(int(seconds * gyro_rate))]
        + [(k / accel_rate, "accel") for k in range(int(seconds * accel_rate))]
    )
    for t, name in times:
        omega, force = swing.inertial(t)
        found += uniter.gyro(t, omega) if name == "gyro" else uniter.accel(t, force)
    return found


def test_interpolated_imu_is_at_gyro_rate_and_exact_to_one_percent():
    """R8. Linear interpolation over h has error h^2 / 8 max|a''|; 2 Hz at 100 Hz: (2 pi 2 / 100)^2 / 8 = 0.2 %."""
    swing = Swing(amplitude=0.05, angle=0.3, frequency=2.0)
    found = united(Unite.INTERPOLATE, swing)
    times = np.array([t for t, _, _ in found])
    np.testing.assert_allclose(np.diff(times), 1 / 200, rtol=1e-9)
    assert len(found) >= 4 * 200 - 4
    truth = np.array([np.concatenate(swing.inertial(t)) for t in times])
    got = np.array([np.concatenate([omega, force]) for _, omega, force in found])
    amplitude = 0.05 * (2 * math.pi * 2.0) ** 2
    assert np.abs(got[:, 3:] - truth[:, 3:]).max() < 0.01 * amplitude
    np.testing.assert_array_equal(got[:, :3], truth[:, :3])


def test_angular_rates_that_arrive_late_are_not_lost():
    uniter, found = ImuUniter(Unite.INTERPOLATE), []
    for k in range(50):  # both sensors at equal times, the accelerometer's samples first
        if k % 2 == 0:
            found += uniter.accel(k / 200 + 1e-6, np.array([0.0, 0.0, k]))
        found += uniter.gyro(k / 200, np.zeros(3))
    np.testing.assert_allclose([t for t, _, _ in found], np.arange(1, 49) / 200)
    np.testing.assert_allclose([force[2] for _, _, force in found], np.arange(1, 49), atol=1e-3)


def test_copied_imu_takes_the_newest_acceleration():
    swing = Swing(amplitude=0.05, frequency=2.0)
    found = united(Unite.COPY, swing)
    assert len(found) == 4 * 200
    t, _, force = found[101]
    np.testing.assert_array_equal(force, swing.inertial(math.floor(t * 100) / 100)[1])


def test_inertial_unit_at_rest_feels_gravity_and_its_noise_has_the_stated_density():
    unit = InertialUnit(np.random.default_rng(0))
    omega, force = Swing().inertial(1.0)
    gyro = np.array([unit.measure("gyro", omega, 200) for _ in range(4000)])
    accel = np.array([unit.measure("accel", force, 100) for _ in range(4000)])
    assert gyro.std(axis=0) == pytest.approx(math.radians(0.014) * 10.0, rel=0.1)
    assert accel.mean(axis=0) == pytest.approx([0.0, -9.80665, 0.0], abs=0.01)
    assert np.linalg.norm(unit.bias["accel"]) > 0.0


# -- stamps ------------------------------------------------------------------------------------------
def test_streams_share_one_clock_though_they_interleave():
    stamps, rng = LiveStamps(), np.random.default_rng(1)
    for k in range(400):
        device = 5.0 + k / 200
        stamps.host_time("gyro", device, "hardware_clock", 100.0 + k / 200 + rng.uniform(0.001, 0.002))
        if k % 6 == 5:  # an image of 20 ms ago
            t = stamps.host_time("depth", device - 0.02, "hardware_clock", 100.0 + k / 200 + 0.003)
            assert t == pytest.approx(100.0 + k / 200 - 0.02, abs=0.003)
    assert stamps.jumps == 0 and stamps.clock.locked


@pytest.mark.parametrize("leap", [-30.0, 30.0])
def test_a_leap_of_the_camera_clock_does_not_move_host_time(leap):
    stamps = LiveStamps()
    times = []
    for k in range(60):
        device = 50.0 + k / 30 + (leap if k >= 30 else 0.0)
        times.append(stamps.host_time("depth", device, "hardware_clock", 200.0 + k / 30))
    assert stamps.jumps == 1
    np.testing.assert_allclose(np.diff(times), 1 / 30, atol=2e-3)


def test_wall_clock_domains_are_taken_as_they_are():
    import time

    now, wall = time.monotonic(), time.time()
    for domain in ("global_time", "system_time"):
        assert LiveStamps().host_time("depth", wall - 0.5, domain, now) == pytest.approx(now - 0.5, abs=0.01)


def test_playback_keeps_distances_and_begins_now():
    stamps = PlaybackStamps()
    assert stamps.host_time("depth", 3.0, "hardware_clock", 100.0) == 100.0
    assert stamps.host_time("depth", 3.5, "hardware_clock", 100.01) == 100.5


# -- modes, pixels -----------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ["848x480x30", "848,480,30", " 848X480X30 "])
def test_modes_as_text(text):
    assert parse_mode(text) == Mode(848, 480, 30)


@pytest.mark.parametrize("text", ["", "848x480", "axbxc", "848x480x30x1", "-1x2x3"])
def test_what_is_no_mode_is_refused(text):
    with pytest.raises(ValueError, match="WIDTHxHEIGHTxFPS"):
        parse_mode(text)


@pytest.mark.parametrize(
    ("pixels", "says"),
    [
        (np.zeros((480, 640), np.float32), "uint16"),
        (np.zeros((480, 640), np.int16), "uint16"),
        (np.zeros((479, 640), np.uint16), "shape"),
        (np.zeros((480, 640, 1), np.uint16), "shape"),
        (np.zeros((480, 1280), np.uint16)[:, ::2], "strided"),
        (np.asfortranarray(np.zeros((480, 640), np.uint16)), "strided"),
        (bytes(480 * 640 * 2), "numpy"),
    ],
)
def test_malformed_pixels_are_refused(pixels, says):
    """R11, before the SDK."""
    with pytest.raises(MalformedFrame, match=says):
        checked(pixels, "z16", 640, 480)


def test_good_pixels_pass_untouched():
    pixels = np.zeros((480, 640), np.uint16)
    assert checked(pixels, "z16", 640, 480) is pixels


# -- clouds ------------------------------------------------------------------------------------------
def test_cloud_buffer():
    vertices = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 2], [0, 1, 3]], np.float32)
    texture = np.array([[0.0, 0.0], [0.5, 0.5], [1.5, 0.0], [0.5, 0.5]], np.float32)
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    free = cloud_points(vertices, texture, image, PointCloud())
    np.testing.assert_array_equal(free[:, :3], vertices[[0, 3]])
    assert free[:, 4].copy().view(np.uint32).tolist() == [0x000102, 0x090A0B]
    kept = cloud_points(vertices, texture, image, PointCloud(keep_untextured=True))
    assert len(kept) == 3 and kept[1, 4] == 0.0
    ordered = cloud_points(vertices, texture, image, PointCloud(ordered=True))
    assert np.isnan(ordered[:, 0]).tolist() == [False, True, True, False]


def test_cloud_takes_each_points_own_pixel():
    """Against one point at a time, with coordinates at and beyond every edge, and nowhere at all."""
    rng = np.random.default_rng(4)
    h, w, n = 5, 7, 4000
    image = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
    vertices = rng.uniform(0.3, 3.0, (n, 3)).astype(np.float32)
    vertices[rng.random(n) < 0.2, 2] = 0.0
    # Places around pixels' centres, not between pixels, where rounding of numbers would decide.
    u, v = (rng.integers(-2, size + 2, n).astype(float) for size in (w, h))
    u[::9], v[::9] = w - 1, h - 1
    texture = np.stack([(u + rng.uniform(-0.45, 0.45, n)) / w, (v + rng.uniform(-0.45, 0.45, n)) / h], axis=1).astype(
        np.float32
    )
    for k, nowhere in enumerate((np.inf, -np.inf, np.nan), 1):
        texture[k::17] = u[k::17] = v[k::17] = nowhere
    seen = (u >= 0) & (u < w) & (v >= 0) & (v < h)
    colour = [
        int(image[int(b), int(a)] @ [65536, 256, 1]) if inside else 0 for a, b, inside in zip(u, v, seen, strict=True)
    ]
    measured = vertices[:, 2] > 0.0
    for keep in (False, True):
        chosen = measured & seen if not keep else measured
        free = cloud_points(vertices, texture, image, PointCloud(keep_untextured=keep))
        assert free[:, 4].copy().view(np.uint32).tolist() == [c for c, yes in zip(colour, chosen, strict=True) if yes]
        np.testing.assert_array_equal(free[:, :3], vertices[chosen])
        ordered = cloud_points(vertices, texture, image, PointCloud(ordered=True, keep_untextured=keep))
        assert ordered[:, 4].copy().view(np.uint32).tolist() == colour
        np.testing.assert_array_equal(ordered[:, :3], np.where(chosen[:, None], vertices, np.nan))


# -- emulated imager ---------------------------------------------------------------------------------
@pytest.mark.parametrize("model", [D435I, L515], ids=lambda model: model.name)
def test_noise_grows_with_the_square_of_range(model):
    rng = np.random.default_rng(2)
    sensor = DepthSensor(model, rng)
    for z in (0.5, 1.0, 2.0):
        flat = (z + model.depth_units * rng.random((200, 300))).astype(np.float32)  # anywhere between two counts
        error = sensor.measure(flat, np.zeros(flat.shape, bool)) * model.depth_units - flat
        assert error.std() == pytest.approx(
            math.hypot(model.noise * z * z, model.depth_units / math.sqrt(12)), rel=0.05
        )
        assert abs(error.mean()) < 0.05 * error.std()


def test_holes_at_edges_and_beyond_range():
    z, _ = cast(D435I.stream("depth").intrinsics(Mode(424, 240, 30)), 424, 240)
    hole = holes(z, 0.3, 2.0)
    assert hole[z > 2.0].all()
    row = z[120]
    edges = np.flatnonzero(np.abs(np.diff(row)) > 0.2)
    assert len(edges) >= 2 and all(hole[120, e] and hole[120, e + 1] for e in edges)
    assert not hole[(z < 1.05)].all() and hole.mean() < 0.8


# -- cable -------------------------------------------------------------------------------------------
def test_a_request_that_changes_is_never_seen_half(tmp_path):
    """An emulator that took 424x0x0 for a mode once ended by it."""
    port, asked, end = FramePort(tmp_path / "camera", "d435i", "7"), Mode(424, 240, 30), threading.Event()
    reader, interval = FrameReader(tmp_path / "camera"), sys.getswitchinterval()

    def ask():
        while not end.is_set():
            reader.want({"depth": asked})
            reader.want({})

    asking = threading.Thread(target=ask)
    sys.setswitchinterval(1e-6)
    try:
        asking.start()
        seen = {port.wanted().get("depth") for _ in range(20000)}
    finally:
        end.set()
        asking.join()
        sys.setswitchinterval(interval)
        port.close()
    assert seen == {None, asked}


def test_cable_delivers_what_was_written_and_counts_what_was_overwritten(tmp_path):
    port = FramePort(tmp_path / "camera", "d435i", "7")
    try:
        port.alive(41.0, 40.0)
        reader = FrameReader(tmp_path / "camera")
        assert (reader.model, reader.serial, reader.temperatures, reader.plugged) == ("d435i", "7", (41.0, 40.0), True)
        assert port.wanted() == {}
        reader.want({"depth": Mode(848, 480, 30), "gyro": Mode(0, 0, 200)})
        assert port.wanted() == {"depth": Mode(848, 480, 30), "gyro": Mode(0, 0, 200)}
        image = np.random.default_rng(0).integers(0, 65535, (480, 848)).astype(np.uint16)
        port.write("depth", 1, 33.0, image, width=848, height=480, exposure=8500)
        (record,) = reader.take("depth")
        assert (record.number, record.device_ms, record.exposure) == (1, 33.0, 8500)
        np.testing.assert_array_equal(record.payload.view(np.uint16).reshape(480, 848), image)
        for n in range(MOTION_SLOTS + 10):
            port.write("gyro", n, float(n), np.full(3, n, np.float32))
        numbers = [r.number for r in reader.take("gyro")]
        assert numbers == list(range(numbers[0], MOTION_SLOTS + 10)) and reader.missed == numbers[0]
        port.unplug()
        assert not reader.plugged and not (tmp_path / "camera").is_symlink()
        with pytest.raises(Disconnected, match="no emulated camera"):
            FrameReader(tmp_path / "camera")
        port.replug()
        assert FrameReader(tmp_path / "camera").take("depth") == []
        assert not reader.plugged
    finally:
        port.close()
