"""Two link lengths of a double pendulum from its joint angles: local search against parallel basin hopping, from everywhere.

The true lengths are 3 m and 4 m; the cost is the mean squared error of both joint angles over a swing. From each cell of a
grid over 0.1 to 10 m one L-BFGS search is run, and one parallel basin hopping whose first worker starts there.

Source: Heiden, PhD thesis (USC 2022), Fig. 4.10; the grid's range from the public plot script.
"""

from __future__ import annotations

import functools
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm

from experiments.problems.point_mass_pendulum import START, dynamics, lengths, simulated
from reporting import Progress, Report, Result, SilentProgress, figure
from sim_core.augmentation.basin_hopping import Hopping, basin_hopping, local_minimum
from sim_core.host.executors import spread

SOURCE = "own target, after Heiden, PhD thesis (USC 2022), Fig. 4.10"
TRUTH = np.array([3.0, 4.0])  # [m]
LOWER, UPPER = np.full(2, 0.1), np.full(2, 10.0)  # [m]
FOUND = 0.05  # [m], largest distance from the truth that counts
STEPS = 400  # of 10 ms
WORKERS, ROUNDS, SIGMA, COST_LIMIT = 4, 40, 0.2, 1e-8
SIZES = {"quick": 6, "full": 20}  # cells along each axis


@dataclass(frozen=True)
class AngleError:
    """Mean squared error of the joint angles [rad^2] and its gradient, as a function of both lengths [m]; picklable."""

    steps: int = STEPS

    def __call__(self, length: np.ndarray) -> tuple[float, np.ndarray]:
        engine, parameters, measured = problem(self.steps)
        p, U = parameters.to_physical(length), measured.u[0]
        X = engine.rollout(START, U, p)
        if not np.isfinite(X).all():
            return np.inf, np.zeros(2)
        Xbar = np.zeros_like(X)
        error = (X - measured.x[0])[:, :2]
        Xbar[:, :2] = 2 * error / error.size
        return float(np.mean(error**2)), parameters.pullback(length, engine.rollout_vjp(START, U, p, X, Xbar)[2])

    def values(self, rows: np.ndarray) -> np.ndarray:
        """The errors alone of lengths (N, 2), in one roll-out."""
        engine, parameters, measured = problem(self.steps)
        X = engine.rollout(START, measured.u[0], parameters.to_physical(rows))
        return np.mean((X - measured.x)[..., :2] ** 2, axis=(1, 2))


@functools.cache
def problem(steps):
    """(Dynamics, lengths, the true swing)."""
    engine = dynamics()
    parameters = lengths(engine.model, (float(LOWER[0]), float(UPPER[0])))
    return engine, parameters, simulated(engine, parameters, TRUTH, steps=steps)


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Both maps, and the shares of starts that reach the truth."""
    result, n = Result("basin_hopping_double_pendulum", seed=seed, size=size), SIZES[size]
    axis = np.linspace(LOWER[0], UPPER[0], n)
    starts = np.array([[a, b] for b in axis for a in axis])
    jobs = [(tuple(start), (seed, k)) for k, start in enumerate(starts)]
    with progress.stage("starts", total=len(jobs)) as stage:
        alone, hopped = zip(*spread(searched, jobs, executor, lambda count: stage.advance()))
    evaluations = [found.evaluations for found in hopped]
    errors = {
        "local": np.array([np.linalg.norm(x - TRUTH) for x, *_ in alone]),
        "hopping": np.linalg.norm(np.array([found.x for found in hopped]) - TRUTH, axis=1),
    }
    share = {name: np.mean(e < FOUND) for name, e in errors.items()}
    result.check(
        f"starts from which hopping comes within {FOUND} m of the true lengths",
        share["hopping"],
        0.95,
        ">=",
        "1",
        SOURCE,
    )
    result.check(
        "the same for one local search, over hopping's", share["local"] / share["hopping"], 0.8, "<", "1", SOURCE
    )
    result.detail("share of starts that reach the truth", share)
    result.detail(
        "evaluations of cost and gradient, median",
        {
            "local": np.median([e for *_, e in alone]),
            "hopping": np.median(evaluations),
            "hopping, most": max(evaluations),
        },
    )
    result.detail(
        "final error [m], rows: second length, columns: first",
        {"starts along an axis [m]": axis, **{name: e.reshape(n, n) for name, e in errors.items()}},
    )
    if run_directory is not None:
        report(result, landscape(AngleError())).write(Path(run_directory) / "report.html")
    return result


def searched(job: tuple[tuple[float, float], tuple[int, int]]) -> tuple[tuple[np.ndarray, float, int], Hopping]:
    """(point, cost, evaluations) of one local search from a start (2,) [m], and basin hopping from there with a seed."""
    (start, seed), cost = job, AngleError()
    hopping = basin_hopping(
        cost, LOWER, UPPER, start, WORKERS, SIGMA, cost_limit=COST_LIMIT, rounds=ROUNDS, seed=list(seed)
    )
    return local_minimum(cost, LOWER, UPPER, start), hopping


def landscape(cost: AngleError, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """(axis (n,), cost (n, n)) of the lengths on a grid, rows: second length."""
    axis = np.linspace(LOWER[0], UPPER[0], n)
    return axis, cost.values(np.array([[a, b] for b in axis for a in axis])).reshape(n, n)


def report(result: Result, surface: tuple[np.ndarray, np.ndarray]) -> Report:
    """Landscape and both maps of final errors."""
    page = Report("Parallel basin hopping on a double pendulum", result.size)
    page.checks(result)
    maps = result.details["final error [m], rows: second length, columns: first"]
    fig, axes = figure(1, 3, size=(13, 4))
    axis, value = surface
    floor = max(np.nanmin(value), 1e-4)
    shown = axes[0].pcolormesh(axis, axis, np.maximum(value, floor), norm=LogNorm(), cmap="viridis")
    fig.colorbar(shown, ax=axes[0], label="mean squared angle error [rad²]")
    ticks = np.asarray(maps["starts along an axis [m]"])
    for ax, name, title in ((axes[1], "local", "one L-BFGS search"), (axes[2], "hopping", "parallel basin hopping")):
        shown = ax.pcolormesh(
            ticks, ticks, np.maximum(np.asarray(maps[name]), 1e-3), norm=LogNorm(1e-3, 10), cmap="magma"
        )
        fig.colorbar(shown, ax=ax, label="final error of the lengths [m]")
        ax.set_title(title)
    for ax in axes:
        ax.plot(*TRUTH, "w+", markersize=12)
        ax.set(xlabel="first length [m]", ylabel="second length [m]")
    page.section(
        "Cost, and where searches end",
        "Colours of the maps: distance from the true lengths (cross) at which a search that starts in the cell ends.",
    )
    page.figure(fig, "Landscape of the cost; final error of a local search; final error of basin hopping.")
    return page
