"""How sure may one be of a pose that one scan tells, and do intervals hold what they promise?

    ./refit experiment lidar_posterior            # 100 scans of a sensor, 100 of a mirror; NUTS on one of each
    ./refit experiment lidar_posterior --quick    # 16 and 16

The pose of a sensor in the empty box, and that of a mirror before it, are inferred from single scans with Gaussian noise of 10 mm, by
CSVGD on the likelihood of the ranges (sim_core/lidar/likelihood.py). Over repeated scans the truth shall lie within the central 90 % of
particles nine times of ten: a calibrated posterior's coverage. The covariance that a fit tells (Gauss-Newton) stands beside it, and NUTS
on the first scan of each. The scans' own model is the fitted one with seven rays in place of three, so that outlines are finer than the
likelihood's. Limits are uniform priors about the fitted pose, six of its standard deviations wide on both sides, a millimetre at least.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.problems.lidar_scenes import BOX, SOURCE, clutter
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.inference.samplers import sample
from sim_core.lidar.likelihood import ScanLikelihood
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene
from sim_core.lidar.search import flat, locate
from sim_core.lidar.settings import LidarSettings
from sim_core.lidar.shapes import panel

TIERS = ("inference",)
SIGMA, LEVEL = 0.01, 0.9
SIZES = {"quick": 16, "full": 100}
PARTICLES, ITERATIONS = 40, 20
DRAWS, STEPS = 200, 400
#: limits: so many standard deviations about the fit, and at least so much [m, rad]
WIDE, LEAST = 6.0, 1e-3
MIRROR = clutter(Body("mirror", panel(0.4, 0.28, "mirror"), (0.5, 0.05, 0.0, 0.0, 0.0, 0.3), soft=True))


@dataclass(frozen=True)
class Problem:
    """A pose that is looked for: of what, in which scene, where it is, from where it is seen."""

    scene: Scene
    names: tuple[str, ...]
    truth: tuple[float, float, float]
    seen_from: float


PROBLEMS = {
    "sensor": Problem(BOX, flat(), (0.2, 0.1, 0.3), 0.0),
    "mirror": Problem(MIRROR, flat("mirror"), (0.5, 0.05, 0.3), -0.3),
}


@dataclass(frozen=True)
class Job:
    """One scan of one problem; with `chain`, NUTS beside CSVGD."""

    kind: str
    seed: int
    chain: bool = False


def solved(job: Job) -> dict[str, Any]:
    """Fit and posterior of one scan: means, standard deviations, the truth's rank among particles."""
    problem = PROBLEMS[job.kind]
    values = {} if job.kind == "sensor" else {"sensor.x": problem.seen_from}
    truth = dict(zip(problem.names, problem.truth))
    fine = Lidar(problem.scene, replace(LidarSettings(), rays=7), values)
    noise = np.random.default_rng(job.seed).normal(0.0, SIGMA, fine.settings.beams)
    ranges = fine.scan(truth).range + noise
    lidar = Lidar(problem.scene, values=values)
    start = {name: value + off for (name, value), off in zip(truth.items(), (0.02, -0.01, 0.05))}
    found = locate(lidar, ranges, start)
    assert found.fit is not None, "a scan with measured beams is fitted"
    told = np.sqrt(np.diag(found.fit.covariance))
    middle = np.array(list(found.values.values()))
    half = np.maximum(WIDE * np.nan_to_num(told, nan=LEAST), LEAST)
    limits = {name: (m - h, m + h) for name, m, h in zip(problem.names, middle, half)}
    density = ScanLikelihood(lidar, ranges, limits, SIGMA, "huber")
    samples = sample("csvgd", density, PARTICLES, ITERATIONS, seed=job.seed)
    theta = density.theta(samples.z)
    at = np.array(problem.truth)
    out = {
        "kind": job.kind,
        "outcome": found.outcome.name,
        "fit": middle - at,
        "told": told,
        "mean": theta.mean(0) - at,
        "std": theta.std(0, ddof=1),
        "rank": (theta < at).mean(0),
    }
    if job.chain:
        chain = density.theta(sample("nuts", density, DRAWS, STEPS, seed=job.seed).z)
        out |= {"chain": chain - at, "particles": theta - at}
    return out


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Repeated scans of both problems.

    Returns:
        Result with coverage as checks.
    """
    result = Result("lidar_posterior", seed=seed, size=size)
    count = SIZES[size]
    jobs = [Job(kind, 1000 * seed + k, k == 0) for kind in PROBLEMS for k in range(count)]
    with progress.stage("posteriors", total=len(jobs)) as stage:
        found = spread(solved, jobs, executor, lambda done: stage.advance())
    for kind in PROBLEMS:
        judge(result, kind, [one for one in found if one["kind"] == kind])
    if run_directory is not None:
        report(result, found).write(Path(run_directory) / "report.html")
    return result


def judge(result: Result, kind: str, rows: list[dict[str, Any]]) -> None:
    """Coverage, and how the spreads of fit, particles and repeated scans compare."""
    rank = np.array([row["rank"] for row in rows])
    tail = 0.5 * (1.0 - LEVEL)
    covered = ((rank >= tail) & (rank <= 1.0 - tail)).mean(0)
    # three standard deviations of a share of as many scans
    least = LEVEL - 3.0 * np.sqrt(LEVEL * (1.0 - LEVEL) / len(rows))
    for name, share in zip(PROBLEMS[kind].names, covered):
        said = f"own target: {LEVEL:g}, less three standard deviations of so many scans"
        result.check(
            f"{name}: truth within the central 90 % of particles, share of scans", float(share), least, ">=", "", said
        )
    mean, fits = (np.array([row[what] for row in rows]) for what in ("mean", "fit"))
    particles, told = (np.array([row[what] for row in rows]).mean(0) for what in ("std", "told"))
    first = rows[0]
    ratio = first["chain"].std(0) / first["std"]
    result.check(
        f"{kind}: NUTS's spread over CSVGD's, furthest from 1",
        float(ratio[np.abs(np.log(ratio)).argmax()]),
        [0.5, 2.0],
        "in",
        "",
        SOURCE,
    )
    result.detail(kind, [
        {
            "parameter": name,
            "coverage of 90 %": float(covered[k]),
            "bias of particles' mean [mm or mrad]": 1e3 * float(mean[:, k].mean()),
            "spread of it over scans": 1e3 * float(mean[:, k].std()),
            "spread of particles": 1e3 * float(particles[k]),
            "spread of fits over scans": 1e3 * float(fits[:, k].std()),
            "as a fit tells it": 1e3 * float(told[k]),
            "spread of NUTS, first scan": 1e3 * float(first["chain"].std(0)[k]),
        }
        for k, name in enumerate(PROBLEMS[kind].names)
    ])  # fmt: skip


def report(result: Result, found: list[dict[str, Any]]) -> Report:
    page = Report("How sure one scan makes of a pose", f"{result.size}, seed {result.seed}")
    page.text((__doc__ or "").split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    fig, axes = figure(1, 2, size=(10.0, 4.2))
    for axis, kind in zip(axes, PROBLEMS):
        rows = [one for one in found if one["kind"] == kind]
        chain, particles = 1e3 * rows[0]["chain"], 1e3 * rows[0]["particles"]
        axis.plot(chain[:, 0], chain[:, 1], ".", ms=3, color="#b0b5bd", label="NUTS")
        axis.plot(particles[:, 0], particles[:, 1], "o", ms=3, color=PALETTE[0], label="CSVGD")
        fits = 1e3 * np.array([row["fit"] for row in rows])
        axis.plot(fits[:, 0], fits[:, 1], "x", ms=4, color=PALETTE[1], label="fits of all scans")
        axis.plot(0.0, 0.0, "+", ms=12, color="black", label="truth")
        axis.set(title=f"{kind}: posterior of the first scan", xlabel="x [mm]", ylabel="y [mm]")
        axis.legend(fontsize=7)
    page.figure(fig, "Off the truth.")
    for kind in PROBLEMS:
        page.section(kind).table(list(result.details[kind][0]), [list(row.values()) for row in result.details[kind]])
    return page
