"""What a robot's model says of the forces in its joints, as one compiled call."""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core.multibody import RobotModel, build
from sim_core.telepresence.arm_equations import OneCall

__all__ = ["ModelForces"]


class ModelForces:
    """Forces that the actuators have to exert: tau = M(q) a + h(q, v), less what the joints exert by themselves.

    h: gravity, Coriolis and centrifugal forces; by themselves the joints have damping, springs and friction.

    Args:
        model: of a robot whose positions are its joints', nq = nv. Its nominal parameters hold.
    """

    def __init__(self, model: RobotModel) -> None:
        q, v, a = (ca.SX.sym(name, model.nv) for name in "qva")
        p = ca.DM(model.parameters.nominal)
        own = build.joint_force(model)(q, v, ca.SX.zeros(model.nu), p)
        tau = build.inverse_dynamics(model)(q, v, a, p) - own
        self._call = OneCall("refit_model_forces", ca.Function("forces", [ca.vertcat(q, v, a)], [tau]))

    def __call__(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Of positions, velocities and accelerations (n,) [rad or m, /s, /s^2]: (n,) [N m or N]."""
        return self._call(np.concatenate([q, v, a]))
