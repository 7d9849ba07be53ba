"""Particles that have found a posterior become draws of it, by Markov moves along each other's differences.

Stein's particles satisfy the density of their windows, whose joints are never quite closed, and rest once they are about
as far apart as they should be. Moves that are accepted by the density of whole roll-outs leave neither to chance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sim_core.inference.data.density import LogDensity
from sim_core.inference.samplers import Samples, sample

__all__ = ["finished"]

# Particles that lie on each other have no difference to move along, share of a limit's range.
FINEST = 1e-9


def finished(samples: Samples, density: LogDensity, sweeps: int, seed: int = 0, progress: Any = None) -> Samples:
    """The particles after so many sweeps; evaluations are added up, the trace is that of the sweeps.

    Args:
        density: of the same coordinates over whole roll-outs.

    Fewer particles than an ensemble takes, twice the coordinates plus two, stay where they are.
    """
    z = samples.z + FINEST * np.random.default_rng(seed).standard_normal(samples.z.shape)
    if len(z) < 2 * z.shape[1] + 2:
        return samples
    moved = sample("emcee", density, len(z), sweeps, seed, progress, moves="differences", start=np.clip(z, 0.0, 1.0))
    return replace(
        moved,
        method=samples.method,
        evaluations=samples.evaluations + moved.evaluations,
        not_finite=samples.not_finite + moved.not_finite,
        chains=None,  # walkers are no chains for long enough; Stein's identity judges particles
    )
