"""The Ability Hand's node: motor targets in, joint states and touch out.

Page: docs/nodes/ability_hand.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout

from hardware.ability_hand.device import AbilityHand, check_target
from hardware.ability_hand.protocol import JOINTS, LOWER, UPPER, Feedback
from nodes.devices.device_node import DeviceNode
from nodes.devices.guard import Guard, GuardedConfig
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.qos import COMMAND, STATE
from sim_core.command import CommandRefused
from sim_core.gate import JointLimits

__all__ = ["AbilityHandConfig", "AbilityHandNode", "main"]

FINGERS = 5
TOUCH = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)


@dataclass(frozen=True)
class AbilityHandConfig(GuardedConfig):
    """Parameters of `ability_hand`."""

    port_name: str = setting(
        "/dev/ttyUSB0", "", None, "serial port; /dev/serial/by-id/... survives replugging", read_only=True
    )
    baud_rate: int = setting(460800, "Bd", (9600, 4_000_000), "of the hand", read_only=True)
    address: int = setting(0x50, "", (0, 255), "of the hand", read_only=True)
    update_rate: float = setting(100.0, "Hz", (10.0, 500.0), "commands and feedback", read_only=True)
    side: str = setting(
        "l", "", None, "of the body: targets come from hand/<side>/motor_targets", choices=("l", "r"), read_only=True
    )
    feedback: str = setting(
        "touch", "", None, "what comes besides position and current", choices=("touch", "velocity"), read_only=True
    )
    command_timeout: float = setting(
        0.1, "s", (0.01, 10.0), "a target older than this is given up: the fingers stay where they are", read_only=True
    )
    reply_timeout: float = setting(
        0.05, "s", (0.005, 1.0), "for one answer; four go missing before the hand counts as gone", read_only=True
    )
    joint_names: tuple[str, ...] = setting(
        ("index_q1", "middle_q1", "ring_q1", "pinky_q1", "thumb_q2", "thumb_q1"),
        "",
        None,
        "of index, middle, ring, pinky, thumb flexor, thumb rotator; the maker's model's",
        read_only=True,
    )

    def __post_init__(self):
        if len(self.joint_names) != len(JOINTS):
            raise ValueError(f"joint_names has {len(self.joint_names)} names, the hand has {len(JOINTS)} joints")


class AbilityHandNode(DeviceNode):
    """See the module's docstring."""

    name = "ability_hand"
    Config = AbilityHandConfig

    _guard: Guard | None = None

    def make_device(self) -> AbilityHand:
        config = self.config
        self._guard = Guard(self, _limits(config.joint_names), 1.0 / config.update_rate)
        self._joint_states = self.publisher(JointState, "joint_states", STATE)
        self._touch = self.publisher(Float64MultiArray, "~/touch", TOUCH)
        self.subscription(Float64MultiArray, f"hand/{config.side}/motor_targets", self._on_targets, COMMAND)
        device = AbilityHand(
            config.port_name,
            config.update_rate,
            config.feedback == "touch",
            config.address,
            config.baud_rate,
            config.command_timeout,
            config.reply_timeout,
            **self.link_options(),
        )
        device.closed = self._guard.closed
        return device

    def cleanup(self) -> None:
        super().cleanup()
        if self._guard is not None:
            self._guard.destroy()

    @property
    def expected_rate(self) -> float:
        return self.config.update_rate

    def on_sample(self, feedback: Feedback, t: float) -> None:
        message = JointState(name=list(self.config.joint_names), position=feedback.position.tolist())
        if not np.isnan(feedback.velocity).any():
            message.velocity = feedback.velocity.tolist()
        message.header.stamp = self.stamp(t)
        self._joint_states.publish(message)
        if self.config.feedback == "touch":
            layout = MultiArrayLayout(
                dim=[
                    MultiArrayDimension(label="finger", size=FINGERS, stride=feedback.touch.size),
                    MultiArrayDimension(label="sensor", size=6, stride=6),
                ]
            )
            self._touch.publish(Float64MultiArray(layout=layout, data=feedback.touch.ravel().tolist()))
        self._current = feedback.current

    _current: np.ndarray | None = None

    def diagnose_device(self) -> None:
        device = self.device
        self.diagnostics.set("gate", self._guard.standing)
        self.diagnostics.set("commands", device.sent)
        lost = device.counters.timeouts + device.counters.crc_errors
        self.diagnostics.set("loss_percent", 100.0 * lost / max(device.sent, 1))
        if self._current is not None:
            currents = zip(JOINTS, self._current, strict=True)
            self.diagnostics.set("currents", " ".join(f"{name} {ampere:.2f}" for name, ampere in currents))

    def _on_targets(self, message: Float64MultiArray) -> None:
        """Anybody may move the fingers while the gate is open, as an operator does while a controller moves the arm."""
        if not self.is_active:
            return
        try:
            target = check_target(message.data)
            self._guard.admit(self._guard.positions(target))
            self.device.move(target)
        except CommandRefused as error:
            self._guard.refuse(error)
        except ValueError as error:
            self.diagnostics.tick("targets_refused")
            self.get_logger().warning(f"targets refused: {error}", throttle_duration_sec=5.0)


def _limits(joints) -> JointLimits:
    """Of the fingers. The hand takes positions alone, so that effort and inertia are any numbers."""
    one = np.ones(len(joints))
    return JointLimits(tuple(joints), LOWER, UPPER, np.inf * one, one, np.array([one, one]))


def main(args=None) -> int:
    return spin_main(AbilityHandNode, args)
