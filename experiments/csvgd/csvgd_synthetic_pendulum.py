"""Lengths of a double pendulum that vary from one recording to the next: which method finds their distribution?

Ten recordings of a swinging double pendulum of point masses, each with lengths drawn from a 2-D
Gaussian, train; fifty more of the same distribution judge. Every method draws 100 samples from the
sum likelihood of the ten (single shooting; CSVGD with ten windows is shown beside). The samples'
roll-outs are compared with the fifty recordings by the k-nearest-neighbour estimates of both
Kullback-Leibler divergences and by the maximum mean discrepancy.

Published (Heiden, PhD thesis (USC 2022), section 4.1.5.1 and Fig. 4.4, no numbers): SVGD wins all metrics but the likelihood.
The covariance of the lengths and the tuning of the methods are not printed; ours are below.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.problems.point_mass_pendulum import START, dynamics, lengths, simulated
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from reporting.posterior import convergence
from sim_core.host.executors import spread
from sim_core.inference.posterior.metrics import kl_knn, mmd
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import MultipleShooting, SingleShooting

TIERS = ("inference",)
SOURCE = "own target, after Heiden, PhD thesis (USC 2022), section 4.1.5.1"
MEAN = np.array([1.5, 2.0])  # published
COVARIANCE = np.array([[0.04, 0.036], [0.036, 0.09]])  # std 0.2 and 0.3 m, correlation 0.6
TRAINING, TEST, STEPS, SAMPLES = 10, 50, 400, 100
SIGMA_OBS = 0.2
BASELINES = ("cem", "sgld", "emcee", "nuts")
METRICS = ("KL real||sim", "KL sim||real", "MMD^2")
# iterations of each method, and seeds. CEM and emcee move 100 points per iteration, SGLD and NUTS one.
ITERATIONS = {
    "quick": {"svgd": 300, "csvgd": 60, "cem": 100, "sgld": 4000, "emcee": 300, "nuts": 300},
    "full": {"svgd": 500, "csvgd": 100, "cem": 100, "sgld": 10000, "emcee": 500, "nuts": 600},
}
SEEDS = {"quick": 1, "full": 5}
LOOKS = 12  # points of the convergence curves


@dataclass(frozen=True)
class Job:
    """One method on the recordings of one seed: number k of an experiment's seed; on so many threads."""

    seed: int
    k: int
    method: str
    size: str
    threads: int


@dataclass(frozen=True)
class Outcome:
    """What a method drew.

    Attributes:
        theta: samples (100, 2) [m]. scores: `Study.scored` of them.
        curve: (evaluations of the density, scores after them); empty but for the first seed.
    """

    theta: np.ndarray
    scores: dict[str, float]
    curve: tuple[list[int], list[dict[str, float]]]


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Every method on every seed's recordings.

    Returns:
        Result whose checks hold SVGD's medians against each baseline's; details hold all numbers and the samples of the
        first seed.
    """
    result = Result("csvgd_synthetic_pendulum", seed=seed, size=size)
    threads = 1 if executor else os.cpu_count() or 1
    jobs = [Job(seed, k, method, size, threads) for k in range(SEEDS[size]) for method in ITERATIONS[size]]
    with progress.stage("seeds and methods", total=len(jobs)) as stage:
        found = dict(zip(jobs, spread(drawn, jobs, executor, lambda count: stage.advance())))
    rows: dict[str, list[dict[str, float]]] = {}
    for job, outcome in found.items():
        rows.setdefault(job.method, []).append(outcome.scores)
    first = {job.method: outcome for job, outcome in found.items() if job.k == 0}
    median = {
        method: {name: float(np.median([row[name] for row in of])) for name in of[0]} for method, of in rows.items()
    }
    for name in METRICS:
        for baseline in BASELINES:
            result.check(
                f"{name}: SVGD, median of seeds, against {baseline}",
                median["svgd"][name],
                median[baseline][name],
                "<",
                "nat" if "KL" in name else "1",
                SOURCE,
            )
    result.detail("medians", median)
    result.detail("all", rows)
    result.detail("samples of the first seed", {method: outcome.theta for method, outcome in first.items()})
    if run_directory is not None:
        report(result, study_of(seed, 0, threads), first).write(Path(run_directory) / "report.html")
    return result


@functools.lru_cache(maxsize=1)
def study_of(seed: int, k: int, threads: int) -> Study:
    """Recordings number k of an experiment's seed; the last one asked for is kept."""
    return Study(np.random.default_rng([seed, k]), threads)


def drawn(job: Job) -> Outcome:
    """Samples of a method and what they are worth; the first seed's also on the way."""
    study = study_of(job.seed, job.k, job.threads)
    return study.drawn(job.method, ITERATIONS[job.size][job.method], job.seed + job.k, curve=job.k == 0)


class Study:
    """Recordings of one seed, and the densities over the lengths."""

    def __init__(self, rng: np.random.Generator, threads: int) -> None:
        self.dynamics = dynamics(threads=threads)
        self.parameters = lengths(self.dynamics.model)
        self.truths = {n: rng.multivariate_normal(MEAN, COVARIANCE, n) for n in (TRAINING, TEST)}
        self.training, test = (
            simulated(self.dynamics, self.parameters, self.truths[n], steps=STEPS) for n in (TRAINING, TEST)
        )
        self.scale = self.training.scale
        self.real = self._flat(test.x)
        self.judge = SingleShooting(self.dynamics, self.parameters, test, SIGMA_OBS, scale=self.scale)

    def _flat(self, X: np.ndarray) -> np.ndarray:
        """Trajectories as points (N, 1600), in standard deviations of the states."""
        return (X[:, 1:] / self.scale).reshape(len(X), -1)

    def drawn(self, method: str, iterations: int, seed: int, curve: bool) -> Outcome:
        """Samples of a method; with `curve` also how their metrics developed."""
        windows = 10 if method == "csvgd" else 1
        density = MultipleShooting(self.dynamics, self.parameters, self.training, windows, SIGMA_OBS)
        seen, every = [], max(iterations // LOOKS, 1)

        def look(i: int, z: np.ndarray, log_p: np.ndarray) -> None:
            if curve and (i + 1) % every == 0 and len(z) == SAMPLES:
                seen.append((i, z.copy()))

        samples = sample(method, density, SAMPLES, iterations, seed, callback=look)
        theta = density.theta(samples.z)
        scores = [self.scored(density.theta(np.clip(z, 0, 1))) for _, z in seen]
        return Outcome(theta, self.scored(theta), ([samples.trace.evaluations[i] for i, _ in seen], scores))

    def scored(self, theta: np.ndarray) -> dict[str, float]:
        """Metrics of samples against the test recordings and, for the lengths themselves, against the test lengths."""
        U = np.zeros((STEPS, self.dynamics.nu))
        X = self.dynamics.rollout(np.broadcast_to(START, (len(theta), 4)), U, self.parameters.to_physical(theta))
        sim = self._flat(X[np.isfinite(X).all(axis=(1, 2))])
        log_p = self.judge.log_p(self.judge.z(theta))
        return {
            "KL real||sim": kl_knn(self.real, sim),
            "KL sim||real": kl_knn(sim, self.real),
            "MMD^2": mmd(sim, self.real),
            "log p, mean of samples": float(np.mean(log_p)),
            "log p, best": float(np.max(log_p)),
            "KL real||sim of lengths": kl_knn(self.truths[TEST], theta),
            "KL sim||real of lengths": kl_knn(theta, self.truths[TEST]),
        }


def report(result: Result, study: Study, first: dict[str, Outcome]) -> Report:
    """Table of medians, the samples of the first seed, metrics over evaluations."""
    page = Report("Lengths of a double pendulum from ten recordings", f"{result.size}, {SEEDS[result.size]} seeds")
    page.checks(result)
    page.section(
        "Medians over seeds",
        "KL in nats over 1600 numbers per trajectory; CSVGD uses ten windows, all others single shooting.",
    )
    median = result.details["medians"]
    columns = list(next(iter(median.values())))
    page.table(["method", *columns], [[method, *(row[c] for c in columns)] for method, row in median.items()])
    page.section(
        "Samples",
        "First seed. Crosses: the lengths of the ten training recordings; grey: of the fifty test recordings.",
    )
    fig, axes = figure(2, 3, size=(8.4, 5.8), sharex=True, sharey=True)
    for axis, (method, outcome) in zip(axes.flat, first.items()):
        axis.plot(*study.truths[TEST].T, ".", color="#b0b4bb", markersize=4)
        axis.plot(*outcome.theta.T, ".", color=PALETTE[0], markersize=5, alpha=0.6)
        axis.plot(*study.truths[TRAINING].T, "x", color=PALETTE[1], markersize=5)
        axis.set(title=method, xlim=(0.5, 3.5), ylim=(0.5, 3.5))
    axes[1, 1].set_xlabel("length 1 [m]")
    axes[0, 0].set_ylabel("length 2 [m]")
    page.figure(fig, "Samples beyond 3.5 m are not shown.")
    page.section("Convergence", "Figure 4.4 of the source: metrics over evaluations of the likelihood, first seed.")
    curves = {name: {m: (o.curve[0], [row[name] for row in o.curve[1]]) for m, o in first.items()} for name in METRICS}
    page.figure(convergence(curves), "Single chains count from when they have drawn 100 samples.")
    return page
