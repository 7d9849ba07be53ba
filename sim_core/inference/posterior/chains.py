"""Whether Markov chains have mixed: rank-normalised R-hat and effective sample sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["ChainCheck", "chain_check"]


@dataclass(frozen=True)
class ChainCheck:
    """Of each of M coordinates.

    Attributes:
        r_hat: 1 where all halves of all chains tell the same; infinite where a chain stands still.
        size: effective number of independent draws, in the bulk or in the tails, whichever is smaller.
    """

    r_hat: np.ndarray
    size: np.ndarray


def chain_check(chains: np.ndarray) -> ChainCheck:
    """Hold the draws of C chains (C, D, M), without warm-up, against each other.

    Raises:
        ValueError: fewer than four draws in a chain.

    Source: Vehtari et al., "Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of
    MCMC", Bayesian Analysis 16(2), 2021; as arviz-stats has it.
    """
    from arviz_stats.base import array_stats  # takes a second

    if chains.ndim != 3 or chains.shape[1] < 4:
        raise ValueError(f"chain_check: expected chains of at least four draws, (C, D, M), found {chains.shape}")
    stands = (chains == chains[:, :1]).all(axis=1).any(axis=0)
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = array_stats.rhat(chains, **axes)
        bulk = array_stats.ess(chains, **axes, method="bulk")
        tail = array_stats.ess(chains, **axes, method="tail", prob=(0.05, 0.95))
    r_hat = np.where(stands | ~np.isfinite(r_hat), np.inf, r_hat)
    return ChainCheck(r_hat, np.where(stands, 0.0, np.nan_to_num(np.minimum(bulk, tail))))
