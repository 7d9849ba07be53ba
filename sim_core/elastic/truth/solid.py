"""A soft solid that rigid probes press: linear elastic, fixed below, of any stiffness inside.

The solid stands on its fixed base; its surface is the upper one. What a force on the surface does to all of the surface is computed once
(hexahedra.py) and kept in a file, so that a press costs a search for the touching points and an exact balance of their forces
(unilateral.py). Displacements are taken as small for the elasticity, not for where the probe is: how deep a point of it is counts from
the surface at rest, along its normal. There is no friction, and a press forgets those before it.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from config.whole_file import whole_file
from sim_core.codegen.compiler import cache_directory
from sim_core.elastic.truth.hexahedra import surface_compliance
from sim_core.elastic.truth.unilateral import pushes

__all__ = ["Press", "SoftSolid", "kept_compliance", "surface_faces", "vertex_normals"]

#: samples of the surface along each side of a cell, from the nearest of which a touched spot is found
FINE = 4
#: compliance of a touched spot in itself, as a share of the surface's mean: two spots in one cell stay distinguishable
SKIN = 1e-3
#: touched spots nearer to each other than this share of a cell are one
MERGED = 1.0 / 32.0
#: points this far above the surface may be touched as it bulges beside a probe [m]
BULGE = 0.002
#: points deeper than this belong to a body that is elsewhere [m]
DEEPEST = 0.06
#: of the numbers that a kept compliance holds; a change of the computation changes it
VERSION = 1


@dataclass(frozen=True, eq=False)
class Press:
    """What a probe feels, and how the surface yields.

    Attributes:
        force: (3,) on the probe [N], world frame.
        torque: (3,) on the probe about the world's origin [N m].
        displacement: (n, 3) of the solid's surface nodes [m].
        points: (k, 3) of the probe that push [m].
        point_forces: (k, 3) on them [N].
        deepest: how far the probe's deepest point is below the surface at rest [m]; negative: the distance to it is not known.
    """

    force: np.ndarray
    torque: np.ndarray
    displacement: np.ndarray
    points: np.ndarray
    point_forces: np.ndarray
    deepest: float


def surface_faces(rows: int, columns: int) -> np.ndarray:
    """Triangles (2 (rows-1) (columns-1), 3) of a grid of nodes, counter-clockwise from above where i and j are x and y."""
    i, j = (a.reshape(-1) for a in np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij"))
    a = i * columns + j
    b, c, d = a + columns, a + columns + 1, a + 1
    return np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])


def vertex_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Unit normals (n, 3): means of those of the triangles around, by area."""
    corner = vertices[faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    total = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(total, faces[:, k], normal)
    return total / np.linalg.norm(total, axis=1, keepdims=True)


def kept_compliance(nodes: np.ndarray, young: np.ndarray, poisson: float, normals: np.ndarray) -> np.ndarray:
    """`surface_compliance` under unit forces along the normals, as float32 (n, 3, n) [m/N], from its file where there is one."""
    digest = hashlib.sha256(repr((VERSION, poisson, nodes.shape)).encode())
    for array in (nodes, young, normals):
        digest.update(np.ascontiguousarray(np.round(array, 9)).tobytes())
    file = cache_directory().parent / "solids" / f"{digest.hexdigest()[:32]}.npy"
    if file.is_file():
        try:
            return np.load(file, allow_pickle=False)
        except (OSError, ValueError):  # cut short or damaged: computed again
            pass
    found = surface_compliance(nodes, young, poisson, normals).astype(np.float32)
    _keep(file, found)
    return found


def _keep(file: Path, array: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as part, part.open("wb") as out:
        np.save(out, array, allow_pickle=False)


class SoftSolid:
    """A solid on a grid of nodes, ready to be pressed.

    Args:
        nodes: (nx+1, ny+1, nz+1, 3) [m]; layer 0 of the third axis is fixed, the last is the surface, with z upwards.
        young: (nx, ny, nz) Young's moduli of the cells [Pa].
        poisson: Poisson's ratio, 0 to 0.45; trilinear cells lock beyond.
        name: of the object.
        colours: (n, 3) of the surface nodes, 0 to 1; grey where None.

    Attributes:
        vertices, normals, colours: (n, 3) of the surface nodes at rest, n = (nx+1)(ny+1).
        faces: (f, 3) triangles of them.
        compliance: (n, 3, n) displacement by a unit force along a node's normal [m/N].

    Raises:
        ValueError: arrays do not fit each other, or are no solid.
    """

    def __init__(
        self,
        nodes: np.ndarray,
        young: np.ndarray,
        poisson: float = 0.3,
        name: str = "solid",
        colours: np.ndarray | None = None,
    ) -> None:
        nodes, young = np.asarray(nodes, float), np.asarray(young, float)
        if nodes.ndim != 4 or tuple(n - 1 for n in nodes.shape[:3]) != young.shape:
            raise ValueError(
                f"a solid of (nx, ny, nz) moduli needs (nx+1, ny+1, nz+1, 3) nodes, and these are of {young.shape} and {nodes.shape}"
            )
        if not (np.isfinite(young).all() and (young > 0.0).all() and 0.0 <= poisson <= 0.45):
            raise ValueError(
                f"a solid needs positive moduli and Poisson's ratio within 0 to 0.45, and has at least {young.min():.3g} Pa and {poisson:g}"
            )
        self.name = name
        self.vertices = nodes[:, :, -1].reshape(-1, 3)
        self.faces = surface_faces(*nodes.shape[:2])
        self.normals = vertex_normals(self.vertices, self.faces)
        self.colours = np.full_like(self.vertices, 0.6) if colours is None else np.asarray(colours, float)
        self.compliance = kept_compliance(nodes, young, poisson, self.normals)
        self._yielding = np.ascontiguousarray(self.compliance.reshape(-1, len(self.vertices)).T)
        along = np.einsum("na,nam->nm", self.normals, self.compliance, dtype=float)
        self._along = 0.5 * (along + along.T)
        self._skin = SKIN * float(np.diag(along).mean())
        self._cells, self._cell, self._place, self._samples = _samples(self.vertices, nodes.shape[:2])
        self._reach = 0.25 * float(
            np.linalg.norm(self.vertices[self._cells[:, 3]] - self.vertices[self._cells[:, 0]], axis=1).max()
        )
        self._search()

    def _search(self) -> None:
        self._tree = cKDTree(self._samples)
        self._low, self._high = self.vertices.min(0) - DEEPEST, self.vertices.max(0) + BULGE

    def placed(self, pose: np.ndarray) -> SoftSolid:
        """The same solid elsewhere: pose (4, 4) of its frame in the world's."""
        turn, shift = np.asarray(pose, float)[:3, :3], np.asarray(pose, float)[:3, 3]
        moved = copy.copy(self)
        moved.vertices, moved._samples = self.vertices @ turn.T + shift, self._samples @ turn.T + shift
        moved.normals = self.normals @ turn.T
        moved.compliance = np.einsum("ab,nbm->nam", turn, self.compliance).astype(np.float32)
        moved._yielding = np.ascontiguousarray(moved.compliance.reshape(-1, len(self.vertices)).T)
        moved._search()
        return moved

    def depths(self, points: np.ndarray) -> np.ndarray:
        """How deep points (m, 3) [m] are below the surface at rest (m,) [m]: -inf beside the solid and well above it."""
        return self._touched(np.asarray(points, float))[0]

    def _touched(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Depth (m,), -inf where nothing is touched, and the cell (m,) with the place in it (m, 2) below every point."""
        depth, cell, place = np.full(len(points), -np.inf), np.zeros(len(points), int), np.zeros((len(points), 2))
        near = np.flatnonzero(((points >= self._low) & (points <= self._high)).all(1))
        if len(near) == 0:
            return depth, cell, place
        sample = self._tree.query(points[near])[1]
        at, uv = self._cell[sample], self._place[sample]
        corner = self.vertices[self._cells[at]]
        foot, along, across = _patch(corner, uv)
        # one step towards the foot of the normal on the cell's patch, to which the nearest sample is close
        apart = points[near] - foot
        aa, ac, cc = ((x * y).sum(1) for x, y in ((along, along), (along, across), (across, across)))
        pa, pc = (apart * along).sum(1), (apart * across).sum(1)
        step = np.stack([cc * pa - ac * pc, aa * pc - ac * pa], 1) / (aa * cc - ac * ac)[:, None]
        uv = np.clip(uv + np.clip(step, -1.0 / FINE, 1.0 / FINE), 0.0, 1.0)
        weights = _weights(uv)
        normal = _unit((weights[:, :, None] * self.normals[self._cells[at]]).sum(1))
        apart = (weights[:, :, None] * corner).sum(1) - points[near]
        deep = (apart * normal).sum(1)
        aside = np.linalg.norm(apart - deep[:, None] * normal, axis=1)
        # the deeper a point below a curved surface, the further its nearest sample may be from the foot of a normal
        valid = (deep > -BULGE) & (deep < DEEPEST) & (aside < self._reach + 0.3 * np.abs(deep))
        depth[near], cell[near], place[near] = np.where(valid, deep, -np.inf), at, uv
        return depth, cell, place

    def press(self, points: np.ndarray) -> Press:
        """Press a rigid, frictionless probe, whose points (m, 3) are where they are now [m], into the solid at rest.

        Raises:
            ValueError: points are no (m, 3) finite numbers.
        """
        points = np.asarray(points, float)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise ValueError(f"a probe is expected as finite points (m, 3), and these are of shape {points.shape}")
        depth, cell, place = self._touched(points)
        deepest = float(depth.max(initial=-np.inf))
        touching = np.flatnonzero(depth > -np.inf)
        if deepest <= 0.0:
            nothing = np.zeros((0, 3))
            return Press(np.zeros(3), np.zeros(3), np.zeros_like(self.vertices), nothing, nothing, min(deepest, 0.0))
        touching = touching[np.argsort(-depth[touching], kind="stable")]
        spot = np.c_[cell[touching], np.round(place[touching] / MERGED)]
        touching = touching[
            np.sort(np.unique(spot, axis=0, return_index=True)[1])
        ]  # of points on one spot, the deepest
        corners, weights = self._cells[cell[touching]], _weights(place[touching])
        push = self._balance(corners, weights, depth[touching])
        load = np.bincount(corners.reshape(-1), (push[:, None] * weights).reshape(-1), len(self.vertices))
        forces = push[:, None] * np.einsum("kc,kca->ka", weights, self.normals[corners])
        loaded = np.flatnonzero(load)
        return Press(
            forces.sum(0),
            np.cross(points[touching], forces).sum(0),
            -(load[loaded] @ self._yielding[loaded]).reshape(-1, 3),
            points[touching][push > 0.0],
            forces[push > 0.0],
            deepest,
        )

    def _balance(self, corners: np.ndarray, weights: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """Forces (k,) [N] at touched samples; those above the surface join where it bulges up to them."""
        force, joined = np.zeros(len(depth)), depth > 0.0
        rows: dict[int, np.ndarray] = {}  # of the compliance, at the samples against all nodes
        while True:
            at = np.flatnonzero(joined)
            for k in at.tolist():
                if k not in rows:
                    rows[k] = weights[k] @ self._along[corners[k]]
            row = np.stack([rows[k] for k in at.tolist()])
            coupled = (row[:, corners[at]] * weights[at]).sum(2)
            coupled[np.diag_indices_from(coupled)] += self._skin
            force[at] = pushes(coupled, depth[at])
            yielded = (weights * (force[at] @ row)[corners]).sum(1)
            late = ~joined & (yielded < depth - 1e-9)
            if not late.any():
                return force
            joined |= late


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _weights(place: np.ndarray) -> np.ndarray:
    """Weights (m, 4) of a cell's corners 00, 10, 01, 11 at places (m, 2) in it, 0 to 1."""
    u, v = place[:, 0], place[:, 1]
    return np.stack([(1 - u) * (1 - v), u * (1 - v), (1 - u) * v, u * v], 1)


def _patch(corner: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (m, 3) of bilinear cells (m, 4, 3) at places (m, 2), and their derivatives (m, 3) by both."""
    u, v = place[:, :1], place[:, 1:]
    a, b, c, d = (corner[:, k] for k in range(4))
    along, across = (1 - v) * (b - a) + v * (d - c), (1 - u) * (c - a) + u * (d - b)
    return (1 - v) * ((1 - u) * a + u * b) + v * ((1 - u) * c + u * d), along, across


def _samples(vertices: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes (c, 4) of the surface's cells; and of fine samples of them the cell (s,), the place (s, 2) in it and the point (s, 3)."""
    i, j = (g.reshape(-1, 1) for g in np.meshgrid(np.arange(shape[0] - 1), np.arange(shape[1] - 1), indexing="ij"))
    cells = i * shape[1] + j + np.array([0, shape[1], 1, shape[1] + 1])
    a, b = (g.reshape(-1) for g in np.meshgrid(np.arange(FINE), np.arange(FINE), indexing="ij"))
    place = np.tile((np.stack([a, b], 1) + 0.5) / FINE, (len(cells), 1))
    cell = np.repeat(np.arange(len(cells)), FINE * FINE)
    return cells, cell, place, _patch(vertices[cells[cell]], place)[0]
