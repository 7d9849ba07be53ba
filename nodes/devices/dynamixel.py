"""The servo node: Dynamixel servos of one bus as joints.

    dynamixel --ros-args --params-file config/head.yaml

Page: docs/nodes/dynamixel.md.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from control_msgs.msg import DynamicJointState
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from refit_interfaces.msg import JointCommand
from refit_interfaces.srv import GetServoData, SetServoData
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger

from hardware.dynamixel.commands import JointFeedback, Law, PositionStream, VelocityStream
from hardware.dynamixel.device import ServoGroup
from hardware.link import DeviceError
from nodes.devices.device_node import DeviceNode
from nodes.devices.dynamixel_actions import GripperAction, TrajectoryAction
from nodes.devices.dynamixel_config import DynamixelConfig
from nodes.devices.dynamixel_limits import joint_limits
from nodes.devices.dynamixel_messages import ServoMessages
from nodes.devices.guard import Guard, publishers
from nodes.framework.lifecycle import spin_main
from nodes.framework.messages import command_from_message
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import COMMAND, STATE
from sim_core.command import Command, CommandRefused, Mode, Refusal, check_command, part_of

__all__ = ["Dynamixel", "main"]

GOALS = ("goal_position", "goal_velocity", "goal_current", "goal_pwm", "goal_torque")
FUTURE_SLACK = 0.01  # [s] by which two clocks may differ before a stamp is from the future


class Dynamixel(DeviceNode):
    """Converts: commands into sources of the group, its state into messages. See the page."""

    name = "dynamixel"
    Config = DynamixelConfig
    executor_threads = 2  # a scan or a reboot takes its time; lifecycle and actions go on

    guard: Guard | None = None
    _readers: tuple = ()
    _actions: tuple = ()

    # ---- lifecycle -----------------------------------------------------------------------------------
    @property
    def expected_rate(self) -> float:
        return self.config.update_rate

    def make_device(self) -> ServoGroup:
        c = self.config
        try:
            device = ServoGroup(c.port_name, c.baud_rate, c.device_joints(), c.options(), **self.link_options())
        except DeviceError as error:
            raise ValueError(str(error)) from None
        device.gripper = c.gripper(device.names)
        device.before_goals = self._fetch_commands
        device.notice = lambda sentence: self.get_logger().warning(sentence)
        self._make_sources(device)
        settings = [c.joints[name] for name in device.names]
        limits = joint_limits(
            device, self._exclusive, [s.min_inertia for s in settings], [s.max_inertia for s in settings]
        )
        self.guard = Guard(self, limits, device.beat.period)
        device.closed, device.bound = self.guard.closed, self.guard.bound
        # Where a joint goes that a stream does not command, so that its limits do not matter.
        self.anywhere = np.clip(0.0, limits.lower, limits.upper)
        self._messages = ServoMessages(device.names)
        self._dynamic_due = 0.0
        self._pub_joint_states = self.publisher(JointState, "joint_states", STATE)
        self._pub_dynamic = self.publisher(DynamicJointState, "dynamic_joint_states", STATE)
        services = MutuallyExclusiveCallbackGroup()
        for kind, name, callback in (
            (SetBool, "~/set_dxl_torque", self._set_torque),
            (Trigger, "~/reboot_dxl", self._reboot),
            (Trigger, "~/scan", self._scan),
            (GetServoData, "~/get_dxl_data", self._get_data),
            (SetServoData, "~/set_dxl_data", self._set_data),
        ):
            self.service(kind, name, callback, callback_group=services)
        follows = [
            name for k, name in enumerate(device.names) if self._exclusive[k] and not device.arrays.takes_velocity[k]
        ]
        self._actions = (
            TrajectoryAction(self, device, follows),
            *((GripperAction(self, device),) if device.gripper else ()),
        )
        return device

    def _make_sources(self, device: ServoGroup) -> None:
        c, arrays = self.config, device.arrays
        self._exclusive = np.ones(len(device.names), bool)
        if device.gripper:
            self._exclusive[device.gripper.joint] = False
        self._exclusive_names = [name for name, mine in zip(device.names, self._exclusive, strict=True) if mine]
        self._feedback = JointFeedback(arrays, device.loop, self._exclusive, c.command_age_limit)
        self._positions = PositionStream(np.flatnonzero(self._exclusive & ~arrays.takes_velocity), c.command_timeout)
        self._velocities = VelocityStream(np.flatnonzero(self._exclusive & arrays.takes_velocity), c.command_timeout)

    def activate(self) -> None:
        self._readers = tuple(
            (create_polled_subscription(self, kind, topic, COMMAND), callback)
            for kind, topic, callback in (
                (JointCommand, "joint_command", self._on_joint_command),
                (Float64MultiArray, "forward_position_controller/commands", self._on_positions),
                (Float64MultiArray, "velocity_controller/commands", self._on_velocities),
            )
        )
        super().activate()

    def deactivate(self) -> None:
        readers, self._readers = self._readers, ()
        for reader, _ in readers:
            self.destroy_subscription(reader)

    def cleanup(self) -> None:
        self.deactivate()
        for action in self._actions:
            action.destroy()
        self._actions = ()
        super().cleanup()
        if self.guard is not None:
            self.guard.destroy()

    # ---- commands, on the device's thread ------------------------------------------------------------
    def _fetch_commands(self) -> bool:
        """Take what has arrived; whether a command of it was accepted."""
        accepted = False
        for reader, callback in self._readers:
            for message, info in take(reader):
                try:
                    # The middleware's stamp is when it arrived, in system time.
                    callback(message, time.monotonic() - (time.time() - 1e-9 * info["received_timestamp"]))
                    accepted = True
                    self.diagnostics.tick("commands")
                except CommandRefused as error:
                    self.guard.refuse(error)
        return accepted

    def _on_joint_command(self, message: JointCommand, received: float) -> None:
        """The same checks, and the same refusals, as the plant's (sim_core/plant)."""
        command, device = command_from_message(message), self.device
        arrived_ros = self.get_clock().now().nanoseconds * 1e-9 - (time.monotonic() - received)
        age, limit = arrived_ros - command.stamp, self.config.command_age_limit
        if age < -FUTURE_SLACK:
            raise CommandRefused(Refusal.FUTURE, f"stamped {-age:.4f} s in the future")
        if age > limit:
            raise CommandRefused(Refusal.OLD, f"{age:.4f} s old, limit {limit:g} s")
        if self.config.part_of_robot:
            command = part_of(command, device.names)
            if command.mode == Mode.FEEDBACK and not device.arrays.takes_effort.any():
                # Towards the same positions with the servos' own stiffness, to which forces of a model say nothing.
                command = Command(
                    *(Mode.POSITION, command.stamp, command.joints, np.zeros(0), command.position, command.velocity),
                    commander=command.commander,
                )
        command = check_command(command, device.names, self._exclusive_names)
        law = Law(command.mode)
        able = device.arrays.takes_effort if law is not Law.POSITION else ~device.arrays.takes_velocity
        unable = [device.names[k] for k in np.flatnonzero(self._exclusive & ~able)]
        if unable:
            raise CommandRefused(
                Refusal.MODE,
                f"joint {', '.join(unable)} takes no {'effort' if law is not Law.POSITION else 'position'} "
                "in its operating_mode",
            )
        self.guard.admit(command)
        self._claim(self._feedback)
        self._feedback.set(
            law, received - age, received, command.effort, command.position, command.velocity, command.gain
        )

    def _on_positions(self, message: Float64MultiArray, received: float) -> None:
        self._on_stream(self._positions, "forward_position_controller/commands", message, received)

    def _on_velocities(self, message: Float64MultiArray, received: float) -> None:
        self._on_stream(self._velocities, "velocity_controller/commands", message, received)

    def _on_stream(self, stream, topic: str, message, received: float) -> None:
        values = np.asarray(message.data, dtype=float)
        if len(values) != len(stream.which):
            names = ", ".join(self.device.names[k] for k in stream.which) or "none of the joints"
            raise CommandRefused(
                Refusal.SIZE, f"{len(values)} values for {stream.name}, expected {len(stream.which)} for {names}"
            )
        if not np.isfinite(values).all():
            raise CommandRefused(Refusal.NOT_FINITE, f"a value for {stream.name} is not finite")
        if time.monotonic() - received > stream.timeout:
            raise CommandRefused(
                Refusal.OLD, f"taken {time.monotonic() - received:.4f} s after it arrived, limit {stream.timeout:g} s"
            )
        author = self.guard.author(publishers(self, topic))
        self.guard.admit(
            self.guard.positions(self.anywhere, self._spread(stream.which, values, 0.0), author)
            if stream is self._velocities
            else self.guard.positions(self._spread(stream.which, values, self.anywhere), by=author)
        )
        self._claim(stream)
        stream.set(values, received)

    def admit_motion(self, which, position, velocity, author: str) -> None:
        """Let joints `which` pass through positions and velocities, (p, m) each [rad, rad/s]. Raises CommandRefused."""
        for extreme in (np.min, np.max):
            self.guard.admit(
                self.guard.positions(
                    self._spread(which, extreme(position, axis=0), self.anywhere),
                    self._spread(which, extreme(velocity, axis=0), 0.0),
                    author,
                )
            )

    def _spread(self, which, values, elsewhere) -> np.ndarray:
        full = np.broadcast_to(elsewhere, len(self.device.names)).copy()
        full[which] = values
        return full

    def _claim(self, source) -> None:
        why = self.device.take(source)
        if why:
            raise CommandRefused(Refusal.BUSY, f"{source.name}: {why}")

    # ---- samples, on the device's thread ---------------------------------------------------------------
    def on_sample(self, state, t: float) -> None:
        stamp = self.stamp(t)
        self._pub_joint_states.publish(self._messages.joint_state(state, stamp))
        if t >= self._dynamic_due:
            self._dynamic_due = max(self._dynamic_due + self.config.dynamic_period, t)
            self._pub_dynamic.publish(self._messages.dynamic(state, stamp))

    # ---- services --------------------------------------------------------------------------------------
    def _set_torque(self, request, response):
        return self._answer(
            response, lambda: self.device.set_torque(request.data) or f"torque {'on' if request.data else 'off'}"
        )

    def _reboot(self, request, response):
        def reboot() -> str:
            names = self.device.services.reboot()
            return (
                f"rebooted {', '.join(names)}: torque is off"
                if names
                else "no servo reports a hardware error: none rebooted"
            )

        return self._answer(response, reboot)

    def _scan(self, request, response):
        return self._answer(
            response, lambda: "; ".join(map(str, self.device.services.scan())) or "no servo answers at any rate"
        )

    def _get_data(self, request, response):
        def get() -> str:
            response.item_data = self.device.services.get_item(request.id, request.item_name)
            return ""

        return self._answer(response, get)

    def _set_data(self, request, response):
        def put() -> str:
            if request.item_name in GOALS and self.device.torque_on:
                raise DeviceError(
                    f"{request.item_name} moves a joint past all checks: use a command topic, or switch the torque off"
                )
            self.device.services.set_item(request.id, request.item_name, request.item_data)
            return ""

        return self._answer(response, put)

    def _answer(self, response, do):
        try:
            response.message, response.success = do(), True
        except DeviceError as error:
            response.message, response.success = str(error), False
        return response

    # ---- health ----------------------------------------------------------------------------------------
    def diagnose_device(self) -> None:
        device, say = self.device, self.diagnostics.set
        say("torque", "on" if device.torque_on else "off")
        say("source", device.source.name if device.source is not None else device.source_ended or "none")
        say("gate", self.guard.standing)
        say("cycle_jitter_p99_ms", 1e3 * device.beat.jitter())
        state = device.joint_state
        for k, name in enumerate(device.names):
            say(f"{name}/temperature", float(state.temperature[k]))
            say(f"{name}/voltage", float(state.voltage[k]))


def main(args=None) -> int:
    return spin_main(Dynamixel, args)


if __name__ == "__main__":
    sys.exit(main())
