"""The rangefinder's node: sensor_msgs/Range, ten times a second.

Page: docs/nodes/rangefinder.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Range

from hardware.rangefinder.device import Rangefinder, Reading
from hardware.rangefinder.protocol import BAUD, MAXIMUM, MINIMUM
from nodes.devices.device_node import DeviceConfig, DeviceNode
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main

__all__ = ["RangefinderConfig", "RangefinderNode", "main"]

RANGES = QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE)


@dataclass(frozen=True)
class RangefinderConfig(DeviceConfig):
    """Parameters of `rangefinder`."""

    port_name: str = setting(
        "/dev/ttyUSB0", "", None, "serial port; /dev/serial/by-id/... survives replugging", read_only=True
    )
    baud_rate: int = setting(BAUD, "Bd", (1200, 4_000_000), "of the sensor", read_only=True)
    frame_id: str = setting("rangefinder", "", None, "frame whose x axis is the beam's", read_only=True)
    field_of_view: float = setting(0.7, "rad", (0.0, 3.14), "of the beam, as the message says it", read_only=True)
    update_rate: float = setting(10.0, "Hz", (0.1, 100.0), "readings that the sensor makes", read_only=True)
    stuck_after: float = setting(
        0.0, "s", (0.0, 3600.0), "the same reading for longer is a warning; 0: never", read_only=True
    )


class RangefinderNode(DeviceNode):
    """See the module's docstring."""

    name = "rangefinder"
    Config = RangefinderConfig

    def make_device(self) -> Rangefinder:
        self._ranges = self.publisher(Range, "~/range", RANGES)
        return Rangefinder(self.config.port_name, self.config.baud_rate, self.config.stuck_after, **self.link_options())

    @property
    def expected_rate(self) -> float:
        return self.config.update_rate

    def on_sample(self, reading: Reading, t: float) -> None:
        message = Range(
            radiation_type=Range.ULTRASOUND,
            field_of_view=self.config.field_of_view,
            min_range=1e-3 * MINIMUM,
            max_range=1e-3 * MAXIMUM,
            range=reading.range,
        )
        message.header.stamp, message.header.frame_id = self.stamp(t), self.config.frame_id
        self._ranges.publish(message)


def main(args=None) -> int:
    return spin_main(RangefinderNode, args)
