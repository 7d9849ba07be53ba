"""Objects whose points feel a law of their own, for when many objects are needed: f = k1 d + k3 d^3 at each point of a mesh.

Probes of many points share displacements by G z = d as an exact complementarity problem, with a coupling 1 / (1 + (r / c)^2) that no model
which is fitted uses, and on whatever fine grid of points the probe comes as (Zhu, PhD thesis, section 4.4, with another kernel).
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from sim_core.elastic.truth.solid import BULGE, DEEPEST, Press, vertex_normals
from sim_core.elastic.truth.unilateral import pushes

__all__ = ["AnalyticSolid"]

#: vertices around a point over which the surface and its law are interpolated
NEIGHBOURS = 4
#: a displacement that a point takes beyond its neighbours' costs this share more, so that neighbours 1 mm apart are told apart
SKIN = 1e-4


class AnalyticSolid:
    """A mesh with a law at each vertex.

    Args:
        vertices: (n, 3) [m]. faces: (f, 3), counter-clockwise from outside.
        k1: (n,) [N/m], positive. k3: (n,) [N/m^3], not negative.
        coupling: c [m]. colours: (n, 3), 0 to 1; grey where None. name: of the object.

    Attributes:
        normals: (n, 3) unit, outward.

    Raises:
        ValueError: arrays that do not fit, or a law that pulls.
    """

    def __init__(
        self,
        vertices: np.ndarray,
        faces: np.ndarray,
        k1: np.ndarray,
        k3: np.ndarray,
        coupling: float = 0.01,
        colours: np.ndarray | None = None,
        name: str = "solid",
    ) -> None:
        self.name, self.coupling = name, float(coupling)
        self.vertices, self.faces = np.asarray(vertices, float), np.asarray(faces, int)
        self.k1, self.k3 = np.asarray(k1, float), np.asarray(k3, float)
        count = len(self.vertices)
        if self.k1.shape != (count,) or self.k3.shape != (count,):
            raise ValueError(
                f"a law has one k1 and one k3 for each of {count} vertices, found {self.k1.shape} and {self.k3.shape}"
            )
        if not ((self.k1 > 0.0).all() and (self.k3 >= 0.0).all() and coupling > 0.0):
            raise ValueError("a law pushes: k1 and the coupling are positive, and k3 is not negative")
        self.colours = np.full_like(self.vertices, 0.6) if colours is None else np.asarray(colours, float)
        self.normals = vertex_normals(self.vertices, self.faces)
        edges = np.linalg.norm(self.vertices[self.faces[:, 0]] - self.vertices[self.faces[:, 1]], axis=1)
        self._reach = float(np.quantile(edges, 0.95))
        self._tree = cKDTree(self.vertices)

    def law(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """k1 (m,) [N/m] and k3 (m,) [N/m^3] at the surface nearest to points (m, 3)."""
        near, share = self._around(np.asarray(points, float))
        return (share * self.k1[near]).sum(1), (share * self.k3[near]).sum(1)

    def _around(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vertices (m, 4) around the surface below points, and their shares (m, 4)."""
        distance, near = self._tree.query(points, NEIGHBOURS)
        # across the surface, so that a point far above or below is not blurred
        apart = points[:, None] - self.vertices[near]
        normal = self.normals[near[:, :1]]
        across = np.linalg.norm(apart - (apart * normal).sum(2, keepdims=True) * normal, axis=2)
        share = 1.0 / (across + 0.05 * self._reach) ** 2
        return near, share / share.sum(1, keepdims=True)

    def _below(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Depth (m,) [m], -inf where there is nothing below, normals (m, 3), k1 and k3 (m,)."""
        near, share = self._around(points)
        apart = self.vertices[near] - points[:, None]
        depth = (share * (apart * self.normals[near]).sum(2)).sum(1)
        normal = (share[..., None] * self.normals[near]).sum(1)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        middle = (share[..., None] * apart).sum(1)
        aside = np.linalg.norm(middle - (middle * normal).sum(1, keepdims=True) * normal, axis=1)
        valid = (depth > -BULGE) & (depth < DEEPEST) & (aside < self._reach + 0.5 * np.abs(depth))
        k1, k3 = ((share * k[near]).sum(1) for k in (self.k1, self.k3))
        return np.where(valid, depth, -np.inf), normal, k1, k3

    def depths(self, points: np.ndarray) -> np.ndarray:
        """How deep points (m, 3) [m] are below the surface at rest (m,) [m]: -inf beside the object and well above it."""
        return self._below(np.asarray(points, float))[0]

    def press(self, points: np.ndarray) -> Press:
        """Press a rigid probe, whose points (m, 3) are where they are now [m], into the object at rest.

        Raises:
            ValueError: points are no (m, 3) finite numbers.
        """
        points = np.asarray(points, float)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise ValueError(f"a probe is expected as finite points (m, 3), and these are of shape {points.shape}")
        depth, normal, k1, k3 = self._below(points)
        at = np.flatnonzero(depth > 0.0)
        if len(at) == 0:
            nothing = np.zeros((0, 3))
            return Press(
                np.zeros(3), np.zeros(3), np.zeros_like(self.vertices), nothing, nothing, min(float(depth.max()), 0.0)
            )
        d, foot = depth[at], points[at] + depth[at, None] * normal[at]
        shape = self._shape(foot, foot)
        shape[np.diag_indices_from(shape)] += SKIN if len(at) > 1 else 0.0
        taken = np.minimum(pushes(shape, d), d)
        before = d - taken
        push = k1[at] * taken + k3[at] * (d**3 - before**3)
        forces = push[:, None] * normal[at]
        active = taken > 0.0
        moved = self._shape(self.vertices, foot[active]) @ taken[active]
        return Press(
            forces.sum(0),
            np.cross(points[at], forces).sum(0),
            -moved[:, None] * self.normals,
            points[at][active],
            forces[active],
            float(d.max()),
        )

    def _shape(self, places: np.ndarray, feet: np.ndarray) -> np.ndarray:
        square = ((places[:, None] - feet[None]) ** 2).sum(2)
        return np.asarray(1.0 / (1.0 + square / self.coupling**2))
