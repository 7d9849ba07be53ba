"""R6, R7: recordings, as the SDK writes them (.db3) and as it wrote them until 2.57 (.bag)."""

import time

import numpy as np
import pytest
from rosbags.rosbag1 import Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from hardware.link import State
from hardware.realsense import camera as cameras
from hardware.realsense.device import Settings
from hardware.realsense.profiles import Mode

SMALL = Mode(424, 240, 30)
FRAMES = 20

STATIC = 1  # [ns] ros::TIME_MIN: facts about the file


def write_legacy_bag(path, depth, K, units=0.001, period=1 / 30):
    """A ROS 1 bag with depth images (n, h, w) uint16 and camera matrix K; layout: librealsense's ROS file format, version 3."""
    store = get_typestore(Stores.ROS1_NOETIC)
    store.register(
        get_types_from_msg("uint32 fps\nstring encoding\nbool is_recommended\n", "realsense_msgs/msg/StreamInfo")
    )
    m = store.types
    sensor, stream = "/device_0/sensor_0", "/device_0/sensor_0/Depth_0"
    header, stamp = m["std_msgs/msg/Header"], m["builtin_interfaces/msg/Time"]
    h, w = depth.shape[1:]

    def key_value(key, value):
        return m["diagnostic_msgs/msg/KeyValue"](key=key, value=value)

    with Writer(path) as writer:
        connections = {}

        def write(topic, message, t=STATIC):
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], t, store.serialize_ros1(message, kind))

        write("/file_version", m["std_msgs/msg/UInt32"](data=3))
        for key, value in (
            ("Name", "Intel RealSense D435"),
            ("Serial Number", "42"),
            ("Firmware Version", "5.12.7.100"),
        ):
            write("/device_0/info", key_value(key, value))
        write(f"{sensor}/info", key_value("Name", "Stereo Module"))
        write(f"{sensor}/option/Depth Units/value", m["std_msgs/msg/Float32"](data=units))
        write(f"{sensor}/option/Depth Units/description", m["std_msgs/msg/String"](data="units"))
        write(
            f"{stream}/info",
            m["realsense_msgs/msg/StreamInfo"](fps=round(1 / period), encoding="mono16", is_recommended=True),
        )
        roi = m["sensor_msgs/msg/RegionOfInterest"](x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
        write(
            f"{stream}/info/camera_info",
            m["sensor_msgs/msg/CameraInfo"](
                header=header(seq=0, stamp=stamp(sec=0, nanosec=0), frame_id=""),
                height=h,
                width=w,
                distortion_model="Brown Conrady",
                D=np.zeros(5),
                K=np.asarray(K, float).ravel(),
                R=np.eye(3).ravel(),
                P=np.zeros(12),
                binning_x=0,
                binning_y=0,
                roi=roi,
            ),
        )
        write(
            f"{stream}/tf/0",
            m["geometry_msgs/msg/Transform"](
                translation=m["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=0.0),
                rotation=m["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0),
            ),
        )
        for n, image in enumerate(depth):
            t = STATIC + 1_000_000 + int(n * period * 1e9)
            seconds = 100.0 + n * period
            write(
                f"{stream}/image/data",
                m["sensor_msgs/msg/Image"](
                    header=header(
                        seq=n + 1, stamp=stamp(sec=int(seconds), nanosec=int(seconds % 1 * 1e9)), frame_id=""
                    ),
                    height=h,
                    width=w,
                    encoding="mono16",
                    is_bigendian=0,
                    step=2 * w,
                    data=image.reshape(-1).view(np.uint8),
                ),
                t,
            )
            for key, value in (
                ("system_time", str(1e3 * seconds)),
                ("timestamp_domain", "Hardware Clock"),
                ("Actual Exposure", "8500"),
            ):
                write(f"{stream}/image/metadata", key_value(key, value), t)


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(5)
    return {
        "depth": rng.integers(0, 5000, (FRAMES, 240, 424)).astype(np.uint16),
        "color": rng.integers(0, 256, (FRAMES, 240, 424, 3)).astype(np.uint8),
        "gyro": rng.standard_normal((FRAMES, 3)).astype(np.float32),
    }


@pytest.fixture
def db3(tmp_path, truth, hand_fed, collect, monkeypatch):
    """A recording made through the link; its camera has been let go."""
    # The hand that feeds may wait for a processor; a camera that did would be started anew, and the recording with it.
    monkeypatch.setattr("hardware.realsense.device.SHORTEST_SILENCE", 60.0)
    camera = hand_fed()
    device = collect(
        lambda: camera,
        Settings(video={"depth": SMALL, "color": SMALL}, motion={"gyro": 0}),
        record=str(tmp_path / "made"),
    )
    for n in range(FRAMES):
        for stream in ("depth", "color"):
            camera.push(stream, truth[stream][n], 5000.0 + 33.3 * n, SMALL)
        camera.push("gyro", truth["gyro"][n], 5000.0 + 33.3 * n)
        device.until(
            lambda n=n: all(len(device.got[stream]) > n for stream in truth)
        )  # or the driver's queue overflows
    device.close()
    return tmp_path / "made.db3"


@pytest.fixture
def bag(tmp_path, truth):
    write_legacy_bag(tmp_path / "old.bag", truth["depth"], [[212, 0, 212], [0, 212, 120], [0, 0, 1]])
    return tmp_path / "old.bag"


def play(collect, path, real_time, video=None, motion=None, **options):
    return collect(
        cameras.recording(path, real_time), Settings(video=video or {"depth": Mode()}, motion=motion or {}), **options
    )


def test_what_was_recorded_is_played_bit_by_bit(db3, truth, collect):
    """R7."""
    device = play(collect, db3, False, {"depth": Mode(), "color": Mode()}, {"gyro": 0})
    device.until(lambda: device.finished)
    for stream in ("depth", "color"):
        assert [image.number for image in device.got[stream]] == list(range(1, FRAMES + 1))
        for image, pixels in zip(device.got[stream], truth[stream], strict=True):
            np.testing.assert_array_equal(image.pixels, pixels)
    np.testing.assert_array_equal([s.angular for s in device.got["gyro"]], truth["gyro"].astype(float))
    np.testing.assert_allclose(
        [image.device_time for image in device.got["depth"]], 5.0 + 0.0333 * np.arange(FRAMES), atol=1e-6
    )
    assert device.identity.serial == "1" and device.counters.dropped == 0


def test_a_recording_waits_for_the_sensor_that_starts_last(db3, collect, monkeypatch):
    """A busy host may take long between two sensors."""
    monkeypatch.setattr("hardware.realsense.device.RealSenseDevice._set_exposure", lambda *_: time.sleep(0.2))
    device = play(collect, db3, False, {"depth": Mode(), "color": Mode()}, {"gyro": 0})
    device.until(lambda: device.finished)
    assert {stream: len(device.got[stream]) for stream in ("depth", "color", "gyro")} == dict.fromkeys(
        ("depth", "color", "gyro"), FRAMES
    )


@pytest.mark.parametrize("kind", ["db3", "bag"])
@pytest.mark.parametrize("real_time", [True, False])
def test_playback_to_the_end(kind, real_time, request, truth, collect, witness):
    """R6: all frames, stamps as far apart as recorded, then an end that is no error."""
    path = request.getfixturevalue(kind)
    begin, lost = time.monotonic(), witness.lost
    device = play(collect, path, real_time)
    device.until(lambda: device.finished)
    took, lost = time.monotonic() - begin, witness.lost - lost
    depth = device.got["depth"]
    if real_time:  # the SDK leaves out what it is late for, and so what is due while the machine has no time for it
        assert len(depth) >= FRAMES - 5 - lost * 30 and took > 0.3
    else:
        assert len(depth) == FRAMES
    for image in depth:
        np.testing.assert_array_equal(image.pixels, truth["depth"][image.number - 1])
    period = 0.0333 if kind == "db3" else 1 / 30
    np.testing.assert_allclose(
        np.diff([image.t for image in depth]), period * np.diff([image.number for image in depth]), atol=2e-3
    )
    assert device.identity.model == ("Intel RealSense D435I" if kind == "db3" else "Intel RealSense D435")
    time.sleep(0.3)
    assert device.state is State.STREAMING and not device.faults and device.counters.reconnects == 0


@pytest.mark.parametrize("kind", ["db3", "bag"])
def test_playback_in_a_loop(kind, request, collect):
    device = play(collect, request.getfixturevalue(kind), False, loop=True)
    device.until(lambda: device.counters.as_dict().get("loops", 0) >= 3)
    times = [image.t for image in device.got["depth"]]
    assert len(times) >= 3 * FRAMES and not device.finished
    numbers = [image.number for image in device.got["depth"]]
    assert numbers[: 2 * FRAMES] == 2 * list(range(1, FRAMES + 1))


def test_stop_in_the_middle_and_again(db3, collect):
    device = play(collect, db3, False, loop=True)
    for _ in range(3):
        device.more("depth", 5)
        assert device.disable(60.0)
        device.enable()
    device.more("depth", 5)


def test_a_broken_file_says_so(tmp_path, collect):
    path = tmp_path / "broken.bag"
    path.write_bytes(b"#ROSBAG V2.0\n" + bytes(1000))
    device = play(collect, path, True, run=False)
    device.start()
    device.until(lambda: "cannot be played" in device.last_error)


def test_a_second_recording_does_not_overwrite_the_first(db3, hand_fed, collect):
    before = db3.read_bytes()
    camera = hand_fed()
    device = collect(lambda: camera, Settings(video={"depth": SMALL}), record=str(db3))
    device.close()
    assert db3.read_bytes() == before and db3.with_stem("made-1").exists()
