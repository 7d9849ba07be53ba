"""Paths of swinging feet, from where they left the ground to where Raibert's rule puts them down.

Source: Raibert, Legged Robots That Balance (1986); in the form of Kim et al., Highly Dynamic Quadruped Locomotion via
Whole-Body Impulse Control and Model Predictive Control (2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.motion.quadruped.estimator import BaseEstimate
from sim_core.motion.quadruped.robot import QuadrupedRobot, times

__all__ = ["SwingConfig", "SwingLegs"]


@dataclass(frozen=True)
class SwingConfig:
    """Settings of the swinging legs.

    Attributes:
        clearance: highest point of a step above the ground [m].
        feedback: how far a foot is put down beyond its place per error of the velocity [s].
        kp, kd: gains of the joints [N m/rad], [N m s/rad].
    """

    clearance: float = 0.06
    feedback: float = 0.03
    kp: float = 150.0
    kd: float = 3.0


class SwingLegs:
    """Foot paths of one robot; `lift` notes where feet leave the ground, `joints` gives references.

    Args:
        robot: QuadrupedRobot.
        stance, swing: durations [s].
        config: settings.
    """

    def __init__(self, robot: QuadrupedRobot, stance: float, swing: float, config: SwingConfig = SwingConfig()) -> None:
        self.robot, self.config, self._stance, self._swing = robot, config, stance, swing
        # Around the centre of mass, not the hips: feet 9 mm ahead of it would push the robot backwards all the time.
        self._under_hips = robot.hips + np.stack([np.zeros(4), robot.abduction, np.zeros(4)], 1) + robot.com * (1, 1, 0)
        self.reset()

    def reset(self) -> None:
        """Forget where feet left the ground."""
        self._start = np.full((4, 3), np.nan)

    def lift(self, legs: np.ndarray, feet_H: np.ndarray) -> None:
        """`legs` (4,) bool begin to swing from `feet_H` (4, 3), heading frame [m]."""
        self._start[legs] = feet_H[legs]

    def targets(
        self, base: BaseEstimate, desired_velocity: np.ndarray, desired_yaw_rate: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Touch-down points (4, 3) [m] and the hips' velocities over the ground (4, 3) [m/s], heading frame."""
        hips = self._under_hips
        spin = np.stack([-hips[:, 1], hips[:, 0], np.zeros(4)], 1)  # e_z x hip
        v = (base.velocity + base.angular_velocity[2] * spin) * (1.0, 1.0, 0.0)
        v_desired = desired_velocity + desired_yaw_rate * spin
        place = hips + 0.5 * self._stance * v + self.config.feedback * (v - v_desired)
        place[:, 2] = self.robot.foot_radius - base.height
        return place, v

    def joints(
        self, phase: np.ndarray, base: BaseEstimate, desired_velocity: np.ndarray, desired_yaw_rate: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Joint angles, velocities and accelerations (4, 3) of the swinging legs, those with a finite `phase` (4,); NaN for
        the others."""
        target, v = self.targets(base, desired_velocity, desired_yaw_rate)
        s, start, m = phase[:, None], self._start, -self._swing * v
        # Along the ground a cubic that leaves and meets it at its own speed, upwards a raised cosine: feet neither hit nor drag.
        foot = start + (3 - 2 * s) * s**2 * (target - start) + m * s * (1 - s) * (1 - 2 * s)
        rate = 6 * s * (1 - s) * (target - start) + m * (1 - 6 * s + 6 * s**2)
        change = (6 - 12 * s) * (target - start) - m * (6 - 12 * s)
        height, turn = self.config.clearance, 2 * np.pi * s[:, 0]
        foot[:, 2] += 0.5 * height * (1 - np.cos(turn))
        rate[:, 2] += height * np.pi * np.sin(turn)
        change[:, 2] += 2 * height * np.pi**2 * np.cos(turn)
        q = self.robot.joint_angles(foot @ base.R_HB)  # rows times R_HB: into the trunk's frame
        J = self.robot.jacobians(q)
        # Damped, so that a stretched leg asks for no infinite speed.
        J_T = J.transpose(0, 2, 1)
        inverse = np.linalg.solve(J_T @ J + 1e-4 * np.eye(3), J_T)
        qd = times(inverse, rate / self._swing @ base.R_HB)
        turning = (self.robot.jacobians(q + 1e-6 * qd) - J) / 1e-6  # J's rate
        return q, qd, times(inverse, change / self._swing**2 @ base.R_HB - times(turning, qd))
