"""A known surface that is stretched along its own axes: between a rigid fit and a bending one.

Both ways count: each point of the surface looks for the cloud, and each point of the cloud for the surface, so that what sticks out at an end
moves the fit along. Distances to planes, and a little of the distances between points, which alone tell ends apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from sim_core.perception.registration.rigid import RigidFit

__all__ = ["StretchedFit", "stretched_register"]


@dataclass(frozen=True)
class StretchedFit:
    """x -> rotation (scales * x) + translation takes the surface to the cloud.

    Attributes:
        rotation: (3, 3). scales: along the surface's axes (3,). translation: (3,) [m].
        residual: root mean square distance to planes [m].
    """

    rotation: np.ndarray
    scales: np.ndarray
    translation: np.ndarray
    residual: float

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Points (n, 3) of the surface, where the cloud has them."""
        return (points * self.scales) @ self.rotation.T + self.translation

    def turned(self, normals: np.ndarray) -> np.ndarray:
        """Normals (n, 3) of the surface after it."""
        found = (normals / self.scales) @ self.rotation.T
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def stretched_register(
    points: np.ndarray,
    point_normals: np.ndarray,
    cloud: np.ndarray,
    cloud_normals: np.ndarray,
    start: RigidFit,
    spread: tuple[float, float, float] = (0.12, 0.05, 0.15),
    noise: float = 0.01,
    tangential: float = 0.3,
    farthest: float = 0.06,
    iterations: int = 60,
) -> StretchedFit:
    """Rotation, scales and translation of a surface's points (n, 3) with normals (n, 3) to a cloud (m, 3) with normals (m, 3).

    Args:
        spread: standard deviation of the scales around 1. noise: of a correspondence [m], against which the spread counts.
        tangential: weight of distances between points over those to planes. farthest: of a correspondence [m].
    """
    R, scales, t = start.rotation, np.ones(3), start.translation
    tree, residual = cKDTree(cloud), np.inf
    for _ in range(iterations):
        fit = StretchedFit(R, scales, t, residual)
        moved, turned = fit(points), fit.turned(point_normals)
        to_cloud, near = tree.query(moved)
        back, nearest = cKDTree(moved).query(cloud)
        ours, theirs = to_cloud < farthest, back < farthest
        own = np.concatenate([points[ours], points[nearest[theirs]]])
        p = np.concatenate([moved[ours], moved[nearest[theirs]]])
        q = np.concatenate([cloud[near[ours]], cloud[theirs]])
        n = np.concatenate([cloud_normals[near[ours]], turned[nearest[theirs]]])
        weight = np.concatenate([np.full(ours.sum(), 1.0 / ours.sum()), np.full(theirs.sum(), 1.0 / theirs.sum())])
        root = np.sqrt(weight / weight.sum() * 1000.0) / noise  # as a thousand independent ones
        off, stretch = q - p, np.einsum("ij,kj->kij", R, own)
        J = np.concatenate([-_cross(p), np.broadcast_to(np.eye(3), (len(p), 3, 3)), stretch], axis=2)  # (k, 3, 9)
        A = [root[:, None] * np.einsum("ki,kij->kj", n, J)]
        b = [root * (off * n).sum(1)]
        A.append((tangential * root[:, None, None] * J).reshape(-1, 9))
        b.append((tangential * root[:, None] * off).ravel())
        A.append(np.concatenate([np.zeros((3, 6)), np.diag(1.0 / np.array(spread))], axis=1))
        b.append((1.0 - scales) / spread)
        step = np.linalg.lstsq(np.concatenate(A), np.concatenate(b), rcond=None)[0]
        turn = Rotation.from_rotvec(step[:3]).as_matrix()
        R, t, scales = turn @ R, turn @ t + step[3:6], scales + step[6:]
        residual = float(np.sqrt(np.average((off * n).sum(1) ** 2, weights=weight)))
        if np.abs(step).max() < 1e-5:
            break
    return StretchedFit(R, scales, t, residual)


def _cross(p: np.ndarray) -> np.ndarray:
    """Matrices (k, 3, 3) with [p] x v = p x v."""
    zero = np.zeros(len(p))
    return np.stack([zero, -p[:, 2], p[:, 1], p[:, 2], zero, -p[:, 0], -p[:, 1], p[:, 0], zero], 1).reshape(-1, 3, 3)
