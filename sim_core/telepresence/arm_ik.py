"""Inverse kinematics of a teleoperated arm, one step for each new target: joint positions that follow it.

    ik = QpIk(kinematics)
    q = ik.step(target, q, bias)               # 125 times a second

Joints stay within their limits and speeds, and where a target is out of reach they end as near as they can: an operator
corrects what is seen.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.2, eq. (8.4).
"""

from __future__ import annotations

from typing import Protocol

import casadi as ca
import numpy as np

from sim_core.control.box_qp import box_qp
from sim_core.telepresence.arm_equations import (
    OneCall,
    cholesky,
    pose_difference,
    pose_symbols,
    shortened,
    solve_cholesky,
)
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose

__all__ = ["PERIOD", "ArmIk", "QpIk", "step_bounds"]

#: of the arm loop [s]
PERIOD = 0.008


class ArmIk(Protocol):
    """What every inverse kinematics here can do."""

    @property
    def kinematics(self) -> ArmKinematics:
        """Of the arm."""

    def step(self, target: Pose, q: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """Joint positions (n,) [rad] for this period; see `QpIk.step`."""


class QpIk:
    """min |dr - J dq|^2 + w_q |dq|^2 + w_b |q + dq - q_bias|^2 over dq that keeps the limits.

    Args:
        kinematics: of the arm.
        damping, pull: w_q and w_b; metres and radians weigh alike.
        reach: [m] and [rad] that a single step goes at most: what is farther is come to step by step.
        period: [s] between two steps, in which no joint goes farther than its speed lets it; inf: as far as it likes.

    Attributes:
        lower, upper: limits of the joints (n,) [rad].
        neutral: the middle of every joint's range (n,) [rad], 0 of a joint that turns for ever.
    """

    def __init__(
        self,
        kinematics: ArmKinematics,
        damping: float = 0.02,
        pull: float = 0.0005,
        reach: tuple[float, float] = (0.05, 0.3),
        period: float = PERIOD,
    ) -> None:
        self._kinematics = kinematics
        self.lower, self.upper, self.neutral = kinematics.lower, kinematics.upper, kinematics.neutral
        self._most = kinematics.speed * period
        arm, n = kinematics.equations, len(kinematics.joints)
        numbers, target = pose_symbols("target")
        bias = ca.SX.sym("bias", n)
        error = shortened(pose_difference(target, (arm.position, arm.rotation)), reach)
        H = arm.J.T @ arm.J + (damping + pull) * ca.SX.eye(n)
        g = pull * (arm.q - bias) - arm.J.T @ error
        free = -solve_cholesky(cholesky(H), g)
        programme = ca.Function("programme", [ca.vertcat(arm.q, numbers, bias)], [ca.vertcat(free, g, ca.vec(H))])
        self._programme = OneCall("refit_arm_programme", programme)

    @property
    def kinematics(self) -> ArmKinematics:
        """Of the arm."""
        return self._kinematics

    def step(self, target: Pose, q: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """Joint positions (n,) [rad] for this period.

        Args:
            target: where the frame shall be.
            q: where the joints were told to be last (n,) [rad].
            bias: the posture that is preferred where the target leaves a choice (n,) [rad]; None: the neutral one.
        """
        n, bias = len(q), self.neutral if bias is None else bias
        numbers = self._programme(np.concatenate((q, target.position, target.rotation.ravel(), bias)))
        low, high = step_bounds(q, self.lower, self.upper, self._most)
        step = numbers[:n]
        if (step < low).any() or (step > high).any():
            solved = box_qp(numbers[2 * n :].reshape(n, n), numbers[n : 2 * n], low, high, step)
            assert solved is not None  # the Hessian is positive definite
            step = solved[0]
        return np.minimum(np.maximum(q + step, self.lower), self.upper)


def step_bounds(q: np.ndarray, lower: np.ndarray, upper: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest step (n,) [rad] that keeps joints from q between their limits and is at most `most` (n,)."""
    low, high = np.maximum(lower - q, -most), np.minimum(upper - q, most)
    return np.minimum(low, most), np.maximum(high, -most)
