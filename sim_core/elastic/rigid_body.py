"""Rigid bodies as points on their surface, and the probes with which objects are touched.

A probe's frame has its origin at the middle of the tip; z points from there back to the wrist, so that a probe approaches along -z. A line
lies along x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

if TYPE_CHECKING:
    import trimesh

__all__ = [
    "PROBES", "SPACING", "RigidBody", "cylinder_probe", "line_probe", "point_probe", "probe_pose", "punch", "sample_mesh", "sphere",
]  # fmt: skip

#: of a body's points, as published [m]
SPACING = 3e-3


@dataclass(frozen=True, eq=False)
class RigidBody:
    """What is pressed into an object.

    Attributes:
        points: (m, 3) on its surface, in its frame [m]. name: what people call it.

    Raises:
        ValueError: another shape, no point, or values that are not finite.
    """

    points: np.ndarray
    name: str = "body"

    def __post_init__(self) -> None:
        points = np.ascontiguousarray(self.points, float)
        object.__setattr__(self, "points", points)
        if points.ndim != 2 or points.shape[1] != 3 or not len(points):
            raise ValueError(f"a rigid body is at least one point, of shape (m, 3), found {points.shape}")
        if not np.isfinite(points).all():
            raise ValueError(
                f"points of the body {self.name!r} are finite, but {np.isnan(points).sum()} values are not"
            )

    def placed(self, pose: np.ndarray) -> np.ndarray:
        """The points at poses (..., 4, 4) in the world (..., m, 3) [m]."""
        pose = np.asarray(pose, float)
        return self.points @ np.swapaxes(pose[..., :3, :3], -1, -2) + pose[..., None, :3, 3]


def point_probe() -> RigidBody:
    """A tip so slender that one point stands for it."""
    return RigidBody(np.zeros((1, 3)), "point")


def line_probe(length: float = 0.03, width: float = 3e-3, spacing: float = SPACING) -> RigidBody:
    """The edge of a paddle, `length` along x and `width` along y [m]."""
    return RigidBody(_rectangle(length, width, spacing), "line")


def cylinder_probe(diameter: float = 0.02, spacing: float = SPACING) -> RigidBody:
    """The flat end of a cylinder [m]: its rim, and a grid within."""
    _positive(diameter=diameter, spacing=spacing)
    radius = diameter / 2.0
    around = 2.0 * np.pi * np.arange(max(6, round(np.pi * diameter / spacing)))
    rim = radius * np.stack([np.cos(around / len(around)), np.sin(around / len(around)), 0.0 * around], 1)
    grid = _rectangle(diameter, diameter, spacing)
    inside = grid[np.linalg.norm(grid, axis=1) < radius - 0.5 * spacing]
    return RigidBody(np.concatenate([rim, inside]), "cylinder")


def punch(length: float = 0.02, width: float = 0.02, spacing: float = SPACING) -> RigidBody:
    """A flat rectangle, for checks [m]."""
    return RigidBody(_rectangle(length, width, spacing), "punch")


def sphere(diameter: float = 0.04, count: int = 150) -> RigidBody:
    """A ball about the origin [m], its points evenly on a spiral. The defaults are those published for packing (section 4.5)."""
    _positive(diameter=diameter)
    if count < 4:
        raise ValueError(f"a sphere has at least four points, not {count}")
    k = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + 5.0**0.5) * k
    across = np.sqrt(1.0 - z**2)
    return RigidBody(0.5 * diameter * np.stack([across * np.cos(turn), across * np.sin(turn), z], 1), "sphere")


def probe_pose(point: np.ndarray, outward: np.ndarray, roll: float = 0.0) -> np.ndarray:
    """Pose (4, 4) of a probe with its tip at a point (3,), which is pressed against a surface with an outward normal (3,), its z axis.

    At a roll of 0 its x axis, along which a line lies, is at right angles to the world's y axis (where the normal is along that, to the
    world's z axis); a roll [rad] turns it about the normal.
    """
    z = np.asarray(outward, float) / np.linalg.norm(outward)
    x = np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [0.0, 0.0, 1.0], z)
    x /= np.linalg.norm(x)
    y = np.cross(z, x)
    pose = np.eye(4)
    pose[:3, 0] = np.cos(roll) * x + np.sin(roll) * y
    pose[:3, 1] = np.cross(z, pose[:3, 0])
    pose[:3, 2], pose[:3, 3] = z, point
    return pose


#: probes by the names that bags and services use
PROBES = {"point": point_probe, "line": line_probe, "cylinder": cylinder_probe}


def sample_mesh(mesh: trimesh.Trimesh, spacing: float = SPACING, name: str = "mesh") -> RigidBody:
    """A mesh as points: its corners, equally spaced points on its edges, and grids on its facets (section 4.4.1).

    Of finely divided meshes, points nearer than 0.7 of the spacing to one that is kept are left out; corners are kept first, then
    points on edges.

    Args:
        mesh: triangles in the body's frame [m]. spacing: largest distance between neighbours along edges and of the grids [m].

    Raises:
        ValueError: no triangles.
    """
    _positive(spacing=spacing)
    vertices, faces = np.asarray(mesh.vertices, float), np.asarray(mesh.faces)
    if not len(faces):
        raise ValueError(f"a mesh of triangles is expected, but {name!r} has none")
    longest = np.linalg.norm(vertices[faces] - vertices[np.roll(faces, 1, axis=1)], axis=2).max(1)
    edges = _creases(vertices, faces)
    # of triangles smaller than the spacing the corners are enough
    parts = [vertices[np.unique(np.concatenate([edges.ravel(), faces[longest <= spacing].ravel()]))]]
    a, b = vertices[edges[:, 0]], vertices[edges[:, 1]]
    steps = np.maximum(1, np.ceil(np.linalg.norm(b - a, axis=1) / spacing - 1e-9)).astype(int)
    on_edges = [p + np.linspace(0.0, 1.0, n + 1)[1:-1, None] * (q - p) for p, q, n in zip(a, b, steps) if n > 1]
    on_facets = [_grid(triangle, spacing) for triangle in vertices[faces[longest > spacing]]]
    parts += [np.concatenate(found) for found in (on_edges, on_facets) if found]
    return RigidBody(_thinned(np.concatenate(parts), 0.7 * spacing), name)


def _creases(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Edges (e, 2) that belong to one face, or to two that are not in one plane; faces meet where their corners are at one place."""
    place = np.unique(np.round(vertices, 9) + 0.0, axis=0, return_inverse=True)[1].reshape(-1)
    normal = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    sides = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    first, number = np.unique(np.sort(place[sides], axis=1), axis=0, return_index=True, return_inverse=True)[1:]
    number, owner = number.reshape(-1), np.repeat(np.arange(len(faces)), 3)
    apart = 1.0 - (normal[owner] * normal[owner[first]][number]).sum(1)
    crease = (np.bincount(number) != 2) | (np.bincount(number, apart) > 1e-6)
    return sides[first[crease]]


def _grid(triangle: np.ndarray, spacing: float) -> np.ndarray:
    """Points of the grid through the origin of a triangle's plane that are inside it (k, 3). Neighbours in a plane share the grid."""
    normal = np.cross(triangle[1] - triangle[0], triangle[2] - triangle[0])
    double = np.linalg.norm(normal)
    if double < 1e-15:
        return np.zeros((0, 3))
    normal /= double
    normal *= np.sign(normal[np.argmax(np.abs(normal))])
    u = np.eye(3)[np.argmin(np.abs(normal))]
    u = u - (u @ normal) * normal
    u /= np.linalg.norm(u)
    v = np.cross(normal, u)
    flat = triangle @ np.stack([u, v], 1)
    low, high = np.ceil(flat.min(0) / spacing), np.floor(flat.max(0) / spacing)
    i, j = np.meshgrid(*(spacing * np.arange(l, h + 1) for l, h in zip(low, high)), indexing="ij")
    at = np.stack([i.ravel(), j.ravel()], 1)
    turn = np.sign(_cross(flat[1] - flat[0], flat[2] - flat[0]))
    inside = np.ones(len(at), bool)
    for k in range(3):
        inside &= turn * _cross(flat[(k + 1) % 3] - flat[k], at - flat[k]) >= -1e-12
    return at[inside] @ np.stack([u, v]) + (triangle[0] @ normal) * normal


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _thinned(points: np.ndarray, least: float) -> np.ndarray:
    """Without those nearer than `least` to an earlier one that is kept."""
    kept = np.ones(len(points), bool)
    tree = cKDTree(points)
    for k, near in enumerate(tree.query_ball_point(points, least * (1.0 - 1e-9))):
        if kept[k]:
            kept[[n for n in near if n > k]] = False
    return points[kept]


def _rectangle(length: float, width: float, spacing: float) -> np.ndarray:
    """A grid with points on all sides (k, 3)."""
    _positive(length=length, width=width, spacing=spacing)
    lines = [np.linspace(-0.5 * s, 0.5 * s, max(1, int(np.ceil(s / spacing - 1e-9))) + 1) for s in (length, width)]
    x, y = np.meshgrid(*lines, indexing="ij")
    return np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], 1)


def _positive(**sizes: float) -> None:
    for name, size in sizes.items():
        if not (np.isfinite(size) and size > 0.0):
            raise ValueError(f"{name} is positive [m], not {size}")
