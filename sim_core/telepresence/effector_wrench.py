"""What the world does to an arm's end effector, from the torques of its joints, and how strongly an operator is shown it.

    J' w = tau_model(q, v, a) - tau_measured,     w = (J J' + s^2)^-1 J (tau_model - tau_measured)

What an arm carries counts as a force, since the model does not know of it.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.6: forces of the arms are shown by vibration and pictures alone.
The law of the cue is ours: it rises from nothing at one force to all at another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose

__all__ = ["CueLimits", "EffectorWrench"]

#: s [m/rad, 1]: by which a direction in which the arm hardly moves is not believed
SHY = 0.02


@dataclass(frozen=True)
class CueLimits:
    """Attributes:
        least: force at which a cue begins [N]. most: at which it is as strong as it can be [N].

    Raises:
        ValueError: the first is not below the second, or negative.
    """

    least: float = 6.0
    most: float = 40.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.least < self.most < np.inf:
            raise ValueError(f"expected a cue between two rising forces, found {self.least:g} N and {self.most:g} N")

    def cue(self, force: float) -> float:
        """How strongly a force [N] is shown, 0 to 1; of one that is not known, nothing."""
        return float(np.clip((force - self.least) / (self.most - self.least), 0.0, 1.0)) if np.isfinite(force) else 0.0


class EffectorWrench:
    """Of one arm.

    Args:
        kinematics: of the frame that the tool is mounted on, without base and tool.
        mount: of the arm's root in what carries it. tool: of the end effector in that frame.
        cutoff: of the low pass [Hz].

    Attributes:
        wrench: that the world exerts on the end effector, about its point, in the axes of what carries the arm (6,) [N, N m],
            low-passed; NaN where it is not known.
        seen: the same as it was seen last, unfiltered.
    """

    def __init__(self, kinematics: ArmKinematics, mount: Pose, tool: Pose, cutoff: float) -> None:
        self._kinematics, self._mount, self._tool, self._cutoff = kinematics, mount, tool, cutoff
        self.forget()

    def forget(self) -> None:
        """Nothing is known any longer."""
        self.wrench = self.seen = np.full(6, np.nan)

    @property
    def force(self) -> float:
        """How great the force is [N]; NaN where it is not known."""
        return float(np.linalg.norm(self.wrench[:3]))

    def feel(self, q: np.ndarray, residual: np.ndarray, dt: float) -> None:
        """One more look.

        Args:
            q: joint positions (n,) [rad].
            residual: forces of the model less those that the actuators exerted (n,) [N m].
            dt: since the last look [s].
        """
        J = self.jacobian(q)
        self.seen = np.linalg.solve(J @ J.T + SHY**2 * np.eye(6), J @ residual)
        if not np.isfinite(self.seen).all():
            self.forget()
            return
        # From nothing known it rises from zero: a first look may fall into a jolt.
        before = np.where(np.isfinite(self.wrench), self.wrench, 0.0)
        self.wrench = before + (1.0 - np.exp(-2.0 * np.pi * self._cutoff * dt)) * (self.seen - before)

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Of the end effector's point (6, n), linear [m/rad] over angular [rad/rad], in the axes of what carries the arm."""
        at, R = self._kinematics.at(q), self._mount.rotation
        x, y, z = (at.rotation @ self._tool.position).tolist()
        linear = (
            at.J[:3] + np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]) @ at.J[3:]
        )  # each angular part times the arm
        return np.vstack([R @ linear, R @ at.J[3:]])
