"""A RealSense camera with the topics, frames, parameters and services of realsense-ros 4.5x.

    camera --ros-args -r __ns:=/camera -p align_depth.enable:=true
    camera --ros-args -r __ns:=/camera -p device_source:=emulated -p emulator_link:=/tmp/camera

Page: docs/nodes/realsense.md.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.qos import QoSPresetProfiles, QoSProfile
from sensor_msgs.msg import CameraInfo, Image, Imu, PointCloud2
from std_srvs.srv import Empty
from tf2_msgs.msg import TFMessage

from hardware.link import State
from hardware.realsense import camera, records
from hardware.realsense.device import RealSenseDevice, Settings
from hardware.realsense.imu import Unite
from hardware.realsense.processing import Filters, PointCloud
from hardware.realsense.profiles import MOTION, VIDEO, Mode, parse_mode
from nodes.devices import realsense_messages as messages
from nodes.devices.device_node import DeviceConfig, DeviceNode
from nodes.framework.config import setting
from nodes.framework.heap import keep_freed_memory
from nodes.framework.lifecycle import spin_main
from nodes.framework.qos import LATCHED

try:
    from realsense2_camera_msgs.msg import RGBD, Extrinsics, IMUInfo, Metadata
    from realsense2_camera_msgs.srv import DeviceInfo
except ImportError:
    RGBD = Extrinsics = IMUInfo = Metadata = DeviceInfo = None

__all__ = ["RealSense", "RealSenseConfig", "main"]

QOS = {
    "SYSTEM_DEFAULT": QoSPresetProfiles.SYSTEM_DEFAULT.value,
    "DEFAULT": QoSProfile(depth=10),
    "SENSOR_DATA": QoSPresetProfiles.SENSOR_DATA.value,
    "PARAMETERS": QoSPresetProfiles.PARAMETERS.value,
    "SERVICES_DEFAULT": QoSPresetProfiles.SERVICES_DEFAULT.value,
}
IMAGE_TOPICS = {
    "color": "color/image_raw",
    "depth": "depth/image_rect_raw",
    "infra1": "infra1/image_rect_raw",
    "infra2": "infra2/image_rect_raw",
    "aligned_depth_to_color": "aligned_depth_to_color/image_raw",
}
COLOUR_TEXTURE = 2  # of pointcloud.stream_filter: RS2_STREAM_COLOR


def _qos(default: str, what: str):
    return setting(default, "", None, f"quality of service of {what}", choices=QOS, read_only=True)


@dataclass(frozen=True)
class RealSenseConfig(DeviceConfig):
    """Parameters of `camera`; names and defaults are those of realsense-ros, and those of the last group."""

    serial_no: str = setting(
        "", description="serial number, after an underscore: _231622060000; empty: any", read_only=True
    )
    usb_port_id: str = setting("", description="USB port such as 2-1; empty: any", read_only=True)
    device_type: str = setting("", description="regular expression for the model's name; empty: any", read_only=True)
    rosbag_filename: str = setting("", description="recording to play, .db3 or .bag", read_only=True)
    rosbag_loop: bool = setting(False, description="play it again at its end", read_only=True)
    camera_name: str = setting("camera", description="first part of every frame's name", read_only=True)
    base_frame_id: str = setting("link", description="second part of the base frame's name", read_only=True)
    publish_tf: bool = setting(True, description="publish the camera's frames", read_only=True)
    enable_color: bool = setting(True, description="colour stream")
    enable_depth: bool = setting(True, description="depth stream")
    enable_infra1: bool = setting(False, description="left infrared stream")
    enable_infra2: bool = setting(False, description="right infrared stream")
    enable_gyro: bool = setting(False, description="gyroscope")
    enable_accel: bool = setting(False, description="accelerometer")
    enable_rgbd: bool = setting(False, description="topic rgbd: colour and aligned depth in one message")
    depth_profile: str = setting(
        "0,0,0",
        description="WIDTHxHEIGHTxFPS of depth and infrared; 0,0,0: the camera's default",
        name="depth_module.depth_profile",
    )
    color_profile: str = setting(
        "0,0,0", description="WIDTHxHEIGHTxFPS of colour; 0,0,0: the camera's default", name="rgb_camera.color_profile"
    )
    depth_auto_exposure: bool = setting(
        True, description="exposure of depth and infrared by the camera", name="depth_module.enable_auto_exposure"
    )
    color_auto_exposure: bool = setting(
        True, description="exposure of colour by the camera", name="rgb_camera.enable_auto_exposure"
    )
    gyro_fps: int = setting(0, "Hz", (0, 1000), "rate of the gyroscope; 0: the camera's default")
    accel_fps: int = setting(0, "Hz", (0, 1000), "rate of the accelerometer; 0: the camera's default")
    enable_sync: bool = setting(False, description="images of one moment leave together")
    align_depth: bool = setting(
        False, description="also depth as the colour camera would see it", name="align_depth.enable"
    )
    pointcloud: bool = setting(False, description="topic depth/color/points", name="pointcloud.enable")
    ordered_pc: bool = setting(
        False, description="points in the image's order, NaN without depth", name="pointcloud.ordered_pc"
    )
    stream_filter: int = setting(
        2, "", (0, 2), "texture of the points: 0 none, 2 colour", name="pointcloud.stream_filter"
    )
    allow_no_texture_points: bool = setting(
        False, description="keep points that the colour camera does not see", name="pointcloud.allow_no_texture_points"
    )
    decimation: bool = setting(
        False, description="halve depth's resolution, median of each block", name="decimation_filter.enable"
    )
    spatial: bool = setting(False, description="smooth depth within its edges", name="spatial_filter.enable")
    temporal: bool = setting(False, description="smooth depth over time", name="temporal_filter.enable")
    hole_filling: bool = setting(
        False, description="fill holes from their neighbours", name="hole_filling_filter.enable"
    )
    disparity: bool = setting(False, description="filter disparity in place of depth", name="disparity_filter.enable")
    clip_distance: float = setting(-2.0, "m", (-2.0, 100.0), "depth beyond becomes zero; negative: off")
    unite_imu_method: int = setting(0, "", (0, 2), "topic imu: 0 none, 1 newest acceleration copied, 2 interpolated")
    linear_accel_cov: float = setting(0.01, "m^2/s^4", (0.0, 100.0), "variance of accelerations")
    angular_velocity_cov: float = setting(0.01, "rad^2/s^2", (0.0, 100.0), "variance of angular rates")
    depth_qos: str = _qos("SYSTEM_DEFAULT", "depth images")
    color_qos: str = _qos("SYSTEM_DEFAULT", "colour images")
    infra1_qos: str = _qos("SYSTEM_DEFAULT", "left infrared images")
    infra2_qos: str = _qos("SYSTEM_DEFAULT", "right infrared images")
    depth_info_qos: str = _qos("DEFAULT", "depth's camera_info")
    color_info_qos: str = _qos("DEFAULT", "colour's camera_info")
    infra1_info_qos: str = _qos("DEFAULT", "left infrared's camera_info")
    infra2_info_qos: str = _qos("DEFAULT", "right infrared's camera_info")
    gyro_qos: str = _qos("SENSOR_DATA", "the gyroscope")
    accel_qos: str = _qos("SENSOR_DATA", "the accelerometer")
    pointcloud_qos: str = setting(
        "DEFAULT",
        description="quality of service of the point cloud",
        choices=QOS,
        read_only=True,
        name="pointcloud.pointcloud_qos",
    )
    diagnostics_period: float = setting(0.0, "s", (0.0, 60.0), "between diagnostics; 0: one second", read_only=True)
    reconnect_timeout: float = setting(
        6.0,
        "s",
        (0.01, 600.0),
        "longest delay between attempts to reconnect, where reconnect.max_s is not shorter",
        read_only=True,
    )
    wait_for_device_timeout: float = setting(
        -1.0,
        "s",
        (-1.0, 3600.0),
        "for the first contact; then configuration fails; negative: wait for ever",
        read_only=True,
    )
    device_source: str = setting(
        "usb", description="where the camera is", choices=("usb", "emulated", "file"), read_only=True
    )
    emulator_link: str = setting("/tmp/refit-realsense", description="link of the emulated camera", read_only=True)
    rosbag_real_time: bool = setting(
        True, description="play a recording at its own speed; false: as fast as it can be read", read_only=True
    )
    record_filename: str = setting(
        "", description="record all streams into this file (.db3); empty: no", read_only=True
    )

    def __post_init__(self):
        for text in (self.depth_profile, self.color_profile):
            parse_mode(text)
        if self.device_source == "file" and not self.rosbag_filename:
            raise ValueError("device_source is file but rosbag_filename is empty; name a .db3 or .bag file.")
        if self.stream_filter == 1:
            raise ValueError("pointcloud.stream_filter is 1 (depth), which is no texture; use 0 (none) or 2 (colour).")
        if self.unite_imu_method and not (self.enable_gyro and self.enable_accel):
            raise ValueError("unite_imu_method needs enable_gyro and enable_accel.")
        if (self.align_depth or self.enable_rgbd) and not (self.enable_depth and self.enable_color):
            raise ValueError("align_depth.enable and enable_rgbd need enable_depth and enable_color.")

    @property
    def recording(self) -> bool:
        return self.device_source == "file" or bool(self.rosbag_filename)

    def settings(self) -> Settings:
        """What the device shall deliver."""
        depth, color = parse_mode(self.depth_profile), parse_mode(self.color_profile)
        modes = {"depth": depth, "infra1": depth, "infra2": depth, "color": color}
        return Settings(
            video={name: mode for name, mode in modes.items() if getattr(self, f"enable_{name}")},
            motion={name: getattr(self, f"{name}_fps") for name in MOTION if getattr(self, f"enable_{name}")},
            sync=self.enable_sync,
            align=self.align_depth,
            rgbd=self.enable_rgbd and RGBD is not None,
            cloud=PointCloud(
                self.ordered_pc,
                self.stream_filter == COLOUR_TEXTURE and self.enable_color,
                self.allow_no_texture_points,
            )
            if self.pointcloud and self.enable_depth
            else None,
            filters=Filters(
                self.decimation, self.disparity, self.spatial, self.temporal, self.hole_filling, self.clip_distance
            ),
            unite=Unite(self.unite_imu_method),
            auto_exposure={"depth": self.depth_auto_exposure, "color": self.color_auto_exposure},
        )


class RealSense(DeviceNode):
    """See the module's docstring."""

    name = "camera"
    Config = RealSenseConfig
    live_parameters = True

    def __init__(self, name: str | None = None, **kwargs) -> None:
        super().__init__(name, **{"namespace": "camera", **kwargs})
        if self.config.diagnostics_period:
            self.diagnostics.period = self.config.diagnostics_period
        if RGBD is None:
            self.get_logger().warning(
                "realsense2_camera_msgs is not there: no metadata, extrinsics, imu_info, rgbd, device_info."
            )

    # -- device --------------------------------------------------------------------------------------
    def make_device(self) -> RealSenseDevice:
        c = self.config
        self._latencies = {"image": deque(maxlen=512), "cloud": deque(maxlen=512)}
        self._topics: dict[str, object] = {}
        self._layout: records.Layout | None = None
        self._arrange(c)
        self.service(Empty, "~/hw_reset", self._on_reset)
        if DeviceInfo is not None:
            self.service(DeviceInfo, "~/device_info", self._on_device_info)
        source = (
            camera.recording(c.rosbag_filename, c.rosbag_real_time)
            if c.recording
            else camera.emulated(c.emulator_link)
            if c.device_source == "emulated"
            else camera.usb(c.serial_no, c.usb_port_id, c.device_type)
        )
        options = self.link_options()
        options["backoff"].cap = min(c.reconnect_max, c.reconnect_timeout)
        return RealSenseDevice(
            source, c.settings(), on_layout=self._on_layout, loop=c.rosbag_loop, record=c.record_filename, **options
        )

    def configure(self) -> None:
        super().configure()
        patience = self.config.wait_for_device_timeout
        if patience >= 0.0 and not self.device.wait_for(State.READY, patience):
            raise OSError(
                self.device.last_error or f"no camera answered within wait_for_device_timeout ({patience:g} s)"
            )

    def cleanup(self) -> None:
        super().cleanup()
        for publisher in getattr(self, "_topics", {}).values():
            self.destroy_publisher(publisher)
        self._topics = {}

    @property
    def expected_rate(self) -> float:
        c, device = self.config, self.device
        if c.recording and (not c.rosbag_real_time or device is not None and device.finished):
            return 0.0
        settings = c.settings()
        known = device.stream_rates.get(settings.primary) if device is not None else None
        asked = settings.video.get(settings.primary, Mode()).fps or settings.motion.get(settings.primary, 0)
        return float(known or asked or 30)

    def config_changed(self, old: RealSenseConfig, new: RealSenseConfig) -> None:
        if self.device is None:
            return
        settings, offered = new.settings(), self.device.modes
        for name, mode in settings.video.items():
            if mode != Mode() and offered and mode not in offered.get(name, ()):
                there = ", ".join(
                    str(m) for m in sorted(offered.get(name, ()), key=lambda m: (m.width, m.height, m.fps))
                )
                raise ValueError(f"The camera has no {name} profile {mode}; choose one of {there or 'none'}, or 0,0,0.")
        self._arrange(new)
        self.device.apply(settings)

    def _arrange(self, c: RealSenseConfig) -> None:
        """Publishers of what is enabled; of nothing else, so that the graph shows what there is."""
        wanted: dict[str, tuple] = {}
        images = [name for name in VIDEO if getattr(c, f"enable_{name}")]
        for name in images + (["aligned_depth_to_color"] if c.align_depth else []):
            of = "depth" if name == "aligned_depth_to_color" else name
            wanted[IMAGE_TOPICS[name]] = Image, QOS[getattr(c, f"{of}_qos")]
            wanted[f"{name}/camera_info"] = CameraInfo, QOS[getattr(c, f"{of}_info_qos")]
        if c.pointcloud and c.enable_depth:
            wanted["depth/color/points"] = PointCloud2, QOS[c.pointcloud_qos]
        motion = [name for name in MOTION if getattr(c, f"enable_{name}")]
        for name in motion:
            wanted[f"{name}/sample"] = Imu, QOS[getattr(c, f"{name}_qos")]
        if c.unite_imu_method:
            wanted["imu"] = Imu, QOS[c.gyro_qos]
        if c.publish_tf:
            wanted["/tf_static"] = TFMessage, LATCHED
        if Metadata is not None:
            wanted |= {f"{name}/metadata": (Metadata, QOS["DEFAULT"]) for name in images + motion}
            wanted |= {f"{name}/imu_info": (IMUInfo, LATCHED) for name in motion}
            if c.enable_depth and c.enable_color:
                wanted["extrinsics/depth_to_color"] = Extrinsics, LATCHED
            if c.enable_rgbd:
                wanted["rgbd"] = RGBD, QOS["DEFAULT"]
        for topic in set(self._topics) - set(wanted):
            self.destroy_publisher(self._topics.pop(topic))
        for topic in set(wanted) - set(self._topics):
            kind, qos = wanted[topic]
            self._topics[topic] = self.create_publisher(kind, topic if topic.startswith("/") else f"~/{topic}", qos)

    # -- messages, on the device's thread ------------------------------------------------------------
    def on_sample(self, sample, t: float) -> None:
        stamp = self.stamp(t)
        if isinstance(sample, records.Image):
            self._publish_image(sample, stamp)
        elif isinstance(sample, records.Motion):
            topic = "imu" if sample.stream == "imu" else f"{sample.stream}/sample"
            self._publish(
                topic,
                lambda: messages.imu(
                    sample,
                    stamp,
                    self._optical(sample.stream),
                    self.config.angular_velocity_cov,
                    self.config.linear_accel_cov,
                ),
            )
            self._publish_metadata(sample, stamp)
        elif isinstance(sample, records.Cloud):
            self._publish("depth/color/points", lambda: messages.point_cloud(sample, stamp, self._optical("depth")))
            self._latencies["cloud"].append(time.monotonic() - sample.arrival)
        elif isinstance(sample, records.Rgbd):
            self._publish("rgbd", lambda: self._rgbd(sample, stamp))

    def _publish_image(self, image: records.Image, stamp) -> None:
        frame = self._optical(image.stream)
        self._publish(IMAGE_TOPICS[image.stream], lambda: messages.image(image, stamp, frame))
        self._latencies["image"].append(time.monotonic() - image.arrival)
        self._publish(f"{image.stream}/camera_info", lambda: self._info(image, stamp))
        self._publish_metadata(image, stamp)

    def _publish(self, topic: str, make) -> None:
        publisher = self._topics.get(topic)  # a live change may have taken it away
        if publisher is not None:
            publisher.publish(make())

    def _publish_metadata(self, sample, stamp) -> None:
        publisher = self._topics.get(f"{sample.stream}/metadata")
        if publisher is not None and publisher.get_subscription_count():
            message = Metadata(json_data=messages.metadata_json(sample))
            message.header.stamp, message.header.frame_id = stamp, self._optical(sample.stream)
            publisher.publish(message)

    def _info(self, image: records.Image, stamp) -> CameraInfo:
        baseline = float(self._layout.poses["infra2"][0, 3]) if image.stream == "infra2" else 0.0
        return messages.camera_info(image.lens, stamp, self._optical(image.stream), baseline)

    def _rgbd(self, pair: records.Rgbd, stamp):
        message = RGBD(
            rgb_camera_info=self._info(pair.color, stamp),
            depth_camera_info=self._info(pair.depth, stamp),
            rgb=messages.image(pair.color, stamp, self._optical("color")),
            depth=messages.image(pair.depth, stamp, self._optical("color")),
        )
        message.header.stamp, message.header.frame_id = stamp, self._optical("color")
        return message

    def _optical(self, stream: str) -> str:
        """Frame of a stream's data; aligned depth is in the colour camera's."""
        return f"{self.config.camera_name}_{'color' if stream == 'aligned_depth_to_color' else stream}_optical_frame"

    def _on_layout(self, layout: records.Layout) -> None:
        self._layout = layout
        c = self.config
        self._publish(
            "/tf_static",
            lambda: TFMessage(
                transforms=messages.static_transforms(
                    layout,
                    c.camera_name,
                    f"{c.camera_name}_{c.base_frame_id}",
                    bool(c.unite_imu_method),
                    self.get_clock().now().to_msg(),
                )
            ),
        )
        if "color" in layout.poses:
            self._publish("extrinsics/depth_to_color", lambda: messages.extrinsics(Extrinsics, layout.poses["color"]))
        for name, (data, noise, bias) in layout.imu.items():
            self._publish(
                f"{name}/imu_info",
                lambda name=name, data=data, noise=noise, bias=bias: messages.imu_info(
                    IMUInfo, data, noise, bias, self._optical(name)
                ),
            )

    # -- services ------------------------------------------------------------------------------------
    def _on_reset(self, request, response):
        self.get_logger().info("Hardware reset: the camera vanishes and comes back.")
        self.device.hardware_reset()
        return response

    def _on_device_info(self, request, response):
        facts = self.device.facts
        response.device_name, response.serial_number = facts.get("name", ""), facts.get("serial", "")
        response.firmware_version, response.usb_type_descriptor = facts.get("firmware", ""), facts.get("usb", "")
        response.firmware_update_id, response.sensors = facts.get("update_id", ""), facts.get("sensors", "")
        response.physical_port = facts.get("port", "")
        return response

    # -- health --------------------------------------------------------------------------------------
    def judge(self):
        device = self.device
        if device.finished:
            return DiagnosticStatus.OK, "end of the recording"
        if device.clock is not None and device.clock.offset is not None and not device.clock.locked:
            return DiagnosticStatus.WARN, "clock of the camera not yet matched"
        return None

    def diagnose_device(self) -> None:
        for name, latencies in self._latencies.items():
            recent = list(latencies)
            for percent in (50, 95):
                self.diagnostics.set(
                    f"{name}_publish_p{percent}_ms", 1e3 * float(np.percentile(recent, percent)) if recent else 0.0
                )
        self.diagnostics.set("temperature", self.device.temperature)
        self.diagnostics.set(
            "streams", ", ".join(f"{name} {rate} Hz" for name, rate in self.device.stream_rates.items())
        )


def main(args=None) -> int:
    keep_freed_memory()
    return spin_main(RealSense, args)
