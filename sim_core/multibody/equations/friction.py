"""MuJoCo's friction loss: a soft constraint on each joint's acceleration, whose force is bounded by the friction loss.

    M a = f + phi,    phi_j = D_j (-b_j v_j - a_j)  bounded to  [-eta_j, eta_j]

f holds all other forces, eta is the friction loss; -b v would bring the joint to rest at rate b. A joint sticks where
the force stays within its bounds: it then feels D as additional inertia, some 9 times its own. Beyond them it slides
and the force is +-eta. D and b are the plant's regularisation, not physics: MuJoCo's compiler takes them from
solimpfriction, solreffriction and the nominal model's inverse inertia at qpos0, and they stay when masses are
estimated.

Source: MuJoCo documentation, Computation, "Friction loss" and "Constraint model"; details as measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import casadi as ca
import mujoco
import numpy as np

from sim_core.multibody.equations.dynamics import crba, rnea, unconstrained_acceleration
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.symmetric import solve_symmetric
from sim_core.multibody.equations.tree import Tree

__all__ = [
    "FrictionConstraint",
    "FrictionTree",
    "constrained_acceleration",
    "forward_dynamics",
    "friction_force",
    "sticking_inertia",
]

# Linear systems after the frictionless one, each a tenth of the Panda's step. Of 20 000 random states none of the Panda
# needs more than 4, and 7 of a nine-joint tree with friction between 0.001 and 10 N m more than 5 (docs/gradients.md).
ITERATIONS = 5


@dataclass(frozen=True)
class FrictionConstraint:
    """Constants of a plant's friction loss.

    Attributes:
        D: (nv,) [kg m^2 or kg], zero for joints without friction.
        b: (nv,) [1/s] as the model file asks for.
        bh_max: (nv,) limit of b times the time step [-]; inf where the plant sets none.
    """

    D: np.ndarray
    b: np.ndarray
    bh_max: np.ndarray

    @classmethod
    def of_plant(cls, m: mujoco.MjModel, joints: Sequence[bool]) -> FrictionConstraint:
        """Those of a compiled mujoco.MjModel, for the joints with friction (a boolean each)."""
        d_min, d_max, width = np.clip(m.dof_solimp[:, :3], (1e-4, 1e-4, 0.0), (0.9999, 0.9999, np.inf)).T
        # Friction has no violation, so its impedance is the one at distance zero; MuJoCo averages where width is zero.
        impedance = np.where(width <= mujoco.mjMINVAL, (d_min + d_max) / 2, d_min)
        R = np.maximum((1 - impedance) / impedance * m.dof_invweight0, mujoco.mjMINVAL)
        # solref is (time constant, damping ratio), or -(stiffness, damping).
        time, damping = m.dof_solref.T
        direct = time <= 0
        b = np.where(direct, -damping, 2 / np.where(direct, 1.0, time)) / d_max
        unsafe = int(m.opt.disableflags) & int(mujoco.mjtDisableBit.mjDSBL_REFSAFE)
        return cls(np.where(joints, 1 / R, 0.0), b, np.where(direct | bool(unsafe), np.inf, 1 / d_max))

    def rate(self, h: float) -> np.ndarray:
        """b (nv,) [1/s] in steps of h [s]: MuJoCo takes time constants of at least two steps."""
        return np.minimum(self.b, self.bh_max / h)


class FrictionTree(Tree, Protocol):
    """A tree with the plant's friction loss, or None where it has none or the smooth law takes its place."""

    @property
    def friction(self) -> FrictionConstraint | None: ...


def forward_dynamics(
    model: FrictionTree, q: ca.SX, v: ca.SX, tau: ca.SX, p: ca.SX, h: float, hK: ca.SX | None = None
) -> ca.SX:
    """Joint accelerations (nv,) under the joint forces tau (nv,) and, where the model has it, constrained friction.

    Args:
        tau: joint forces without friction, SX (nv,).
        h: time step [s]; only the friction constraint needs it.
        hK: symmetric (nv, nv), added to M once the friction force is known. A diagonal one acts like armature.
    """
    if model.friction is None:
        if hK is None:
            return unconstrained_acceleration(model, q, v, tau, p)
        if hK.sparsity().is_diag():
            return unconstrained_acceleration(model, q, v, tau, p, Physical(model, p).armature + ca.diag(hK))
    M, f = crba(model, q, p), tau - rnea(model, q, v, ca.SX.zeros(model.nv), p)
    if model.friction is None and hK is not None:
        return solve_symmetric(M + hK, f)
    a, zone = constrained_acceleration(model, M, f, v, p, h)
    if hK is None:
        return a
    return solve_symmetric(M + hK, f + friction_force(model, v, a, zone, p, h))


def constrained_acceleration(
    model: FrictionTree, M: ca.SX, f: ca.SX, v: ca.SX, p: ca.SX, h: float
) -> tuple[ca.SX, ca.SX]:
    """a (nv,) with M a = f + phi(a), and each joint's zone (nv,): 0 sticks, +-1 slides with force +-eta.

    Newton's method on a convex, piecewise quadratic function: given the zones, a linear system. Zones have no
    derivative, so that of `a` is the last linear system's.
    """
    eta, at_rest = Physical(model, p).frictionloss, ca.SX.zeros(model.nv)

    def zone_at(a: ca.SX) -> ca.SX:
        sticking = friction_force(model, v, a, at_rest, p, h)
        # >= at one end: without friction loss a joint slides even where no force acts.
        return (sticking >= eta) - (sticking < -eta)

    a = solve_symmetric(M, f)
    zone = zone_at(a)
    for k in range(ITERATIONS):
        if k:
            # From one sliding zone to the other only by way of sticking: else even one joint alternates for ever.
            zone = ca.fmax(zone - 1, ca.fmin(zone_at(a), zone + 1))
        K = ca.diag(sticking_inertia(model, zone))
        a = solve_symmetric(M + K, f + friction_force(model, v, at_rest, zone, p, h))
    return a, zone


def _constants(model: FrictionTree) -> FrictionConstraint:
    if model.friction is None:
        raise ValueError("Expected a model with constrained friction, found none; load it with friction=True.")
    return model.friction


def sticking_inertia(model: FrictionTree, zone: ca.SX) -> ca.SX:
    """-d phi / d a, (nv,): D of the joints that stick."""
    return (1 - zone**2) * ca.SX(_constants(model).D)


def friction_force(model: FrictionTree, v: ca.SX, a: ca.SX, zone: ca.SX, p: ca.SX, h: float) -> ca.SX:
    """phi (nv,) of joints in the given zones."""
    return (
        sticking_inertia(model, zone) * (ca.SX(-_constants(model).rate(h)) * v - a)
        + zone * Physical(model, p).frictionloss
    )
