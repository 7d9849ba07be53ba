"""The emergency stop's node: a latched Bool that is true unless the button is known to permit motion.

Page: docs/nodes/estop.md.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from std_msgs.msg import Bool

from hardware.estop.device import EmergencyStop
from hardware.estop.protocol import PERIOD
from nodes.devices.device_node import ERROR, WARN, DeviceConfig, DeviceNode
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.qos import LATCHED

__all__ = ["EstopConfig", "EstopNode", "main"]


@dataclass(frozen=True)
class EstopConfig(DeviceConfig):
    """Parameters of `estop`."""

    port_name: str = setting(
        "/dev/ttyUSB0", "", None, "serial port; /dev/serial/by-id/... survives replugging", read_only=True
    )
    silence: float = setting(
        0.1, "s", (0.03, 1.0), "without a good heartbeat for longer motion is forbidden", read_only=True
    )
    repeat_period: float = setting(
        0.05,
        "s",
        (0.01, 1.0),
        "time between two messages without a change: whoever hears none for a "
        "few of them must stop, as this node may have died",
        read_only=True,
    )


class EstopNode(DeviceNode):
    """See the module's docstring."""

    name = "estop"
    Config = EstopConfig

    _repeat = None

    def make_device(self) -> EmergencyStop:
        self._order = threading.Lock()  # the state read and its message leave together, whichever thread says it
        self._stopped = self.publisher(Bool, "estop", LATCHED)
        self._repeat = self.create_timer(self.config.repeat_period, self._say, clock=self.steady_clock)
        return EmergencyStop(
            self.config.port_name, self.config.silence, lambda stopped, reason: self._say(), **self.link_options()
        )

    @property
    def expected_rate(self) -> float:
        return 1.0 / PERIOD

    def cleanup(self) -> None:
        if self._repeat is not None:
            self.destroy_timer(self._repeat)
        self._repeat = None
        super().cleanup()

    def judge(self):
        if not self.device.stopped:
            return None
        return (WARN if "pressed" in self.device.reason else ERROR), f"stop: {self.device.reason}"

    def diagnose_device(self) -> None:
        self.diagnostics.set("stopped", self.device.stopped)
        self.diagnostics.set("reason", self.device.reason)

    def _say(self) -> None:
        with self._order:
            if self.device is not None and self.context.ok():
                self._stopped.publish(Bool(data=self.device.stopped))


def main(args=None) -> int:
    return spin_main(EstopNode, args)
