"""How far two sample sets lie apart, where neither density is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist

__all__ = ["kl_knn", "mmd"]


def kl_knn(P: np.ndarray, Q: np.ndarray, k: int = 3) -> float:
    """k-nearest-neighbour estimate of d_KL(P || Q) in nats, from samples P (n, d) and Q (m, d).

        d/n sum_i log(nu_k(i) / rho_k(i)) + log(m / (n - 1)),

    nu: distance of P_i to its k-th neighbour in Q; rho: to its k-th neighbour in P without itself. With the same k on
    both sides the digamma terms of the source cancel. Biased low: unit Gaussians one apart, 2000 samples each, k = 3, give
    0.49, 0.47, 0.44, 0.41 for d = 1, 2, 3, 5 in place of 0.5.

    Infinite where a sample of P coincides with k others of P (P has collapsed).

    Raises:
        ValueError: fewer than k samples in Q or k + 1 in P, or dimensions that differ.

    Source: Wang, Kulkarni, Verdu, "Divergence estimation for multidimensional densities via k-nearest-neighbor
    distances", IEEE T-IT 55(5), 2009; thesis Eq. A.3.
    """
    P, Q = _samples(P, "P"), _samples(Q, "Q")
    n, m, d = len(P), len(Q), P.shape[1]
    if Q.shape[1] != d:
        raise ValueError(f"kl_knn: expected samples of one dimension, found {d} and {Q.shape[1]}")
    if n < k + 1 or m < k:
        raise ValueError(f"kl_knn: expected at least {k + 1} and {k} samples for k = {k}, found {n} and {m}")
    nu = np.partition(cdist(P, Q), k - 1, axis=1)[:, k - 1]
    own = cdist(P, P)
    np.fill_diagonal(own, np.inf)
    rho = np.partition(own, k - 1, axis=1)[:, k - 1]
    if (rho == 0).any():
        return np.inf
    with np.errstate(divide="ignore"):
        return float(d * np.mean(np.log(nu) - np.log(rho)) + np.log(m / (n - 1)))


def mmd(
    X: np.ndarray, Y: np.ndarray, bandwidths: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0), unbiased: bool = True
) -> float:
    """Squared maximum mean discrepancy of samples X (n, d) and Y (m, d), unbiased: about 0, and sometimes below, for one
    distribution. With unbiased=False each sample counts as its own neighbour: never negative, 0 where the sets coincide
    (for sets that are no independent draws, such as recordings and simulations from the same start states).

    Kernel: sum of exp(-|x - y|^2 / (2 s^2)) with s = bandwidths times the median distance between any two of all samples.
    At most twice the number of bandwidths.

    Source: Gretton et al., "A kernel two-sample test", JMLR 13, 2012, Lemma 6.
    """
    X, Y = _samples(X, "X"), _samples(Y, "Y")
    n, m = len(X), len(Y)
    if X.shape[1] != Y.shape[1] or n < 2 or m < 2:
        raise ValueError(f"mmd: expected at least two samples each, of one dimension, found {X.shape} and {Y.shape}")
    XX, YY, XY = cdist(X, X, "sqeuclidean"), cdist(Y, Y, "sqeuclidean"), cdist(X, Y, "sqeuclidean")
    everything = np.concatenate([XX[np.triu_indices(n, 1)], YY[np.triu_indices(m, 1)], XY.ravel()])
    median = np.median(everything) or 1.0  # all equal: any bandwidth says so
    total = 0.0
    for b in bandwidths:
        k = 0.5 / (b * b * median)
        own = _mean_kernel(k, XX, unbiased) + _mean_kernel(k, YY, unbiased)
        total += own - 2 * np.exp(-k * XY).mean()
    return float(total)


def _mean_kernel(k: float, squared: np.ndarray, unbiased: bool) -> float:
    """Mean of exp(-k d^2) over all pairs of one set, of different samples alone if unbiased."""
    n, total = len(squared), np.exp(-k * squared).sum()
    return (total - n) / (n * (n - 1)) if unbiased else total / n**2


def _samples(a: np.ndarray, name: str) -> np.ndarray:
    a = np.asarray(a, dtype=float)
    if a.ndim != 2:
        raise ValueError(f"{name}: expected samples of shape (n, d), found {a.shape}; flatten trajectories first")
    if not np.isfinite(a).all():
        raise ValueError(
            f"{name}: expected finite samples, found {int((~np.isfinite(a)).any(axis=1).sum())} rows that are not"
        )
    return a
