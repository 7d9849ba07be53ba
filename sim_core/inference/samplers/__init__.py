"""Sampling methods behind one interface.

    samples = sample("nuts", density, samples=100, seed=0)
    samples.z, samples.log_p, samples.evaluations, samples.trace

`METHODS` is the table; docs/inference_methods.md says when to choose which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from config.tiers import require
from sim_core.inference.data.density import LogDensity
from sim_core.inference.samplers.by_metric import CSVGD, SVGD
from sim_core.inference.samplers.cem import CEM
from sim_core.inference.samplers.cma_es import CMA_ES
from sim_core.inference.samplers.ensemble import EMCEE
from sim_core.inference.samplers.likelihood_free import BAYESSIM
from sim_core.inference.samplers.nuts import NUTS
from sim_core.inference.samplers.sampler import Run, Sampler, Samples, Trace, sobol
from sim_core.inference.samplers.sgld import SGLD

__all__ = ["METHODS", "Run", "Sampler", "Samples", "Trace", "sample", "sobol"]

METHODS: dict[str, Sampler] = {
    "svgd": SVGD,
    "csvgd": CSVGD,
    "cem": CEM,
    "sgld": SGLD,
    "nuts": NUTS,
    "emcee": EMCEE,
    "cma-es": CMA_ES,
    "bayessim": BAYESSIM,
}


def sample(
    method: str,
    density: LogDensity,
    samples: int = 100,
    iterations: int | None = None,
    seed: int = 0,
    progress: Any = None,
    callback: Callable[[int, np.ndarray, np.ndarray], object] | None = None,
    **options: Any,
) -> Samples:
    """Draw from a density over the unit cube.

    Args:
        method: name in METHODS.
        density: LogDensity (sim_core/inference/data/density.py). Its limits are the faces of the cube, whatever it says beyond.
        samples: number of draws N.
        iterations: of the method; None takes its default.
        seed: the same seed gives the same draws.
        progress: reporting.Progress or None.
        callback: f(iteration, z (N, M), log_p (N,)) after every iteration; a true answer ends the run early with what
            there is by then.
        options: of the method; see its function.

    Returns:
        Samples.

    Raises:
        ValueError: unknown method or counts below one; the message lists what there is.
        MissingTierError: the method needs packages that are not installed; the message names the remedy.
    """
    if method not in METHODS:
        raise ValueError(f"There is no sampling method '{method}'. Known: {', '.join(sorted(METHODS))}.")
    entry = METHODS[method]
    if entry.tier:
        require(entry.tier, f"the method '{method}'")
    iterations = entry.iterations if iterations is None else iterations
    if samples < 1 or iterations < 1:
        raise ValueError(f"Expected at least one sample and one iteration, found {samples} and {iterations}.")
    run = Run(density, samples, seed, progress, callback)
    z, log_p = entry.function(run, iterations, **options)
    return Samples(z, log_p, run.evaluations, run.trace(), method, run.cancelled, run.not_finite, run.chains)
