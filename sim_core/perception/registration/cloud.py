"""Point clouds: thinning, and the normals of the surface that they are of."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

__all__ = ["checked", "normals", "thinned"]


def checked(points: np.ndarray, least: int = 50) -> np.ndarray:
    """Points (n, 3) [m] that are finite.

    Raises:
        ValueError: another shape, or fewer than `least` finite points.
    """
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"a cloud is of shape (n, 3), not {points.shape}")
    finite = points[np.isfinite(points).all(1)]
    if len(finite) < least:
        raise ValueError(f"a cloud has at least {least} finite points, this one {len(finite)} of {len(points)}")
    return finite


def thinned(points: np.ndarray, voxel: float = 0.01) -> np.ndarray:
    """The mean of the points (n, 3) in each cube of a grid, shape (m, 3)."""
    _, where = np.unique(np.floor(points / voxel).astype(np.int64), axis=0, return_inverse=True)
    where = where.ravel()
    return np.stack([np.bincount(where, points[:, k]) for k in range(3)], 1) / np.bincount(where)[:, None]


def normals(points: np.ndarray, viewpoint: np.ndarray, neighbours: int = 16) -> np.ndarray:
    """Normals (n, 3) of the planes through each point's neighbours, towards the viewpoint (3,)."""
    _, near = cKDTree(points).query(points, min(neighbours, len(points)))
    off = points[near] - points[near].mean(1, keepdims=True)
    _, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", off, off))
    found = axes[:, :, 0]
    return np.where(((viewpoint - points) * found).sum(1)[:, None] < 0.0, -found, found)
