"""Do intervals hold the truth as often as they say? Ranks of known truths among draws, for each method on three robots.

A truth is drawn from the prior, a recording from the truth, and draws from the posterior of the recording; then the truth's
rank among the draws is uniform if, and only if, the method draws from the posterior. Intervals of 50, 80 and 95 % hold
the truth as often as that. CSVGD is shown as it ends (Newton steps over windows) and finished by Markov moves, as
`refit identify` delivers it.

Source: Talts et al., "Validating Bayesian inference algorithms with simulation-based calibration", 2018.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import chisquare

from experiments.problems.known_truths import ROBOTS, Problem, problem
from reporting import Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.inference.posterior.finished import finished
from sim_core.inference.samplers import sample

TIERS = ("inference",)
SOURCE = "own target: within 3 points of what it says, beyond chance"
DRAWS = 100
DATA_SETS = {"quick": 24, "full": 200}
METHODS = {"quick": ("csvgd", "emcee"), "full": ("csvgd", "emcee", "nuts")}
#: what is told apart: CSVGD's particles before and after their finish
SHOWN = {"csvgd": ("csvgd, unfinished", "csvgd"), "emcee": ("emcee",), "nuts": ("nuts",)}
LEVELS = (0.5, 0.8, 0.95)
POINTS, CHANCE = 0.03, 2.576  # share of intervals; two-sided 99 % of a normal deviate
BINS = 10


@dataclass(frozen=True)
class Job:
    """One method on one recording of one robot."""

    robot: str
    method: str
    seed: int
    threads: int


@functools.cache
def known(robot: str, threads: int) -> Problem:
    """A robot's problem, made once in each process."""
    return problem(robot, threads)


def ranked(job: Job) -> dict[str, np.ndarray]:
    """The truth's place among the draws, (M,) in (0, 1), for what the method shows.

    Between two draws the place is drawn, so that it is uniform and not one of a hundred and one numbers.
    """
    robot = known(job.robot, job.threads)
    truth, data = robot.drawn(job.seed)
    exact = robot.density(data, 1)
    if job.method == "csvgd":
        rough = sample("csvgd", robot.density(data, robot.windows), DRAWS, 60, job.seed, refresh=2)
        found = {"csvgd, unfinished": rough.z, "csvgd": finished(rough, exact, 300, job.seed).z}
    elif job.method == "emcee":
        found = {"emcee": sample("emcee", exact, DRAWS, 600, job.seed).z}
    else:
        found = {"nuts": sample("nuts", exact, DRAWS, 600, job.seed, max_tree_depth=6).z}
    place = np.random.default_rng(10_000 + job.seed).random(len(truth))
    return {name: ((z < truth).sum(axis=0) + place) / (len(z) + 1) for name, z in found.items()}


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Every method on every robot's recordings; the first seed is that of the first recording.

    Returns:
        Result with the share of truths inside the intervals of each method, over all robots and quantities.
    """
    result = Result("calibration", seed=seed, size=size)
    threads = 1 if executor else os.cpu_count() or 1
    jobs = [
        Job(robot, method, 1000 * seed + k, threads)
        for robot in ROBOTS
        for method in METHODS[size]
        for k in range(DATA_SETS[size])
    ]
    with progress.stage("recordings and methods", total=len(jobs)) as stage:
        found = spread(ranked, jobs, executor, lambda count: stage.advance())
    places: dict[tuple[str, str], np.ndarray] = {}
    for method in METHODS[size]:
        for name in SHOWN[method]:
            for robot in ROBOTS:
                places[name, robot] = np.array(
                    [each[name] for job, each in zip(jobs, found) if (job.robot, job.method) == (robot, method)]
                )
    sets = DATA_SETS[size] * len(ROBOTS)
    for name in (name for method in METHODS[size] for name in SHOWN[method]):
        everything = np.concatenate([places[name, robot].ravel() for robot in ROBOTS])
        for level in LEVELS:
            # Quantities of one recording are no independent witnesses: recordings are counted.
            allowed = POINTS + CHANCE * np.sqrt(level * (1 - level) / sets)
            inside = float((np.abs(everything - 0.5) <= 0.5 * level).mean())
            if name == "csvgd, unfinished":
                result.detail(f"{name}: truths inside {100 * level:g} %", inside)
                continue
            result.check(
                f"{name}: truths inside their {100 * level:g} % intervals",
                inside,
                (level - allowed, min(level + allowed, 1.0)),
                "in",
                "1",
                SOURCE,
            )
    result.detail("table", [list(row) for row in _table(places)])
    if run_directory is not None:
        _page(result, places).write(Path(run_directory) / "report.html")
    return result


def _table(places: dict[tuple[str, str], np.ndarray]):
    """(method, robot, share inside each level, p-value of uniform ranks), a row for each."""
    for (name, robot), u in places.items():
        inside = [float((np.abs(u - 0.5) <= 0.5 * level).mean()) for level in LEVELS]
        counts = np.histogram(u, BINS, (0.0, 1.0))[0]
        yield name, robot, *inside, float(chisquare(counts).pvalue)


def _page(result: Result, places: dict[tuple[str, str], np.ndarray]) -> Report:
    page = Report(
        "Simulation-based calibration",
        f"{DATA_SETS[result.size]} recordings of each robot, {DRAWS} draws of each method",
    )
    page.checks(result)
    page.section("Shares of truths inside their intervals").table(
        ["method", "robot", *(f"{100 * level:g} %" for level in LEVELS), "p-value of even ranks"],
        [
            [name, robot, *(f"{100 * share:.0f} %" for share in shares), f"{p:.2g}"]
            for name, robot, *shares, p in _table(places)
        ],
    )
    names = list(dict.fromkeys(name for name, _ in places))
    fig, axes = figure(len(names), len(ROBOTS), size=(8.4, 1.7 * len(names) + 0.6), squeeze=False, sharex=True)
    for row, name in zip(axes, names):
        for axis, robot in zip(row, ROBOTS):
            u = places[name, robot]
            axis.hist(u.ravel(), BINS, (0.0, 1.0), density=True)
            axis.axhline(1.0, color="0.5", linestyle=":")
            axis.set_yticks([])
            axis.set_title(f"{name}, {robot}", fontsize="small")
    page.section(
        "Ranks of the truths",
        "Even: the draws are those of the posterior. Hollow in the middle: intervals are too narrow; a hill: too wide.",
    ).figure(fig, "All quantities of a robot together.")
    return page
