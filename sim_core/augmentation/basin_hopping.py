"""Parallel basin hopping: many local searches around the best point that any of them has found.

    for each round, worker 0..W-1 in parallel:
        x = local minimum from the worker's start                        (L-BFGS-B in the box)
        best = x if its cost is the least so far
        next start = best + normal(0, (sigma range)^2), clipped into the box

Rounds are synchronous: results depend on the seed, not on which worker is quicker, on any executor.

Source: Heiden et al., NeuralSim, ICRA 2021, section III (parallel basin hopping); mutation as in its public code.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from sim_core.host.executors import spread

#: x (n,) -> (cost, gradient (n,)).
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

__all__ = ["Hopping", "basin_hopping", "local_minimum"]


@dataclass
class Hopping:
    """Outcome of a search.

    Attributes:
        x: best point (n,).   cost: there.
        rounds: of local searches.   evaluations: of cost and gradient, all workers together.
        history: best cost after each round.
    """

    x: np.ndarray
    cost: float
    rounds: int = 0
    evaluations: int = 0
    history: list[float] = field(default_factory=list)


def basin_hopping(
    objective: Objective,
    lower: ArrayLike,
    upper: ArrayLike,
    start: ArrayLike | None = None,
    workers: int = 4,
    sigma: float = 1.0,
    shrinking: bool = False,
    cost_limit: float = 0.0,
    rounds: int = 50,
    time_limit: float = np.inf,
    seed: int = 0,
    executor: Executor | None = None,
    iterations: int = 100,
) -> Hopping:
    """Least cost within a box.

    Args:
        objective: x (n,) -> (cost, gradient (n,)); picklable where the executor needs it. A cost that is not finite
            counts as infinite.
        lower, upper: box (n,), finite.
        start: where worker 0 begins (n,); the others begin anywhere in the box.
        workers: local searches in a round.
        sigma: standard deviation of a hop, in parts of the box.   shrinking: sigma / (round + 1).
        cost_limit: the search ends at a cost as small as this.
        rounds, time_limit: the search ends after so many rounds, or so many seconds [s].
        executor: any concurrent.futures.Executor; None: this process.
        iterations: of a local search.

    Raises:
        ValueError: no box, or a start outside it.
    """
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    if not (np.isfinite([lower, upper]).all() and np.all(lower < upper)):
        raise ValueError(f"Expected finite lower < upper, found {lower.tolist()} and {upper.tolist()}.")
    rng, begin = np.random.default_rng(seed), time.monotonic()
    starts = rng.uniform(lower, upper, (workers, lower.size))
    if start is not None:
        starts[0] = start
        if np.any(starts[0] < lower) or np.any(starts[0] > upper):
            raise ValueError(f"Expected a start inside the box, found {np.asarray(start).tolist()}.")
    found = Hopping(starts[0].copy(), np.inf)
    search = partial(local_minimum, objective, lower, upper, iterations=iterations)
    while True:
        for x, cost, evaluations in spread(search, starts, executor):
            found.evaluations += evaluations
            if cost < found.cost:
                found.x, found.cost = x, cost
        found.rounds += 1
        found.history.append(found.cost)
        if found.cost <= cost_limit or found.rounds >= rounds or time.monotonic() - begin > time_limit:
            return found
        width = sigma * (upper - lower) / (found.rounds if shrinking else 1)
        starts = np.clip(found.x + width * rng.normal(size=starts.shape), lower, upper)


def local_minimum(
    objective: Objective, lower: np.ndarray, upper: np.ndarray, start: ArrayLike, iterations: int = 100
) -> tuple[np.ndarray, float, int]:
    """(x, cost, evaluations): the best point (n,) that L-BFGS-B saw in the box, with all coordinates scaled to [0, 1]."""
    width, best, count = upper - lower, (np.asarray(start, dtype=float), float("inf")), 0

    def scaled(z: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, count
        x = lower + z * width
        cost, gradient = objective(x)
        count += 1
        if not np.isfinite(cost):
            return 1e30, np.zeros_like(z)
        if cost < best[1]:
            best = x, float(cost)
        return cost, gradient * width

    scipy.optimize.minimize(
        scaled,
        (best[0] - lower) / width,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, 1)] * lower.size,
        options={"maxiter": iterations},
    )
    return *best, count
