"""Cartesian impedance: a scoop that is led as by a spring and a damper between where it is and where it shall be.

    control = CartesianImpedance(model, kinematics)
    motion = control.motion(target, twist, q, v, IMPEDANCE["soft"])

    tau = M J^-1 ddx_target + h(q, v) + J' (K e + D (dx_target - J v))

with e what takes the blade to its target, as metres and as a rotation vector, and h the forces that gravity, motion and the joints'
own damping take (`model_forces.py`). The first term keeps a target that moves through the air from being followed late: so soft a
spring moves an arm of 20 kg at 2 rad/s only. K is the same in all
directions, once for metres and once for radians. D gives every direction of the blade the same damping ratio, whatever of the arm's inertia is behind it:
D = zeta (A B + B A) with A A = Lambda = (J M^-1 J')^-1 and B B = K.

Between two cycles the joints' own gains go on with the diagonals of J' K J and J' D J, from the place and the speed of the cycle, so
that at the moment of the cycle the torque is the law's.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.2, for both stiffnesses; the damping is that of Albu-Schaeffer, Ott,
Frese, Hirzinger, "Cartesian Impedance Control of Redundant Robots" (ICRA 2003), double diagonalisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.multibody import RobotModel
from sim_core.scooping.arm.primitive import Stiffness
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.avatar import Motion
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.model_forces import ModelForces

__all__ = ["IMPEDANCE", "CartesianImpedance", "Impedance"]

#: [kg], [kg m^2] that count at most as inertia of a direction: near a singularity there is no end to it
HEAVIEST = np.array([500.0, 500.0, 500.0, 20.0, 20.0, 20.0])
#: [m^2, 1] by which a direction in which the arm hardly moves is not sped up
SINGULAR = 1e-4
REST = np.zeros(6)


@dataclass(frozen=True)
class Impedance:
    """Attributes:
    linear: stiffness [N/m]. angular: [N m/rad]. ratio: of the damping to the critical one.

    Raises:
        ValueError: one of them is not positive.
    """

    linear: float
    angular: float
    ratio: float = 0.7

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"{name}: expected a positive number, found {value}")

    @property
    def stiffness(self) -> np.ndarray:
        """The diagonal of K (6,)."""
        return np.repeat([self.linear, self.angular], 3)


#: both of the published scoops
IMPEDANCE: dict[Stiffness, Impedance] = {"soft": Impedance(250.0, 6.0), "hard": Impedance(750.0, 20.0)}


class CartesianImpedance:
    """See the module's docstring.

    Args:
        model: of the arm, all of whose joints are driven. kinematics: of the frame that is led, by all joints.
        effort: greatest torques (n,) [N m], to which the law's are cut.
    """

    def __init__(self, model: RobotModel, kinematics: ArmKinematics, effort: np.ndarray) -> None:
        self.kinematics, self._effort = kinematics, np.asarray(effort, float)
        self._forces = ModelForces(model)

    def inertia(self, q: np.ndarray) -> np.ndarray:
        """Of the joints (n, n) [kg m^2], at positions (n,) [rad]."""
        still, n = np.zeros_like(q), len(q)
        held = self._forces(q, still, still)
        return np.column_stack([self._forces(q, still, row) - held for row in np.eye(n)])

    def damping(self, q: np.ndarray, impedance: Impedance) -> np.ndarray:
        """D (6, 6) [N s/m, N m s/rad] at joint positions (n,) [rad]."""
        J = self.kinematics.at(q).J
        mobility = J @ np.linalg.solve(self.inertia(q), J.T) + np.diag(1.0 / HEAVIEST)
        values, axes = np.linalg.eigh(0.5 * (mobility + mobility.T))
        A, B = (axes / np.sqrt(values)) @ axes.T, np.diag(np.sqrt(impedance.stiffness))  # A A is the mobility's inverse
        D: np.ndarray = impedance.ratio * (A @ B + B @ A)
        return D

    def motion(
        self,
        target: Pose,
        q: np.ndarray,
        v: np.ndarray,
        impedance: Impedance,
        twist: np.ndarray = REST,
        acceleration: np.ndarray = REST,
    ) -> Motion:
        """What the joints shall do until the next cycle.

        Args:
            target: of the frame. twist, acceleration: of the target (6,) [m/s], [rad/s]; [m/s^2], [rad/s^2].
            q, v: as measured (n,) [rad], [rad/s].
        """
        here = self.kinematics.at(q)
        J, K, D = here.J, impedance.stiffness, self.damping(q, impedance)
        wrench = K * pose_error(target, here.pose) + D @ (twist - J @ v)
        along = J.T @ np.linalg.solve(J @ J.T + SINGULAR * np.eye(6), acceleration)
        effort = self._forces(q, v, along) + J.T @ wrench
        kp, kd = K @ J**2, (J * (D @ J)).sum(axis=0)
        return Motion(q.copy(), v.copy(), np.clip(effort, -self._effort, self._effort), kp, kd)
