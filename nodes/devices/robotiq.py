"""The Robotiq gripper's node: GripperCommand goals, joint state, object detection, reactivation.

Page: docs/nodes/robotiq.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from hardware.link import State
from hardware.robotiq.device import GripperState, RobotiqGripper
from hardware.robotiq.protocol import MODELS, Contact
from nodes.devices.device_node import DeviceNode
from nodes.devices.gripper_action import GripperAction, GripperReading
from nodes.devices.guard import Guard, GuardedConfig
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main, turn
from nodes.framework.qos import LATCHED, STATE
from sim_core.gate import JointLimits

__all__ = ["RobotiqConfig", "RobotiqNode", "main"]

PROCEDURE_LIMIT = 15.0  # [s] for an activation or a release


@dataclass(frozen=True)
class RobotiqConfig(GuardedConfig):
    """Parameters of `robotiq`."""

    port_name: str = setting(
        "/dev/ttyUSB0", "", None, "serial port; /dev/serial/by-id/... survives replugging", read_only=True
    )
    model: str = setting(
        "2f_85", "", None, "which gripper: the registers do not say", choices=tuple(MODELS), read_only=True
    )
    unit: int = setting(
        9, "", (1, 247), "Modbus address; an FT-300 has 9 too and needs a bus of its own", read_only=True
    )
    update_rate: float = setting(50.0, "Hz", (20.0, 200.0), "status polls, and joint states", read_only=True)
    reply_timeout: float = setting(
        0.1, "s", (0.01, 1.0), "for one reply; three go unanswered before the gripper counts as gone", read_only=True
    )
    joint_name: str = setting("finger_joint", "", None, "joint of the joint states", read_only=True)
    joint_open: float = setting(0.0, "rad or m", (-10.0, 10.0), "its position at full width", read_only=True)
    joint_closed: float = setting(
        0.8, "rad or m", (-10.0, 10.0), "its position at no width; of a 2F-140 0.7", read_only=True
    )
    speed: float = setting(0.1, "m/s", (0.0, 0.25), "of the width; clamped to what the model can")
    force: float = setting(60.0, "N", (0.0, 235.0), "of goals that ask for none; clamped to what the model can")
    goal_tolerance: float = setting(0.002, "m", (0.0005, 0.1), "how far from its goal a width still counts as reached")
    goal_timeout: float = setting(15.0, "s", (0.1, 600.0), "after which a goal that has not ended is aborted")
    allow_stalling: bool = setting(True, description="a goal that an object stops short succeeds, as a grasp does")
    on_deactivate: str = setting(
        "stop",
        "",
        None,
        "stop: the fingers stay where they are, and an object in them; open: they let go",
        choices=("stop", "open"),
        read_only=True,
    )
    auto_reactivate: bool = setting(
        False,
        description="activate by itself after a power failure: the fingers open and close, and drop what they hold",
        read_only=True,
    )


class RobotiqNode(DeviceNode):
    """See the module's docstring."""

    name = "robotiq"
    Config = RobotiqConfig
    coroutines = True
    live_parameters = True

    _guard: Guard | None = None
    _action: GripperAction | None = None
    _newest: GripperState | None = None

    # -- device ------------------------------------------------------------------------------------
    def make_device(self) -> RobotiqGripper:
        config = self.config
        self._joint_states = self.publisher(JointState, "joint_states", STATE)
        self._object_detected = self.publisher(Bool, "~/object_detected", LATCHED)
        self.service(Trigger, "~/reactivate_gripper", self._on_reactivate)
        self.service(Trigger, "~/auto_release", self._on_release)
        self._newest, self._said = None, None
        self._guard = Guard(self, _limits(config), 1.0 / config.update_rate)
        self._action = GripperAction(
            self,
            "~/gripper_cmd",
            MODELS[config.model].stroke,
            self._go_to,
            lambda: self.device.halt(),
            self._reading,
            self._trouble,
            self._guard,
        )
        device = RobotiqGripper(
            config.port_name,
            config.model,
            config.unit,
            config.update_rate,
            config.reply_timeout,
            config.on_deactivate,
            config.auto_reactivate,
            **self.link_options(),
        )
        device.closed = self._guard.closed
        return device

    @property
    def expected_rate(self) -> float:
        return self.config.update_rate

    def activate(self) -> None:
        super().activate()
        # A goal sent as soon as the node is active must not find the link one turn short of streaming.
        self.device.wait_for(lambda: self.device.state is not State.READY, 1.0)

    def stop(self) -> None:
        if self._action is not None:
            self._action.abort("the node is stopping")
        super().stop()

    def cleanup(self) -> None:
        if self._action is not None:
            self._action.destroy()
        self._action = None
        super().cleanup()
        if self._guard is not None:
            self._guard.destroy()

    def on_sample(self, state: GripperState, t: float) -> None:
        config, self._newest = self.config, state
        closed = 1.0 - state.width / self.device.model.stroke
        position = config.joint_open + closed * (config.joint_closed - config.joint_open)
        message = JointState(name=[config.joint_name], position=[position])
        message.header.stamp = self.stamp(t)
        self._joint_states.publish(message)
        if state.status.object_detected != self._said:
            self._said = state.status.object_detected
            self._object_detected.publish(Bool(data=self._said))

    def diagnose_device(self) -> None:
        self.diagnostics.set("gate", self._guard.standing)
        state = self._newest
        if state is None:
            return
        status, say = state.status, self.diagnostics.set
        say("width_mm", 1e3 * state.width)
        say("force", state.force)
        say("object_detected", status.object_detected)
        say("contact", status.contact.name.lower())
        say("current", status.current)
        say("fault", f"{status.fault:#04x}")
        say("activation", status.activation)

    # -- goals -------------------------------------------------------------------------------------
    def _go_to(self, width: float, effort: float) -> int:
        low, high = self.device.model.force
        if effort and not low <= effort <= high:
            self.get_logger().warning(
                f"effort {effort:.0f} N is clamped to {low:.0f} to {high:.0f} N", throttle_duration_sec=5.0
            )
        return self.device.go_to(width, self.config.speed, effort or self.config.force)

    def _reading(self) -> GripperReading | None:
        state = self._newest
        if state is None:
            return None
        status = state.status
        return GripperReading(
            state.command,
            state.width,
            state.force,
            moving=status.go_to and status.contact is Contact.MOVING,
            stalled=status.object_detected,
            stopped=not status.go_to,
        )

    def _trouble(self) -> str:
        device = self.device
        if not self.is_active:
            return "the node is not active: activate it first"
        if device.state is not State.STREAMING and device.state is not State.STALE:
            return f"the gripper is not connected ({device.state.value}): {device.last_error or 'no answer yet'}"
        return next(iter(device.faults.values()), "")

    # -- services ----------------------------------------------------------------------------------
    async def _on_reactivate(self, request, response):
        """Answers when the gripper is ready, or why it is not."""
        if why := self._guard.closed():
            response.message = f"not reactivated, as that moves the fingers: {why}"
            return response
        return await self._carry_out(response, "reactivate", lambda status: status.ready, "activated")

    async def _on_release(self, request, response):
        """Answers when the fingers have come to the end of their way; the gripper needs a reactivation then."""
        return await self._carry_out(
            response,
            "release",
            lambda status: status.fault == 0x0F,
            "released: call reactivate_gripper before the next goal",
        )

    async def _carry_out(self, response, procedure: str, done, sentence: str):
        device = self.device
        if not self.is_active or device.state not in (State.STREAMING, State.STALE):
            response.message = "the node is not active, or the gripper is not connected"
            return response
        self._action.abort(f"{procedure} was called")
        getattr(device, procedure)()
        deadline = time.monotonic() + PROCEDURE_LIMIT
        while device.busy and device.state in (State.STREAMING, State.STALE) and time.monotonic() < deadline:
            await turn()
        status = device.status
        response.success = not device.busy and done(status)
        why = next(iter(device.faults.values()), "") or device.last_error
        response.message = sentence if response.success else why or f"no end of it within {PROCEDURE_LIMIT:g} s"
        return response


def _limits(config: RobotiqConfig) -> JointLimits:
    """Of the width [m]. The gripper takes no efforts, and holds its own speed, so that those are any numbers."""
    one = np.ones(1)
    return JointLimits(
        (config.joint_name,), 0.0 * one, MODELS[config.model].stroke * one, np.inf * one, one, np.array([one, one])
    )


def main(args=None) -> int:
    return spin_main(RobotiqNode, args)
