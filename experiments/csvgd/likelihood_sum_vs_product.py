"""Two recordings of two different pendulums: the sum likelihood finds both, the product their compromise.

Two double pendulums with different lengths swing for 3 s from rest at (90, 0) degrees. SVGD draws 100
particles from either set likelihood: a mixture over the recordings (Eq. 4.4) or their product (Eq. A.2).

Published (Heiden, PhD thesis (USC 2022), section A.1.2; no numbers, lengths not printed): with the product the posterior sits
at the average of the two settings, with the sum the particles split onto both. The share of each mode
is that of its basin among the starting points, so the pair below has basins of similar size; the other
two pairs that were tried, and what they gave, are in docs/results/inference.md.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.problems.point_mass_pendulum import dynamics, lengths, simulated
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from reporting.posterior import likelihood_slice
from sim_core.host.executors import spread
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import SingleShooting

SOURCE = "own target, after Heiden, PhD thesis (USC 2022), section A.1.2"
TRUTHS = np.array([[1.5, 2.0], [3.0, 1.5]])  # [m]
STEPS, PARTICLES, ITERATIONS, NEAR = 300, 100, 500, 0.2
COMBINE = ("sum", "product")
SEEDS = {"quick": 1, "full": 5}


@dataclass(frozen=True)
class Job:
    """Particles of one likelihood from one seed's starting points, on so many threads."""

    seed: int
    combine: str
    threads: int


@functools.cache
def densities(threads: int) -> dict[str, SingleShooting]:
    """Both likelihoods of the two recordings."""
    d = dynamics(threads=threads)
    parameters = lengths(d.model)
    data = simulated(d, parameters, TRUTHS, steps=STEPS)
    return {combine: SingleShooting(d, parameters, data, combine=combine) for combine in COMBINE}


def drawn(job: Job) -> np.ndarray:
    """Particles (PARTICLES, 2) [m]."""
    density = densities(job.threads)[job.combine]
    return density.theta(sample("svgd", density, PARTICLES, ITERATIONS, job.seed).z)


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Both likelihoods on every seed (of the particles' start).

    Returns:
        Result with the share of particles at each truth and the distances of the mean, worst seed.
    """
    result = Result("likelihood_sum_vs_product", seed=seed, size=size)
    threads = 1 if executor else os.cpu_count() or 1
    jobs = [Job(seed + k, combine, threads) for k in range(SEEDS[size]) for combine in COMBINE]
    with progress.stage("seeds and likelihoods", total=len(jobs)) as stage:
        found = spread(drawn, jobs, executor, lambda count: stage.advance())
    theta = {combine: [t for job, t in zip(jobs, found) if job.combine == combine] for combine in COMBINE}
    shares = [(np.linalg.norm(t[:, None] - TRUTHS, axis=-1) < NEAR).mean(0) for t in theta["sum"]]
    for i, truth in enumerate(TRUTHS):
        result.check(
            f"sum: share of particles within {NEAR} m of {truth.tolist()}, worst seed",
            min(s[i] for s in shares),
            0.35,
            ">=",
            "1",
            SOURCE,
        )
    to = [np.linalg.norm(t.mean(0) - [*TRUTHS, TRUTHS.mean(0)], axis=-1) for t in theta["product"]]
    result.check(
        "product: mean's distance to the midpoint over that to the nearer truth, worst seed",
        max(d[2] / min(d[:2]) for d in to),
        1.0,
        "<",
        "1",
        SOURCE,
    )
    result.detail("shares at each truth, sum", shares)
    result.detail("distances of the mean to both truths and their midpoint, product", to)
    if run_directory is not None:
        report(result, densities(threads), {combine: t[0] for combine, t in theta.items()}).write(
            Path(run_directory) / "report.html"
        )
    return result


def report(result: Result, densities, theta) -> Report:
    page = Report("Sum and product over two recordings", f"{result.size}, {SEEDS[result.size]} seeds")
    page.checks(result)
    page.section("Particles", "Crosses: the two pendulums. First seed.")
    fig, axes = figure(1, 2, size=(8.4, 3.8), sharey=True)
    for axis, (combine, t) in zip(axes, theta.items()):
        axis.plot(*t.T, ".", color=PALETTE[0], alpha=0.6)
        axis.plot(*TRUTHS.T, "x", color=PALETTE[1], markersize=9, markeredgewidth=2)
        axis.plot(*TRUTHS.mean(0), "+", color=PALETTE[6], markersize=10)
        axis.set(title=combine, xlim=(0.5, 5), ylim=(0.5, 5), xlabel="length 1 [m]")
    axes[0].set_ylabel("length 2 [m]")
    page.figure(fig, "Plus: the midpoint.")
    page.section("Log likelihoods", "Each by its own colours, the lowest quarter cut off.")
    axis = np.linspace(0.5, 5.0, 60)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    panels = {c: d.log_p(d.z(grid.reshape(-1, 2))).reshape(60, 60) for c, d in densities.items()}
    page.figure(likelihood_slice(panels, axis, axis, ("length 1 [m]", "length 2 [m]")), "Over both lengths.")
    return page
