"""Where the contact pairs of a model may touch: gaps, frames and relative velocities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from sim_core.multibody.contact.distance import Shape, tangents
from sim_core.multibody.contact.pairs import ContactPair, ContactTree, Geom
from sim_core.multibody.equations.dynamics import generalised_force, joint_transforms, link_poses, link_velocities
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.spatial import SpatialVector

__all__ = ["ContactPoint", "contact_points", "push_apart"]


@dataclass(frozen=True)
class ContactPoint:
    """One gap of a pair, in world axes.

    Attributes:
        name: the pair's, with ".k" where the pair has several points.
        distance [m], point (3,) [m], frame (3, 3): rows normal, first and second tangent.
        velocity: (3,) of the second geom relative to the first at the point, along the frame's rows [m/s].
    """

    name: str
    pair: ContactPair
    distance: ca.SX
    point: ca.SX
    frame: ca.SX
    velocity: ca.SX


def contact_points(model: ContactTree, q: ca.SX, v: ca.SX, p: ca.SX) -> list[ContactPoint]:
    """Every ContactPoint of the model at positions q (nq,) and velocities v (nv,)."""
    physical = Physical(model, p)
    poses = [(ca.SX(r), R) for r, R in link_poses(model, q, p)]
    twists = [(R @ w, R @ lin) for (_, R), (w, lin) in zip(poses, link_velocities(model, q, v, p))]

    def shape(geom: Geom) -> Shape:
        r, R = physical.offset(geom.r), ca.SX(geom.R)
        if geom.link >= 0:
            r_link, R_link = poses[geom.link]
            r, R = R_link @ r + r_link, R_link @ R
        return Shape(geom.size, r, R)

    def velocity(geom: Geom, point: ca.SX) -> ca.SX:
        if geom.link < 0:
            return ca.SX.zeros(3)
        w, lin = twists[geom.link]
        return lin + ca.cross(w, point - poses[geom.link][0])

    found = []
    for pair in model.contacts:
        gaps = pair.distance(shape(pair.first), shape(pair.second))
        for k, gap in enumerate(gaps):
            frame = ca.vertcat(gap.normal.T, *(t.T for t in tangents(gap.normal)))
            moving = velocity(pair.second, gap.point) - velocity(pair.first, gap.point)
            name = pair.name if len(gaps) == 1 else f"{pair.name}.{k}"
            found.append(ContactPoint(name, pair, gap.distance, gap.point, frame, frame @ moving))
    return found


def push_apart(
    model: ContactTree, q: ca.SX, p: ca.SX, points: Sequence[ContactPoint], forces: Sequence[ca.SX]
) -> ca.SX:
    """Joint forces (nv,) of contact forces.

    Args:
        points: from `contact_points`.
        forces: per point (3,) on its pair's second geom, along the rows of its frame [N]; the first feels the opposite.
    """
    poses = link_poses(model, q, p)
    total: list[SpatialVector | None] = [None] * len(model.links)
    for point, force in zip(points, forces):
        f = point.frame.T @ force
        for geom, side in ((point.pair.first, -1), (point.pair.second, 1)):
            if geom.link >= 0:
                n_before, f_before = total[geom.link] or (ca.SX.zeros(3), ca.SX.zeros(3))
                n = ca.cross(point.point - poses[geom.link][0], f)
                total[geom.link] = (n_before + side * n, f_before + side * f)
    wrenches = [None if wrench is None else (R.T @ wrench[0], R.T @ wrench[1]) for wrench, (_, R) in zip(total, poses)]
    return generalised_force(model, joint_transforms(model, q, p), wrenches)
