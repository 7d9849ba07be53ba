"""Velocities of bodies, and forces on them from outside, as named quantities.

"body.head.velocity.wx" .. ".wz", ".vx" .. ".vz": angular and linear velocity of the body's frame, in its own axes.
"body.head.wrench.tx" .. ".tz", ".fx" .. ".fz": moment about the frame's origin and force, in the same axes; zero in the
equations, there to be corrected.

In these quantities a force that moves with the body is a single function of how the body moves, whatever its place and
orientation. In the coordinates of the joints that lead to the body it would be another function in every posture.
"""

from __future__ import annotations

import casadi as ca

from sim_core.multibody.equations.dynamics import generalised_force, joint_transforms, link_velocities
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.spatial import SpatialVector, cross
from sim_core.multibody.equations.taps import Taps
from sim_core.multibody.equations.tree import Body, Tree

__all__ = ["body_force", "record_velocities"]

PREFIX = "body."
MOTION, WRENCH = ("wx", "wy", "wz", "vx", "vy", "vz"), ("tx", "ty", "tz", "fx", "fy", "fz")


def record_velocities(model: Tree, q: ca.SX, v: ca.SX, p: ca.SX, taps: Taps) -> None:
    """Make the velocity of every moving body known."""
    twists, physical = link_velocities(model, q, v, p), Physical(model, p)
    for body in _moving(model):
        w, lin = twists[body.link]
        R = ca.SX(body.R)
        twist = ca.vertcat(R.T @ w, R.T @ (lin + cross(w, physical.offset(body.r))))
        for k, field in enumerate(MOTION):
            taps.record(f"{PREFIX}{body.name}.velocity.{field}", twist[k])


def body_force(model: Tree, q: ca.SX, v: ca.SX, p: ca.SX, taps: Taps) -> ca.SX:
    """Joint forces (nv,) of the wrenches that networks put on bodies."""
    physical = Physical(model, p)
    total: dict[int, SpatialVector] = {}
    for body in _moving(model):
        wrench = [taps(f"{PREFIX}{body.name}.wrench.{field}", ca.SX(0)) for field in WRENCH]
        n, f = (ca.SX(body.R) @ ca.vertcat(*part) for part in (wrench[:3], wrench[3:]))
        moment, force = total.get(body.link, (0, 0))
        total[body.link] = moment + n + cross(physical.offset(body.r), f), force + f
    return generalised_force(model, joint_transforms(model, q, p), [total.get(i) for i in range(len(model.links))])


def _moving(model: Tree) -> list[Body]:
    return [body for body in model.bodies if body.link >= 0]
