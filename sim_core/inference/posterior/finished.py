"""Particles that have found a posterior become draws of it, by Markov moves along each other's differences.

Stein's particles satisfy the density of their windows, whose joints are never quite closed, and rest once they are about
as far apart as they should be. Moves that are accepted by the density of whole roll-outs leave neither to chance. They go on
until where the particles came from is forgotten: several times the autocorrelation time of all walkers (Foreman-Mackey et al.,
PASP 125, 2013, section 3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from sim_core.inference.data.density import LogDensity
from sim_core.inference.samplers import Samples, sample

__all__ = ["autocorrelation_time", "finished"]

# Particles that lie on each other have no difference to move along, share of a limit's range.
FINEST = 1e-9
# After so many autocorrelation times a particle remembers e^-FORGOTTEN of where it came from; looked at after every so many sweeps.
FORGOTTEN, LOOKED = 10.0, 20


def finished(samples: Samples, density: LogDensity, sweeps: int, seed: int = 0, progress: Any = None) -> Samples:
    """The particles after so many sweeps at most; evaluations are added up, the trace is that of the sweeps.

    Args:
        density: of the same coordinates over whole roll-outs.

    Fewer particles than an ensemble takes, twice the coordinates plus two, stay where they are.
    """
    z = samples.z + FINEST * np.random.default_rng(seed).standard_normal(samples.z.shape)
    if len(z) < 2 * z.shape[1] + 2:
        return samples
    walks: list[np.ndarray] = []

    def forgotten(sweep: int, z: np.ndarray, log_p: np.ndarray) -> bool:
        walks.append(np.column_stack([z, log_p]))
        return len(walks) % LOOKED == 0 and len(walks) >= FORGOTTEN * autocorrelation_time(np.array(walks))

    start = np.clip(z, 0.0, 1.0)
    moved = sample("emcee", density, len(z), sweeps, seed, progress, forgotten, moves="differences", start=start)
    return replace(
        moved,
        method=samples.method,
        evaluations=samples.evaluations + moved.evaluations,
        not_finite=samples.not_finite + moved.not_finite,
        cancelled=samples.cancelled,  # to stop when all is forgotten is to come to the end
        chains=None,  # walkers are no chains for long enough; Stein's identity judges particles
    )


def autocorrelation_time(walks: np.ndarray) -> float:
    """Of the slowest column of walks (sweeps, walkers, M) [sweeps]; infinite where nobody has moved.

    All walkers are taken for one series: about their common mean, walks that are too short to leave where they began show as such. Of
    ranks, so that early sweeps of walkers that spread from one point, or come from afar, weigh no less, or more, than later ones.
    """
    from emcee.autocorr import integrated_time

    series = rankdata(walks.transpose(1, 0, 2).reshape(-1, walks.shape[2]), axis=0)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        time = float(np.max(integrated_time(series, tol=0, quiet=True)))
    return time if np.isfinite(time) else np.inf
