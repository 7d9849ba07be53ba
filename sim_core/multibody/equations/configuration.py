"""Positions q (nq,) and their rates v (nv,): the same for hinges and slides; for a ball a quaternion (w, x, y, z) in q
and the angular velocity in the body's own axes in v, as MuJoCo has it.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core.multibody.equations import quaternion
from sim_core.multibody.equations.tree import Tree

__all__ = ["difference", "displacement_rate", "integrate_position"]


def integrate_position(model: Tree, q: ca.SX, v: ca.SX, h: float) -> ca.SX:
    """q (nq,) after h [s] at the rates v (nv,); quaternions come out with unit length."""
    parts = [
        quaternion.integrate(q[link.positions], v[link.dofs], h)
        if link.kind == "ball"
        else q[link.positions] + h * v[link.dofs]
        for link in model.links
        if not link.follows
    ]
    return ca.vertcat(*parts)


def displacement_rate(model: Tree, d: ca.SX, v: ca.SX) -> ca.SX:
    """Rates (nv,) of the displacement d (nv,) for which q = integrate_position(q0, d, 1) moves at the rates v (nv,)."""
    parts = [
        quaternion.displacement_rate(d[link.dofs], v[link.dofs]) if link.kind == "ball" else v[link.dofs]
        for link in model.links
        if not link.follows
    ]
    return ca.vertcat(*parts)


def difference(model: Tree, q: ca.SX, q_from: ca.SX | np.ndarray) -> ca.SX:
    """Rates (nv,) that lead from q_from (nq,) to q (nq,) in one second, a ball the shorter way round."""
    q, q_from = ca.SX(q), ca.SX(q_from)
    parts = []
    for link in model.links:
        if link.follows:
            continue
        here, there = q[link.positions], q_from[link.positions]
        if link.kind == "ball":
            back = ca.vertcat(there[0], -there[1:])
            parts.append(quaternion.rotation_vector(quaternion.multiply(back, here)))
        else:
            parts.append(here - there)
    return ca.vertcat(*parts)
