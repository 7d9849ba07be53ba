"""The most probable parameters of a mean function after some readings.

Source: Zhu, PhD thesis (University of Illinois 2023), section 5.2, where readings differ from the mean by noise alone. With
`likelihood="joint"` the residual process counts as well, so that a bad spot is not mistaken for a displacement.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from sim_core.planning.parametric_mean import ParametricMean
from sim_core.planning.residual_process import ResidualProcess

__all__ = ["Likelihood", "map_estimate", "prior_draws"]

Likelihood = Literal["independent", "joint"]
#: where a search begins besides the given starts: the mean may have peaks without tangents, around which there are valleys
DRAWS = 256
#: searches from the best of them
POLISHED = 2
#: no parameter goes farther from its default [standard deviations]
REACH = 5.0


@lru_cache(maxsize=16)
def _normal_draws(dimension: int, count: int) -> np.ndarray:
    """Quasi-random draws of a standard normal (count, dimension), always the same."""
    if not dimension:
        return np.zeros((count, 0))
    from scipy.stats import qmc  # slow to load, and not every belief has a mean to fit

    with_zero = np.array(qmc.MultivariateNormalQMC(np.zeros(dimension), seed=0).random(count))
    with_zero[0] = 0.0
    return with_zero


def prior_draws(mean: ParametricMean, count: int) -> np.ndarray:
    """Parameters (count, p) from their prior, evenly spread and always the same; the first is the default."""
    return mean.default + mean.deviation * np.clip(_normal_draws(len(mean.default), count), -REACH, REACH)


def map_estimate(
    mean: ParametricMean,
    process: ResidualProcess,
    y: np.ndarray,
    start: np.ndarray,
    likelihood: Likelihood = "independent",
) -> np.ndarray:
    """Maximise N(y; mean_theta(x), noise) N(theta; default, deviation^2).

    Args:
        process: with the places of the readings and their noise. y: readings (n,). start: (p,), as of the last readings.
        likelihood: "independent" as published, or "joint" with the process.

    Returns:
        Parameters (p,), the best of searches by L-BFGS-B from `start` and from the best draws of the prior.
    """
    x, default, deviation = process.x, mean.default, mean.deviation
    if not len(y) or not len(default):
        return default.copy()

    def whiten(columns: np.ndarray) -> np.ndarray:
        return process.whiten(columns) if likelihood == "joint" else columns / np.sqrt(process.noise)

    def costs(z: np.ndarray) -> np.ndarray:
        off = whiten((y - mean.value(default + deviation * z, x)).T)
        return 0.5 * (off**2).sum(0) + 0.5 * (z**2).sum(-1)

    def cost_and_gradient(z: np.ndarray) -> tuple[float, np.ndarray]:
        theta = default + deviation * z
        off = whiten(y - mean.value(theta, x))
        slope = whiten(mean.jacobian(theta, x) * deviation)
        return 0.5 * float(off @ off + z @ z), z - slope.T @ off

    draws = np.concatenate([[(start - default) / deviation], _normal_draws(len(default), DRAWS)])
    draws = np.clip(draws, -REACH, REACH)
    best = np.argsort(costs(draws), kind="stable")[:POLISHED]
    found = [
        minimize(cost_and_gradient, z, jac=True, method="L-BFGS-B", bounds=[(-REACH, REACH)] * len(z)).x
        for z in (draws[0], *draws[best])
    ]
    return default + deviation * found[int(np.argmin(costs(np.array(found))))]
