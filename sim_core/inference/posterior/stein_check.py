"""Whether particles are draws of a density, told by the density's gradient at them alone.

For draws z of p and any smooth f that vanishes at infinity, E[f(z) d log p/dz + df/dz] = 0 (Stein's identity). The kernel
Stein discrepancy takes every f of a kernel's space at once; f(z) = z alone tells, direction by direction, by how much the
particles are spread too little or too much.

Limits would add boundary terms: everything happens in y with z = sigmoid(y), where they are at infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.inference.samplers.limits import logit, sigmoid_log_slope

__all__ = ["SteinCheck", "stein_check"]

BOOTSTRAP = 4000  # draws of the discrepancy as draws of the density would have it
NEAREST = 1e-4  # to a limit, share of its range: closer, and y is of the limit alone


@dataclass(frozen=True)
class SteinCheck:
    """What Stein's identity says of N particles.

    Attributes:
        discrepancy: KSD^2 over what N exact draws have on average: 1 for those, less for particles that keep their
            distance from each other, about N for particles that all lie at one place.
        p_value: share of sets of exact draws whose discrepancy is larger.
        narrowest, widest: the particles' variance over the density's, in the direction where it is smallest and largest.
        expected: between which ratios those of exact draws lie; the edges of the Marchenko-Pastur law.
    """

    discrepancy: float
    p_value: float
    narrowest: float
    widest: float
    expected: tuple[float, float]


def stein_check(z: np.ndarray, score: np.ndarray, seed: int = 0) -> SteinCheck:
    """Hold particles z (N, M), in the unit cube, against the density with score = d log p / dz (N, M) there.

    Raises:
        ValueError: fewer particles than twice the coordinates, or numbers that are not finite.

    Sources: Liu, Lee & Jordan, "A kernelized Stein discrepancy for goodness-of-fit tests", ICML 2016, Eq. 6 and section 4
    (multinomial bootstrap); Gorham & Mackey, "Measuring sample quality with kernels", ICML 2017 (inverse multiquadric).
    """
    N, M = z.shape
    if N < 2 * M or score.shape != z.shape or not (np.isfinite(z).all() and np.isfinite(score).all()):
        raise ValueError(
            f"stein_check: expected at least {2 * M} particles of {M} coordinates, finite, and scores like them; "
            f"found {z.shape} and {score.shape}"
        )
    z = np.clip(z, NEAREST, 1.0 - NEAREST)
    y = logit(z)
    score = score * z * (1.0 - z) + sigmoid_log_slope(y)[1]
    # In coordinates in which the particles' covariance is the identity.
    spread = y - y.mean(axis=0)
    covariance = spread.T @ spread / N
    values, vectors = np.linalg.eigh(covariance)
    width = np.sqrt(np.maximum(values, 1e-24 + 1e-12 * values.max(initial=0.0)))
    y, score = spread @ vectors / width, score @ vectors * width
    p, u = _bootstrapped(_stein_kernel(y, score), seed)
    ratios = np.linalg.eigvalsh(-0.5 * (y.T @ score + score.T @ y) / N)
    share = np.sqrt(M / N)
    return SteinCheck(u, p, float(ratios[0]), float(ratios[-1]), ((1.0 - share) ** 2, (1.0 + share) ** 2))


def _stein_kernel(y: np.ndarray, score: np.ndarray) -> np.ndarray:
    """u_p(y_i, y_j) (N, N) of the kernel (1 + |a - b|^2 / (2 M))^(-1/2)."""
    M = y.shape[1]
    square = (y**2).sum(axis=1)
    r2 = np.maximum(square[:, None] + square[None, :] - 2.0 * y @ y.T, 0.0)
    scale = 2.0 * M
    k = 1.0 / np.sqrt(1.0 + r2 / scale)
    slope = k**3 / scale  # d k / d b = slope (a - b)
    along = (score * y).sum(axis=1)
    towards = along[:, None] + along[None, :] - score @ y.T - y @ score.T  # (s_a - s_b) . (a - b)
    return score @ score.T * k + towards * slope + M * slope - 3.0 * r2 * k**5 / scale**2


def _bootstrapped(u: np.ndarray, seed: int) -> tuple[float, float]:
    """p-value of mean(u) for exact draws, and mean(u) over its mean for those."""
    N = len(u)
    weights = np.random.default_rng(seed).multinomial(N, np.full(N, 1.0 / N), BOOTSTRAP) / N - 1.0 / N
    null = np.einsum("bi,bi->b", weights @ u, weights)
    return float((1 + (null >= u.mean()).sum()) / (1 + BOOTSTRAP)), float(u.mean() / (np.trace(u) / N**2))
