"""The Gaussian about an optimum as a set of draws, and what every posterior says about where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim_core.inference.fit.identify import Identification
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.multibody import RobotModel
from sim_core.multibody.model.parameters import FreeParameters

__all__ = ["GAUSS_NEWTON", "laplace_posterior", "networks_meta"]

#: the method whose posterior this is
GAUSS_NEWTON = "gauss-newton"


def laplace_posterior(
    found: Identification, spec: FreeParameters, count: int, seed: int, meta: Mapping[str, Any]
) -> ParticlePosterior:
    """Draws from the Gaussian about an identification's optimum, in its coordinates, as named quantities.

    Their limits are where the draws end; log_p is relative to the optimum.
    """
    n = spec.n
    draws = np.random.default_rng(seed).standard_normal((count, n))
    variances, axes = np.linalg.eigh(found.posterior.covariance[:n, :n])
    coordinates = spec.clip(found.xi + draws * np.sqrt(np.maximum(variances, 0.0)) @ axes.T)
    none = np.zeros((n, n))
    rows = spec.report(found.xi, none)
    values = np.array([[row.value for row in spec.report(xi, none)] for xi in coordinates])
    low, high = values.min(0), values.max(0)
    margin = 0.05 * (high - low) + 1e-12 * (1 + np.abs(high))
    return ParticlePosterior(
        tuple(row.name for row in rows),
        low - margin,
        high + margin,
        values,
        -0.5 * (draws**2).sum(1),
        dict(meta),
        tuple(row.unit for row in rows),
    )


def networks_meta(blueprint: str | Path | None, model: RobotModel) -> dict[str, str]:
    """What a posterior's meta says of the networks it was inferred around: their file, and what it held; {} for none."""
    return {"blueprint": str(Path(blueprint).absolute()), "networks": model.hash.partition("+")[2]} if blueprint else {}
