"""Twelve changes of every arm, with and without refit: never worse than none, and do the intervals hold the truth?

    ./refit experiment refit_changes --cluster processes           # 12 changes x 3 arms x 4 seeds
    ./refit experiment refit_changes --quick --cluster processes   # 2 arms, 2 seeds

The arms are two of the project and, at full size, one that is brought: xArm7, taken over from its published URDF with nothing said besides.
Each follows its figure eight under model-predictive control, in lock-step on sim_core.plant and without ROS, with the
settings of its nodes. At 1.5 s something changes that nobody tells the controller of. The refit may learn the hand with what
it holds, and friction where the model has it, so that for most changes its model is of the wrong class, and what else it holds
where the data ask for it; then once more, told
what kind of thing changes (the strength of motors, say), but neither where nor by how much. Every run is made without refit
on the same seed as well, and the results of a fit are used only as late as a busy machine would have them.
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from experiments.problems.changed_arm import CHANGE, SETTLED, Drive, Driven, changes, drive, freed
from experiments.problems.published_robots import published_urdfs
from reporting import Progress, Report, Result, SilentProgress, figure
from sim_core.adoption import adopted
from sim_core.host.executors import spread
from sim_core.multibody import load_model

TIERS = ("robots",)
SOURCE = "own target"
#: an arm of nobody here: label, and which of the published URDFs
BROUGHT = {"xarm7": "xarm_description/urdf/xarm7"}
#: arms, seeds, seconds of each run
SIZES = {"quick": (("panda", "dxl_arm"), 2, 5.0), "full": (("panda", "dxl_arm", "xarm7"), 4, 8.0)}
#: changes that the refit's model can express: a payload in the hand, and friction of an arm whose model has it
EXPRESSIBLE = ("payload", "light payload", "payload far to the side")
ROUGH = ("joint friction", "payload and friction")
#: share of truths that 95 % intervals are to hold
COVERAGE = 0.9
#: [s] after which a payload that the refit's model can express is to be known for good, as in `./refit demo`
RELEARN = 3.0
#: standard errors of the ratio over seeds, and the least of it, that count as noise
NOISE, LEAST = 2.0, 0.02


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Drive every arm through every change, and judge tracking and intervals."""
    labels, seeds, duration = SIZES[size]
    robots = {arm(label): label for label in labels}
    result = Result("refit_changes", seed=seed, size=size)
    told = {robot: [change for change in changes(robot) if freed(robot, change)] for robot in robots}
    ways = {"none": (False, False), "blind": (True, False), "told": (True, True)}

    def job(robot: str, change: str, way: str, k: int) -> Drive:
        refit, kind = ways[way]
        return Drive(robot, change, refit, 1000 * seed + k, duration, kind)

    jobs = [
        job(robot, change, way, k)
        for robot in robots
        for change in changes(robot)
        for k in range(seeds)
        for way in ways
        if way != "told" or change in told[robot]
    ]
    with progress.stage("arms that change", total=len(jobs)) as stage:
        driven = dict(zip(jobs, spread(drive, jobs, executor, lambda count: stage.advance())))
    for robot, label in robots.items():
        for way, tried in (("blind", list(changes(robot))), ("told", told[robot])):
            judge(
                result,
                robot,
                [
                    cell(c, [tuple(driven[job(robot, c, w, k)] for w in ("none", way)) for k in range(seeds)])
                    for c in tried
                ],
                told=way == "told",
                label=label,
            )
    if run_directory is not None:
        report(result).write(Path(run_directory) / "report.html")
    return result


def arm(label: str) -> str:
    """Name, or folder, of the robot with a label."""
    return adopted(str(published_urdfs()[BROUGHT[label]])) if label in BROUGHT else label


def cell(change: str, pairs: list[tuple[Driven, Driven]]) -> dict:
    """What one arm and one change say: pairs are (without, with refit), one for each seed."""
    ratios = np.array([learnt.rmse / none.rmse for none, learnt in pairs])
    rounds = [r for _, learnt in pairs for r in learnt.rounds]
    claims = [r for r in rounds if r.accepted and r.inside and r.explained]
    inside = [held for r in claims for held in r.inside.values()]
    return {
        "change": change,
        "ratio": float(np.exp(np.mean(np.log(ratios)))),
        "noise": float(max(LEAST, NOISE * np.std(ratios, ddof=1) / np.sqrt(len(ratios)))),
        "without_mm": 1e3 * float(np.mean([none.rmse for none, _ in pairs])),
        "with_mm": 1e3 * float(np.mean([learnt.rmse for _, learnt in pairs])),
        "truths": len(inside),
        "inside": int(np.sum(inside)),
        "accepted": sum(r.accepted for r in rounds),
        "unexplained": sum(r.accepted and not r.explained for r in rounds),
        "rounds": len(rounds),
        "fit_time": float(np.median([r.fit_time for r in rounds])) if rounds else np.nan,
        "relearnt": float(max(learnt.relearnt for _, learnt in pairs)),
        "delay": float(np.median([r.delay for r in rounds])) if rounds else np.nan,
    }


def judge(result: Result, robot: str, cells: list[dict], told: bool = False, label: str = "") -> None:
    """Checks and the table of one arm whose refit is told the kind of the change, or nothing."""
    label = label or robot
    worst = max(cells, key=lambda c: c["ratio"] - c["noise"])
    above = worst["ratio"] - 1.0
    result.check(
        f"{label}{', told' * told}: RMSE with refit over without, worst change ({worst['change']}), above 1",
        above,
        worst["noise"],
        "<=",
        "1",
        "never worse than none beyond noise",
    )
    if not told:
        latest = max((c for c in cells if c["change"] in EXPRESSIBLE), key=lambda c: c["relearnt"])
        result.check(
            f"{label}: payload's mass known for good after, worst of {len(EXPRESSIBLE)} ({latest['change']})",
            latest["relearnt"],
            RELEARN,
            "<=",
            "s",
            SOURCE,
        )
    rough = any(name.endswith(".frictionloss") for name in load_model(robot).parameters.names)
    known = (*EXPRESSIBLE, *(ROUGH if rough else ()))
    groups = (
        (("told what kind of thing changes", cells),)
        if told
        else (
            ("what the model can express", [c for c in cells if c["change"] in known]),
            ("model of the wrong class", [c for c in cells if c["change"] not in known]),
        )
    )
    for what, chosen in groups:
        truths = sum(c["truths"] for c in chosen)
        if truths:
            share = sum(c["inside"] for c in chosen) / truths
            result.check(f"{label}, {what}: truths inside their 95 % interval", share, COVERAGE, ">=", "1", SOURCE)
    result.detail(f"{label}, told" if told else label, cells)


def report(result: Result) -> Report:
    """The heat map of both, and a table of every arm."""
    robots = list(result.details)
    page = Report("Arms that change, with and without refit", result.size)
    page.checks(result)
    for missed in (c.name for c in result.checks if not c.passed):
        page.warning(f"Missed: {missed}.")
    page.section(
        "Every change of every arm",
        f"Left: root mean square of the hand's distance from its path from {SETTLED:g} s after the change on, with refit over "
        "without; below 1 the refit helps. Right: share of the truths (mass and centre of the hand with what it holds, and what "
        "changed where it may be learnt) that lie inside their 95 % intervals, over all accepted rounds that claim to explain the "
        "data; a dash where there is none. Told: the refit is told what kind of thing changes, neither where nor by how much.",
    )
    page.figure(_heat_map(result, robots), "Blue is good, red is bad.")
    for robot in robots:
        page.section(robot)
        page.table(
            [
                "change",
                "without [mm]",
                "with [mm]",
                "ratio",
                "noise",
                "known after [s]",
                "inside",
                "of",
                "accepted",
                "not explained",
                "rounds",
            ],
            [
                [
                    c["change"],
                    c["without_mm"],
                    c["with_mm"],
                    c["ratio"],
                    c["noise"],
                    "–" if np.isnan(c["relearnt"]) else c["relearnt"],
                    c["inside"],
                    c["truths"],
                    c["accepted"],
                    c["unexplained"],
                    c["rounds"],
                ]
                for c in result.details[robot]
            ],
            f"The change happens at {CHANGE:g} s. Noise: two standard errors of the ratio over the seeds, at least {LEAST:g}. "
            "Known after: from when on every set in use had the mass of a payload within 5 %, latest of the seeds; a dash without one.",
        )
    return page


def _heat_map(result: Result, robots: list[str]):
    names = [c["change"].partition(" (")[0] for c in result.details[robots[0]]]

    def column(robot: str, value) -> list[float]:
        found = {c["change"].partition(" (")[0]: value(c) for c in result.details[robot]}
        return [found.get(name, np.nan) for name in names]

    ratio = np.array([column(robot, lambda c: c["ratio"]) for robot in robots]).T
    covered = np.array(
        [column(robot, lambda c: c["inside"] / c["truths"] if c["truths"] else np.nan) for robot in robots]
    ).T
    made, axes = figure(1, 2, size=(9.0, 0.6 + 0.42 * len(names)), sharey=True)
    shown = (
        (axes[0], np.log2(ratio), ratio, (-2.0, 2.0), "RMSE ratio", "RdBu_r"),
        (axes[1], covered, covered, (0.5, 1.0), "inside 95 %", "RdBu"),
    )
    for ax, colour, number, (low, high), title, palette in shown:
        ax.imshow(colour, cmap=palette, vmin=low, vmax=high, aspect="auto")
        for (i, j), value in np.ndenumerate(number):
            strong = abs((np.clip(colour[i, j], low, high) - low) / (high - low) - 0.5) > 0.35
            text = f"{value:.2f}" if np.isfinite(value) else "–"
            ax.text(j, i, text, ha="center", va="center", fontsize=9, color="white" if strong else "black")
        ax.set_xticks(range(len(robots)), [robot.replace(", ", "\n") for robot in robots])
        ax.set_yticks(range(len(names)), names)
        ax.set_title(title)
        ax.grid(False)
    return made
