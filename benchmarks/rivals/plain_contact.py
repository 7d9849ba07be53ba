"""Contact with an elastic surface as one writes it first in numpy and scipy: a tree for neighbours, arrays, LAPACK.

One pose at a time, as published. The tree is built once for an approach and is not counted. The complementarity problem is pruned
(`solve_pruned`), or solved by non-negative least squares on the Cholesky factor (`solve_exactly`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import nnls
from scipy.spatial import cKDTree

from sim_core.elastic.surface import Surface

__all__ = ["PlainContact", "coupling_matrix", "solve_exactly", "solve_pruned"]

#: force of points: features (n, 9), displacements (n,) -> (n,)
Force = Callable[[np.ndarray, np.ndarray], np.ndarray]


def coupling_matrix(points: np.ndarray, coupling: float) -> np.ndarray:
    """G (n, n) of points (n, 3)."""
    square = (points**2).sum(1)
    r = np.sqrt(np.maximum(square[:, None] + square - 2.0 * points @ points.T, 0.0))
    np.fill_diagonal(r, 0.0)
    return coupling / (coupling + r)


def solve_pruned(matrix: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """Negative displacements dropped until there is none."""
    active = np.ones(len(nominal), bool)
    z = np.zeros(len(nominal))
    while active.any():
        z[:] = 0.0
        z[active] = cho_solve(cho_factor(matrix[np.ix_(active, active)]), nominal[active])
        if (z >= 0.0).all():
            break
        active &= z >= 0.0
    return z


def solve_exactly(matrix: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """min |L'z - L^-1 d|^2 over z >= 0, where LL' = G."""
    lower = cholesky(matrix, lower=True)
    return nnls(lower.T, solve_triangular(lower, nominal, lower=True), maxiter=100 * len(nominal))[0]


class PlainContact:
    """A surface along one approach. Points whose normals face it by less than `facing`, and rigid points farther than `reach` from
    the surface across it, take no part."""

    def __init__(
        self,
        surface: Surface,
        force: Force,
        coupling: float,
        approach: np.ndarray,
        reach: float,
        facing: float = 0.1,
        solve: Callable[[np.ndarray, np.ndarray], np.ndarray] = solve_pruned,
    ) -> None:
        a = np.asarray(approach, float) / np.linalg.norm(approach)
        self.force, self.coupling, self.reach, self.solve = force, coupling, reach, solve
        self.axes = np.linalg.svd(a[None])[2][1:].T
        self.features = surface.features[surface.normals @ a <= -facing]
        self.tree = cKDTree(self.features[:, :3] @ self.axes)

    def pairs(self, rigid: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Equilibrium points (k, 9), displacements (k,) and the rigid points (k, 3) that ask for them."""
        distance, near = self.tree.query(rigid @ self.axes, 3)
        near, rigid = np.sort(near, axis=1)[distance[:, 0] <= self.reach], rigid[distance[:, 0] <= self.reach]
        three = self.features[near]
        nominal = -np.einsum("jki,jki->jk", rigid[:, None] - three[..., :3], three[..., 6:]).mean(1)
        mean = three.mean(1)
        mean[:, 6:] /= np.linalg.norm(mean[:, 6:], axis=1, keepdims=True)
        mean, nominal, rigid = mean[nominal > 0.0], nominal[nominal > 0.0], rigid[nominal > 0.0]
        if not len(nominal):
            return mean, nominal, rigid
        place = np.unique(np.round(mean[:, :3] / 1e-7).astype(np.int64), axis=0, return_inverse=True)[1].ravel()
        most = np.full(place.max() + 1, -np.inf)
        np.maximum.at(most, place, nominal)
        rules = nominal >= most[place] - 1e-9
        count = np.bincount(place[rules])
        middle = np.stack([np.bincount(place[rules], rigid[rules, k]) for k in range(3)], 1) / count[:, None]
        first = np.unique(place, return_index=True)[1]
        return mean[first], most, middle

    def query(self, rigid: np.ndarray, about: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Force (3,) and torque (3,) about a place on points (m, 3) of a body, all in the world."""
        q, d, middle = self.pairs(rigid)
        if not len(d):
            return np.zeros(3), np.zeros(3)
        z = self.solve(coupling_matrix(q[:, :3], self.coupling), d)
        each = np.maximum(self.force(q, d) - self.force(q, d - z), 0.0)[:, None] * q[:, 6:]
        return each.sum(0), np.cross(middle - about, each).sum(0)
