"""Signed distances between planes, spheres, capsules and boxes, as CasADi expressions.

    for gap in DISTANCES["sphere", "box"](sphere, box):
        gap.distance, gap.point, gap.normal

Every function returns the same number of gaps whatever the poses: a capsule on a plane touches with either end, a box
with any of its eight corners. Boxes meet by their corners alone, so two crossing edges pass through each other. Values
are continuous; normals jump where the nearest feature changes (the middle of a box, parallel capsules).

Source: Ericson, Real-Time Collision Detection (2005), 5.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np

__all__ = ["DISTANCES", "Distance", "Gap", "Shape", "tangents"]

# Under square roots [m^2]: directions of vectors shorter than a picometre shrink to zero, and no derivative is infinite.
TINY = 1e-24


@dataclass(frozen=True)
class Shape:
    """A geom in the world.

    Attributes:
        size: MuJoCo's: sphere (radius), capsule (radius, half length along z), box (three half lengths), plane (unused).
        r: centre (3,) [m].   R: orientation (3, 3). A plane's normal is its z axis, and it reaches everywhere.
    """

    size: np.ndarray
    r: ca.SX
    R: ca.SX


@dataclass(frozen=True)
class Gap:
    """Between one feature of a first and one of a second geom.

    Attributes:
        distance: [m], negative where they penetrate.
        point: (3,) in the world [m], midway between the two surfaces, as MuJoCo has it.
        normal: (3,) unit vector in the world from the first geom to the second.
    """

    distance: ca.SX
    point: ca.SX
    normal: ca.SX


#: What measures the gaps between a first and a second geom.
Distance = Callable[[Shape, Shape], list[Gap]]


def _length(x: ca.SX) -> ca.SX:
    return ca.sqrt(ca.dot(x, x) + TINY)


def _between(a: ca.SX, b: ca.SX, radius_a: float, radius_b: float) -> Gap:
    """Gap between two spheres."""
    apart = b - a
    length = _length(apart)
    n = apart / length
    distance = length - radius_a - radius_b
    return Gap(distance, a + n * (radius_a + distance / 2), n)


def _clamp(t: ca.SX, lower: ca.SX | ca.DM | float, upper: ca.SX | ca.DM | float) -> ca.SX:
    return ca.fmax(lower, ca.fmin(t, upper))


# -- features ----------------------------------------------------------------------------------


def _ends(capsule: Shape) -> list[ca.SX]:
    return [capsule.r + side * capsule.size[1] * capsule.R[:, 2] for side in (-1, 1)]


def _corners(box: Shape) -> list[ca.SX]:
    return [box.r + box.R @ (ca.DM(box.size) * ca.DM(signs)) for signs in itertools.product((-1, 1), repeat=3)]


# -- against a plane ---------------------------------------------------------------------------


def _plane_point(plane: Shape, point: ca.SX, radius: float) -> Gap:
    n = plane.R[:, 2]
    distance = ca.dot(n, point - plane.r) - radius
    return Gap(distance, point - n * (radius + distance / 2), n)


def plane_sphere(plane: Shape, sphere: Shape) -> list[Gap]:
    """One gap, under the sphere's centre."""
    return [_plane_point(plane, sphere.r, sphere.size[0])]


def plane_capsule(plane: Shape, capsule: Shape) -> list[Gap]:
    """Two gaps, one under each end."""
    return [_plane_point(plane, end, capsule.size[0]) for end in _ends(capsule)]


def plane_box(plane: Shape, box: Shape) -> list[Gap]:
    """Eight gaps, one under each corner."""
    return [_plane_point(plane, corner, 0.0) for corner in _corners(box)]


# -- round ones --------------------------------------------------------------------------------


def sphere_sphere(a: Shape, b: Shape) -> list[Gap]:
    """One gap, between the centres."""
    return [_between(a.r, b.r, a.size[0], b.size[0])]


def sphere_capsule(sphere: Shape, capsule: Shape) -> list[Gap]:
    """One gap, at the point of the axis that is nearest to the sphere."""
    axis, half = capsule.R[:, 2], capsule.size[1]
    nearest = capsule.r + axis * _clamp(ca.dot(axis, sphere.r - capsule.r), -half, half)
    return [_between(sphere.r, nearest, sphere.size[0], capsule.size[0])]


def capsule_capsule(a: Shape, b: Shape) -> list[Gap]:
    """Between the nearest points of the two axes; anywhere on the common stretch where they are parallel."""
    u, w, d = a.R[:, 2], b.R[:, 2], a.r - b.r
    along, from_a, from_b = ca.dot(u, w), ca.dot(u, d), ca.dot(w, d)
    # Lines a.r + s u and b.r + t w are nearest at s = (u.w w.d - u.d) / (1 - (u.w)^2), t = u.w s + w.d.
    s = _clamp((along * from_b - from_a) / (1 - along**2 + 1e-12), -a.size[1], a.size[1])
    t = _clamp(along * s + from_b, -b.size[1], b.size[1])
    s = _clamp(along * t - from_a, -a.size[1], a.size[1])
    return [_between(a.r + s * u, b.r + t * w, a.size[0], b.size[0])]


# -- against a box -----------------------------------------------------------------------------


def _point_box(point: ca.SX, radius: float, box: Shape) -> Gap:
    """Gap from a sphere about a point to a box: nearest point outside, shallowest face inside."""
    local = box.R.T @ (point - box.r)
    half = ca.DM(box.size)
    outside = local - _clamp(local, -half, half)
    depth = half - ca.fabs(local)  # below each pair of faces, positive inside
    shallowest = ca.fmin(depth[0], ca.fmin(depth[1], depth[2]))
    inside = shallowest > 0
    # One-hot: the first face pair that is shallowest.
    x = depth[0] <= shallowest
    y = ca.if_else(x, 0, depth[1] <= shallowest)
    face = ca.vertcat(x, y, 1 - x - y) * ca.if_else(local >= 0, 1, -1)
    length = _length(outside)
    n = -box.R @ ca.if_else(inside, face, outside / length)
    distance = ca.if_else(inside, -shallowest, length) - radius
    return Gap(distance, point + n * (radius + distance / 2), n)


def sphere_box(sphere: Shape, box: Shape) -> list[Gap]:
    """One gap, to the nearest point of the box, or its shallowest face where the centre is inside."""
    return [_point_box(sphere.r, sphere.size[0], box)]


def box_box(a: Shape, b: Shape) -> list[Gap]:
    """Corners of each in the other."""
    others = (_point_box(corner, 0.0, a) for corner in _corners(b))
    turned = [Gap(gap.distance, gap.point, -gap.normal) for gap in others]
    return [_point_box(corner, 0.0, b) for corner in _corners(a)] + turned


#: (first kind, second kind) -> function of two Shapes; kinds in MuJoCo's order.
DISTANCES: dict[tuple[str, str], Distance] = {
    ("plane", "sphere"): plane_sphere,
    ("plane", "capsule"): plane_capsule,
    ("plane", "box"): plane_box,
    ("sphere", "sphere"): sphere_sphere,
    ("sphere", "capsule"): sphere_capsule,
    ("sphere", "box"): sphere_box,
    ("capsule", "capsule"): capsule_capsule,
    ("box", "box"): box_box,
}


def tangents(n: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Two unit vectors (3,) that make a right-handed frame with the unit normal n; x and y for n along z.

    Smooth but where n crosses the horizontal plane (n.z = 0).
    Source: Duff et al., Building an Orthonormal Basis, Revisited, JCGT 6(1), 2017.
    """
    n = ca.SX(n)
    sign = ca.if_else(n[2] >= 0, 1, -1)
    a = -1 / (sign + n[2])
    b = n[0] * n[1] * a
    return (ca.vertcat(1 + sign * n[0] ** 2 * a, sign * b, -sign * n[0]), ca.vertcat(b, sign + n[1] ** 2 * a, -n[1]))
