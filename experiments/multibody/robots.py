"""Anybody's robot: every URDF of a public collection is loaded, and its dynamics are Pinocchio's.

    ./refit experiment robots          # 10 random states of every robot, kernels of those of at most 20 velocities
    ./refit experiment robots --quick  # 1 state, kernels of those of at most 10 velocities with joints that follow others

The collection is example-robot-data 5.0.0: 77 URDF files of arms, hands, quadrupeds, humanoids and flying bases, as their
makers publish them, with mimic joints, links without mass and inertias that no body has. Each is loaded with its root fixed
to the world and with it floating. Inverse and forward dynamics and their gradients by positions, velocities, and
accelerations or forces are compared entry by entry.

Two of the files contain no robot: one names a link that it does not have, one is empty.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from experiments.problems.published_robots import Comparison, compared, compiled_error, published_urdfs
from reporting import Progress, Report, Result, SilentProgress
from sim_core.host.executors import spread

TIERS = ("robots",)
SOURCE = "own target; Pinocchio 4 as the second opinion"
STATES = {"quick": 1, "full": 10}
#: of robots whose kernels are compiled: the most velocities, and whether any joint has to follow another
COMPILED = {"quick": (10, True), "full": (20, False)}


@dataclass(frozen=True)
class Job:
    """One file with a fixed or a floating root."""

    name: str
    path: Path
    floating: bool
    states: int
    seed: int
    compile_up_to: int
    with_followers: bool


def done(job: Job) -> tuple[Comparison, float | None]:
    """The comparison, and how far the compiled step is from the graph that it was made of; None if not compiled."""
    found = compared(job.name, job.path, job.floating, job.states, job.seed)
    wanted = not job.floating and 0 < found.nv <= job.compile_up_to and (found.followers or not job.with_followers)
    return found, compiled_error(job.path, job.seed) if wanted else None


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Every file of the collection, fixed and floating, at random states from `seed` on."""
    result = Result("robots", seed=seed, size=size)
    urdfs = published_urdfs()
    jobs = [
        Job(name, path, floating, STATES[size], seed, *COMPILED[size])
        for name, path in urdfs.items()
        for floating in (False, True)
    ]
    with progress.stage("robots, fixed and floating", total=len(jobs)) as stage:
        found = spread(done, jobs, executor, lambda count: stage.advance())
    comparisons = [comparison for comparison, _ in found]
    loaded = [c for c in comparisons if not c.refused]
    names = {c.name for c in loaded}
    result.check("robots loaded", len(names), 41, ">=", "", "own target: 41 of 43")
    result.check(
        f"share of the {len(urdfs)} files that load",
        len(names) / len(urdfs),
        41 / 43,
        ">=",
        "1",
        "own target: 41 of 43",
    )
    result.check("robots loaded with a floating base", sum(c.floating for c in loaded), 41, ">=", "", "own target")
    for quantity in loaded[0].errors:
        worst = max(loaded, key=lambda c: c.errors[quantity])
        result.check(f"worst error of {quantity}", worst.errors[quantity], 1e-9, "<=", "1", SOURCE)
    kernels = [error for _, error in found if error is not None]
    result.check(
        f"worst error of {len(kernels)} compiled steps", max(kernels), 1e-9, "<=", "1", "the graph they are made of"
    )
    result.detail("robots", [asdict(comparison) | {"worst": comparison.worst} for comparison in comparisons])
    if run_directory is not None:
        report(result, comparisons).write(Path(run_directory) / "report.html")
    return result


def report(result: Result, comparisons: list[Comparison]) -> Report:
    """The page of one run: a row per robot."""
    page = Report("Published robots", f"{result.size}; random states of each: {STATES[result.size]}")
    page.checks(result)
    page.section(
        "Robot by robot",
        "Degrees of freedom are those of the equations; joints that follow others (mimic) have none and are counted apart. "
        "Errors are the worst of inverse and forward dynamics and their gradients, relative to the largest entry where that "
        "is more than 1, and for forward dynamics to what accelerations would come to if no two forces cancelled.",
    )
    by_name: dict[str, dict[bool, Comparison]] = {}
    for comparison in comparisons:
        by_name.setdefault(comparison.name, {})[comparison.floating] = comparison
    rows = [_row(name, pair[False], pair[True]) for name, pair in by_name.items()]
    page.table(["robot", "dof", "following", "loads in", "fixed: worst error", "floating: worst error"], rows)
    times = [c.load_time for c in comparisons if not c.refused]
    page.text(
        f"Loading takes {np.median(times):.2f} s in the median and {max(times):.2f} s at most, on this machine as busy as it was."
    )
    page.section("What was said", "The notes of each model, and why what was refused was.")
    page.table(["robot", "said"], [[_short(name), _said(pair[False], pair[True])] for name, pair in by_name.items()])
    return page


def _short(name: str) -> str:
    """Without the folders that every robot's description has."""
    return name.replace("_description/", ": ").replace("urdf/", "").replace("robots/", "")


def _row(name: str, fixed: Comparison, floating: Comparison) -> list[str]:
    one = floating if fixed.refused else fixed
    worst = ["refused" if c.refused else f"{c.worst:.0e}" for c in (fixed, floating)]
    return [_short(name), str(one.nv), str(one.followers), f"{one.load_time:.2f} s", *worst]


def _said(fixed: Comparison, floating: Comparison) -> str:
    if floating.refused:
        return floating.refused
    return " ".join((fixed.refused, *(floating.notes or fixed.notes))).strip()
