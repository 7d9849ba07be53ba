"""Drag of a medium at rest on every body, by MuJoCo's inertia-box model.

A body counts as the box of uniform density that has its inertia. With the box's half-sizes r, their mean r_eq, and the
velocity (w, v) of its COM in the box's axes, moment n and force f of the medium are

    f_i = -2 rho r_j r_k |v_i| v_i - 6 pi mu r_eq v_i
    n_i = -rho r_i (r_j^4 + r_k^4) |w_i| w_i / 2 - 8 pi mu r_eq^3 w_i

rho and mu, density and viscosity, are entries of p. The boxes are constants of the model as loaded: a body whose mass
or COM is estimated keeps its shape.

Source: MuJoCo documentation, Computation, "Passive forces", "Inertia model".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import casadi as ca
import mujoco
import numpy as np

from sim_core.multibody.equations.dynamics import generalised_force, joint_transforms, link_velocities
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.spatial import SpatialVector, cross
from sim_core.multibody.equations.tree import Mount, Offset, Tree

__all__ = ["FluidBox", "FluidTree", "drag", "fluid_boxes", "fluid_force"]


@dataclass(frozen=True)
class FluidBox:
    """Equivalent box of one body: pose (R, r) in its link and half-sizes (3,) [m]."""

    link: int
    R: np.ndarray
    r: Offset
    half_size: np.ndarray


class FluidTree(Tree, Protocol):
    """A tree whose bodies a medium may drag at."""

    @property
    def fluid_boxes(self) -> tuple[FluidBox, ...]: ...


def fluid_boxes(m: mujoco.MjModel, mounts: Sequence[Mount]) -> tuple[FluidBox, ...]:
    """Boxes of the moving bodies of a compiled mujoco.MjModel; mounts: (link, R, r) of each body in its link."""
    boxes = []
    for i, (link, R, r) in enumerate(mounts):
        if link < 0 or m.body_mass[i] < mujoco.mjMINVAL:
            continue
        inertia = m.body_inertia[i]
        # Of a box with mass m: I_1 = m (b_2^2 + b_3^2) / 12 for full sizes b.
        size = np.sqrt(6 * np.maximum(inertia.sum() - 2 * inertia, mujoco.mjMINVAL) / m.body_mass[i])
        R_box = np.zeros(9)
        mujoco.mju_quat2Mat(R_box, m.body_iquat[i])
        boxes.append(FluidBox(link, R @ R_box.reshape(3, 3), r.moved(np.eye(3), R @ m.body_ipos[i]), size / 2))
    return tuple(boxes)


def drag(half_size: np.ndarray, w: ca.SX, v: ca.SX, density: ca.SX, viscosity: ca.SX) -> SpatialVector:
    """Moment and force (3,) each on a box that turns at w and moves at v, (3,) each in its axes, through the medium."""
    r = half_size
    r_eq = r.mean()
    n, f = [], []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        f.append(-(2 * r[j] * r[k] * density * ca.fabs(v[i]) + 6 * np.pi * r_eq * viscosity) * v[i])
        n.append(
            -(r[i] * (r[j] ** 4 + r[k] ** 4) / 2 * density * ca.fabs(w[i]) + 8 * np.pi * r_eq**3 * viscosity) * w[i]
        )
    return ca.vertcat(*n), ca.vertcat(*f)


def fluid_force(model: FluidTree, q: ca.SX, v: ca.SX, p: ca.SX) -> ca.SX:
    """Joint forces (nv,) of the medium's drag."""
    physical = Physical(model, p)
    twists = link_velocities(model, q, v, p)
    total: dict[int, SpatialVector] = {}
    for box in model.fluid_boxes:
        w, lin = twists[box.link]
        r = physical.offset(box.r)
        R = ca.SX(box.R)
        n, f = drag(box.half_size, R.T @ w, R.T @ (lin + cross(w, r)), physical.density, physical.viscosity)
        f = R @ f
        moment, force = total.get(box.link, (0, 0))
        total[box.link] = moment + R @ n + cross(r, f), force + f
    return generalised_force(model, joint_transforms(model, q, p), [total.get(i) for i in range(len(model.links))])
