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
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import scipy.optimize

from sim_core.host.executors import spread

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
    objective,
    lower,
    upper,
    start=None,
    workers=4,
    sigma=1.0,
    shrinking=False,
    cost_limit=0.0,
    rounds=50,
    time_limit=np.inf,
    seed=0,
    executor=None,
    iterations=100,
) -> Hopping:
    """Least cost within a box.

    Args:
        objective: x (n,) -> (cost, gradient (n,)); picklable where the executor needs it. A cost that is not finite
            counts as infinite.
        lower, upper: box (n,), finite.
        start: where worker 0 begins (n,); the others begin anywhere in the box.
        workers: local searches in a round.
        sigma: standard deviation of a hop, in parts of the box.   shrinking: sigma / (round + 1).
        cost_limit: enough.   rounds, time_limit [s]: the most.
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


def local_minimum(objective, lower, upper, start, iterations=100):
    """(x, cost, evaluations) of L-BFGS-B in the box; the best point it saw, in parts of the box along the way."""
    width, best, count = upper - lower, (np.asarray(start, dtype=float), np.inf), 0

    def scaled(z):
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
