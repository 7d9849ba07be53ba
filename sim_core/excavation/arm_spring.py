"""How an arm under joint impedance holds a bucket: as a spring, a damper and an inertia in (x, y, z, alpha).

The joints' stiffness K_q seen at the bucket is (S J K_q^-1 J' S')^-1, where S picks the four coordinates that are commanded; the inertia
is likewise (S J M^-1 J' S')^-1. What the commanded motion itself needs is fed forward, so that in free space the bucket is where it is
commanded to be; contact moves it away from there.

Source: Khatib, A Unified Approach for Motion and Force Control (1987), for the operational-space inertia. The stiffness of 100 N m/rad
is that of Zhu, PhD thesis (University of Illinois 2023), section 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm, sqrtm

__all__ = ["COORDINATES", "SEVEN_JOINTS", "ArmSpring", "Deviation", "critical_damping"]

#: rows of a Jacobian, linear over angular, that x, y, z and alpha are
COORDINATES = [0, 1, 2, 4]
JOINT_STIFFNESS = 100.0  # [N m/rad]


@dataclass(frozen=True, eq=False)
class ArmSpring:
    """An arm at its working posture.

    Attributes:
        J: of x, y, z, alpha by joints (4, n). K: stiffness (4, 4) [N/m, N, N m/rad]. M: inertia (4, 4) [kg, kg m, kg m^2].
    """

    J: np.ndarray
    K: np.ndarray
    M: np.ndarray

    @classmethod
    def of(cls, J: np.ndarray, M: np.ndarray, stiffness: float = JOINT_STIFFNESS) -> ArmSpring:
        """From the Jacobian (6, n), linear over angular, and the mass matrix of the joints (n, n), in SI units.

        Raises:
            ValueError: the posture is singular in one of the four coordinates.
        """
        rows = J[COORDINATES]
        if np.linalg.matrix_rank(rows) < 4:
            raise ValueError("at this posture the arm cannot move the bucket in x, y, z and alpha: choose another one")
        K = np.linalg.inv(rows @ rows.T / stiffness)
        return cls(rows, K, np.linalg.inv(rows @ np.linalg.solve(M, rows.T)))

    @property
    def D(self) -> np.ndarray:
        """Damping (4, 4) that is critical in every mode."""
        return critical_damping(self.K, self.M)

    def torques(self, wrenches: np.ndarray) -> np.ndarray:
        """Torques of the joints (..., n) [N m] that forces and a moment about y (..., 4) put on them."""
        return wrenches @ self.J


def critical_damping(K: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Damping (n, n) that is critical in every mode of a stiffness, positive semidefinite, and an inertia (n, n)."""
    root = np.real(sqrtm(M))
    inverse = np.linalg.inv(root)
    return 2.0 * root @ np.real(sqrtm(inverse @ K @ inverse)) @ root


class Deviation:
    """By how much the bucket is away from where it is commanded to be, from tick to tick.

    Args:
        spring: of the arm. tick: [s], during which the load is constant; the step is exact for that.

    Attributes:
        place: (4,) [m, m, m, rad]. rate: (4,) per second.
    """

    def __init__(self, spring: ArmSpring, tick: float) -> None:
        inverse = np.linalg.inv(spring.M)
        A = np.zeros((12, 12))
        A[:4, 4:8] = np.eye(4)
        A[4:8, :4], A[4:8, 4:8], A[4:8, 8:] = -inverse @ spring.K, -inverse @ spring.D, inverse
        whole = expm(A * tick)
        self._free, self._load = whole[:8, :8], whole[:8, 8:]
        self._x = np.zeros(8)

    @property
    def place(self) -> np.ndarray:
        """See the class."""
        return self._x[:4]

    @property
    def rate(self) -> np.ndarray:
        """See the class."""
        return self._x[4:]

    def step(self, load: np.ndarray) -> None:
        """One tick under a force and a moment about y (4,) [N, N m]."""
        self._x = self._free @ self._x + self._load @ load


# A seven-joint arm of 0.86 m reach, its flange downwards, the bucket's middle 0.12 m below it at x = 0.52 m, z = 0.08 m over its base.
SEVEN_JOINTS = ArmSpring(
    J=np.array(
        [
            [0.0, -0.251, 0.011, 0.526, -0.002, 0.227, 0.0],
            [0.52, 0.034, 0.573, -0.021, 0.03, 0.014, 0.0],
            [0.0, -0.515, 0.022, 0.341, 0.0, 0.088, 0.0],
            [0.0, 0.991, -0.043, -0.999, 0.029, -0.998, 0.0],
        ]
    ),
    K=np.array(
        [
            [1878.8, 12.1, -261.9, 548.6],
            [12.1, 166.5, 7.7, 5.5],
            [-261.9, 7.7, 1107.6, 261.6],
            [548.6, 5.5, 261.6, 300.5],
        ]
    ),
    M=np.array(
        [
            [9.165, -0.101, -3.335, 1.758],
            [-0.101, 3.487, 0.333, 0.037],
            [-3.335, 0.333, 9.86, 0.105],
            [1.758, 0.037, 0.105, 0.555],
        ]
    ),
)
