"""An arm is displaced while nobody controls it, and control resumes: how fast does it return to its path?

    ./refit experiment resume_anywhere          # 100 states of each arm
    ./refit experiment resume_anywhere --quick  # 10

Each arm follows its figure eight for a while, is put into a random posture (joints within 90 % of their ranges, clear
of the floor and of itself), and the controller goes on with the settings of its node, in lock-step on sim_core.plant and
without ROS. Every second arm is moving by then, at up to 20 % of its velocity limits; every second pair holds the load of
the demonstration, of which the model knows nothing.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import asdict
from pathlib import Path

import numpy as np

from experiments.problems.displaced_arm import Return, displaced, go_back
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.control.path_follower import PathSettings
from sim_core.host.executors import spread

SOURCE = "own target"
ROBOTS = ("panda", "dxl_arm")
SIZES = {"quick": 10, "full": 100}
FASTEST = 0.4  # of the velocity limits


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Displace both arms, and judge every return."""
    result = Result("resume_anywhere", seed=seed, size=size)
    starts = [start for robot in ROBOTS for start in displaced(robot, SIZES[size], seed)]
    with progress.stage("displaced states", total=len(starts)) as stage:
        returns = spread(go_back, starts, executor, lambda count: stage.advance())
    for robot in ROBOTS:
        judge(result, robot, [back for start, back in zip(starts, returns) if start.robot == robot])
    if run_directory is not None:
        report(result).write(Path(run_directory) / "report.html")
    return result


def judge(result: Result, robot: str, returns: list[Return]) -> None:
    """Checks and the list of one arm's returns."""
    tolerance = PathSettings().path_tolerance
    back = sum(np.isfinite(r.arrived) and r.error <= tolerance for r in returns)
    fastest = max(r.fastest for r in returns)
    result.check(f"{robot}: largest joint speed over its limit", fastest, FASTEST, "<=", "1", SOURCE)
    result.check(f"{robot}: returns that end on the path", back, len(returns), "==", "", SOURCE)
    # Nothing plans around obstacles: a number to know, not a target.
    result.detail(f"{robot}: ways through the floor or the arm itself", sum(r.through for r in returns))
    result.detail(f"{robot}: returns", [asdict(r) for r in returns])


def report(result: Result) -> Report:
    """Per arm: how fast the joints became, and how long the way took."""
    page = Report("Back to the path from anywhere", result.size)
    page.checks(result)
    for robot in ROBOTS:
        returns = result.details[f"{robot}: returns"]
        through = result.details[f"{robot}: ways through the floor or the arm itself"]
        page.section(
            robot,
            f"{through} of {len(returns)} ways led through the floor or the arm itself: a way back is a straight line in "
            "joint space, and nothing plans around obstacles.",
        )
        fig, axis = figure(size=(8.4, 3.0))
        axis.scatter([r["arrived"] for r in returns], [r["fastest"] for r in returns], s=12, color=PALETTE[0])
        axis.axhline(FASTEST, color=PALETTE[1])
        axis.set_xlabel("time until the path goes on [s]")
        axis.set_ylabel("fastest joint / limit")
        page.figure(fig, "Every return; the line is the target.")
    return page
