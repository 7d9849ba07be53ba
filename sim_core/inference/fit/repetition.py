"""Residuals that repeat themselves from sample to sample: how much, and what they say of as many independent ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["autocorrelation", "independent_share"]

OUTLYING = 3.0  # residuals beyond so many scales weigh no more than these in their correlation


def autocorrelation(r: np.ndarray, lags: Iterable[int]) -> np.ndarray:
    """Autocorrelation along the samples of segments r (S, N) or (S, N, M) at lags, shape (len(lags),); columns weigh as their power."""
    power, count = max(np.mean(r * r), np.finfo(float).tiny), r.shape[1]
    return np.array([np.mean(r[:, : count - lag] * r[:, lag:]) / power for lag in lags])


def independent_share(residual: np.ndarray) -> float:
    """Of residuals (S, N, M) of segments, over their scale, the share that says as much as independent ones, above 0 and at most 1.

    One over their autocorrelation time, which is summed up to the first lag at which they are not correlated any more (Geyer,
    Practical Markov Chain Monte Carlo, Statistical Science 1992, section 3.3); all columns together, each with the weight that it has
    in the cost.
    """
    r = np.clip(residual, -OUTLYING, OUTLYING)
    count, time = r.shape[1], 1.0
    for lag in range(1, count // 2):
        (correlation,) = autocorrelation(r, (lag,))
        if correlation <= 0.0:
            break
        time += 2.0 * (1.0 - lag / count) * correlation
    return float(1.0 / time)
