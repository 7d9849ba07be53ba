"""Velocities without an integral part in the servo: nothing is left in it that would have to unwind when it is to stop.

The servo's own loop drives with a duty u = k_d (goal - v) + its integral, and a goal of 0, which is how an expired bus
watchdog stops it, leaves the integral to unwind: with factory gains 0.2 s for a factor of e. So the integral is kept here,
where it can be dropped at once, and the servo gets a proportional loop alone, which stops its joint like a brake of
k_t (k_d V + k_e) / R. What that loop needs at a constant speed is known from the data sheet:

    goal = (1 + k_e / (k_d V)) v + k_i integral of (v - qd)

Source: ROBOTIS e-manual, XM430-W350, Velocity PI Gain (76, 78), Bus Watchdog (98).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hardware.dynamixel.commands import Goals
from hardware.dynamixel.joints import GroupState, Joint, some
from hardware.dynamixel.tables import RPM, VELOCITY

__all__ = ["VelocityLoop", "integrates_here", "proportional_gain", "velocity_range"]

#: the servo's proportional damping over that of its back-EMF. Twice: brakes three times as hard as a short circuit, and
#: stays well damped behind a velocity filter of 5 ms, whatever the load
STIFFNESS = 2.0
INTEGRAL = 5.0  # [1/s] of the loop here: a load that comes or goes is made up for in 0.3 s
LAG = 0.02  # [s] in which a faster velocity is taken up: a step would overshoot where there is little inertia
SETTLED = 0.02  # of the no-load speed, from which on what the joint lacks counts as a load, and not as its own inertia
GAIN_UNIT = 128.0  # register value of a proportional gain of one


def integrates_here(joint: Joint) -> bool:
    """Whether a joint's servo is driven by the loop here."""
    return joint.mode == VELOCITY and joint.model.protocol == 2.0 and joint.velocity_integral == "driver"


def proportional_gain(joint: Joint) -> int:
    """Velocity P gain for STIFFNESS at the servo's nominal voltage, register value."""
    model, motor = joint.model, joint.model.motor
    damping = STIFFNESS * motor.back_emf / motor.volts  # k_d [s/rad] at the horn
    return min(16383, round(GAIN_UNIT * damping * model.velocity_unit / model.pwm_unit))


def velocity_range(joint: Joint) -> int:
    """Velocity limit register [counts] that lets the joint reach its own limit: goals are above the speeds they bring."""
    motor = joint.model.motor
    fastest = min(joint.max_velocity * joint.gear_ratio or math.inf, motor.no_load * RPM)
    return min(1023, math.ceil((1.0 + 1.0 / STIFFNESS) * fastest / joint.model.velocity_unit))


class VelocityLoop:
    """See the module's docstring.

    Args:
        joints: of the group, n.

    Attributes:
        which: whom it drives, shape (n,) bool.
    """

    def __init__(self, joints: Sequence[Joint]) -> None:
        self.which = np.array([integrates_here(joint) for joint in joints])
        self._any = some(self.which)
        self._volts = np.array([joint.model.motor.volts for joint in joints])
        self._most = np.array([joint.model.motor.no_load * RPM / joint.gear_ratio for joint in joints])
        self._asked, self._late, self._integral = (np.zeros(len(joints)) for _ in range(3))

    def reset(self, which: np.ndarray | slice = slice(None)) -> None:
        """These joints were stopped by somebody else: they set out from rest, and nothing is known of what they need."""
        self._asked[which] = self._late[which] = self._integral[which] = 0.0

    def drive(self, state: GroupState, goals: Goals, dt: float) -> None:
        """Turn the velocities of this cycle into goals of the servos, in place; dt: since the last ones [s]."""
        if not self._any:
            return
        known = self.which & np.isfinite(goals.velocity + state.qd)
        wanted = np.where(known, goals.velocity, 0.0)
        self._ask(wanted, dt)
        settled = known & (np.abs(wanted - self._late) < SETTLED * self._most)
        error = np.where(settled, wanted - state.qd, 0.0)
        self._integral = np.clip(self._integral + INTEGRAL * dt * error, -self._most, self._most)
        needed = 1.0 + self._volts / np.maximum(state.voltage, 1.0) / STIFFNESS
        np.copyto(goals.velocity, needed * self._asked + self._integral, where=known)

    def _ask(self, wanted: np.ndarray, dt: float) -> None:
        """Faster with LAG, slower at once; what turns round stops first."""
        slower = (np.abs(wanted) < np.abs(self._asked)) | (wanted * self._asked < 0.0)
        stopped = np.where(wanted * self._asked < 0.0, 0.0, wanted)
        share = min(1.0, dt / LAG)
        self._asked = np.where(slower, stopped, self._asked + (wanted - self._asked) * share)
        self._late += (wanted - self._late) * share
