"""Statistics of a trajectory that take its place in likelihood-free inference.

All take trajectories x (..., T, d) and return (..., F). For 400 x 4 they have 80, 88, 34 and 84 entries; the published ones
of the Panda keep every 200th sample and signatures of depth 2.

Source: thesis, section A.2.4; Ramos, Possas, Fox, BayesSim, RSS 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from sim_core.inference.bayessim.signature import path_signature

__all__ = ["SUMMARIES", "difference", "downsampled", "statistics", "summary"]

LAGS = (5, 10, 20, 50, 100)


def downsampled(x: np.ndarray, every: int = 20) -> np.ndarray:
    """Every 20th state, one after the other."""
    x = np.asarray(x)[..., ::every, :]
    return x.reshape(*x.shape[:-2], -1)


def difference(x: np.ndarray, every: int = 20) -> np.ndarray:
    """Of the steps s_t - s_{t-1}: every 20th, their mean, their variance."""
    tau = np.diff(x, axis=-2)
    return np.concatenate([downsampled(tau, every), tau.mean(-2), tau.var(-2)], axis=-1)


def statistics(x: np.ndarray, lags: Sequence[int] = LAGS) -> np.ndarray:
    """Mean, variance, correlations between dimensions, autocorrelations of each dimension at five lags [steps].

    A dimension that does not move has correlation 0.
    """
    x = np.asarray(x, dtype=float)
    T, d = x.shape[-2:]
    if T <= max(lags):
        raise ValueError(f"summary statistics: expected more than {max(lags)} samples for the longest lag, found {T}")
    mean, variance = x.mean(-2), x.var(-2)
    still = variance < 1e-12 * (1 + mean**2)
    w = np.where(
        still[..., None, :], 0.0, (x - mean[..., None, :]) / np.sqrt(np.where(still, 1.0, variance))[..., None, :]
    )
    i, j = np.triu_indices(d, 1)
    cross = (np.swapaxes(w, -1, -2) @ w / T)[..., i, j]
    auto = [(w[..., :-lag, :] * w[..., lag:, :]).sum(-2) / T for lag in lags]
    return np.concatenate([mean, variance, cross, *auto], axis=-1)


#: name -> f(x, every, depth)
SUMMARIES = {
    "downsampled": lambda x, every, depth: downsampled(x, every),
    "difference": lambda x, every, depth: difference(x, every),
    "summary": lambda x, every, depth: statistics(x),
    "signature": lambda x, every, depth: path_signature(x, depth),
}


def summary(name: str, every: int = 20, depth: int = 3) -> Callable[[np.ndarray], np.ndarray]:
    """The function of that name.

    Args:
        every: samples from one kept to the next, of "downsampled" and "difference".   depth: of "signature".

    Raises:
        ValueError: there is none.
    """
    if name not in SUMMARIES:
        raise ValueError(f"There is no trajectory summary '{name}'. Known: {', '.join(SUMMARIES)}.")
    return partial(SUMMARIES[name], every=every, depth=depth)
