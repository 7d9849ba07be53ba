"""From options to a run directory: record, tell, check, report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cli.demo.kernels import load_kernels
from cli.demo.live import NO_VIEW, LiveView
from config.description import PayloadDemo, SwingUpDemo, Track
from config.robot import load_robot
from reporting import Result

if TYPE_CHECKING:
    from cli.demo.arm_change import ArmChange

__all__ = ["run"]

NO_FILM = "No film was drawn, because the demonstration ran with --quick."


def run(
    robot: str,
    folder: Path,
    progress,
    *,
    seed: int,
    changed: ArmChange | None,
    duration: float,
    episodes: int,
    change: tuple[str, float] | None,
    recipe: str,
    quick: bool = False,
    view: LiveView = NO_VIEW,
) -> Result:
    """Run one demonstration; leaves bags, result.json, report.html and parameters.yaml in `folder`.

    changed: what happens to an arm, and what its refit may change. change: of a cart-pole.
    view: of the graphs.
    quick: without the film, and an arm that computes too late misses no target: the machine may be busy with other things.

    Raises:
        scripting.ScriptError: the graph failed, or the robot was halted.
    """
    if isinstance(load_robot(robot).demo, PayloadDemo):
        return _arm(robot, folder, progress, seed, changed, duration, quick, view)
    return _cartpole(robot, folder, progress, seed, episodes, change, recipe, quick, view)


def _arm(robot, folder: Path, progress, seed, changed, duration, quick, view) -> Result:
    from cli.demo import arm, arm_report

    load_kernels(robot, "robust", progress, changed.free)
    arm.record(robot, folder, seed, changed, duration, progress, view)
    with progress.stage("reading the bags and replaying the refits", None):
        story = arm.tell(robot, folder)
        result = arm.check(story, seed, judge_deadlines=not quick)
    with progress.stage("drawing", None):
        film = NO_FILM if quick else _arm_film(story, folder)
        page = arm_report.report(story, result, film)
    _leave(folder, folder / "with_refit", result, page)
    return result


def _cartpole(robot, folder: Path, progress, seed, episodes, change, recipe, quick, view) -> Result:
    from cli.demo import cartpole, cartpole_report

    load_kernels(robot, recipe, progress)
    cartpole.record(robot, folder, seed, episodes, change, recipe, progress, view)
    with progress.stage("reading the bags and replaying the refits", None):
        story = cartpole.tell(robot, folder, seed, change, recipe)
        result = cartpole.check(story, seed)
    with progress.stage("drawing", None):
        film = NO_FILM if quick else _cartpole_film(story, folder)
        page = cartpole_report.report(story, result, film)
    _leave(folder, folder / "adaptive", result, page)
    return result


def _leave(folder: Path, learnt: Path, result: Result, page) -> None:
    result.to_json(folder / "result.json")
    page.write(folder / "report.html")
    if (learnt / "parameters.yaml").is_file():
        shutil.copyfile(learnt / "parameters.yaml", folder / "parameters.yaml")


def _arm_film(story, folder: Path):
    from cli.demo.pictures import Film, draw

    scene = story.description.demo_as(PayloadDemo)
    run, recording = story.with_refit, story.with_refit.recording
    times = np.arange(0.0, story.duration, 0.2)
    at = np.searchsorted(run.t, times).clip(max=len(run.t) - 1)
    q = recording.q[np.searchsorted(recording.t, run.t[at]).clip(max=len(recording.t) - 1)]
    still = np.searchsorted(
        times, [0.5, 2.5, story.change - 0.2, story.change + 0.5, story.change + 2.5, story.duration - 1.0]
    )
    late = run.t >= min(5.0, story.duration)
    ball = np.array([story.truth[f"{story.payload}.com.{axis}"] for axis in "xyz"] if story.carries else [])
    return draw(
        Film(
            story.robot,
            np.array(scene.view.numbers),
            run.t[at],
            q,
            still.clip(max=len(times) - 1),
            run.hand[at],
            run.path[late][::50],
            ball,
            story.description.task_as(Track).payload_body,
            story.change,
            scene.ball,
        ),
        folder,
    )


def _cartpole_film(story, folder: Path):
    from cli.demo.pictures import Film, draw

    X = story.adaptive[-1].X
    at = np.arange(0, len(X), 4)
    nq = X.shape[1] // 2
    still = np.linspace(0, len(at) - 1, 6).round().astype(int)
    empty = np.zeros((0, 3))
    return draw(
        Film(
            story.robot,
            np.array(load_robot(story.robot).demo_as(SwingUpDemo).view.numbers),
            0.02 * at,
            X[at, :nq],
            still,
            empty,
            empty,
            np.zeros(0),
        ),
        folder,
    )
