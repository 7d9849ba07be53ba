"""How much a trial at a place is worth, from what is believed of its outcome.

A belief is a mixture of normal distributions: weights (s,), means (s, m) and standard deviations (s, m) at m places; a Gaussian
process alone has s = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

__all__ = ["ACQUISITIONS", "Acquisition", "expected_improvement", "greedy", "upper_confidence_bound"]

#: (weights, means, deviations, best value so far, beta) -> worth (m,)
Acquisition = Callable[[np.ndarray, np.ndarray, np.ndarray, float, float], np.ndarray]


def expected_improvement(
    weights: np.ndarray, means: np.ndarray, deviations: np.ndarray, best: float, beta: float = 0.0
) -> np.ndarray:
    """E[max(0, value - best)], shape (m,)."""
    gain = means - best
    spread = np.maximum(deviations, 1e-12)
    z = gain / spread
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return weights @ np.maximum(gain * ndtr(z) + spread * density, 0.0)


def upper_confidence_bound(
    weights: np.ndarray, means: np.ndarray, deviations: np.ndarray, best: float, beta: float
) -> np.ndarray:
    """Mean plus `beta` standard deviations of the whole mixture, shape (m,)."""
    mean = weights @ means
    variance = weights @ (deviations**2 + (means - mean) ** 2)
    return mean + beta * np.sqrt(variance)


def greedy(
    weights: np.ndarray, means: np.ndarray, deviations: np.ndarray, best: float, beta: float = 0.0
) -> np.ndarray:
    """The mean, shape (m,): nothing is tried for the sake of knowledge."""
    return weights @ means


ACQUISITIONS: dict[str, Acquisition] = {"ei": expected_improvement, "ucb": upper_confidence_bound, "greedy": greedy}
