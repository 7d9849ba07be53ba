"""Motion along some axes of a task, force along the others.

    control = HybridForce(task, forces=[2])                     # presses along the task's z, moves along the rest
    v = control.velocity(v_desired, w_desired, w_felt, dt)      # twist of the end effector, or PressedTooHard

    v = T' v_desired + Y' (K_p e + K_d de/dt),    e = Y (w_desired - w_felt)

T selects the axes that move and Y those that press, each row one axis of the task's frame.

Source: predecessor of Zhu, PhD thesis, University of Illinois (2023), section 5.4.2; approach and contact of section 5.3.4. The
limits are its own; it meant to abort at 20 N and never did.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["HybridForce", "PressedTooHard"]


class PressedTooHard(RuntimeError):
    """What is felt passes what may be: whoever controls the arm holds it."""


class HybridForce:
    """See the module's docstring.

    Args:
        task: rotation of the task's frame in the axes of all twists and wrenches (3, 3).
        forces: of the task's six axes (x, y, z, then about them) those that press.
        kp: [m/s per N], [rad/s per N m]. kd: [m per N], [rad per N m].
        linear, angular: of the twist at most [m/s], [rad/s].
        abort: force felt at which it ends [N].

    Raises:
        ValueError: the frame is no rotation, an axis is none of the six or named twice, or a gain is negative.
    """

    def __init__(
        self,
        task: np.ndarray,
        forces: Sequence[int],
        kp: tuple[float, float] = (2e-3, 2e-2),
        kd: tuple[float, float] = (2e-5, 2e-4),
        linear: float = 0.3,
        angular: float = 0.5,
        abort: float = 20.0,
    ) -> None:
        task = np.asarray(task, float)
        if task.shape != (3, 3) or not np.allclose(task @ task.T, np.eye(3), atol=1e-6) or np.linalg.det(task) < 0.0:
            raise ValueError("task: expected a rotation matrix (3, 3)")
        if sorted(set(forces)) != sorted(forces) or not set(forces) <= set(range(6)):
            raise ValueError(f"forces: expected different axes from 0 to 5, found {list(forces)}")
        if min(*kp, *kd) < 0.0:
            raise ValueError(f"gains: expected none below zero, found kp {kp}, kd {kd}")
        axes = np.kron(np.eye(2), task.T)  # rows: the task's axes
        self.Y = axes[list(forces)]
        self.T = axes[[k for k in range(6) if k not in forces]]
        self._kp, self._kd = (np.repeat(gain, 3)[list(forces)] for gain in (kp, kd))
        self._linear, self._angular, self._abort = linear, angular, abort
        self._error: np.ndarray | None = None

    def velocity(self, v_desired: np.ndarray, w_desired: np.ndarray, w_felt: np.ndarray, dt: float) -> np.ndarray:
        """Twist of the end effector (6,) [m/s], [rad/s].

        Args:
            v_desired: twist (6,), of which only the moving axes count. w_desired: wrench with which to press (6,) [N], [N m].
            w_felt: with which it presses (6,). dt: since the last call [s].

        Raises:
            PressedTooHard: the force felt is above `abort`, or is not finite. The next call begins anew.
        """
        felt = float(np.linalg.norm(w_felt[:3]))
        if not felt <= self._abort:
            self._error = None
            raise PressedTooHard(f"The end effector feels {felt:.0f} N, at most {self._abort:.0f} N may be.")
        error = self.Y @ (np.asarray(w_desired, float) - w_felt)
        rate = np.zeros_like(error) if self._error is None else (error - self._error) / dt
        self._error = error
        v = self.T.T @ (self.T @ np.asarray(v_desired, float)) + self.Y.T @ (self._kp * error + self._kd * rate)
        # Scaled as a whole, so that the direction stays.
        fastest = max(np.linalg.norm(v[:3]) / self._linear, np.linalg.norm(v[3:]) / self._angular, 1.0)
        return v / fastest
