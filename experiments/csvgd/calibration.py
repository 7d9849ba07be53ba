"""Do intervals hold the truth as often as they say? Ranks of known truths among draws, for each method on three robots.

A truth is drawn from the prior, a recording from the truth, and draws from the posterior of the recording; then the truth's
rank among the draws is uniform if, and only if, the method draws from the posterior. Intervals of 50, 80 and 95 % hold
the truth as often as that. CSVGD is shown as it ends (Newton steps over windows) and finished by Markov moves, as
`refit identify` delivers it.

Then the same robots are recorded by others that their model cannot describe: with friction in their gears, something on a link, or
built otherwise. Intervals under an assumed noise know nothing of that; those whose errors are fitted are to hold the truth
nevertheless.

Source: Talts et al., "Validating Bayesian inference algorithms with simulation-based calibration", 2018.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import chisquare

from experiments.problems.known_truths import ROBOTS, Problem, problem
from experiments.problems.wrong_models import CASES, WrongModel
from reporting import Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.inference.posterior.error_model import ErrorModel
from sim_core.inference.posterior.finished import finished
from sim_core.inference.samplers import Samples, sample

TIERS = ("inference",)
SOURCE = "own target: within 3 points of what it says, beyond chance"
DRAWS = 100
DATA_SETS = {"quick": 24, "full": 200}
METHODS = {"quick": ("csvgd", "emcee"), "full": ("csvgd", "emcee", "nuts")}
#: what is told apart: CSVGD's particles before and after their finish
SHOWN = {"csvgd": ("csvgd, unfinished", "csvgd"), "emcee": ("emcee",), "nuts": ("nuts",)}
LEVELS = (0.5, 0.8, 0.95)
#: recordings of a robot that the model cannot describe, for each way in which it cannot
WRONG_SETS = {"quick": 6, "full": 40}
WALKERS, SWEEPS = 40, 200
ERRORS = ("assumed", "fitted")
HELD = 0.90  # of the truths by 95 % intervals under a wrong model
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
    return _places(truth, found, job.seed)


@dataclass(frozen=True)
class WrongJob:
    """One recording of a robot that the model of another one is used for."""

    robot: str
    case: str
    seed: int
    threads: int


@functools.cache
def wrong(robot: str, case: str, threads: int) -> WrongModel:
    """A robot's wrong model, made once in each process."""
    return WrongModel.of(known(robot, threads), case)


def ranked_under_a_wrong_model(job: WrongJob) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The truth's place among draws, and their standard deviations, (M,) each for errors assumed and fitted."""
    truth, data = wrong(job.robot, job.case, job.threads).drawn(job.seed)
    exact = known(job.robot, job.threads).density(data, 1)
    assumed = sample("emcee", exact, WALKERS, SWEEPS, job.seed)
    errors = ErrorModel.fitted(exact, assumed.z[np.argmax(assumed.log_p)], job.seed)
    spread_out = replace(assumed, z=errors.drawn(WALKERS, job.seed))
    fitted = finished(spread_out, errors.density(), SWEEPS, job.seed)
    draws = {"assumed": _thinned(assumed), "fitted": fitted.z}
    return _places(truth, draws, job.seed), {name: z.std(axis=0) for name, z in draws.items()}


def _thinned(samples: Samples) -> np.ndarray:
    return samples.z if samples.chains is None else samples.chains[:, :: SWEEPS // 4].reshape(-1, samples.z.shape[1])


def _places(truth: np.ndarray, found: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    place = np.random.default_rng(10_000 + seed).random(len(truth))
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
    wrong_jobs = [
        WrongJob(robot, case, 1000 * seed + k, threads)
        for robot in ROBOTS
        for case in CASES
        for k in range(WRONG_SETS[size])
    ]
    with progress.stage("recordings and methods", total=len(jobs)) as stage:
        found = spread(ranked, jobs, executor, lambda count: stage.advance())
    with progress.stage("recordings under a wrong model", total=len(wrong_jobs)) as stage:
        under = spread(ranked_under_a_wrong_model, wrong_jobs, executor, lambda count: stage.advance())
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
            share = float(inside(everything, level).mean())
            if name == "csvgd, unfinished":
                result.detail(f"{name}: truths inside {100 * level:g} %", share)
                continue
            result.check(
                f"{name}: truths inside their {100 * level:g} % intervals",
                share,
                (level - allowed, min(level + allowed, 1.0)),
                "in",
                "1",
                SOURCE,
            )
    result.detail("table", [list(row) for row in _table(places)])
    held = list(_held(wrong_jobs, under))
    result.detail("under a wrong model", [list(row) for row in held])
    for errors in ERRORS:
        shares = [inside(each[0][errors], 0.95).mean() for job, each in zip(wrong_jobs, under) if job.case != CASES[0]]
        if errors == "fitted":
            chance = CHANCE * np.sqrt(HELD * (1 - HELD) / len(shares))
            said = "errors fitted, model wrong: truths inside their 95 % intervals"
            result.check(said, float(np.mean(shares)), HELD - chance, ">=", "1", f"own target: {HELD:g}, beyond chance")
        else:
            result.detail("errors assumed, model wrong: truths inside 95 %", float(np.mean(shares)))
    if run_directory is not None:
        _page(result, places, held).write(Path(run_directory) / "report.html")
    return result


def _table(places: dict[tuple[str, str], np.ndarray]):
    """(method, robot, share inside each level, p-value of uniform ranks), a row for each."""
    for (name, robot), u in places.items():
        shares = [float(inside(u, level).mean()) for level in LEVELS]
        counts = np.histogram(u, BINS, (0.0, 1.0))[0]
        yield name, robot, *shares, float(chisquare(counts).pvalue)


def inside(places: np.ndarray, level: float) -> np.ndarray:
    """Whether the truths lie in the central intervals of a level."""
    return np.abs(places - 0.5) <= 0.5 * level


def _held(jobs: list[WrongJob], found: list[tuple[dict, dict]]):
    """(robot, case, share inside 95 % with errors assumed, fitted, how much wider the fitted are), a row for each."""
    for robot in ROBOTS:
        for case in CASES:
            mine = [each for job, each in zip(jobs, found) if (job.robot, job.case) == (robot, case)]
            shares = [float(np.mean([inside(places[errors], 0.95) for places, _ in mine])) for errors in ERRORS]
            wider = np.exp(np.mean([np.log(spreads["fitted"] / spreads["assumed"]) for _, spreads in mine]))
            yield robot, case, *shares, float(wider)


def _page(result: Result, places: dict[tuple[str, str], np.ndarray], held: list) -> Report:
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
    page.section(
        "Under a wrong model",
        f"{WRONG_SETS[result.size]} recordings each of robots that the model in use cannot describe: truths inside their 95 % "
        "intervals, with the noise alone assumed, and with noise and the simulator's errors fitted. The last column says how much "
        "wider the fitted ones are: that is what not knowing costs.",
    ).table(
        ["robot", "what the model lacks", "errors assumed", "errors fitted", "standard deviation, fitted over assumed"],
        [
            [robot, case, f"{100 * assumed:.0f} %", f"{100 * fitted:.0f} %", f"{wider:.2g}"]
            for robot, case, assumed, fitted, wider in held
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
