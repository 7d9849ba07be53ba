"""Inverse kinematics of a teleoperated arm, one step for each new target: joint positions that follow it.

    ik = QpIk(kinematics)
    q = ik.step(target, q, bias)               # 125 times a second

Joints stay within their limits, and where a target is out of reach they end as near as they can: an operator corrects what
is seen.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.2, eq. (8.4).
"""

from __future__ import annotations

import numpy as np

from sim_core.control.box_qp import box_qp
from sim_core.telepresence.arm_kinematics import ArmKinematics, Posture, pose_error
from sim_core.telepresence.clutch import Pose

__all__ = ["QpIk"]


class QpIk:
    """min |dr - J dq|^2 + w_q |dq|^2 + w_b |q + dq - q_bias|^2 over dq that keeps the limits.

    Args:
        kinematics: of the arm.
        damping, pull: w_q and w_b; metres and radians weigh alike.
        reach: [m] and [rad] that a single step goes at most: what is farther is come to step by step.

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
    ) -> None:
        self.kinematics, self.damping, self.pull, self.reach = kinematics, damping, pull, reach
        model = kinematics.model
        self.lower, self.upper = np.asarray(model.q_lower, float), np.asarray(model.q_upper, float)
        middle = 0.5 * (self.lower + self.upper)
        self.neutral = np.where(np.isfinite(middle), middle, 0.0)

    def step(self, target: Pose, q: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """Joint positions (n,) [rad] for this period.

        Args:
            target: where the frame shall be.
            q: where the joints were told to be last (n,) [rad].
            bias: the posture that is preferred where the target leaves a choice (n,) [rad]; None: the neutral one.
        """
        now, bias = self.kinematics.at(q), self.neutral if bias is None else bias
        J, error = now.J, self._error(target, now)
        H = J.T @ J + (self.damping + self.pull) * np.eye(len(q))
        g = -J.T @ error + self.pull * (q - bias)
        solved = box_qp(H, g, self.lower - q, self.upper - q, np.zeros(len(q)))
        assert solved is not None  # H is positive definite
        return np.clip(q + solved[0], self.lower, self.upper)

    def _error(self, target: Pose, now: Posture) -> np.ndarray:
        """(6,), no longer than the reach of a step."""
        error = pose_error(target, now.pose)
        for part, most in ((slice(0, 3), self.reach[0]), (slice(3, 6), self.reach[1])):
            size = float(np.linalg.norm(error[part]))
            if size > most:
                error[part] *= most / size
        return error
