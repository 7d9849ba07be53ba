"""Poses as homogeneous matrices (4, 4), and what least squares over them needs."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

__all__ = ["displaced", "inverse", "mean"]


def displaced(X: np.ndarray, step: np.ndarray) -> np.ndarray:
    """A pose turned in its parent's axes and shifted: R <- exp(step[:3]) R, p <- p + step[3:].

    Args:
        X: shape (4, 4) [-, m].
        step: rotation vector and shift, shape (6,) [rad, m].
    """
    moved = X.copy()
    moved[:3, :3] = Rotation.from_rotvec(step[:3]).as_matrix() @ X[:3, :3]
    moved[:3, 3] += step[3:]
    return moved


def inverse(X: np.ndarray) -> np.ndarray:
    """Inverses of poses, shape (n, 4, 4)."""
    result = np.zeros_like(X)
    result[:, :3, :3] = np.swapaxes(X[:, :3, :3], 1, 2)
    result[:, :3, 3] = -np.einsum("nji,nj->ni", X[:, :3, :3], X[:, :3, 3])
    result[:, 3, 3] = 1.0
    return result


def mean(X: np.ndarray) -> np.ndarray:
    """Of poses (n, 4, 4) that differ little: chordal mean of rotations, mean of positions; shape (4, 4)."""
    result = np.eye(4)
    result[:3, :3] = Rotation.from_matrix(X[:, :3, :3]).mean().as_matrix()
    result[:3, 3] = X[:, :3, 3].mean(axis=0)
    return result
