"""The picture of a posterior: every quantity, and every pair of them."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from reporting.posterior import corner_plot
from sim_core.inference.posterior.particle_posterior import ParticlePosterior

__all__ = ["posterior_corner"]


def posterior_corner(
    posterior: ParticlePosterior, truth: np.ndarray | None = None, most: int | None = None
) -> tuple[Figure, int]:
    """Corner plot of a posterior's particles, with their weights and limits.

    Args:
        truth: values (M,), NaN where unknown; None: all unknown.
        most: draw the quantities about which the data said the most, so many of them; None: all.

    Returns:
        (the figure, how many quantities it shows).
    """
    width = posterior.std / (posterior.upper - posterior.lower)
    pick = np.sort(np.argsort(width)[:most])
    figure = corner_plot(
        posterior.values[:, pick],
        [posterior.names[i] for i in pick],
        [posterior.units[i] for i in pick],
        posterior.lower[pick],
        posterior.upper[pick],
        None if truth is None else np.asarray(truth, dtype=float)[pick],
        posterior.weights,
    )
    return figure, len(pick)
