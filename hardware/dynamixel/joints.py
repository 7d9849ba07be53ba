"""Joints driven by servos: what is configured about each, and their numbers in SI units, all joints at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hardware.dynamixel.tables import CURRENT, CURRENT_BASED_POSITION, PWM, VELOCITY, Model
from hardware.link import DeviceError

__all__ = ["GroupState", "Joint", "JointArrays", "some"]


def some(mask: np.ndarray) -> bool:
    """mask.any() for a mask of a few joints: a tenth of its cost, a dozen times a bus cycle."""
    return b"\x01" in mask.tobytes()


@dataclass(frozen=True)
class Joint:
    """One joint and its servo. A gear behind the servo turns the joint 1/gear_ratio of the servo's angle.

    q = direction * (counts - zero_count) * 2 pi / counts_per_turn / gear_ratio
    tau = direction * gear_ratio * torque_constant * current

    Attributes:
        mode: operating mode of the servo (tables.CURRENT, ...).
        min_rad, max_rad, max_velocity, max_effort: limits of the joint [rad, rad/s, N m]; 0 for the last two: the servo's.
        torque_constant: of the servo's output [N m/A]; 0: the data sheet's.
        current_limit: written to the servo [A]; 0: as it is.
        position_p, position_i, position_d: the servo's own position gains (register values); -1: as they are.
        velocity_integral: of a servo in velocity mode: "driver" (velocity_loop.py) or "servo", its own.
        profile_velocity, profile_acceleration: of the servo's own profile [rad/s, rad/s^2]; 0: none.
        loop_p, loop_i, loop_d: position loop on the bus cycle, for servos that take current or PWM
            [N m/rad, N m/(rad s), N m s/rad].
    """

    name: str
    id: int
    model: Model
    mode: int
    direction: int = 1
    zero_count: int = 2048
    gear_ratio: float = 1.0
    min_rad: float = -math.pi
    max_rad: float = math.pi
    max_velocity: float = 0.0
    max_effort: float = 0.0
    torque_constant: float = 0.0
    current_limit: float = 0.0
    position_p: int = -1
    position_i: int = -1
    position_d: int = -1
    velocity_integral: str = "driver"
    profile_velocity: float = 0.0
    profile_acceleration: float = 0.0
    loop_p: float = 6.0
    loop_i: float = 12.0
    loop_d: float = 0.5

    def __post_init__(self) -> None:
        if self.mode not in self.model.modes:
            raise DeviceError(
                f"joint {self.name}: {self.model.name} has no operating mode {self.mode}, only "
                f"{', '.join(map(str, self.model.modes))}"
            )
        if self.velocity_integral not in ("driver", "servo"):
            raise DeviceError(
                f"joint {self.name}: velocity_integral is '{self.velocity_integral}': use driver or servo"
            )
        if not self.min_rad < self.max_rad:
            raise DeviceError(f"joint {self.name}: min_rad {self.min_rad:g} must be below max_rad {self.max_rad:g}")

    @property
    def k_t(self) -> float:
        """Torque constant in force [N m/A]."""
        return self.torque_constant or self.model.motor.torque_constant


class JointArrays:
    """Factors between counts and SI units, one entry per joint, shape (n,).

    Attributes:
        takes_effort, takes_velocity, takes_position: masks by operating mode; effort is current or PWM.
    """

    def __init__(self, joints: Sequence[Joint]) -> None:
        if not joints:
            raise DeviceError("no joints are configured: give joints.<name>.id and .model of at least one")
        for what, values in (("name", [j.name for j in joints]), ("id", [str(j.id) for j in joints])):
            twice = sorted({v for v in values if values.count(v) > 1})
            if twice:
                raise DeviceError(f"joints share the {what} {', '.join(twice)}: each needs its own")
        if len({j.model.protocol for j in joints}) > 1:
            raise DeviceError("joints of both protocols share a bus: give each protocol a bus and a node of its own")

        def array(of: Callable[[Joint], float]) -> np.ndarray:
            return np.array([of(j) for j in joints], dtype=float)

        turn = array(lambda j: j.direction / j.gear_ratio)
        self.direction = array(lambda j: j.direction)
        self.zero = array(lambda j: j.zero_count)
        self.position = turn * array(lambda j: j.model.count)  # rad per count
        self.velocity = turn * array(lambda j: j.model.velocity_unit)  # rad/s per count
        self.current = array(lambda j: j.model.current_unit or math.nan)  # A per count
        self.k_t = array(lambda j: j.direction * j.gear_ratio * j.k_t)  # joint's N m per A
        self.effort = self.k_t * self.current  # N m per count
        self.voltage = array(lambda j: j.model.voltage_unit)
        # u V = R i + k_e omega, for servos that take PWM.
        self.resistance = array(lambda j: j.model.motor.resistance)
        self.back_emf = array(lambda j: j.direction * j.gear_ratio * j.model.motor.back_emf)
        self.duty = array(lambda j: j.model.pwm_unit)
        self.takes_effort = np.array([j.mode in (CURRENT, PWM) for j in joints])
        self.takes_velocity = np.array([j.mode == VELOCITY for j in joints])
        self.takes_position = ~(self.takes_effort | self.takes_velocity)
        self.is_pwm = np.array([j.mode == PWM for j in joints])
        self.limits_current = np.array([j.mode == CURRENT_BASED_POSITION for j in joints])
        self.min, self.max = array(lambda j: j.min_rad), array(lambda j: j.max_rad)


class GroupState:
    """What one bus cycle measured, joints in the order configured. Its arrays are refilled every cycle.

    Attributes:
        t: host time amid the replies [s].
        q, qd, effort: shape (n,) [rad, rad/s, N m]; effort is NaN where the servo senses no current.
        current [A], voltage [V], temperature [deg C], hardware_error (bits), torque (0 or 1): shape (n,).
        load: of servos without current sensing, relative to the most, shape (n,).
        alert: whether the reply itself warned of a hardware error, shape (n,) bool (Protocol 2.0).
        watchdog: the servo's bus watchdog, 255: expired, goals are refused, shape (n,).
        valid: which joints this cycle brought, shape (n,) bool; the others keep what they had.
        restarted: which servos answered without their settings, and have not been made ready again yet, shape (n,) bool.
        healthy: which joints answer and report no hardware error, shape (n,) bool.
    """

    def __init__(self, names: Sequence[str]) -> None:
        n = len(names)
        self.names = tuple(names)
        self.t = 0.0
        self.q, self.qd, self.effort, self.current, self.load, self.voltage, self.temperature = (
            np.full(n, np.nan) for _ in range(7)
        )
        self.hardware_error, self.torque, self.watchdog = (np.zeros(n, np.uint8) for _ in range(3))
        self.valid, self.healthy, self.restarted, self.alert = (np.zeros(n, bool) for _ in range(4))
