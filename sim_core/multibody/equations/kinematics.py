"""Poses and velocities of frames in the world."""

from __future__ import annotations

import casadi as ca

from sim_core.multibody.equations.dynamics import joint_motion, joint_transform
from sim_core.multibody.equations.operators import constant
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.spatial import SpatialVector, cross
from sim_core.multibody.equations.tree import Tree

__all__ = ["frame_pose", "frame_velocity"]


def frame_pose(model: Tree, frame: str, q: ca.SX, p: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Position r (3,) and orientation R (3, 3) of a site or body in the world: x_W = R x_F + r."""
    f = model.frame(frame)
    physical = Physical(model, p)
    r, R, i = physical.offset(f.r), constant(f.R), f.link
    while i >= 0:
        X = joint_transform(physical, model.links[i], q)
        E = X.rotation()
        r, R = E @ r + X.r, E @ R
        i = model.links[i].parent
    return r, R


def frame_velocity(model: Tree, frame: str, q: ca.SX, v: ca.SX, p: ca.SX) -> SpatialVector:
    """Angular and linear velocity (3,) each of a frame's origin, in world axes."""
    w, lin = ca.SX.zeros(3), ca.SX.zeros(3)
    physical = Physical(model, p)
    f = model.frame(frame)
    r, i = physical.offset(f.r), f.link
    # From the frame down to the world: each joint adds its own motion, then everything turns into the parent's axes.
    while i >= 0:
        link = model.links[i]
        s_w, s_v = joint_motion(link, link.rate(v))
        w, lin = w + s_w, lin + s_v + cross(s_w, r)
        X = joint_transform(physical, link, q)
        E = X.rotation()
        w, lin, r = E @ w, E @ lin, E @ r + X.r
        i = link.parent
    return w, lin
