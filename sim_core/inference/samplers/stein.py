"""Stein variational gradients: the direction in which a set of particles comes closer to a density, and Adam to follow it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import pdist, squareform

__all__ = ["Adam", "median_bandwidth", "stein_direction"]


def median_bandwidth(squared: np.ndarray, n: int) -> float:
    """h = med^2 / log n from squared distances between all pairs of n particles; 1 where there is nothing to measure.

    Source: Liu & Wang, "Stein variational gradient descent", NeurIPS 2016, section 5.
    """
    h = float(np.median(squared)) / np.log(n) if n > 1 else 0.0
    return h if h > 0 else 1.0


def stein_direction(z: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, float]:
    """phi (N, M) and the bandwidth h at particles z (N, M) with score = d log p / dz (N, M).

        phi_i = 1/N sum_j [k(z_j, z_i) score_j + d k(z_j, z_i) / d z_j],   k(a, b) = exp(-|a - b|^2 / h)

    Source: Liu & Wang 2016, Eq. 8; thesis Eq. 4.1.
    """
    squared = pdist(z, "sqeuclidean")
    h = median_bandwidth(squared, len(z))
    K = squareform(np.exp(-squared / h))
    np.fill_diagonal(K, 1.0)
    repulsion = (2.0 / h) * (z * K.sum(axis=1)[:, None] - K @ z)
    return (K @ score + repulsion) / len(z), h


@dataclass
class Adam:
    """Ascent by Adam on any number of arrays at once; moments belong to each number, so particles do not mix.

    Source: Kingma & Ba, ICLR 2015, Alg. 1.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    t: int = 0
    moments: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def step(self, size: float, *gradients: np.ndarray) -> list[np.ndarray]:
        """What to add to each array, given its gradient; `size` is the length of a step in a steady gradient."""
        if not self.moments:
            self.moments = [(np.zeros_like(g), np.zeros_like(g)) for g in gradients]
        self.t += 1
        unbias1, unbias2 = 1 - self.beta1**self.t, 1 - self.beta2**self.t
        steps = []
        for (m, v), g in zip(self.moments, gradients, strict=True):
            m += (1 - self.beta1) * (g - m)
            v += (1 - self.beta2) * (g * g - v)
            steps.append(size * (m / unbias1) / (np.sqrt(v / unbias2) + self.epsilon))
        return steps
