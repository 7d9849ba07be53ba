"""Particles that have found a posterior become draws of it, by Markov moves along each other's differences.

Stein's particles satisfy the density of their windows, whose joints are never quite closed, and rest once they are about
as far apart as they should be. Moves that are accepted by the density of whole roll-outs leave neither to chance. They go on
until where the particles came from is forgotten: several times the autocorrelation time of all walkers (Foreman-Mackey et al.,
PASP 125, 2013, section 3). Before that, particles that were caught where hardly any probability is are moved beside the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from sim_core.inference.data.density import LogDensity
from sim_core.inference.samplers import Samples, sample

__all__ = ["arrived", "autocorrelation_time", "beside", "finished"]

# Particles that lie on each other have no difference to move along, share of a limit's range.
FINEST = 1e-9
# After so many autocorrelation times a particle remembers e^-FORGOTTEN of where it came from; looked at after every so many sweeps.
FORGOTTEN, LOOKED = 10.0, 20
FAR = (
    20.0  # below the best log density no particle is a draw: one in 10^6 of seven coordinates; it was caught on its way
)
FIRST = 40  # sweeps in which a particle may still arrive by itself


def finished(samples: Samples, density: LogDensity, sweeps: int, seed: int = 0, progress: Any = None) -> Samples:
    """The particles after so many sweeps at most; evaluations are added up, the trace is that of the sweeps.

    Particles that are caught far from where the probability is have `FIRST` sweeps more to arrive, and are moved beside the others.

    Args:
        density: of the same coordinates over whole roll-outs.

    Fewer particles than an ensemble takes, twice the coordinates plus two, stay where they are.
    """
    rng = np.random.default_rng(seed)
    z = samples.z + FINEST * rng.standard_normal(samples.z.shape)
    if len(z) < 2 * z.shape[1] + 2:
        return samples
    walks: list[np.ndarray] = []

    def forgotten(sweep: int, z: np.ndarray, log_p: np.ndarray) -> bool:
        walks.append(np.column_stack([z, log_p]))
        return len(walks) % LOOKED == 0 and len(walks) >= FORGOTTEN * autocorrelation_time(np.array(walks))

    def moved(start: np.ndarray, sweeps: int, callback: Any = None) -> Samples:
        return sample("emcee", density, len(start), sweeps, seed, progress, callback, moves="differences", start=start)

    start, before = np.clip(z, 0.0, 1.0), [samples]
    if len(arrived(density.log_p(start))) < len(start):
        before.append(moved(start, FIRST))
        start = beside(before[-1].z, arrived(before[-1].log_p), rng)
    last = moved(start, sweeps, forgotten)
    return replace(
        last,
        method=samples.method,
        evaluations=last.evaluations + sum(each.evaluations for each in before) + len(z),
        not_finite=last.not_finite + sum(each.not_finite for each in before),
        cancelled=samples.cancelled,  # to stop when all is forgotten is to come to the end
        chains=None,  # walkers are no chains for long enough; Stein's identity judges particles
    )


def arrived(log_p: np.ndarray) -> np.ndarray:
    """Which particles, by their log densities (N,), may be draws: indices (n,) of those that are not `FAR` below the best."""
    return np.flatnonzero(log_p > np.max(log_p, initial=-np.inf) - FAR)


def beside(z: np.ndarray, there: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Particles z (N, M), those that have not arrived moved between two others: differences never carry one out of a far corner.

    Args:
        there: indices of those that have arrived; none: all stay.

    Where these are too few to span the space, a thousandth of where a particle was stays, which does.
    """
    strays, near = np.setdiff1d(np.arange(len(z)), there), z.copy()
    if not len(there):
        return near
    one, other = z[rng.choice(there, (2, len(strays)))]
    kept = 0.0 if len(there) > z.shape[1] + 1 else 1e-3
    between = one + rng.random((len(strays), 1)) * (other - one)
    near[strays] = between + kept * (z[strays] - between)
    return near


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
