"""Where a known surface is: iterated closest points to planes, begun from several turns.

Source: Chen and Medioni, Object modelling by registration of multiple range images, Image and Vision Computing 10(3), 1992; the
farthest correspondences are left out (Chetverikov et al., trimmed ICP, 2002). A person lies as asked to within some 25 degrees, so that
starts about that pose take the place of a search by features.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

__all__ = ["RigidFit", "rigid_register"]


@dataclass(frozen=True)
class RigidFit:
    """x -> rotation x + translation takes the surface to the cloud.

    Attributes:
        rotation: (3, 3). translation: (3,) [m]. residual: root mean square distance to planes of what was kept [m].
    """

    rotation: np.ndarray
    translation: np.ndarray
    residual: float

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Points (n, 3) of the surface, where the cloud has them."""
        return points @ self.rotation.T + self.translation


def rigid_register(
    points: np.ndarray,
    cloud: np.ndarray,
    cloud_normals: np.ndarray,
    turns: tuple[float, ...] = (-0.35, 0.0, 0.35),
    keep: float = 0.8,
    iterations: int = 40,
) -> RigidFit:
    """The rigid motion of a surface's points (n, 3) to a cloud (m, 3) with normals (m, 3).

    Args:
        turns: about each axis with which it begins [rad]. keep: share of the correspondences that count.
    """
    tree, middle = cKDTree(cloud), cloud.mean(0) - points.mean(0)
    starts = [Rotation.from_euler("xyz", angles).as_matrix() for angles in product(turns, repeat=3)]
    coarse = [_icp(points[::4], tree, cloud_normals, R, _about(R, points, middle), keep, 8) for R in starts]
    best = min(coarse, key=lambda fit: fit.residual)
    return _icp(points, tree, cloud_normals, best.rotation, best.translation, keep, iterations)


def _about(rotation: np.ndarray, points: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The translation with which a rotation about the points' middle goes with a shift."""
    middle = points.mean(0)
    return middle + shift - rotation @ middle


def _icp(
    points: np.ndarray, tree: cKDTree, planes: np.ndarray, R: np.ndarray, t: np.ndarray, keep: float, iterations: int
) -> RigidFit:
    residual = np.inf
    for _ in range(iterations):
        moved = points @ R.T + t
        distance, near = tree.query(moved)
        kept = distance <= np.quantile(distance, keep)
        p, n = moved[kept], planes[near[kept]]
        off = ((tree.data[near[kept]] - p) * n).sum(1)
        residual = float(np.sqrt(np.mean(off**2)))
        step = np.linalg.lstsq(np.concatenate([np.cross(p, n), n], axis=1), off, rcond=None)[0]
        turn = Rotation.from_rotvec(step[:3]).as_matrix()
        R, t = turn @ R, turn @ t + step[3:]
        if np.abs(step).max() < 1e-7:
            break
    return RigidFit(R, t, residual)
