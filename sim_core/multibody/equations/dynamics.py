"""Equations of motion of a tree, M(q) vdot + b(q, v) = tau, stated once over CasADi scalars.

Three algorithms, each a loop over links: forward dynamics (articulated bodies, `aba`), inverse dynamics (recursive
Newton-Euler, `rnea`) and the joint-space inertia (composite rigid bodies, `crba`). CasADi differentiates them. Where
joints follow others (equations/tree.py) articulated bodies do not apply, and `unconstrained_acceleration` solves with M.

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), tables 7.1, 5.1 and 6.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from sim_core.multibody.equations import inertia
from sim_core.multibody.equations.configuration import difference
from sim_core.multibody.equations.operators import constant
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.spatial import (
    ArticulatedInertia,
    JointTransform,
    RigidInertia,
    SpatialVector,
    cross,
    mirror_upper,
)
from sim_core.multibody.equations.symmetric import solve_symmetric
from sim_core.multibody.equations.tree import Link, Tree

__all__ = [
    "aba",
    "crba",
    "energy",
    "generalised_force",
    "joint_transform",
    "joint_transforms",
    "link_inertias",
    "link_poses",
    "link_velocities",
    "rnea",
    "unconstrained_acceleration",
]


def joint_transforms(model: Tree, q: ca.SX, p: ca.SX) -> list[JointTransform]:
    """One JointTransform per link at the positions q (nq,)."""
    physical = Physical(model, p)
    return [joint_transform(physical, link, q) for link in model.links]


def joint_transform(physical: Physical, link: Link, q: ca.SX) -> JointTransform:
    """That of one link at the positions q (nq,)."""
    return JointTransform(link.kind, link.axis, link.R, physical.offset(link.r), link.coordinate(q))


def link_poses(model: Tree, q: ca.SX, p: ca.SX) -> list[tuple[ca.SX, ca.SX]]:
    """Position r (3,) and orientation R (3, 3) of each link in the world: x_W = R x_L + r."""
    poses: list[tuple[ca.SX, ca.SX]] = []
    for link, X_i in zip(model.links, joint_transforms(model, q, p)):
        r, R = X_i.r, X_i.rotation()
        if link.parent >= 0:
            r_parent, R_parent = poses[link.parent]
            r, R = R_parent @ r + r_parent, R_parent @ R
        poses.append((r, R))
    return poses


def link_velocities(model: Tree, q: ca.SX, v: ca.SX, p: ca.SX) -> list[SpatialVector]:
    """Angular and linear velocity (w, v), (3,) each, of each link: in its own axes, about its origin."""
    return _velocities(model, joint_transforms(model, q, p), v)[0]


def generalised_force(model: Tree, X: Sequence[JointTransform], wrenches: Sequence[SpatialVector | None]) -> ca.SX:
    """J' f: joint forces (nv,) that spatial forces on the links amount to.

    Args:
        X: `joint_transforms(model, q, p)`.
        wrenches: per link its moment and force (n, f), (3,) each, in link axes about the link's origin; None for none.
    """
    zero = ca.SX.zeros(3)
    total = [(zero, zero) if wrench is None else wrench for wrench in wrenches]
    tau = ca.SX.zeros(model.nv)
    for i, link in reversed(list(enumerate(model.links))):
        tau[link.dofs] += link.ratio * _along(link, total[i])
        if link.parent >= 0:
            n, f = X[i].force_to_parent(*total[i])
            total[link.parent] = (total[link.parent][0] + n, total[link.parent][1] + f)
    return tau


def link_inertias(model: Tree, p: ca.SX) -> list[RigidInertia]:
    """Mass m, first moment h (3,) and rotational inertia I (3, 3) of each link, its bodies merged."""
    physical = Physical(model, p)
    totals = [ca.SX.zeros(10) for _ in model.links]
    for body in model.bodies:
        if body.has_inertia:
            totals[body.link] += inertia.transform(physical.inertia(body.name), body.R, physical.offset(body.r))
    return [(pi[0], pi[1:4], mirror_upper(inertia.rotational_inertia(pi))) for pi in totals]


def momentum(body_inertia: RigidInertia, w: ca.SX, v: ca.SX) -> SpatialVector:
    """Angular and linear momentum, (3,) each, about the link's origin, of a body that turns at w and moves at v."""
    m, h, I = body_inertia
    return I @ w + cross(h, v), m * v + cross(w, h)


def gyroscopic_force(body_inertia: RigidInertia, w: ca.SX, v: ca.SX) -> SpatialVector:
    """v x* (I v), the part of the Newton-Euler force that does not depend on acceleration."""
    m, h, I = body_inertia
    # v x (m v) vanishes, so only the rotational part of the linear momentum meets v.
    spin = cross(w, h)
    L = I @ w + cross(h, v)
    return cross(w, L) + cross(v, spin), cross(w, m * v + spin)


def joint_motion(link: Link, rate: ca.SX) -> SpatialVector:
    """S qd: motion (angular, linear) of the joint at the rate qd (1,), of a ball (3,); or S qdd."""
    zero = ca.SX.zeros(3)
    if link.kind == "ball":
        return rate, zero
    e = constant(np.eye(3)[:, link.axis])
    return (e * rate, zero) if link.kind == "revolute" else (zero, e * rate)


def _velocities(model: Tree, X: Sequence[JointTransform], v: ca.SX) -> tuple[list[SpatialVector], list[SpatialVector]]:
    """Velocity (w, v) of each link and the velocity-product acceleration c = v x S qd."""
    velocities: list[SpatialVector] = []
    products: list[SpatialVector] = []
    zero = ca.SX.zeros(3)
    for link, X_i in zip(model.links, X):
        s_w, s_v = joint_motion(link, link.rate(v))
        parent = velocities[link.parent] if link.parent >= 0 else (zero, zero)
        w_i, v_i = X_i.motion_to_child(*parent)
        # v x S qd with v before the joint's own motion, since (S qd) x (S qd) = 0.
        products.append((cross(w_i, s_w), cross(w_i, s_v) + cross(v_i, s_w)))
        velocities.append((w_i + s_w, v_i + s_v))
    return velocities, products


def _along(link: Link, force: SpatialVector) -> ca.SX:
    """S' f: the component of a spatial force along the joint, (1,), of a ball (3,); of several forces, one a column."""
    n, f = force
    if link.kind == "ball":
        return n
    return n[link.axis, :] if link.kind == "revolute" else f[link.axis, :]


def aba(model: Tree, q: ca.SX, v: ca.SX, tau: ca.SX, p: ca.SX, armature: ca.SX | None = None) -> ca.SX:
    """Forward dynamics: joint accelerations (nv,) [rad/s^2 or m/s^2].

    Args:
        q (nq,), v (nv,), tau (nv,): SX; tau is the total joint force, damping and actuators included.
        p: physical vector (np_,).
        armature: joint-space inertia added to the diagonal of M, (nv,); default that of p.
    """
    physical = Physical(model, p)
    armature = physical.armature if armature is None else armature
    X = joint_transforms(model, q, p)
    bodies = link_inertias(model, p)
    velocities, c = _velocities(model, X, v)
    IA = [ArticulatedInertia.rigid(*body) for body in bodies]
    pA = [gyroscopic_force(body, *velocity) for body, velocity in zip(bodies, velocities)]
    U: dict[int, SpatialVector] = {}
    D_inv: dict[int, ca.SX] = {}
    u: dict[int, ca.SX] = {}
    for i, link in reversed(list(enumerate(model.links))):
        U[i] = IA[i].columns(link.kind, link.axis)
        D = _along(link, U[i]) + ca.diag(armature[link.dofs])
        D_inv[i] = mirror_upper(solve_symmetric(D, constant(np.eye(3)))) if link.kind == "ball" else 1 / D
        u[i] = tau[link.dofs] - _along(link, pA[i])
        if link.parent < 0:
            continue
        Ia = IA[i].minus_outer(link.kind, link.axis, U[i], D_inv[i], armature[link.dofs])
        n, f = Ia.times(*c[i])
        push = D_inv[i] @ u[i]
        pa = (pA[i][0] + n + U[i][0] @ push, pA[i][1] + f + U[i][1] @ push)
        IA[link.parent] = IA[link.parent] + X[i].inertia_to_parent(Ia)
        n, f = X[i].force_to_parent(*pa)
        pA[link.parent] = (pA[link.parent][0] + n, pA[link.parent][1] + f)
    accelerations: list[SpatialVector] = []
    vdot = ca.SX.zeros(model.nv)
    # A base accelerating upwards with -g feels like gravity.
    base = (ca.SX.zeros(3), -physical.gravity)
    for i, link in enumerate(model.links):
        alpha, a = X[i].motion_to_child(*(accelerations[link.parent] if link.parent >= 0 else base))
        alpha, a = alpha + c[i][0], a + c[i][1]
        qdd = D_inv[i] @ (u[i] - U[i][0].T @ alpha - U[i][1].T @ a)
        s_w, s_v = joint_motion(link, qdd)
        accelerations.append((alpha + s_w, a + s_v))
        vdot[link.dofs] = qdd
    return vdot


def rnea(model: Tree, q: ca.SX, v: ca.SX, a: ca.SX, p: ca.SX) -> ca.SX:
    """Inverse dynamics: total joint forces (nv,) that produce the accelerations a (nv,)."""
    physical = Physical(model, p)
    X = joint_transforms(model, q, p)
    bodies = link_inertias(model, p)
    velocities, c = _velocities(model, X, v)
    base = (ca.SX.zeros(3), -physical.gravity)
    accelerations: list[SpatialVector] = []
    forces: list[SpatialVector] = []
    for i, link in enumerate(model.links):
        alpha, lin = X[i].motion_to_child(*(accelerations[link.parent] if link.parent >= 0 else base))
        s_w, s_v = joint_motion(link, link.rate(a))
        accelerations.append((alpha + c[i][0] + s_w, lin + c[i][1] + s_v))
        n, f = ArticulatedInertia.rigid(*bodies[i]).times(*accelerations[i])
        n_gyro, f_gyro = gyroscopic_force(bodies[i], *velocities[i])
        forces.append((n + n_gyro, f + f_gyro))
    tau = physical.armature * a
    for i, link in reversed(list(enumerate(model.links))):
        tau[link.dofs] += link.ratio * _along(link, forces[i])
        if link.parent >= 0:
            n, f = X[i].force_to_parent(*forces[i])
            forces[link.parent] = (forces[link.parent][0] + n, forces[link.parent][1] + f)
    return tau


def crba(model: Tree, q: ca.SX, p: ca.SX, armature: ca.SX | None = None) -> ca.SX:
    """Joint-space inertia M (nv, nv) with the armature (nv,) on its diagonal; default that of p."""
    armature = Physical(model, p).armature if armature is None else armature
    X = joint_transforms(model, q, p)
    composite = [ArticulatedInertia.rigid(*body) for body in link_inertias(model, p)]
    M = ca.diag(armature) + ca.SX.zeros(model.nv, model.nv)
    for i, link in reversed(list(enumerate(model.links))):
        if link.parent >= 0:
            composite[link.parent] = composite[link.parent] + X[i].inertia_to_parent(composite[i])
        forces = composite[i].columns(link.kind, link.axis)
        k = link.dofs
        M[k, k] += link.ratio**2 * _along(link, forces)
        j = i
        while model.links[j].parent >= 0:
            forces = X[j].force_to_parent(*forces)
            j = model.links[j].parent
            block = link.ratio * model.links[j].ratio * _along(model.links[j], forces)
            M[model.links[j].dofs, k] += block
            M[k, model.links[j].dofs] += block.T
    return M


def unconstrained_acceleration(
    model: Tree, q: ca.SX, v: ca.SX, tau: ca.SX, p: ca.SX, armature: ca.SX | None = None
) -> ca.SX:
    """Joint accelerations (nv,) under the joint forces tau (nv,); arguments as of `aba`, which trees use that have no followers."""
    if not any(link.follows for link in model.links):
        return aba(model, q, v, tau, p, armature)
    bias = rnea(model, q, v, ca.SX.zeros(model.nv), p)
    return solve_symmetric(crba(model, q, p, armature), tau - bias)


def energy(model: Tree, q: ca.SX, v: ca.SX, p: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Kinetic and potential energy [J]; the potential of gravity (zero at the world's origin) and joint springs."""
    physical = Physical(model, p)
    X = joint_transforms(model, q, p)
    bodies = link_inertias(model, p)
    velocities, _ = _velocities(model, X, v)
    kinetic = ca.dot(physical.armature * v, v) / 2
    potential = ca.dot(physical.stiffness, difference(model, q, model.spring_reference) ** 2) / 2
    for i, (body, (w, lin)) in enumerate(zip(bodies, velocities)):
        L, l = momentum(body, w, lin)
        kinetic += (ca.dot(L, w) + ca.dot(l, lin)) / 2
        # Weight m g and first moment h, carried to the world link by link: U = -g . (h_W + m o_W).
        m, h = body[0], body[1]
        j = i
        while j >= 0:
            h = X[j].rotation() @ h + m * X[j].r
            j = model.links[j].parent
        potential -= ca.dot(physical.gravity, h)
    return kinetic, potential
