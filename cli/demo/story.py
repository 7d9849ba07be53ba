"""From options to a run directory: record, tell, check, report."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cli.demo.kernels import load_kernels
from cli.demo.live import NO_VIEW, LiveView
from config.description import DigDemo, ListenDemo, PayloadDemo, PokeDemo, ScoopDemo, SwingUpDemo, Track
from config.robot import load_robot
from reporting import Result

if TYPE_CHECKING:
    from cli.demo.arm_change import ArmChange

__all__ = ["run"]

BEFORE, AFTER = 2.0, 5.0  # the change, that an arm's film shows [s]: before it the runs are the same
#: kind of a robot's demonstration -> module that tells it, where a planner leads the robot
PLANNERS = {ListenDemo: "auscultation", ScoopDemo: "scooping", DigDemo: "excavation", PokeDemo: "poking"}
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
    shown = load_robot(robot).demo
    if type(shown) in PLANNERS:
        return _planner(PLANNERS[type(shown)], robot, folder, progress, seed, quick, view)
    if isinstance(shown, PayloadDemo):
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


def _planner(name: str, robot, folder: Path, progress, seed, quick, view) -> Result:
    """One whose module has record, tell, check and page, and perhaps a film."""
    demo = import_module(f"cli.demo.{name}")
    demo.record(robot, folder, seed, quick, progress, view)
    with progress.stage(demo.READING, None):
        story = demo.tell(robot, folder)
        result = demo.check(story, seed, quick)
    with progress.stage("drawing", None):
        film = [NO_FILM if quick else demo.film(folder)] if hasattr(demo, "film") else []
        page = demo.page(story, result, load_robot(robot), *film)
    _leave(folder, folder, result, page)
    return result


def _leave(folder: Path, learnt: Path, result: Result, page) -> None:
    result.to_json(folder / "result.json")
    page.write(folder / "report.html")
    if learnt != folder and (learnt / "parameters.yaml").is_file():
        shutil.copyfile(learnt / "parameters.yaml", folder / "parameters.yaml")


def _arm_film(story, folder: Path):
    from cli.demo.film import RATE, Film, Take, draw

    scene = story.description.demo_as(PayloadDemo)
    times = np.arange(max(story.change - BEFORE, 0.0), min(story.change + AFTER, story.duration), 1.0 / RATE)
    path = story.with_refit.path[story.with_refit.t >= min(5.0, story.duration)]
    takes = tuple(
        Take(
            title,
            _at(times, run.recording.t - run.origin, run.recording.q),
            _at(times, run.t, run.hand),
            1e3 * np.interp(times, run.t, run.error),
        )
        for title, run in (("without refit", story.without), ("with refit", story.with_refit))
    )
    changes = dict(changed="the arm has changed")
    if story.carries:
        changes = dict(
            ball=np.array([story.truth[f"{story.payload}.com.{axis}"] for axis in "xyz"]),
            ball_body=story.description.task_as(Track).payload_body,
            ball_radius=scene.ball,
            changed=f"{story.truth[f'{story.payload}.mass']:g} kg in the hand",
        )
    view = (scene.view.azimuth, scene.view.elevation)
    measure = "tracking error [mm]"
    return draw(Film(story.robot, view, times, takes, measure, story.change, path=path[::50], **changes), folder)


def _cartpole_film(story, folder: Path):
    from cli.demo.film import RATE, Film, Take, draw

    view = load_robot(story.robot).demo_as(SwingUpDemo).view
    first = "never learns" if story.change is None else "keeps what it learnt before"
    last = story.frozen[-1], story.adaptive[-1]
    times = np.arange(0.0, min(each.t[-1] - each.t[0] for each in last), 1.0 / RATE)
    takes = tuple(
        Take(
            title,
            _at(times, episode.t - episode.t[0], episode.X[:, : episode.X.shape[1] // 2]),
            np.zeros((0, 3)),
            np.interp(times, (episode.t - episode.t[0])[1:], episode.rewards),
        )
        for title, episode in zip((first, "refits after every episode"), last)
    )
    return draw(Film(story.robot, (view.azimuth, view.elevation), times, takes, "reward"), folder)


def _at(times: np.ndarray, t: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The columns of `a` (N, n), known at times `t` (N,), at other times (F,)."""
    return np.stack([np.interp(times, t, column) for column in a.T], axis=1)
