"""Covariance matrix adaptation evolution strategy, through the library cma."""

from __future__ import annotations

import warnings

import numpy as np

from sim_core.inference.samplers.sampler import Run, Sampler, Tail

__all__ = ["CMA_ES"]


def cma_es(
    run: Run, iterations: int, sigma: float = 0.25, population: int | None = None, restarts: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Maximises the density; the last N candidates are returned.

    An optimiser, here for comparison: the spread of what it returns is that of its search distribution, which shrinks.
    Limits by the library's smooth boundary transformation. Where it has converged before its iterations are used up it
    starts again from a random point, and the run with the best point counts.

    Args:
        sigma: first step size, in units of the limits.   population: per iteration; N by default.
        restarts: start again once converged; otherwise stop.

    Source: Hansen & Ostermeier, Evol. Comput. 9(2), 2001.
    """
    population = max(population or run.samples, 4)
    best: _Search | None = None
    current: _Search | None = None
    for i in run.iterate(iterations, "CMA-ES"):
        if current is None:
            current = _Search(run, run.start() if best is None else run.rng.random(run.n), sigma, population)
        z, log_p = current.step(run)
        run.record(i, z, log_p, sigma=float(current.strategy.sigma))
        if best is None or current.best > best.best:
            best = current
        if current.strategy.stop():
            if not restarts:
                break
            current = None
    assert best is not None, "there is at least one iteration"
    return best.tail.points()


class _Search:
    """One run of the strategy and its last candidates."""

    def __init__(self, run: Run, start: np.ndarray, sigma: float, population: int) -> None:
        import cma

        # The library would draw from and seed NumPy's global generator.
        options = {
            "bounds": [0, 1],
            "popsize": population,
            "verbose": -9,
            "verb_disp": 0,
            "verb_log": 0,
            "seed": np.nan,
            "randn": lambda *shape: run.rng.standard_normal(shape),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.strategy = cma.CMAEvolutionStrategy(start, sigma, options)
        self.tail, self.best = Tail(run.samples, run.n), -np.inf

    def step(self, run: Run) -> tuple[np.ndarray, np.ndarray]:
        z = np.clip(np.array(self.strategy.ask()), 0, 1)
        log_p = run.log_p(z)
        # The strategy only ranks, but refuses infinity: zero density is made worse than the worst.
        finite = log_p[np.isfinite(log_p)]
        worst = finite.min() - 1e6 if len(finite) else -1e300
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.strategy.tell(list(z), list(-np.maximum(log_p, worst)))
        self.tail.push(z, log_p)
        self.best = max(self.best, log_p.max())
        return z, log_p


CMA_ES = Sampler(cma_es, False, 200, "covariance matrix adaptation evolution strategy (an optimiser)", "inference")
