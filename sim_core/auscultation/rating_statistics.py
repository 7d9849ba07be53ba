"""How far raters agree, and whether methods differ: the statistics with which recordings of several methods are compared.

Sources: McGraw and Wong, Forming inferences about some intraclass correlation coefficients, Psychological Methods 1(1), 1996,
table 4; Tukey's honestly significant difference. A balanced design, so that least squares of additive effects gives the same
differences of methods as a mixed-effects model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import studentized_range

__all__ = ["MethodEffects", "agreement", "method_effects", "tukey"]


def agreement(ratings: np.ndarray) -> float:
    """Intraclass correlation ICC(A, k) of the mean of k raters: absolute agreement, two-way.

    Args:
        ratings: of n things by k raters, shape (n, k), n and k at least 2.

    Raises:
        ValueError: another shape, or not finite.
    """
    ratings = np.asarray(ratings, float)
    if ratings.ndim != 2 or min(ratings.shape) < 2 or not np.isfinite(ratings).all():
        raise ValueError(f"ratings are finite and of shape (things, raters), both at least 2, not {ratings.shape}")
    n, k = ratings.shape
    rows, columns, total = ratings.mean(1), ratings.mean(0), ratings.mean()
    between_things = k * np.sum((rows - total) ** 2) / (n - 1)
    between_raters = n * np.sum((columns - total) ** 2) / (k - 1)
    rest = np.sum((ratings - rows[:, None] - columns + total) ** 2) / ((n - 1) * (k - 1))
    return float((between_things - rest) / (between_things + (between_raters - rest) / n))


def tukey(difference: float, residual: float, observations: int, methods: int, freedom: float = np.inf) -> float:
    """p of a difference of two of several methods' means.

    Args:
        difference: of the means. residual: variance of an observation. observations: of each method.
        methods: how many are compared. freedom: degrees of freedom of the residual variance.
    """
    q = abs(difference) / np.sqrt(residual / observations)
    return float(studentized_range.sf(q, methods, freedom))


@dataclass(frozen=True)
class MethodEffects:
    """What methods' results are, once regions and subjects are accounted for.

    Attributes:
        means: by method. residual: variance of an observation. half_width: of each mean's 95 % interval, from the residual.
        p: (method, method) -> Tukey's p.
    """

    means: dict[str, float]
    residual: float
    half_width: float
    p: dict[tuple[str, str], float]


def method_effects(values: np.ndarray, methods: Sequence[str]) -> MethodEffects:
    """Additive effects of methods, subjects and regions.

    Args:
        values: one of each, shape (methods, subjects, regions), finite.

    Raises:
        ValueError: another shape, fewer than two of anything, or not finite.
    """
    values = np.asarray(values, float)
    if values.ndim != 3 or len(values) != len(methods) or min(values.shape) < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"values are finite, of shape (methods, subjects, regions), at least 2 of each, not {values.shape} "
            f"for {len(methods)} methods"
        )
    total = values.mean()
    fitted = values.mean((1, 2), keepdims=True) + values.mean((0, 2), keepdims=True)
    fitted = fitted + values.mean((0, 1), keepdims=True) - 2.0 * total
    freedom = values.size - sum(values.shape) + 2
    residual = float(np.sum((values - fitted) ** 2) / freedom)
    means = dict(zip(methods, values.mean((1, 2)).tolist()))
    count = values[0].size
    p = {
        (a, b): tukey(means[a] - means[b], residual, count, len(methods), freedom) for a, b in combinations(methods, 2)
    }
    return MethodEffects(means, residual, float(1.96 * np.sqrt(residual / count)), p)
