"""The camera node against the emulated camera: the reference driver's topics, types, QoS, frames, parameters."""

from pathlib import Path

import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess

pytest.importorskip("rclpy")
pytest.importorskip("pyrealsense2")

EVERYTHING = dict(
    enable_infra1=True,
    enable_infra2=True,
    enable_gyro=True,
    enable_accel=True,
    enable_rgbd=True,
    unite_imu_method=2,
    **{
        "align_depth.enable": True,
        "pointcloud.enable": True,
        "depth_module.depth_profile": "424x240x15",
        "rgb_camera.color_profile": "424x240x15",
    },
)
OPTICAL = "camera_{}_optical_frame"
IMAGES = {
    "color/image_raw": ("color", "rgb8"),
    "depth/image_rect_raw": ("depth", "16UC1"),
    "infra1/image_rect_raw": ("infra1", "mono8"),
    "infra2/image_rect_raw": ("infra2", "mono8"),
    "aligned_depth_to_color/image_raw": ("color", "16UC1"),
}
#: realsense-ros 4.5x: topic -> type, reliable, latched. SYSTEM_DEFAULT leaves the durability to the middleware: None.
REFERENCE = {
    **dict.fromkeys(IMAGES, ("sensor_msgs/msg/Image", True, None)),
    **dict.fromkeys(
        (f"{s}/camera_info" for s in ("color", "depth", "infra1", "infra2", "aligned_depth_to_color")),
        ("sensor_msgs/msg/CameraInfo", True, False),
    ),
    "depth/color/points": ("sensor_msgs/msg/PointCloud2", True, False),
    **dict.fromkeys(("gyro/sample", "accel/sample", "imu"), ("sensor_msgs/msg/Imu", False, False)),
    **dict.fromkeys(("gyro/imu_info", "accel/imu_info"), ("realsense2_camera_msgs/msg/IMUInfo", True, True)),
    **dict.fromkeys(
        (f"{s}/metadata" for s in ("color", "depth", "infra1", "infra2", "gyro", "accel")),
        ("realsense2_camera_msgs/msg/Metadata", True, False),
    ),
    "extrinsics/depth_to_color": ("realsense2_camera_msgs/msg/Extrinsics", True, True),
    "rgbd": ("realsense2_camera_msgs/msg/RGBD", True, False),
}
NODE = "/camera/camera"


@pytest.fixture(scope="module")
def emulated():
    with EmulatorProcess("realsense") as emulator:
        emulator.set(imu_noise=0.0)
        yield emulator


def start(ros, emulator, **parameters):
    process = ros.start("realsense", device_source="emulated", emulator_link=str(emulator.link), **parameters)
    ros.up(NODE)
    return process


def stamp(message):
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def test_every_topic_type_qos_and_frame(ros, emulated):
    import importlib

    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
    from tf2_msgs.msg import TFMessage

    start(ros, emulated, **EVERYTHING)
    topics = {f"{NODE}/{name}": name for name in REFERENCE}
    ros.until(lambda: set(topics) <= {name for name, _ in ros.node.get_topic_names_and_types()}, what="all topics")
    present = dict(ros.node.get_topic_names_and_types())
    received = {}
    for full, name in topics.items():
        kind, reliable, latched = REFERENCE[name]
        assert present[full] == [kind]
        (info,) = ros.node.get_publishers_info_by_topic(full)
        assert (info.qos_profile.reliability == ReliabilityPolicy.RELIABLE) == reliable, name
        assert latched is None or (info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL) == latched, name
        package, _, message = kind.split("/")
        profile = QoSProfile(
            depth=200, reliability=info.qos_profile.reliability, durability=info.qos_profile.durability
        )
        received[name] = ros.listen(getattr(importlib.import_module(f"{package}.msg"), message), full, profile)
    extra = {name for name in present if name.startswith(NODE + "/")} - set(topics)
    assert extra == {f"{NODE}/transition_event"}
    transforms = ros.listen(TFMessage, "/tf_static", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    ros.until(lambda: all(received.values()) and transforms, what="a message on every topic")

    for name, (stream, encoding) in IMAGES.items():
        image = received[name][-1]
        assert (image.header.frame_id, image.encoding) == (OPTICAL.format(stream), encoding)
        assert (image.width, image.height) == (424, 240)
        assert len(image.data) == image.step * image.height
    for name in ("color", "depth", "infra1", "infra2", "aligned_depth_to_color"):
        info = received[f"{name}/camera_info"][-1]
        assert info.header.frame_id == OPTICAL.format("color" if name.startswith("aligned") else name)
        focal = 1.27 * 240 if name in ("color", "aligned_depth_to_color") else 0.885 * 240
        np.testing.assert_allclose(info.k, [focal, 0, 212, 0, focal, 120, 0, 0, 1], rtol=1e-6)
        assert info.p[3] == pytest.approx(-focal * 0.05 if name == "infra2" else 0.0)
        assert info.distortion_model == "plumb_bob"
        # Image and camera_info of one moment carry one stamp.
        images, infos = received[next(t for t in IMAGES if t.startswith(f"{name}/"))], received[f"{name}/camera_info"]
        ros.until(
            lambda images=images, infos=infos: {stamp(m) for m in infos} & {stamp(m) for m in images},
            what=f"image and camera_info of {name} with one stamp",
        )
    cloud = received["depth/color/points"][-1]
    assert cloud.header.frame_id == OPTICAL.format("depth")
    assert [(f.name, f.offset, f.datatype) for f in cloud.fields] == [
        ("x", 0, 7),
        ("y", 4, 7),
        ("z", 8, 7),
        ("rgb", 16, 7),
    ]
    assert cloud.point_step == 20 and len(cloud.data) == 20 * cloud.width * cloud.height > 0
    points = np.frombuffer(cloud.data, np.float32).reshape(-1, 5)[:, :3]
    assert 0.9 < points[:, 2].min() and points[:, 2].max() < 3.0
    for name in ("gyro/sample", "accel/sample", "imu"):
        assert received[name][-1].header.frame_id == OPTICAL.format(name.split("/")[0])
    sample = received["imu"][-1]
    assert sample.linear_acceleration.y == pytest.approx(-9.80665, abs=1e-4)
    assert sample.angular_velocity_covariance[0] == 0.01 and sample.orientation_covariance[0] == -1.0
    assert "frame_number" in received["color/metadata"][-1].json_data
    assert '"actual_exposure": 8500' in received["color/metadata"][-1].json_data
    np.testing.assert_allclose(received["extrinsics/depth_to_color"][-1].translation, [-0.015, 0, 0], atol=1e-6)
    np.testing.assert_allclose(received["extrinsics/depth_to_color"][-1].rotation, np.eye(3).ravel(), atol=1e-6)
    np.testing.assert_allclose(received["gyro/imu_info"][-1].data, np.eye(3, 4).ravel())
    rgbd = received["rgbd"][-1]
    assert rgbd.header.frame_id == OPTICAL.format("color") and rgbd.depth.encoding == "16UC1"
    assert (rgbd.depth.width, rgbd.depth.height) == (rgbd.rgb.width, rgbd.rgb.height)

    frames = {t.child_frame_id: t for t in transforms[-1].transforms}
    for stream in ("depth", "color", "infra1", "infra2", "gyro", "accel"):
        assert frames[f"camera_{stream}_frame"].header.frame_id == "camera_link"
        optical = frames[OPTICAL.format(stream)]
        assert optical.header.frame_id == f"camera_{stream}_frame"
        q = optical.transform.rotation
        np.testing.assert_allclose([q.x, q.y, q.z, q.w], [-0.5, 0.5, -0.5, 0.5], atol=1e-9)
    assert frames["camera_color_frame"].transform.translation.y == pytest.approx(
        -0.015
    )  # to the right of the left imager
    assert frames["camera_infra2_frame"].transform.translation.y == pytest.approx(-0.05)
    assert frames["camera_imu_frame"].header.frame_id == "camera_gyro_frame"
    assert frames[OPTICAL.format("imu")].header.frame_id == "camera_imu_frame"


def test_profiles_filters_services_and_faults(ros, emulated):
    from diagnostic_msgs.msg import DiagnosticStatus
    from realsense2_camera_msgs.srv import DeviceInfo
    from sensor_msgs.msg import Image
    from std_srvs.srv import Empty

    start(ros, emulated, **{"depth_module.depth_profile": "424x240x15", "rgb_camera.color_profile": "424x240x15"})
    health = ros.diagnostics(NODE)
    depth = ros.listen(Image, f"{NODE}/depth/image_rect_raw")
    ros.until(lambda: len(depth) > 10, what="images")
    stamps = [stamp(m) for m in depth]
    assert stamps == sorted(set(stamps))
    # The first status that is well may be older than the first second of measured delays.
    ros.until(lambda: health()[0] == 0 and float(health()[2]["image_publish_p95_ms"]) > 0.0, what="OK, with delays")
    values = health()[2]
    assert values["streams"] == "depth 15 Hz, color 15 Hz"

    # R5: profile and filter while streaming
    def arrives(width, height):
        depth.clear()
        ros.until(lambda: depth and (depth[-1].width, depth[-1].height) == (width, height), what=f"{width}x{height}")

    assert ros.set_parameter(NODE, "depth_module.depth_profile", "640x360x15").successful
    arrives(640, 360)
    assert ros.set_parameter(NODE, "decimation_filter.enable", True).successful
    arrives(320, 180)
    assert ros.set_parameter(NODE, "decimation_filter.enable", False).successful
    arrives(640, 360)
    refused = ros.set_parameter(NODE, "depth_module.depth_profile", "641x360x15")
    assert not refused.successful and "640x360x15" in refused.reason
    assert not ros.set_parameter(NODE, "unite_imu_method", 1).successful
    assert not ros.set_parameter(NODE, "serial_no", "_1").successful

    info = ros.call(DeviceInfo, f"{NODE}/device_info")
    assert (info.device_name, info.serial_number) == ("Intel RealSense D435I", "031522070000")
    assert info.sensors == "Stereo Module,RGB Camera,Motion Module"

    # temperature: WARN from 60, ERROR from 70 degC
    for celsius, level in ((62, DiagnosticStatus.WARN), (71, DiagnosticStatus.ERROR)):
        emulated.inject("temp", celsius=celsius)
        ros.until(
            lambda level=level: health()[0] == level[0] and "degC" in health()[1], what=f"level at {celsius} degC"
        )
    emulated.clear("temp")

    # service hw_reset: away and back
    before = int(health()[2]["reconnects"])
    ros.call(Empty, f"{NODE}/hw_reset")
    ros.until(lambda: int(health()[2].get("reconnects", 0)) > before, what="return after a reset")
    arrives(640, 360)
    assert stamp(depth[-1]) > stamps[-1]

    # unplugged: ERROR at once, back after it returns
    emulated.inject("disconnect")
    ros.until(lambda: health()[0] == DiagnosticStatus.ERROR[0] and "camera" in health()[1], what="ERROR")
    depth.clear()
    emulated.clear("disconnect")
    ros.until(lambda: len(depth) > 3, what="images after the return")
    ros.transition(NODE, "deactivate")
    ros.until(lambda: not emulated.stats()["wanted"], what="streams stopped")


def test_root_namespace_absent_camera_absent_messages(ros, tmp_path, monkeypatch):
    from sensor_msgs.msg import PointCloud2

    monkeypatch.setitem(
        type(ros).start.__globals__,
        "ENTRY",
        "import sys; sys.modules['realsense2_camera_msgs'] = None; "
        "from nodes.framework.entry import {name} as main; sys.exit(main())",
    )
    process = ros.start(
        "realsense",
        "-r",
        "__ns:=/",
        device_source="emulated",
        emulator_link=str(tmp_path / "none"),
        **{"pointcloud.enable": True},
    )
    ros.up("/camera")  # a missing camera is waited for
    ros.until(lambda: "/camera/depth/color/points" in dict(ros.node.get_topic_names_and_types()), what="cloud")
    assert dict(ros.node.get_topic_names_and_types())["/camera/depth/color/points"] == [
        f"sensor_msgs/msg/{PointCloud2.__name__}"
    ]
    names = {name for name, _ in ros.node.get_topic_names_and_types()}
    assert "/camera/depth/image_rect_raw" in names and not names & {
        "/camera/depth/metadata",
        "/camera/extrinsics/depth_to_color",
    }
    health = ros.diagnostics("/camera")
    ros.until(lambda: "no emulated camera" in health()[1], what="the reason")
    code, _, output = ros.finish(process)
    assert code == 0, output
    assert output.count("realsense2_camera_msgs is not there") == 1


def test_page(documentation):
    from nodes.devices.realsense import RealSenseConfig

    page = "realsense.md"
    assert documentation.missing(page, RealSenseConfig) == []
    text = (Path(__file__).resolve().parents[3] / "docs" / "nodes" / page).read_text()
    lacking = [
        name for name in (*REFERENCE, "hw_reset", "device_info", "/tf_static", "diagnostics") if f"`{name}`" not in text
    ]
    assert not lacking
