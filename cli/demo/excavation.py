"""A robot digs in a pile of blocks: the same pile with a policy that follows the path blindly, and with one that plans by what it feels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from refit_interfaces.action import RunExcavation
from refit_interfaces.srv import ResetPile

from cli.demo.graph import IN_STEP, begin_goal, demo_graph, end_goal
from cli.demo.live import NO_VIEW, LiveView
from cli.demo.page import film_of_grains, show_film, warn_of_misses
from config.description import DigDemo, Robot
from config.robot import load_robot
from nodes.frames.transforms import TransformBuffer
from nodes.framework.clouds import cloud_spheres
from recording import BagReader
from reporting import PALETTE, Report, Result, figure
from reporting.progress import SilentProgress
from scripting import GraphError
from scripting.client import GraphClient
from sim_core.excavation.pile import PileSettings
from sim_core.excavation.trial_run import path_of

__all__ = ["DigStory", "Dug", "check", "film", "page", "record", "tell"]

#: what is done after the run, for people
READING = "reading the bag"
SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 7.6"
NODES = ("sim_plant", "bucket_arm", "supervisor", "sim_camera", "excavation", "recorder")
START_TIMEOUT, RESET_TIMEOUT, TRIAL_TIMEOUT = 180.0, 300.0, 3600.0  # [s], wall time
#: policies and paths, in their order
TRIALS = {"quick": (("follow", "shallow"),), "full": (("follow", "medium"), ("rs7", "medium"))}
#: side of the cells in which a block's volume is counted [m]
CELL = 0.002
#: by which the weighed mass may differ from that of the blocks in the bucket: a share of it, or [kg], whichever is more
SHARE, LEAST = 0.25, 0.03
#: what the arm says when the bucket is out of the pile
LIFTED = "lifted"
#: mean distance from the path of a bucket that was not stopped [m]
AWAY = 0.05
#: of the middle of a block that a lifted bucket carries: from the bucket's, over the surface of the pile [m]
CARRIED, ABOVE = 0.15, 0.05
#: mass that a planner's bucket brings at least, a few blocks [kg]
WORTH = 0.05


@dataclass(frozen=True)
class Dug:
    """One trial as its bag tells it.

    Attributes:
        state: the last one of the trial, as its checkpoint has it. times: of decisions [s]. true_mass: of the blocks in the bucket when
            it was weighed [kg]; NaN: it is not known.
    """

    state: dict[str, Any]
    times: np.ndarray
    true_mass: float

    @property
    def name(self) -> str:
        """Policy and path."""
        return f"{self.state['policy']}, {self.state['path']}"

    @property
    def jammed(self) -> bool:
        """In a motion, or while it was lifted."""
        return bool(self.state["trial"]["jammed"] or (self.state["lifted"] or {}).get("jammed"))

    @property
    def mass(self) -> float:
        """As the wrist felt it [kg]; NaN: it was not weighed."""
        lifted = self.state["lifted"] or {}
        return float("nan") if lifted.get("mass") is None or self.jammed else float(lifted["mass"])

    @property
    def ended(self) -> str:
        """Why, in words; "": it did not come to a declared end."""
        return str(self.state["ended"]) if self.state["lifted"] else ""

    def array(self, name: str) -> np.ndarray:
        """Poses, forces, peaks, held, actions of the trial."""
        return np.array(self.state["trial"][name], float)

    @property
    def away(self) -> float:
        """Mean distance from the path [m]."""
        path = path_of(self.state["trial"])
        apart = np.linalg.norm(self.array("poses")[:, None, :3] - path.poses[:, :3], axis=-1)
        return float(apart.min(axis=1).mean())


@dataclass(frozen=True)
class DigStory:
    """All trials of a run, in their order."""

    trials: list[Dug]


def record(robot: str, folder: Path, seed: int, quick: bool, progress=SilentProgress(), view: LiveView = NO_VIEW):
    """Run the graph; leaves the bag in `folder`/bag and the trials' states below `folder`.

    Raises:
        scripting.ScriptError: the graph failed, or a trial was interrupted.
    """
    scene = load_robot(robot).demo_as(DigDemo)
    arguments = dict(robot=robot, tray=scene.tray, tray_seed=seed, seed=seed, **IN_STEP)
    with demo_graph(scene.launch, arguments, NODES, folder, START_TIMEOUT, progress, view) as client:
        for k, (policy, path) in enumerate(TRIALS["quick" if quick else "full"]):
            if k:
                answer = client.call(ResetPile, "sim_plant/reset_pile", ResetPile.Request(seed=seed), RESET_TIMEOUT)
                if not answer.success:
                    raise client.error(f"the pile was not made anew: {answer.message}")
            with progress.stage(f"digging: {policy}, {path}", None):
                _trial(client, policy, path, seed)


def _trial(client: GraphClient, policy: str, path: str, seed: int) -> None:
    goal = RunExcavation.Goal(path=path, policy=policy, seed=seed)
    handle = begin_goal(client, RunExcavation, "excavation/run_trial", goal, "the trial", START_TIMEOUT)
    answer = end_goal(client, handle, "the trial", TRIAL_TIMEOUT, "while the robot dug")
    if "resumed" in answer.result.message or not answer.result.motions:
        raise GraphError(f"the trial was interrupted: {answer.result.message}")


def tell(robot: str, folder: Path) -> DigStory:
    """What the bag in `folder` says of a run of this robot, beside the truth about the simulated blocks."""
    bag = BagReader(folder / "bag")
    told = [json.loads(message.data) for _, message in bag.messages("excavation/state")]
    plans = [message for _, message in bag.messages("excavation/plan")]
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for state in told:
        last[state["policy"], state["path"]] = state
    masses = _lifted(bag)
    found = []
    for k, state in enumerate(last.values()):
        times = np.array([plan.time for plan in plans if plan.policy == state["policy"]])
        found.append(Dug(state, times, masses[k] if k < len(masses) else np.nan))
    return DigStory(found)


def _lifted(bag: BagReader) -> list[float]:
    """Mass of the blocks in the bucket each time when it had been lifted [kg]."""
    frames = TransformBuffer()
    for _, message in bag.messages("/tf_static"):
        frames.add_static(message)
    X = frames.lookup("world", "pile")
    events: list[tuple[int, str, Any]] = []
    for topic in ("sim_plant/grains", "bucket/state", "bucket/where"):
        events += [(stamp, topic, message) for stamp, message in bag.messages(topic)]
    latest: dict[str, Any] = {}
    found = []
    for _, topic, message in sorted(events, key=lambda event: event[0]):
        was = latest.get("bucket/where")
        latest[topic] = message
        if topic == "bucket/where" and message.data == LIFTED and (was is None or was.data != LIFTED):
            found.append(_mass_in(latest, X))
    return found


def _mass_in(latest: dict[str, Any], X: np.ndarray) -> float:
    """Of the blocks that a lifted bucket carries [kg], at the mean density that piles have: in it, and on its edges.

    Nothing else is as high over the pile and as near to the bucket.
    """
    if "sim_plant/grains" not in latest or "bucket/state" not in latest:
        return float("nan")
    spheres = cloud_spheres(latest["sim_plant/grains"])[0].astype(float)
    places = (spheres[:, :3] - X[:3, 3]) @ X[:3, :3]
    blocks = np.c_[places, spheres[:, 3]].reshape(-1, PileSettings().spheres, 4)
    middle = blocks[..., :3].mean(axis=1)
    near = np.linalg.norm(middle - np.array(latest["bucket/state"].pose[:3]), axis=1) < CARRIED
    carried = blocks[near & (middle[:, 2] > ABOVE)]
    return float(np.mean(PileSettings().densities)) * sum(_volume(block) for block in carried)


def _volume(block: np.ndarray) -> float:
    """Of the union of spheres (n, 4) [m^3], which overlap."""
    low, high = (block[:, :3] - block[:, 3:]).min(axis=0), (block[:, :3] + block[:, 3:]).max(axis=0)
    axes = [np.arange(a + 0.5 * CELL, b, CELL) for a, b in zip(low, high)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    inside = (((points[..., None, :] - block[:, :3]) ** 2).sum(axis=-1) < block[:, 3] ** 2).any(axis=-1)
    return float(inside.sum()) * CELL**3


def check(story: DigStory, seed: int, quick: bool) -> Result:
    """The checks of the demonstration."""
    result = Result("demo excavation", seed=seed, size="quick" if quick else "full")
    wanted = len(TRIALS[result.size])
    result.check(
        "trials that came to a declared end", sum(bool(one.ended) for one in story.trials), wanted, "==", "", SOURCE
    )
    for one in story.trials:
        if not one.jammed:
            result.check(f"{one.name}: mean distance from the path", one.away, AWAY, "<", "m", "own limit")
            if np.isfinite(one.mass) and np.isfinite(one.true_mass):
                off, allowed = abs(one.mass - one.true_mass), max(LEAST, SHARE * one.true_mass)
                result.check(f"{one.name}: weighed mass off that of the blocks", off, allowed, "<=", "kg", "own limit")
    if not quick and len(story.trials) == wanted:
        blind, planned = story.trials
        result.check(
            "jams of the planner over those of Follow", int(planned.jammed) - int(blind.jammed), 0, "<=", "", SOURCE
        )
        # who jams, or comes home with nothing, has not dug
        brought = 0.0 if planned.jammed else planned.true_mass
        result.check(f"{planned.name}: blocks in the bucket", brought, WORTH, ">=", "kg", "own limit")
    for one in story.trials:
        result.detail(
            one.name,
            {
                "jammed": one.jammed,
                "motions": len(one.array("actions")),
                "largest force [N]": float(one.array("peaks").max(initial=0.0)),
                "largest lasting force [N]": float(one.array("held").max(initial=0.0)),
                "weighed [g]": 1e3 * one.mass,
                "blocks in the bucket [g]": 1e3 * one.true_mass,
                "decision, median and longest [s]": [float(np.median(one.times)), float(one.times.max())],
                "ended": one.ended,
            },
        )
    return result


def film(folder: Path) -> bytes | str:
    """What the cameras over and beside the pile saw, see `film_of_grains`."""
    return film_of_grains(folder, ("overhead", "side"), timeout=900.0)


def page(story: DigStory, result: Result, description: Robot, shown: bytes | str) -> Report:
    """What a person reads."""
    report = Report(
        "A robot digs in a pile of blocks", f"{description.title}, which stops itself where blocks hold it."
    )
    warn_of_misses(report, result)
    report.section("Targets").checks(result)
    report.section("Trials, on the same pile")
    rows = [
        [
            one.name,
            len(one.array("actions")),
            "jammed" if one.jammed else "no",
            f"{one.array('peaks').max(initial=0.0):.0f}",
            f"{one.array('held').max(initial=0.0):.0f}",
            f"{1e3 * one.away:.0f}",
            "-" if np.isnan(one.mass) else f"{1e3 * one.mass:.0f}",
            "-" if np.isnan(one.true_mass) else f"{1e3 * one.true_mass:.0f}",
            f"{np.median(one.times):.3f}",
            one.ended or "it was interrupted",
        ]
        for one in story.trials
    ]
    headers = [
        *("policy, path", "motions", "jam", "largest force [N]", "lasting [N]", "from the path [mm]", "weighed [g]"),
        *("blocks in the bucket [g]", "decision [s]", "how it ended"),
    ]
    report.table(headers, rows)
    show_film(report, shown, "From above, and from the side; ten times as fast as it was.")
    _ways(report, story)
    _forces(report, story)
    return report


def _ways(report: Report, story: DigStory) -> None:
    report.section("Where the bucket went")
    fig, axis = figure()
    for k, one in enumerate(story.trials):
        poses = one.array("poses")
        axis.plot(poses[:, 0], 1e2 * poses[:, 2], ".-", color=PALETTE[k], label=one.name)
        if one.jammed:
            axis.plot(poses[-1, 0], 1e2 * poses[-1, 2], "x", color=PALETTE[k], markersize=12, label="jam")
    path = path_of(story.trials[0].state["trial"]).poses
    axis.plot(path[:, 0], 1e2 * path[:, 2], color="0.4", linestyle=":", label="reference path")
    axis.axhline(0.0, color="0.7", linewidth=0.8)
    axis.set_xlabel("x [m]; the arm stands on the left")
    axis.set_ylabel("z over the surface [cm]")
    axis.legend()
    report.figure(fig, "The middle of the bucket after every motion, from the side.")


def _forces(report: Report, story: DigStory) -> None:
    report.section("Forces")
    fig, axis = figure()
    for k, one in enumerate(story.trials):
        number = np.arange(1, 1 + len(one.array("peaks")))
        axis.plot(number, one.array("peaks"), color=PALETTE[k], label=f"{one.name}: largest in the motion")
        axis.plot(number, one.array("held"), color=PALETTE[k], linestyle="--", label="the same, over 20 ms")
    axis.axhline(PileSettings().force_limit, color="0.4", linestyle=":", label="at which the arm stops")
    axis.set_xlabel("motion")
    axis.set_ylabel("force of the pile on the bucket [N]")
    axis.legend()
    report.figure(fig, "What tripped the arm, or nearly did, lies within motions; between them forces are lower.")
