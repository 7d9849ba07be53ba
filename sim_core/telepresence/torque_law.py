"""The low-level law of a teleoperated arm, a thousand times a second: from desired joint positions to torques.

    law = TorqueLaw(settings, q)
    tau = law.torque(q_desired, q, qd, feedforward)

A joint's proportional and differential law with feed-forward, limited in power, with barriers before the limits of position
and velocity, and clamped:

    tau = clamp(plimit(k_p dq + k_d dqd + FF, qd) + c_q(q) + c_qd(qd))

Source: Zhu, PhD thesis, University of Illinois (2023), eqs. (8.5) to (8.7). The barrier that is printed there is largest at
the edge of its zone and nothing at the limit, against its own description; this one is nothing at the edge and grows with
the square of the depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.gate import power_limit

__all__ = ["TorqueLaw", "TorqueSettings", "barrier"]


@dataclass(frozen=True, eq=False)
class TorqueSettings:
    """Of an arm with n joints; arrays (n,).

    Attributes:
        kp, kd: [N m/rad], [N m s/rad].
        q_lower, q_upper: [rad]. velocity, effort, power: at most [rad/s], [N m], [W].
        position_zone, velocity_zone: before each limit, in which its barrier acts [rad], [rad/s].
        position_barrier, velocity_barrier: torques at the limit [N m].
        cutoff: of the filter through which desired positions pass [Hz].
        period: [s] between two torques.

    Raises:
        ValueError: shapes differ, or a number is not what it has to be.
    """

    kp: np.ndarray
    kd: np.ndarray
    q_lower: np.ndarray
    q_upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    power: np.ndarray
    position_zone: np.ndarray
    velocity_zone: np.ndarray
    position_barrier: np.ndarray
    velocity_barrier: np.ndarray
    cutoff: float = 15.0
    period: float = 1e-3

    def __post_init__(self) -> None:
        n = np.shape(self.kp)
        for name in self.__dataclass_fields__:
            value = np.asarray(getattr(self, name), float)
            if name not in ("cutoff", "period") and (value.shape != n or len(n) != 1):
                raise ValueError(f"{name}: expected one number for each of {n} joints, found shape {value.shape}")
            if not np.isfinite(value).all():
                raise ValueError(f"{name}: expected finite numbers")
            if name not in ("kp", "kd", "q_lower", "q_upper") and not (value > 0.0).all():
                raise ValueError(f"{name}: expected positive numbers, found {value.tolist()}")
        if not (np.asarray(self.q_upper) - np.asarray(self.q_lower) >= 2.0 * np.asarray(self.position_zone)).all():
            raise ValueError("position_zone: expected at most half of each joint's range")


def barrier(x: np.ndarray, lower: np.ndarray, upper: np.ndarray, zone: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Torque (n,) [N m] away from limits: zero outside the zones before them, `strength` at the limit, rising as the square."""
    above = np.maximum(x - (upper - zone), 0.0) / zone
    below = np.maximum(lower + zone - x, 0.0) / zone
    return strength * (below**2 - above**2)


class TorqueLaw:
    """The law of one arm, and the filter through which its desired positions pass.

    Args:
        q: where the arm is (n,) [rad]; the filter begins there.
    """

    def __init__(self, settings: TorqueSettings, q: np.ndarray) -> None:
        self.settings = settings
        self._gain = 1.0 - float(np.exp(-2.0 * np.pi * settings.cutoff * settings.period))
        self.reset(q)

    def reset(self, q: np.ndarray) -> None:
        """Begin anew from where the arm is (n,) [rad]."""
        self._filtered = np.array(q, float)

    def torque(self, q_desired: np.ndarray, q: np.ndarray, qd: np.ndarray, feedforward: np.ndarray) -> np.ndarray:
        """Torques (n,) [N m] for now, once every period.

        Args:
            q_desired, q, qd: (n,) [rad], [rad], [rad/s]; a joint that has no finite goal keeps the last one.
            feedforward: what the arm's own model says of gravity and Coriolis forces (n,) [N m].
        """
        s, before = self.settings, self._filtered
        goal = np.clip(np.where(np.isfinite(q_desired), q_desired, before), s.q_lower, s.q_upper)
        self._filtered = before + self._gain * (goal - before)
        velocity = (self._filtered - before) / s.period
        tau = power_limit(s.kp * (self._filtered - q) + s.kd * (velocity - qd) + feedforward, qd, s.power)
        tau = tau + barrier(q, s.q_lower, s.q_upper, s.position_zone, s.position_barrier)
        tau = tau + barrier(qd, -s.velocity, s.velocity, s.velocity_zone, s.velocity_barrier)
        return np.clip(tau, -s.effort, s.effort)
