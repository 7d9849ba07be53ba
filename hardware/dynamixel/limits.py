"""Limits of joints and servos: goals are clamped to them, whoever commands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware.dynamixel.commands import EffortLoop, Goals
from hardware.dynamixel.joints import GroupState, Joint, JointArrays, some

__all__ = ["DERATE_BELOW", "Limits"]

DERATE_BELOW = 3.0  # [K] below the temperature limit from which on half the current is allowed
RECOVER_BELOW = 5.0  # [K] below the limit at which all of it is allowed again
WARN_BELOW = 10.0  # [K]


class Limits:
    """Clamps goals; knows how hot the servos are.

    Args:
        joints, arrays, loop: of the group.

    Attributes:
        factor: share of the current allowed, shape (n,); 0.5 for a hot servo.
        most: effort allowed now, shape (n,) [N m].
        temperature_limit: of each servo, shape (n,) [deg C]; `adopt` fills it in.
    """

    def __init__(self, joints: Sequence[Joint], arrays: JointArrays, loop: EffortLoop) -> None:
        n = len(joints)
        self.names, self.arrays, self.loop = [j.name for j in joints], arrays, loop
        self.factor = np.ones(n)
        self.temperature_limit = np.full(n, 80.0)
        self.max_velocity = np.array([j.max_velocity or np.inf for j in joints])
        stall = [j.gear_ratio * j.k_t * j.model.motor.stall_current for j in joints]
        self.max_effort = np.array([j.max_effort or most for j, most in zip(joints, stall, strict=True)])
        self.most = self.max_effort.copy()

    def watch_temperature(self, state: GroupState) -> None:
        """Half the current from 3 K below a servo's limit, until it is 5 K below."""
        margin = self.temperature_limit - state.temperature
        self.factor[margin <= DERATE_BELOW] = 0.5
        self.factor[margin > RECOVER_BELOW] = 1.0
        np.multiply(self.max_effort, self.factor, out=self.most)

    def hot(self, state: GroupState) -> np.ndarray:
        """Joints within 10 K of their limit, shape (n,) bool."""
        return state.temperature >= self.temperature_limit - WARN_BELOW

    def clamp(self, state: GroupState, goals: Goals) -> str:
        """Clamp in place; a sentence about the first joint that was, else ""."""
        arrays, q, qd = self.arrays, state.q, state.qd
        said = self._to(goals.position, arrays.min, arrays.max, "position", "rad")
        said = self._to(goals.velocity, -self.max_velocity, self.max_velocity, "velocity", "rad/s") or said
        outside = (q > arrays.max) | (q < arrays.min)
        if some(outside):
            # Beyond a limit nothing pushes further out, and what takes effort is led back.
            above = q > arrays.max
            beyond = np.where(above, arrays.max, arrays.min) - q
            back = self.loop.kp * beyond - self.loop.kd * qd
            effort, velocity = goals.effort, goals.velocity
            wrong = outside & np.where(above, effort > back, effort < back)
            effort[wrong] = back[wrong]
            outward = outside & arrays.takes_velocity & np.where(above, velocity > 0.0, velocity < 0.0)
            velocity[outward] = 0.0
            if some(wrong | outward):
                k = int(np.flatnonzero(wrong | outward)[0])
                said = f"joint {self.names[k]} stands at {q[k]:.4g} rad, beyond {arrays.min[k]:g} to {arrays.max[k]:g}: not driven further out"
        return self._to(goals.effort, -self.most, self.most, "effort", "N m") or said

    def _to(self, values: np.ndarray, low: np.ndarray, high: np.ndarray, what: str, unit: str) -> str:
        wrong = (values < low) | (values > high)  # False for NaN: not set
        if not some(wrong):
            return ""
        k = int(np.flatnonzero(wrong)[0])
        said = f"joint {self.names[k]}: {what} {values[k]:.4g} {unit} clamped to {low[k]:.4g} to {high[k]:.4g} {unit}"
        np.clip(values, low, high, out=values)
        return said
