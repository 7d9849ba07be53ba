"""Stein variational Newton: the Stein direction measured and followed in the metric of the posterior's own curvature."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from sim_core.inference.samplers.stein import bounded
from sim_core.inference.shooting.curvature import SMALLEST

__all__ = ["common_metric", "newton_system", "shortened"]

UNIFORM = 12.0  # precision of a uniform density over a unit range: what the limits know of a coordinate


def common_metric(information: np.ndarray) -> np.ndarray:
    """M (M, M), one for all particles: the mean of the half of `information` (N, M, M) around the median log determinant.

    A particle in a poor maximum may have a curvature of any size; ordering by determinants stays the same in any linear
    coordinates.
    """
    log_det = np.linalg.slogdet(information)[1]
    middle = np.argsort(np.abs(log_det - np.median(log_det)), kind="stable")[: max(1, (len(log_det) + 1) // 2)]
    return information[np.sort(middle)].mean(axis=0)


def newton_system(z: np.ndarray, score: np.ndarray, information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drive (N, M) and curvature Q (N, M, M) of particles z (N, M); Q_i^-1 drive_i is a full Newton step.

        drive_i = sum_j [k_ji score_j + d k_ji / dz_j] / sum_j k_ij,     Q_i = sum_j k_ij F_j / sum_j k_ij
        k_ij = exp(-|z_i - z_j|^2_M / (2 n))

    F is the Gauss-Newton curvature, `information` (N, M, M), and 12 I for the limits; M is common to all particles, and Q
    positive definite, so that the particles rest where those of SVGD with this kernel do. Far apart, they take Newton
    steps of their own. In other linear coordinates the same steps result, but for the limits' share.

    Args:
        score: d log p / dz (N, M).

    Sources: Detommaso et al., "A Stein variational Newton method", NeurIPS 2018 (kernel scaled by the mean Hessian,
    section 4; Newton steps, section 3, with all of a particle's neighbours in its own matrix alone); Wang et al., "Stein
    variational gradient descent with matrix-valued kernels", NeurIPS 2019, section 3 (a metric is a change of coordinates).
    """
    n = z.shape[1]
    trace = np.einsum("nmm->n", information)[:, None, None]
    F = information + (UNIFORM + SMALLEST * trace) * np.eye(n)
    L = np.linalg.cholesky(common_metric(F))
    y = z @ L
    K = np.exp(-cdist(y, y, "sqeuclidean") / (2 * n))
    K /= K.sum(axis=1)[:, None]
    # Gradients are compared in coordinates in which the posterior's are of size one.
    score = bounded(np.linalg.solve(L, score.T).T)
    return (K @ (score - y / n) + y / n) @ L.T, np.einsum("ij,jkl->ikl", K, F)


def shortened(step: np.ndarray, reach: float) -> np.ndarray:
    """Steps (N, M) of which no coordinate is longer than `reach`, in their direction."""
    return step * np.minimum(1.0, reach / np.maximum(np.abs(step).max(axis=1, initial=0.0), reach))[:, None]
