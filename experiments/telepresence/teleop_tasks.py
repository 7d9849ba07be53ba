"""Does a person get things done through the robot? Tasks of a telepresence competition, rehearsed by a scripted operator.

    ./refit experiment teleop_tasks            # ten operators and scenes for each task
    ./refit experiment teleop_tasks --quick    # one for each

A lever, two canisters of which the heavier has to be found and placed, a passage that is hardly wider than the base, a drill whose bit is
set on a bolt, three rocks of which the rough one has to be found by its texture. The operator sees where things are as cameras would show them, a little off, 20 times a second and as late as the link
makes it; he feels forces as the robot tells them; his hands lead through the protocol's samples, the clutch, inverse kinematics, guard,
command gate and MuJoCo's contacts, and a judge looks at the true world. What no script can have is a person's eyes and judgement:
the score is that of the tasks alone.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.7: all ten tasks of the competition done in the better of two runs.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from experiments.problems.rehearsed import LINK, Attempt, Outcome, attempted
from reporting import Progress, Report, Result, SilentProgress
from sim_core.host.executors import spread
from sim_core.plant.portrait import Portrait, portraits
from sim_core.plant.rehearsal.tasks import TASKS
from sim_core.plant.scene import robot_mjcf, scene_mjcf
from sim_core.telepresence.competition import POINTS, points, score

SOURCE = "telepresence specification, acceptance 14"
OWN = "telepresence specification, acceptance 13"
#: operators and scenes for each task, and the share of them that has to get it done
SEEDS, SHARE = {"quick": 1, "full": 10}, 0.8
#: [m/s] of the base at most
BASE_SPEED = 0.2
#: from where pictures are drawn: the point in their middle [m], distance [m], azimuth and elevation [deg]
FROM = dict(lookat=(0.6, -0.1, 0.8), distance=2.9, azimuth=125.0, elevation=-18.0)
ALONG = dict(lookat=(1.2, 0.0, 0.5), distance=5.5, azimuth=120.0, elevation=-38.0)


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Every task by every operator, judged.

    Returns:
        Result with a row for each attempt, and the checks.
    """
    result = Result("teleop_tasks", seed=seed, size=size)
    seeds = range(seed, seed + SEEDS[size])
    jobs = [Attempt(task, s, pictured=s == seed and run_directory is not None) for task in TASKS for s in seeds]
    with progress.stage("attempts", total=len(jobs)) as stage:
        found = spread(attempted, jobs, executor, lambda done: stage.advance())
    result.detail("attempts", [_row(one) for one in found])
    result.detail(
        "link", {"delay [ms]": 1e3 * LINK.delay, "jitter [ms]": 1e3 * LINK.jitter, "loss [%]": 100.0 * LINK.loss}
    )
    for task in TASKS:
        of = [one for one in found if one.attempt.task == task]
        done = [one.seconds for one in of if one.progress.done]
        median = f", median {np.median(done):.0f} s" if done else ""
        result.check(
            f"{task}: share of {len(of)} operators who get it done{median}",
            len(done) / len(of),
            SHARE,
            ">=",
            "1",
            SOURCE,
        )
    scores = [
        score((one.attempt.task, one.progress.steps_done) for one in found if one.attempt.seed == s) for s in seeds
    ]
    possible = score((task, len(steps)) for task, steps in POINTS.items())
    result.check(
        f"points of the competition's tasks, mean of {len(scores)} runs",
        float(np.mean(scores)),
        SHARE * possible,
        ">=",
        "1",
        SOURCE,
    )
    result.check("protective stops and faults", sum(len(one.stops) for one in found), 0, "==", "", "own target")
    result.check("commands that the gate refused", sum(one.refused for one in found), 0, "==", "", "own target")
    result.check("speed of the base", max(one.speed for one in found), BASE_SPEED, "<=", "m/s", OWN)
    if run_directory is not None:
        report(result, found).write(Path(run_directory) / "report.html")
    return result


def _row(one: Outcome) -> dict[str, Any]:
    return {
        "task": one.attempt.task,
        "seed": one.attempt.seed,
        "done": one.progress.done,
        "points": list(points(one.attempt.task, one.progress.steps_done)),
        "seconds": one.seconds,
        "judge": one.progress.sentence,
        "greatest force [N]": one.force,
        "greatest speed of the base [m/s]": one.speed,
        "stops": list(one.stops),
    }


def report(result: Result, found: list[Outcome]) -> Report:
    """Targets, a strip of pictures of each task, and every attempt."""
    page = Report("Tasks through the robot", f"{result.size}, {SEEDS[result.size]} of each")
    page.section("Targets").checks(result)
    firsts = [one for one in found if one.snapshots]
    pictures = _pictures(firsts)
    for task in TASKS:
        one = next(one for one in firsts if one.attempt.task == task)
        page.section(TASKS[task](one.attempt.seed).title.capitalize(), one.progress.sentence)
        drawn = pictures[task] if not isinstance(pictures, str) else None
        if drawn is None:
            page.text(str(pictures))
        else:
            page.image(_strip(drawn), f"At {', '.join(f'{s.time:.0f}' for s in one.snapshots)} s.")
    rows = [_row(one) for one in found]
    page.section("Attempts").table(
        list(rows[0]), [[str(v) if isinstance(v, list) else v for v in row.values()] for row in rows]
    )
    return page


def _pictures(found: Sequence[Outcome]) -> dict[str, list[bytes]] | str:
    """Of each task's snapshots, or the sentence why there are none."""
    robot = robot_mjcf("avatar")[1]
    wanted = []
    for one in found:
        model = scene_mjcf(robot, TASKS[one.attempt.task](one.attempt.seed).scenery)
        view = ALONG if one.attempt.task == "passage" else FROM
        wanted += [Portrait(model, snapshot.posture, **view) for snapshot in one.snapshots]
    drawn = portraits(wanted)
    if isinstance(drawn, str):
        return drawn
    left = iter(drawn)
    return {one.attempt.task: [next(left) for _ in one.snapshots] for one in found}


def _strip(pictures: Sequence[bytes]) -> bytes:
    """PNGs side by side, as one."""
    from PIL import Image

    row = [np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")) for picture in pictures]
    file = io.BytesIO()
    Image.fromarray(np.concatenate(row, axis=1)).save(file, "PNG")
    return file.getvalue()
