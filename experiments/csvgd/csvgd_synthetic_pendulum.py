"""Lengths of a double pendulum that vary from one recording to the next: which method finds their distribution?

Ten recordings of a swinging double pendulum of point masses, each with lengths drawn from a 2-D
Gaussian, train; fifty more of the same distribution judge. Every method draws 100 samples from the
sum likelihood of the ten (single shooting; CSVGD with ten windows is shown beside). The samples'
roll-outs are compared with the fifty recordings by the k-nearest-neighbour estimates of both
Kullback-Leibler divergences and by the maximum mean discrepancy.

Published (thesis section 4.1.5.1, Fig. 4.4, no numbers): SVGD wins all metrics but the likelihood.
The covariance of the lengths and the tuning of the methods are not printed; ours are below.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from experiments.problems.point_mass_pendulum import START, dynamics, lengths, simulated
from reporting import PALETTE, Report, Result, SilentProgress, figure
from reporting.posterior import convergence
from sim_core.inference.posterior.metrics import kl_knn, mmd
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import MultipleShooting, SingleShooting

TIERS = ("inference",)
SOURCE = "spec 06, item 8"
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


def run(size: str = "full", seed: int = 0, progress=SilentProgress(), run_directory=None) -> Result:
    """Every method on every seed's recordings.

    Returns:
        Result whose checks hold SVGD's medians against each baseline's; details hold all numbers and the samples of the
        first seed.
    """
    result = Result("csvgd_synthetic_pendulum", seed=seed, size=size)
    methods, rows, studies = ITERATIONS[size], {}, []
    with progress.stage("seeds and methods", total=SEEDS[size] * len(methods)) as stage:
        for k in range(SEEDS[size]):
            study = Study(np.random.default_rng([seed, k]))
            studies.append(study)
            for method, iterations in methods.items():
                stage.say(f"seed {k + 1} of {SEEDS[size]}: {method}")
                row = study.scored(method, study.drawn(method, iterations, seed + k, curve=k == 0))
                rows.setdefault(method, []).append(row)
                stage.advance()
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
    result.detail("samples of the first seed", studies[0].theta)
    if run_directory is not None:
        report(result, studies[0]).write(Path(run_directory) / "report.html")
    return result


class Study:
    """Recordings of one seed, the densities over the lengths, and what the methods drew."""

    def __init__(self, rng: np.random.Generator):
        self.dynamics = dynamics(threads=os.cpu_count() or 1)
        self.parameters = lengths(self.dynamics.model)
        self.truths = {n: rng.multivariate_normal(MEAN, COVARIANCE, n) for n in (TRAINING, TEST)}
        self.training, test = (
            simulated(self.dynamics, self.parameters, self.truths[n], steps=STEPS) for n in (TRAINING, TEST)
        )
        self.scale = self.training.scale
        self.real = self._flat(test.x)
        self.judge = SingleShooting(self.dynamics, self.parameters, test, SIGMA_OBS, scale=self.scale)
        self.theta, self.curves = {}, {}

    def _flat(self, X):
        """Trajectories as points (N, 1600), in standard deviations of the states."""
        return (X[:, 1:] / self.scale).reshape(len(X), -1)

    def drawn(self, method: str, iterations: int, seed: int, curve: bool):
        """Samples (100, 2) [m]; keeps them, and with `curve` how the metrics developed."""
        windows = 10 if method == "csvgd" else 1
        density = MultipleShooting(self.dynamics, self.parameters, self.training, windows, SIGMA_OBS)
        seen, every = [], max(iterations // LOOKS, 1)

        def look(i, z, log_p):
            if curve and (i + 1) % every == 0 and len(z) == SAMPLES:
                seen.append((i, z.copy()))

        samples = sample(method, density, SAMPLES, iterations, seed, callback=look)
        self.theta[method] = density.theta(samples.z)
        if curve:
            scores = [self.scored(method, density.theta(np.clip(z, 0, 1))) for _, z in seen]
            self.curves[method] = [samples.trace.evaluations[i] for i, _ in seen], scores
        return self.theta[method]

    def scored(self, method: str, theta) -> dict[str, float]:
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


def report(result: Result, first: Study) -> Report:
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
    for axis, (method, theta) in zip(axes.flat, first.theta.items()):
        axis.plot(*first.truths[TEST].T, ".", color="#b0b4bb", markersize=4)
        axis.plot(*theta.T, ".", color=PALETTE[0], markersize=5, alpha=0.6)
        axis.plot(*first.truths[TRAINING].T, "x", color=PALETTE[1], markersize=5)
        axis.set(title=method, xlim=(0.5, 3.5), ylim=(0.5, 3.5))
    axes[1, 1].set_xlabel("length 1 [m]")
    axes[0, 0].set_ylabel("length 2 [m]")
    page.figure(fig, "Samples beyond 3.5 m are not shown.")
    page.section("Convergence", "Figure 4.4 of the source: metrics over evaluations of the likelihood, first seed.")
    curves = {name: {m: (x, [row[name] for row in rows]) for m, (x, rows) in first.curves.items()} for name in METRICS}
    page.figure(convergence(curves), "Single chains count from when they have drawn 100 samples.")
    return page
