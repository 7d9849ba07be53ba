"""An end effector that gives way: a virtual mass between the operator's target and the arm's.

    admittance = Admittance(AdmittanceSettings(), pose)
    pose = admittance.step(target, twist, wrench, dt)          # where the inverse kinematics shall lead the end effector

The mass is drawn to the target by a spring and a damper, and pushed by what is felt at the end effector:

    M dv/dt = w + K e(target, pose) + B (target's v - v)

For arms that follow positions and have no compliance of their own. On contact, which a jump or the level of the force tells,
the damping is raised until the force has gone, so that the mass does not bounce.

Source: predecessor of Zhu, PhD thesis, University of Illinois (2023), sections 5.3.4 and 5.4, whose numbers these are. It
stepped the damping explicitly, twice in 2 ms; raised by 30 that is at the edge of stability there and beyond it at 8 ms. Here the
damping is implicit, which no step makes unstable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_core.telepresence.arm_kinematics import pose_error
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.turns import rotation_matrix

__all__ = ["Admittance", "AdmittanceSettings"]


def _default(*values: float) -> Any:
    return field(default_factory=lambda: np.array(values))


@dataclass(frozen=True, eq=False)
class AdmittanceSettings:
    """Arrays are (6,): three of translation, three of rotation.

    Attributes:
        mass: [kg], [kg m^2]. stiffness: [N/m], [N m/rad]. damping: [N s/m], [N m s/rad].
        linear, angular: speeds of the mass at most [m/s], [rad/s].
        jump: of the force between two steps that is a contact [N]. touched, free: of the low-passed force at which a contact
            begins and ends [N]. cutoff: of that low pass [Hz].
        raised: damping in contact over that without.

    Raises:
        ValueError: a number is not positive, or a contact would end above the force at which it begins.
    """

    mass: np.ndarray = _default(1.0, 1.0, 1.0, 0.25, 0.25, 0.25)
    stiffness: np.ndarray = _default(200.0, 200.0, 200.0, 10.0, 10.0, 10.0)
    damping: np.ndarray = _default(56.57, 56.57, 56.57, 12.65, 12.65, 12.65)
    linear: float = 1.0
    angular: float = 4.0
    jump: float = 20.0
    touched: float = 20.0
    free: float = 4.0
    cutoff: float = 10.0
    raised: float = 30.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = np.asarray(getattr(self, name), float)
            if name in ("mass", "stiffness", "damping") and value.shape != (6,):
                raise ValueError(f"{name}: expected 6 numbers, found shape {value.shape}")
            if not (np.isfinite(value) & (value > 0.0)).all():
                raise ValueError(f"{name}: expected positive numbers, found {value.tolist()}")
        if self.free >= self.touched:
            raise ValueError(f"free: expected less than touched, {self.touched:g} N, found {self.free:g} N")


class Admittance:
    """See the module's docstring.

    Args:
        pose: of the end effector, where the mass begins at rest.

    Attributes:
        pose: of the mass. twist: its velocity (6,) [m/s], [rad/s], in the axes of the pose's parent.
        contact: whether the damping is raised.
    """

    def __init__(self, settings: AdmittanceSettings, pose: Pose) -> None:
        self.settings = settings
        self.reset(pose)

    def reset(self, pose: Pose) -> None:
        """Begin anew at rest."""
        self.pose, self.twist, self.contact = pose, np.zeros(6), False
        self._force: np.ndarray | None = None
        self._level = 0.0

    def step(self, target: Pose, twist: np.ndarray, wrench: np.ndarray, dt: float) -> Pose:
        """Where the mass is after `dt` [s].

        Args:
            target: of the operator. twist: its velocity (6,).
            wrench: on the end effector, without what it carries (6,) [N], [N m]; what is not finite pushes nothing.
        """
        s = self.settings
        wrench = np.where(np.isfinite(wrench), wrench, 0.0)
        self._feel(wrench[:3], dt)
        damping = s.damping * (s.raised if self.contact else 1.0)
        push = wrench + s.stiffness * pose_error(target, self.pose) + damping * twist
        v = (self.twist + dt / s.mass * push) / (1.0 + dt / s.mass * damping)
        self.twist = np.concatenate([_at_most(v[:3], s.linear), _at_most(v[3:], s.angular)])
        turn = rotation_matrix(self.twist[3:] * dt)
        self.pose = Pose(self.pose.position + self.twist[:3] * dt, turn @ self.pose.rotation)
        return self.pose

    def _feel(self, force: np.ndarray, dt: float) -> None:
        s = self.settings
        jump = 0.0 if self._force is None else float(np.linalg.norm(force - self._force))
        self._force = force
        self._level += (1.0 - np.exp(-2.0 * np.pi * s.cutoff * dt)) * (float(np.linalg.norm(force)) - self._level)
        if jump > s.jump or self._level > s.touched:
            self.contact = True
        elif self._level < s.free:
            self.contact = False


def _at_most(vector: np.ndarray, length: float) -> np.ndarray:
    norm = float(np.linalg.norm(vector))
    return vector if norm <= length else vector * (length / norm)
