"""A Hokuyo URG-04LX scanner: its turns as sensor_msgs/LaserScan, as users of urg_node2 know them.

Page: docs/nodes/urg.md.
"""

from __future__ import annotations

import array
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import LaserScan
from std_srvs.srv import SetBool

from hardware.link import RateMeter, State
from hardware.urg.device import Scan, UrgDevice, UrgSettings
from hardware.urg.protocol import SATURATION_2
from nodes.devices.device_node import DeviceConfig, DeviceNode
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main

__all__ = ["Urg", "UrgConfig", "laser_scan", "main"]

SCANS = QoSProfile(depth=20, reliability=ReliabilityPolicy.RELIABLE)
RATE = 10.0  # turns per second of the URG-04LX
FIRST_ANSWER = 3.0  # [s] for a sensor that is there to say whether it can do what is asked


@dataclass(frozen=True)
class UrgConfig(DeviceConfig):
    """Parameters of `urg`; names and defaults are those of urg_node2, and `encoding`."""

    serial_port: str = setting("/dev/ttyACM0", description="path of the port", read_only=True)
    serial_baud: int = setting(
        115200, "baud", (9600, 1_000_000), "rate of an RS-232 line; USB ignores it", read_only=True
    )
    ip_address: str = setting("", description="SCIP over TCP instead of serial_port, if not empty", read_only=True)
    ip_port: int = setting(10940, "", (1, 65535), "TCP port at ip_address", read_only=True)
    frame_id: str = setting("laser", description="frame of the scans", read_only=True)
    angle_min: float = setting(
        -3.14, "rad", (-3.15, 3.15), "first angle, clipped to what the sensor sees", read_only=True
    )
    angle_max: float = setting(
        3.14, "rad", (-3.15, 3.15), "last angle, clipped to what the sensor sees", read_only=True
    )
    skip: int = setting(0, "turns", (0, 9), "turns left out after each published one", read_only=True)
    cluster: int = setting(
        1, "steps", (1, 99), "steps merged into one point: the nearest valid of them", read_only=True
    )
    encoding: str = setting(
        "auto",
        description="characters per point; 2 ends at 4.095 m; auto: 3 if the line is fast enough",
        choices=("auto", "3", "2"),
        read_only=True,
    )
    calibrate_time: bool = setting(
        False, description="measure how long a scan takes to arrive, rather than compute it", read_only=True
    )
    synchronize_time: bool = setting(
        False, description="match the clocks before the first scan, rather than from scans alone", read_only=True
    )
    error_limit: int = setting(
        4, "errors", (0, 1000), "more than this within error_reset_period lead to a reconnection", read_only=True
    )
    error_reset_period: float = setting(
        5.0, "s", (0.1, 600.0), "time after which an error is forgotten", read_only=True
    )
    diagnostics_tolerance: float = setting(
        0.05, "", (0.0, 0.2), "relative error of the rate that is still all right", read_only=True
    )
    diagnostics_window_time: float = setting(
        5.0, "s", (1.0, 60.0), "over which rate and errors are judged", read_only=True
    )
    publish_intensity: bool = setting(
        False, description="the URG-04LX measures none: a warning, no more", read_only=True
    )
    publish_multiecho: bool = setting(
        False, description="the URG-04LX has one echo: a warning, no more", read_only=True
    )

    def __post_init__(self):
        if self.angle_max <= self.angle_min:
            raise ValueError(f"angle_max {self.angle_max:g} must be above angle_min {self.angle_min:g}.")


def laser_scan(scan: Scan, stamp, frame_id: str) -> LaserScan:
    """A scan as a message; `stamp` is the time of its first ray."""
    window, geometry = scan.window, scan.geometry
    message = LaserScan()
    message.header.stamp, message.header.frame_id = stamp, frame_id
    message.angle_increment = geometry.increment * window.cluster
    message.angle_min = geometry.angle(window.first)
    message.angle_max = message.angle_min + message.angle_increment * (window.count - 1)
    message.time_increment = geometry.period / geometry.steps_per_turn * window.cluster
    message.scan_time = geometry.period * (window.skip + 1)
    message.range_min = 1e-3 * geometry.range_min
    message.range_max = 1e-3 * (min(geometry.range_max, SATURATION_2) if window.width == 2 else geometry.range_max)
    message.ranges = array.array("f", np.ascontiguousarray(scan.ranges, np.float32).tobytes())
    return message


class Urg(DeviceNode):
    """See the module's docstring."""

    name = "urg"
    Config = UrgConfig
    device: UrgDevice | None = None
    _laser = True

    def make_device(self) -> UrgDevice:
        c = self.config
        for name, lacks in (("publish_intensity", "measures no intensity"), ("publish_multiecho", "has a single echo")):
            if getattr(c, name):
                self.get_logger().warning(
                    f"Parameter '{name}' is true, but the URG-04LX {lacks}; scans are published without."
                )
        self.rate_tolerance, self.error_window = c.diagnostics_tolerance, c.diagnostics_window_time
        self._laser = True
        self._after_last_byte: deque[float] = deque(maxlen=256)
        self._scans = self.publisher(LaserScan, "scan", SCANS)
        self.service(SetBool, "~/laser", self._on_laser)
        device = UrgDevice(
            UrgSettings(
                c.serial_port,
                c.serial_baud,
                c.ip_address,
                c.ip_port,
                c.angle_min,
                c.angle_max,
                c.skip,
                c.cluster,
                c.encoding,
                c.calibrate_time,
                c.synchronize_time,
                c.error_limit,
                c.error_reset_period,
            ),
            **self.link_options(),
        )
        device.rate = RateMeter(c.diagnostics_window_time)
        return device

    def configure(self) -> None:
        super().configure()
        device = self.device
        # A sensor that is there says at once whether the line is fast enough; one that is absent is waited for.
        device.wait_for(lambda: device.state is State.READY or bool(device.last_error), FIRST_ANSWER)
        if device.refusal:
            raise ValueError(device.refusal)

    def on_sample(self, scan: Scan, t: float) -> None:
        self._scans.publish(laser_scan(scan, self.stamp(t), self.config.frame_id))
        self._after_last_byte.append(time.monotonic() - scan.arrival)

    @property
    def expected_rate(self) -> float:
        return RATE / (self.config.skip + 1) if self._laser else 0.0

    def judge(self):
        return None if self._laser else (DiagnosticStatus.WARN, "laser off on request")

    def diagnose_device(self) -> None:
        device, say = self.device, self.diagnostics.set
        say("laser", "on" if device.lit else "off")
        say("clock_locked", device.clock.locked)
        recent = list(self._after_last_byte)
        say("last_byte_to_publish_p95_ms", 1e3 * float(np.percentile(recent, 95)) if recent else float("nan"))
        if device.window is not None:
            say("points", device.window.count)
            say("encoding", device.window.width)

    def _on_laser(self, asked, answer):
        on = bool(asked.data)
        self._laser = on
        answer.success = self.device.laser(on)
        answer.message = "laser on" if self.device.lit else "laser off"
        if not answer.success:
            answer.message += f", not confirmed: {self.device.last_error or 'no answer'}"
        elif self.device.lit is not on:
            answer.message += ", on as soon as the node is active"
        return answer


def main(args=None) -> int:
    return spin_main(Urg, args)
