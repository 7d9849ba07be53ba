"""The servos' own law: from a command and the measured joints to joint efforts.

The servo knows the nominal robot only; hidden changes of the plant are hidden from it too.
"""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.command import Command, Mode
from sim_core.plant.errors import PlantError

__all__ = ["STOP_STATES", "Servo"]

STOP_STATES = ("zero", "damped", "hold")


class Servo:
    """Joint efforts per servo tick.

    Position gains follow from the nominal joint-space inertia at the home posture, so one number,
    the bandwidth, fits every robot: K_p = w^2 M_ii, K_d = 2 w M_ii (critically damped).

    Args:
        model: nominal model; only its robot joints are used.
        qpos, dof: index of each robot joint in qpos and qvel, shape (n,).
        actuated: mask of joints with an actuator, shape (n,).
        q_home: posture the inertia is taken at, shape (n,).
        bandwidth: w [rad/s].
        stop_state: "zero" (no effort), "damped" (-K_d qd) or "hold" (position loop on where it
            stood, with gravity compensation of the nominal model).
        stop_damping: K_d of "damped" as a multiple of M_ii [1/s].
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        qpos: np.ndarray,
        dof: np.ndarray,
        actuated: np.ndarray,
        q_home: np.ndarray,
        bandwidth: float,
        stop_state: str,
        stop_damping: float,
    ) -> None:
        if stop_state not in STOP_STATES:
            raise PlantError(f"Unknown stop state '{stop_state}'; use {', '.join(STOP_STATES)}.")
        self._model, self._data = model, mujoco.MjData(model)
        self._qpos, self._dof = qpos, dof
        self._actuated = actuated
        self._data.qpos[qpos] = q_home
        mujoco.mj_forward(model, self._data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, self._data, full)
        inertia = np.diag(full)[dof]
        self.kp = bandwidth**2 * inertia
        self.kd = 2.0 * bandwidth * inertia
        self.kd_stop = stop_damping * inertia
        self.stop_state = stop_state
        self._q_hold: np.ndarray | None = None

    def follow(self, command: Command, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Joint efforts of a checked command at time t [s]; q, v and result have shape (n,)."""
        self._q_hold = None
        if command.mode is Mode.EFFORT:
            return command.effort
        # The reference moves on with its velocity from the command's stamp.
        e = command.position + command.velocity * (t - command.stamp) - q
        ed = command.velocity - v
        if command.mode is Mode.POSITION:
            tau = command.effort + self.kp * e + self.kd * ed
        else:
            tau = command.effort + command.gain @ np.concatenate([e, ed])
        return np.where(self._actuated, tau, 0.0)

    def stop(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Joint efforts of the declared stop state, shape (n,)."""
        if self.stop_state == "zero":
            return np.zeros_like(q)
        if self.stop_state == "damped":
            return np.where(self._actuated, -self.kd_stop * v, 0.0)
        if self._q_hold is None:
            self._q_hold = q.copy()
        tau = self.kp * (self._q_hold - q) - self.kd * v + self._gravity(q)
        return np.where(self._actuated, tau, 0.0)

    def release(self) -> None:
        """Forget the posture held (after a reset)."""
        self._q_hold = None

    def _gravity(self, q: np.ndarray) -> np.ndarray:
        self._data.qpos[self._qpos] = q
        self._data.qvel[:] = 0.0
        mujoco.mj_forward(self._model, self._data)
        return self._data.qfrc_bias[self._dof]
