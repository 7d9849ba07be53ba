"""A robot collects a sample: it looks at a tray of grains, scoops where most is expected, measures, learns, and scoops again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatus
from refit_interfaces.action import CollectSample

from cli.demo.graph import IN_STEP, begin_goal, demo_graph, end_goal
from cli.demo.live import NO_VIEW, LiveView
from cli.demo.page import film_of_grains, show_film, warn_of_misses
from config.description import Robot, ScoopDemo
from config.robot import load_robot
from recording import BagReader
from reporting import PALETTE, Report, Result, figure
from reporting.progress import SilentProgress
from scripting import GraphError
from scripting.client import GraphClient
from sim_core.scooping.arm.scoop_shape import ScoopShape

__all__ = ["SampleStory", "check", "film", "page", "record", "tell"]

#: what is done after the run, for people
READING = "reading the bag"
SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 6.4"
NODES = ("sim_plant", "scoop_arm", "supervisor", "sim_camera", "scooping", "recorder")
START_TIMEOUT, SEARCH_TIMEOUT = 180.0, 3600.0  # [s], wall time
#: a quick search ends with its first scoops: the sample that is wanted is a small one
BUDGET = {"quick": 2, "full": 8}
SMALL = 0.3
#: of the room that grains take, what they fill themselves, at least and at most; volumes below this say nothing of it [m^3]
LOOSE, DENSE, LEAST = 0.45, 0.74, 12e-6
#: of the cells in which grains in the scoop are counted, and height over its floor up to which they are [m]
CELL, HIGHEST = 0.002, 0.1


@dataclass(frozen=True)
class SampleStory:
    """A run as its bag tells it.

    Attributes:
        threshold: that was asked for [m^3]. attempts: as `Search.state` has them. refused: (index, why) of scoops out of reach.
        scores: messages before each scoop. truth: volume of the grains in the scoop when each was measured [m^3], without their air; NaN:
            it is not known. seconds: of simulated time of a scoop, from one to the next.
    """

    threshold: float
    attempts: list[dict[str, Any]]
    refused: list[list]
    scores: list[Any]
    truth: np.ndarray
    seconds: float

    @property
    def success(self) -> bool:
        """Whether the last scoop was enough."""
        return bool(self.attempts) and (self.attempts[-1]["volume"] or 0.0) >= self.threshold


def record(
    robot: str, folder: Path, seed: int, quick: bool, progress=SilentProgress(), view: LiveView = NO_VIEW
) -> Path:
    """Run the graph; leaves the bag in `folder`/bag and the search's state below `folder`.

    Returns:
        The file of the search's state.

    Raises:
        scripting.ScriptError: the graph failed, or the search was interrupted.
    """
    scene = load_robot(robot).demo_as(ScoopDemo)
    arguments = dict(robot=robot, tray=scene.tray, seed=seed, **IN_STEP)
    with demo_graph(scene.launch, arguments, NODES, folder, START_TIMEOUT, progress, view) as client:
        threshold, budget = scene.threshold * (SMALL if quick else 1.0), BUDGET["quick" if quick else "full"]
        return _search(client, threshold, budget, progress)


def _search(client: GraphClient, threshold: float, budget: int, progress) -> Path:
    with progress.stage("scooping", budget) as stage:
        done = 0

        def advance(told: CollectSample.Feedback) -> None:
            nonlocal done
            if (now := told.attempt - 1) > done:
                stage.advance(now - done)
                done = now

        goal = CollectSample.Goal(threshold=threshold, budget=budget, gamma=-1.0)
        handle = begin_goal(client, CollectSample, "scoop/collect_sample", goal, "the search", START_TIMEOUT, advance)
        answer = end_goal(client, handle, "the search", SEARCH_TIMEOUT, "while the robot scooped")
        stage.advance(budget - done)
    if answer.status != GoalStatus.STATUS_SUCCEEDED and "budget" not in answer.result.message:
        raise GraphError(f"the search was interrupted: {answer.result.message}")
    return Path(answer.result.checkpoint)


def tell(robot: str, folder: Path) -> SampleStory:
    """What the bag in `folder` says, beside the truth about the simulated grains."""
    bag = BagReader(folder / "bag")
    told = [(t, json.loads(message.data)) for t, message in bag.messages("scoop/search")]
    scores = [message for _, message in bag.messages("scoop/scores")]
    last = told[-1][1] if told else {"threshold": np.nan, "attempts": [], "refused": []}
    before = {len(message.volumes): message for message in scores}
    starts = [before[k] for k in range(len(last["attempts"])) if k in before]
    stamps = [message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec for message in starts]
    seconds = float(np.diff(stamps).mean()) if len(stamps) > 1 else np.nan
    truth = _held(bag, [t for t, _ in told])
    return SampleStory(last["threshold"], last["attempts"], last["refused"], starts, truth, seconds)


def _held(bag: BagReader, moments: list[int]) -> np.ndarray:
    """Volume of the grains in the scoop at moments of reception [ns], (n,) [m^3]."""
    from nodes.framework.clouds import cloud_spheres
    from nodes.planning.scooping_messages import pose_of

    shape, grains, blade, held = ScoopShape(), None, None, []
    events = [(t, "moment", None) for t in moments]
    events += [(t, "grains", message) for t, message in bag.messages("sim_plant/grains")]
    events += [(t, "blade", message) for t, message in bag.messages("scoop/blade")]
    for _, kind, message in sorted(events, key=lambda event: event[0]):
        if kind == "grains":
            grains = message
        elif kind == "blade":
            blade = message
        elif grains is None or blade is None:
            held.append(np.nan)
        else:
            spheres, pose = cloud_spheres(grains)[0].astype(float), pose_of(blade)
            held.append(_filled(shape, (spheres[:, :3] - pose.position) @ pose.rotation, spheres[:, 3]))
    return np.array(held)


def _filled(shape: ScoopShape, middles: np.ndarray, radii: np.ndarray) -> float:
    """Volume over the scoop's floor that lies in any sphere [m^3], middles (m, 3) in the blade's frame; those of a rock overlap."""
    axes = (-shape.length, 0.0), (-0.5 * shape.width, 0.5 * shape.width), (0.0, HIGHEST)
    points = np.stack(np.meshgrid(*(np.arange(a + 0.5 * CELL, b, CELL) for a, b in axes), indexing="ij"), -1).reshape(
        -1, 3
    )
    low, high = points.min(axis=0), points.max(axis=0)
    near = ((middles > low - radii[:, None]) & (middles < high + radii[:, None])).all(axis=1)
    filled = np.zeros(len(points), bool)
    for middle, radius in zip(middles[near], radii[near]):
        filled |= ((points - middle) ** 2).sum(axis=1) < radius**2
    return float(filled.sum()) * CELL**3


def check(story: SampleStory, seed: int, quick: bool) -> Result:
    """The checks of the demonstration."""
    result = Result("demo scooping", seed=seed, size="quick" if quick else "full")
    result.check("a scoop held what was asked for", story.success, True, "==", "", SOURCE)
    result.check("scoops", len(story.attempts), BUDGET[result.size], "<=", "", "own limit")
    known = [k for k, one in enumerate(story.attempts) if one["volume"] is not None and np.isfinite(story.truth[k])]
    filled = [story.truth[k] / story.attempts[k]["volume"] for k in known if story.attempts[k]["volume"] > LEAST] or [
        np.nan
    ]
    said = "share of a measured volume that grains fill"
    result.check(f"{said}, least", float(min(filled)), LOOSE, ">=", "1", "own limit: a loose heap")
    result.check(f"{said}, most", float(max(filled)), DENSE, "<=", "1", "the densest packing of equal balls")
    peaks = [one["peak"] for one in story.attempts if one["peak"] is not None]
    result.check("greatest force of the ground", float(max(peaks, default=np.nan)), 100.0, "<", "N", "own limit")
    result.detail("volumes [cm3]", [None if one["volume"] is None else 1e6 * one["volume"] for one in story.attempts])
    result.detail("expected [cm3]", [1e6 * one["mean"] for one in story.attempts])
    result.detail("grains in the scoop, without air [cm3]", (1e6 * story.truth).tolist())
    result.detail("simulated time of a scoop [s]", story.seconds)
    result.detail("scoops out of reach", len(story.refused))
    return result


def film(folder: Path) -> bytes | str:
    """What the overhead camera and the one on the wrist saw, see `film_of_grains`."""
    return film_of_grains(folder, ("overhead", "wrist"), timeout=600.0)


def page(story: SampleStory, result: Result, description: Robot, shown: bytes | str) -> Report:
    """What a person reads."""
    scene = description.demo_as(ScoopDemo)
    report = Report(
        "A robot collects a sample",
        f"{description.title} before a tray of {scene.tray}, from which {1e6 * story.threshold:.0f} cm3 are wanted.",
    )
    warn_of_misses(report, result)
    volumes = [one["volume"] for one in story.attempts]
    report.numbers(
        {
            "scoops": len(story.attempts),
            "last volume [cm3]": "-" if not volumes or volumes[-1] is None else f"{1e6 * volumes[-1]:.0f}",
            "simulated time of a scoop [s]": "-" if np.isnan(story.seconds) else f"{story.seconds:.0f}",
            "out of reach": len(story.refused),
        }
    )
    report.section("Targets").checks(result)
    show_film(report, shown, "From above, and from the wrist; ten times as fast as it was.")
    _attempts(report, story)
    _maps(report, story)
    return report


def _attempts(report: Report, story: SampleStory) -> None:
    report.section("Scoops, in their order")
    fig, axis = figure()
    at = np.arange(1, len(story.attempts) + 1)
    mean, deviation = (1e6 * np.array([one[name] for one in story.attempts]) for name in ("mean", "deviation"))
    brought = [np.nan if one["volume"] is None else 1e6 * one["volume"] for one in story.attempts]
    axis.errorbar(
        at, mean, deviation, fmt="o", color=PALETTE[0], capsize=4, label="expected, with a standard deviation"
    )
    axis.plot(at, brought, "D", color=PALETTE[1], label="measured")
    axis.axhline(1e6 * story.threshold, color="0.4", linestyle=":", label="asked for")
    axis.set_xticks(at)
    axis.set_xlabel("scoop")
    axis.set_ylabel("volume [cm3]")
    axis.legend()
    report.figure(fig, "What each scoop was expected to bring, and what it brought.")
    rows = [
        [
            k,
            *(f"{number:.2f}" for number in one["action"][:2]),
            f"{np.rad2deg(one['action'][2]):.0f}",
            f"{1e3 * one['action'][3]:.0f}",
            "hard" if one["action"][4] > 0.5 else "soft",
            f"{1e6 * one['mean']:.0f} +- {1e6 * one['deviation']:.0f}",
            "-" if one["volume"] is None else f"{1e6 * one['volume']:.0f}",
            "-" if one["peak"] is None else f"{one['peak']:.0f}",
            one["message"] or "-",
        ]
        for k, one in enumerate(story.attempts, 1)
    ]
    headers = [
        "scoop",
        "x [m]",
        "y [m]",
        "yaw [deg]",
        "depth [mm]",
        "arm",
        "expected [cm3]",
        "measured [cm3]",
        "force [N]",
        "said",
    ]
    report.table(headers, rows)


def _maps(report: Report, story: SampleStory) -> None:
    report.section("What was believed", "The best scoop at each place of the tray, before each scoop was chosen.")
    for begin in range(0, len(story.scores), 4):
        some = story.scores[begin : begin + 4]
        fig, axes = figure(1, len(some), sharex=True, sharey=True)
        values = 1e6 * np.concatenate([np.asarray(message.score) for message in some])
        limits = dict(vmin=float(np.nanmin(values)), vmax=float(np.nanmax(values))) if np.isfinite(values).any() else {}
        for k, (axis, message) in enumerate(zip(np.ravel(axes), some), begin + 1):
            points = np.array([[p.x, p.y] for p in message.points])
            seen = axis.scatter(
                *points.T, c=1e6 * np.asarray(message.score), cmap="viridis", s=18, marker="s", **limits
            )
            for number, place in enumerate(message.tried, 1):
                axis.annotate(
                    str(number), (place.x, place.y), color=PALETTE[1], weight="bold", ha="center", va="center"
                )
            axis.set_title(f"before scoop {k}")
            axis.set_aspect("equal")
            axis.set_xlabel("x [m]")
        np.ravel(axes)[0].set_ylabel("y [m]")
        fig.colorbar(seen, ax=axes, label="worth [cm3]", shrink=0.6)
        report.figure(fig, "Numbers: where scoops began, in their order.")
