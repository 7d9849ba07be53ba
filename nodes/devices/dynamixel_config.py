"""Parameters of the dynamixel node, and the joints they describe."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardware.dynamixel.device import GroupOptions
from hardware.dynamixel.gripper import Gripper, JawMap
from hardware.dynamixel.joints import Joint
from hardware.dynamixel.tables import CURRENT_BASED_POSITION, MODELS
from hardware.dynamixel.transports import TRANSPORTS
from hardware.link import DeviceError
from nodes.devices.guard import GuardedConfig
from nodes.framework.config import group, setting

__all__ = ["DynamixelConfig", "JointSettings"]


@dataclass(frozen=True)
class JointSettings:
    """One joint: `joints.<name>.*`."""

    id: int = setting(1, "", (0, 252), "of the servo on the bus", read_only=True)
    model: str = setting("XM430-W350", "", None, "of the servo", choices=tuple(MODELS), read_only=True)
    operating_mode: int = setting(
        3,
        "",
        (0, 16),
        "0 current, 1 velocity, 3 position, 4 extended position, 5 current-based position, 16 PWM",
        read_only=True,
    )
    direction: int = setting(1, "", (-1, 1), "1: the joint turns as the servo does, -1: against it", read_only=True)
    zero_count: int = setting(
        -1, "counts", (-1, 1_048_575), "position count at the joint's zero; -1: the model's middle", read_only=True
    )
    gear_ratio: float = setting(1.0, "", (1e-3, 1e3), "turns of the servo per turn of the joint", read_only=True)
    min_rad: float = setting(-math.pi, "rad", (-1e4, 1e4), "lowest joint position", read_only=True)
    max_rad: float = setting(math.pi, "rad", (-1e4, 1e4), "highest joint position", read_only=True)
    max_velocity: float = setting(
        0.0, "rad/s", (0.0, 1e3), "of the joint; 0: the servo's without a load", read_only=True
    )
    max_effort: float = setting(0.0, "N m", (0.0, 1e4), "of the joint; 0: the servo's stall torque", read_only=True)
    min_inertia: float = setting(
        0.0,
        "kg m^2",
        (0.0, 1e3),
        "that the servo moves at least, all other joints free, in current or PWM mode; 0: its own, for a mechanical time "
        "constant of 12 ms",
        read_only=True,
    )
    max_inertia: float = setting(
        0.0,
        "kg m^2",
        (0.0, 1e3),
        "that it moves at most, all other joints held: how soon it can brake; 0: ten times min_inertia",
        read_only=True,
    )
    torque_constant: float = setting(
        0.0, "N m/A", (0.0, 100.0), "of the servo's output; 0: the data sheet's", read_only=True
    )
    current_limit: float = setting(0.0, "A", (0.0, 100.0), "written to the servo; 0: as it is", read_only=True)
    position_p: int = setting(
        -1, "", (-1, 16383), "the servo's own position gain, register value; -1: as it is", read_only=True
    )
    position_i: int = setting(-1, "", (-1, 16383), "likewise", read_only=True)
    position_d: int = setting(-1, "", (-1, 16383), "likewise", read_only=True)
    velocity_integral: str = setting(
        "driver",
        "",
        None,
        "who integrates in velocity mode: the driver, so that the joint stops at once when this process ends, or the servo, "
        "which then runs out for 0.3 to 0.7 s but holds a load afterwards",
        choices=("driver", "servo"),
        read_only=True,
    )
    profile_velocity: float = setting(
        0.0, "rad/s", (0.0, 1e3), "of the servo's own profile, at the joint; 0: none", read_only=True
    )
    profile_acceleration: float = setting(0.0, "rad/s^2", (0.0, 1e5), "likewise", read_only=True)
    loop_p: float = setting(
        6.0,
        "N m/rad",
        (0.0, 1e5),
        "position loop on the bus cycle, for servos that take current or PWM",
        read_only=True,
    )
    loop_i: float = setting(12.0, "N m/(rad s)", (0.0, 1e5), "likewise", read_only=True)
    loop_d: float = setting(0.5, "N m s/rad", (0.0, 1e4), "likewise; also of stop_state damped", read_only=True)

    def joint(self, name: str) -> Joint:
        """As the device takes it. Raises DeviceError."""
        if self.direction == 0:
            raise DeviceError(f"joints.{name}.direction is 0: use 1 or -1")
        model = MODELS[self.model]
        values = {
            field: getattr(self, field)
            for field in self.__dataclass_fields__
            if field not in ("model", "operating_mode", "zero_count", "min_inertia", "max_inertia")
        }
        zero = self.zero_count if self.zero_count >= 0 else model.zero_count
        return Joint(name=name, model=model, mode=self.operating_mode, zero_count=zero, **values)


@dataclass(frozen=True)
class DynamixelConfig(GuardedConfig):
    """Parameters of the dynamixel node."""

    port_name: str = setting(
        "/dev/ttyUSB0", "", None, "serial port; /dev/serial/by-id/... stays the same over replugging", read_only=True
    )
    baud_rate: int = setting(57600, "baud", (9600, 10_500_000), "of the bus", read_only=True)
    protocol_version: float = setting(
        2.0, "", (1.0, 2.0), "of the bus, 1.0 or 2.0; must be that of the joints' models", read_only=True
    )
    transport: str = setting(
        "refit",
        "",
        None,
        "who speaks on the bus: the driver itself, or the maker's library, for adapters and servos that only it knows",
        choices=TRANSPORTS,
        read_only=True,
    )
    update_rate: float = setting(100.0, "Hz", (1.0, 400.0), "of the bus cycle and of joint_states", read_only=True)
    error_timeout_ms: float = setting(
        500.0,
        "ms",
        (50.0, 10_000.0),
        "silence of all servos before goals abort and the bus is reopened",
        read_only=True,
    )
    reply_latency_ms: float = setting(
        20.0, "ms", (1.0, 500.0), "allowed to adapter and servos beyond the time on the wire", read_only=True
    )
    fast_sync_read: bool = setting(
        True, "", None, "one common reply of several servos, if the firmware of all knows it", read_only=True
    )
    part_of_robot: bool = setting(
        False,
        "",
        None,
        "joint_command is that of a whole robot: other joints are left to others, and joints that track positions by "
        "themselves follow those of a feedback law",
        read_only=True,
    )
    torque_on_activate: bool = setting(
        False, "", None, "torque comes on with activation, where the joints stand", read_only=True
    )
    on_deactivate: str = setting(
        "off",
        "",
        None,
        "torque off, hold by the servos themselves, or brake to rest and then off",
        choices=("off", "hold", "brake"),
        read_only=True,
    )
    bus_watchdog_ms: float = setting(
        100.0, "ms", (0.0, 2540.0), "a servo stops by itself after this long without a word; 0: never", read_only=True
    )
    stop_state: str = setting(
        "hold",
        "",
        None,
        "what servos that take current or PWM do without a command",
        choices=("hold", "damped", "zero"),
        read_only=True,
    )
    command_age_limit: float = setting(
        0.1,
        "s",
        (0.001, 10.0),
        "older joint commands are refused; after this long without one the joints stop",
        read_only=True,
    )
    command_timeout: float = setting(
        0.1, "s", (0.001, 10.0), "of forward commands: then velocities are zero, positions held", read_only=True
    )
    dynamic_period: float = setting(
        0.1, "s", (0.0, 10.0), "spacing of dynamic_joint_states; 0: every cycle", read_only=True
    )
    path_tolerance: float = setting(
        0.0,
        "rad",
        (0.0, 100.0),
        "of trajectories on the way, where a goal names none; 0: none",
        name="constraints.trajectory",
        read_only=True,
    )
    goal_tolerance: float = setting(
        0.05,
        "rad",
        (0.0, 100.0),
        "of trajectories at their end, where a goal names none; 0: none",
        name="constraints.goal",
        read_only=True,
    )
    goal_time: float = setting(
        1.0,
        "s",
        (0.0, 60.0),
        "after a trajectory's end to reach its goal; 0: no limit",
        name="constraints.goal_time",
        read_only=True,
    )
    gripper_joint: str = setting(
        "", "", None, "joint of a gripper (operating_mode 5); empty: none", name="gripper.joint", read_only=True
    )
    gripper_angles: tuple[float, ...] = setting(
        (0.0, 1.0), "rad", None, "joint angles of the gripper's map", name="gripper.angles", read_only=True
    )
    gripper_openings: tuple[float, ...] = setting(
        (0.0, 0.05),
        "m",
        None,
        "openings of the jaws at those angles; linear between",
        name="gripper.openings",
        read_only=True,
    )
    gripper_force: float = setting(
        10.0, "N", (0.0, 1000.0), "where a command names none", name="gripper.default_force", read_only=True
    )
    gripper_tolerance: float = setting(
        0.001, "m", (0.0, 1.0), "of the opening for a goal to be reached", name="gripper.goal_tolerance", read_only=True
    )
    gripper_stall_velocity: float = setting(
        0.001,
        "m/s",
        (0.0, 1.0),
        "slower jaws, away from their goal, have stalled",
        name="gripper.stall_velocity",
        read_only=True,
    )
    gripper_stall_timeout: float = setting(
        0.3, "s", (0.0, 10.0), "after so long", name="gripper.stall_timeout", read_only=True
    )
    joints: dict[str, JointSettings] = group(JointSettings)

    def __post_init__(self):
        if self.protocol_version not in (1.0, 2.0):
            raise ValueError(f"protocol_version is {self.protocol_version:g}: use 1.0 or 2.0.")
        for name, joint in self.joints.items():
            if MODELS[joint.model].protocol != self.protocol_version:
                raise ValueError(
                    f"joints.{name}.model {joint.model} speaks protocol {MODELS[joint.model].protocol:g}, the bus "
                    f"{self.protocol_version:g}: set protocol_version, or another model."
                )
        try:
            self.options()
        except DeviceError as error:
            raise ValueError(f"{error}.") from None
        if self.gripper_joint:
            gripper = self.joints.get(self.gripper_joint)
            if gripper is None:
                raise ValueError(
                    f"gripper.joint is '{self.gripper_joint}', joints are {', '.join(self.joints) or 'none'}."
                )
            if gripper.operating_mode != CURRENT_BASED_POSITION:
                raise ValueError(
                    f"gripper.joint needs joints.{self.gripper_joint}.operating_mode 5 (current-based position)."
                )
            self.jaws()

    def device_joints(self) -> list[Joint]:
        """The joints in order of their ids. Raises DeviceError."""
        return sorted((settings.joint(name) for name, settings in self.joints.items()), key=lambda joint: joint.id)

    def options(self) -> GroupOptions:
        return GroupOptions(
            rate=self.update_rate,
            error_timeout=1e-3 * self.error_timeout_ms,
            torque_on_activate=self.torque_on_activate,
            on_deactivate=self.on_deactivate,
            stop_state=self.stop_state,
            bus_watchdog=1e-3 * self.bus_watchdog_ms if self.protocol_version == 2.0 else 0.0,
            latency=1e-3 * self.reply_latency_ms,
            fast_sync_read=self.fast_sync_read,
            transport=self.transport,
        )

    def jaws(self) -> JawMap:
        """Raises ValueError."""
        return JawMap(self.gripper_angles, self.gripper_openings)

    def gripper(self, names) -> Gripper | None:
        """The gripper among the joints `names`."""
        if not self.gripper_joint:
            return None
        return Gripper(
            names.index(self.gripper_joint),
            self.jaws(),
            self.gripper_force,
            self.gripper_tolerance,
            self.gripper_stall_velocity,
            self.gripper_stall_timeout,
        )
