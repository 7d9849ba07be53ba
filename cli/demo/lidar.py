"""A laser scanner in a known scene finds where it stands, follows a mirror, and learns what its diode and a checkerboard's black do.

The scanner is played by the model of its optics behind a serial port; driver, node and recorder are those of a real one.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from refit_interfaces.action import CalibrateScanner, LocalizeScan, TrackObject

from cli.demo.graph import begin_goal, demo_graph, end_goal
from cli.demo.live import NO_VIEW, LiveView
from cli.demo.page import warn_of_misses
from config.share import shared_folder
from hardware.emulation.process import EmulatorProcess
from identification.scans.bag_scans import BagPoses, BagSettings, poses_of_bag
from identification.scans.pictures import draw_plan, film_of_search, staircase
from recording import BagReader
from reporting import PALETTE, Report, Result, figure
from reporting.progress import SilentProgress
from scripting.client import GraphClient
from sim_core.lidar.files import scene_of_file
from sim_core.lidar.measured import measured_ranges, seen_by
from sim_core.lidar.scan import Lidar
from sim_core.lidar.search import flat

__all__ = ["LidarStory", "check", "page", "record", "run", "tell"]

SOURCE = "Heiden, PhD thesis (USC), section 3.1.5; Heiden et al., ICRA 2020"
NODES = ("urg", "lidar", "recorder")
START_TIMEOUT, TIMEOUT = 180.0, 240.0  # [s], wall time
#: where the scanner is believed to be, off its place by as much as a person's guess: x, y, yaw
GUESS = (-0.2, 0.08, 0.25)
#: where the mirror goes: x, y, yaw; the last place is out of the scanner's view
WAYS = {
    "quick": ((0.5, 0.05, 0.3), (0.52, 0.04, 0.36)),
    "full": tuple((0.5 + 0.01 * k, 0.05 - 0.005 * k, 0.3 + 0.04 * k) for k in range(9)),
}
GONE = 5.0
#: estimates in one place
EACH = 4
LEARNT = ("black.albedo", "diode.a", "diode.b", "diode.c")


@dataclass(frozen=True, eq=False)
class LidarStory:
    """What both graphs left, as `story.json` in the folder has it, beside what their bags say when they are fitted again.

    Attributes:
        told: results of the actions and where the mirror was. again: the scan of the localisation, fitted from the bag.
        lidar: the scene. ranges: that scan (beams,) [m]. board: the board's model. seen: mean of its scans (beams,) [m].
    """

    told: dict[str, Any]
    again: BagPoses
    lidar: Lidar
    ranges: np.ndarray
    board: Lidar
    seen: np.ndarray


def run(
    folder: Path, progress=SilentProgress(), seed: int = 0, quick: bool = False, view: LiveView = NO_VIEW
) -> Result:
    """Run the demonstration; leaves bags, result.json and report.html in `folder`.

    Raises:
        scripting.ScriptError: a graph failed.
    """
    record(folder, seed, quick, progress, view)
    with progress.stage("reading the bags and fitting again", None):
        story = tell(folder)
        result = check(story, seed, quick)
    with progress.stage("drawing", None):
        shown = page(story, result)
    result.to_json(folder / "result.json")
    shown.write(folder / "report.html")
    return result


def record(folder: Path, seed: int, quick: bool, progress=SilentProgress(), view: LiveView = NO_VIEW) -> None:
    """Run both graphs, one with the mirror and one with the checkerboard; leaves story.json and the bags."""
    scenes = shared_folder("data/lidar")
    told: dict[str, Any] = {}
    mirror, board, truth = (scenes / f"{name}.yaml" for name in ("mirror", "checkerboard", "checkerboard_true"))
    with _scanner(folder / "mirror", mirror, mirror, seed, progress, view) as scanner:
        with progress.stage("finding the scanner", None):
            told["localize"] = _plain(scanner.do(LocalizeScan, "localize", LocalizeScan.Goal(guess=list(GUESS))))
        with progress.stage("following the mirror", None):
            told["track"] = _follow(scanner, WAYS["quick" if quick else "full"])
    with _scanner(folder / "board", board, truth, seed, progress) as scanner:
        with progress.stage("learning diode and black", None):
            goal = CalibrateScanner.Goal(names=list(LEARNT), scans=10 if quick else 30, apply=True)
            answer = scanner.do(CalibrateScanner, "calibrate", goal)
            told["calibrate"] = _plain(answer) | {"before": answer.before, "after": answer.after}
    (folder / "story.json").write_text(json.dumps(told, indent=1))


@dataclass(frozen=True)
class _Scanner:
    """A scanner that is played, and a client of the graph above it."""

    emulator: EmulatorProcess
    client: GraphClient

    def begin(self, kind: type, name: str, goal: Any, heard: Callable[[Any], None] | None = None) -> Any:
        """The handle of a goal that was accepted."""
        return begin_goal(self.client, kind, f"lidar/{name}", goal, f"lidar/{name}", START_TIMEOUT, heard)

    def end(self, handle: Any) -> Any:
        """A goal's result."""
        return end_goal(self.client, handle, "a goal", TIMEOUT, "while waiting for an answer").result

    def do(self, kind: type, name: str, goal: Any) -> Any:
        """The result of a goal that is begun now."""
        return self.end(self.begin(kind, name, goal))


@contextlib.contextmanager
def _scanner(
    folder: Path, scene: Path, seen: Path, seed: int, progress, view: LiveView = NO_VIEW
) -> Iterator[_Scanner]:
    """A scanner on its port that stands in the scene of the file `seen`, and the graph above it that believes in `scene`; with a bag."""
    words = ("--scene", seen, "--no-codes")
    emulator = EmulatorProcess("urg", *words, seed=seed, program="nodes.plant.lidar_emulator")
    try:
        arguments = dict(scene=scene, port=emulator.link)
        with demo_graph("lidar.launch.py", arguments, NODES, folder, START_TIMEOUT, progress, view) as client:
            yield _Scanner(emulator, client)
    finally:
        emulator.stop()


def _plain(result: Any) -> dict[str, Any]:
    estimate = result.estimate
    return {
        "outcome": int(result.outcome),
        "message": result.message,
        "names": list(estimate.names),
        "values": list(estimate.values),
        "covariance": list(estimate.covariance),
        "stamp": [int(estimate.header.stamp.sec), int(estimate.header.stamp.nanosec)],
        "iterations": int(estimate.iterations),
    }


def _follow(scanner: _Scanner, way: tuple) -> dict[str, Any]:
    """Where the mirror was and where it was found, place by place; at last it goes out of view."""
    heard: list = []
    goal = TrackObject.Goal(body="mirror", patience=3)
    handle = scanner.begin(TrackObject, "track_object", goal, heard.append)
    truth, found = [], []
    for place in way:
        scanner.emulator.set(values=dict(zip(flat("mirror"), place)))
        since = time.time() + 1.5  # what is under way, or waits on a busy machine, is still of the old place
        scanner.client.until(
            lambda since=since: sum(_seconds(one.estimate) > since for one in heard) >= EACH,
            TIMEOUT,
            "while the mirror moved",
        )
        late = [one.estimate for one in heard if _seconds(one.estimate) > since]
        truth += [list(place)] * len(late)
        found += [list(one.values) for one in late]
    scanner.emulator.set(values={"mirror.x": GONE})
    result = scanner.end(handle)
    return {
        "truth": truth, "found": found, "outcome": int(result.outcome), "message": result.message,
        "tracked": int(result.tracked), "missed": int(result.missed),
    }  # fmt: skip


def _seconds(estimate: Any) -> float:
    return estimate.header.stamp.sec + 1e-9 * estimate.header.stamp.nanosec


def tell(folder: Path) -> LidarStory:
    """What story.json and the bags say."""
    told = json.loads((folder / "story.json").read_text())
    scenes = shared_folder("data/lidar")
    bag = BagReader(folder / "mirror" / "bag")
    stamp = told["localize"]["stamp"][0] + 1e-9 * told["localize"]["stamp"][1]
    first = 1e-9 * bag.span[0]
    times = [(1e-9 * received - first, message) for received, message in bag.messages("scan")]
    at = min(times, key=lambda pair: abs(pair[1].header.stamp.sec + 1e-9 * pair[1].header.stamp.nanosec - stamp))[0]
    settings = BagSettings(str(scenes / "mirror.yaml"), guess=GUESS, begin=at - 1e-6, end=at + 1e-6)
    again = poses_of_bag(bag, settings)
    board, seen = _board(folder, scenes / "checkerboard.yaml")
    return LidarStory(told, again, again.lidar, again.scans[0].ranges, board, seen)


def _board(folder: Path, scene: Path) -> tuple[Lidar, np.ndarray]:
    """The board's model, and the mean of all scans of it."""
    rows, lidar = [], None
    for _, message in BagReader(folder / "board" / "bag").messages("scan"):
        geometry = float(message.angle_min), float(message.angle_increment)
        if lidar is None:
            described, values = scene_of_file(scene)
            lidar = Lidar(described, seen_by(*geometry, len(message.ranges)), values)
        rows.append(
            measured_ranges(
                message.ranges, float(message.range_min), float(message.range_max), *geometry, lidar.settings
            )
        )
    assert lidar is not None, "a calibration has had scans"
    count = np.isfinite(rows).sum(0)
    return lidar, np.where(count > 0, np.nansum(rows, 0) / np.maximum(count, 1), np.nan)


def check(story: LidarStory, seed: int, quick: bool) -> Result:
    """The checks of the demonstration."""
    result, told = Result("demo lidar", seed=seed, size="quick" if quick else "full"), story.told
    x, y, yaw = told["localize"]["values"]
    result.check("scanner found: off its place", math.hypot(x + 0.3, y), 0.005, "<", "m", f"own target; {SOURCE}")
    result.check("scanner found: off its heading", abs(math.degrees(yaw)), 0.3, "<", "deg", "own target")
    same = list(story.again.scans[0].found.values.values()) == told["localize"]["values"]
    result.check("the same numbers from the bag, to the last bit", same, True, "==", "", "own target")
    truth, found = np.array(told["track"]["truth"]), np.array(told["track"]["found"])
    away, turned = np.hypot(*(found - truth)[:, :2].T), np.degrees(np.abs(found - truth)[:, 2])
    result.check("mirror followed: median off its place", float(np.median(away)), 0.005, "<", "m", "own target")
    result.check("mirror followed: worst off its place", float(away.max()), 0.02, "<", "m", "own target")
    result.check("mirror followed: worst off its heading", float(turned.max()), 1.0, "<", "deg", "own target")
    gone = told["track"]["outcome"] == TrackObject.Result.LOST
    result.check("mirror out of view: called lost", gone, True, "==", "", "own target")
    learnt = dict(zip(told["calibrate"]["names"], told["calibrate"]["values"]))
    done = told["calibrate"]["outcome"] == CalibrateScanner.Result.DONE
    result.check("diode and black were learnt", done, True, "==", "", told["calibrate"]["message"])
    share = told["calibrate"]["after"] / told["calibrate"]["before"]
    result.check("error of the board's ranges, after over before", share, 0.5, "<=", "", "own target")
    result.check("albedo of black", learnt["black.albedo"], 0.8, "<", "", f"{SOURCE}: below white's")
    result.detail("followed", {
        "places": len(away), "off the place, median and worst [mm]": [1e3 * float(np.median(away)), 1e3 * float(away.max())],
        "said at the end": told["track"]["message"],
    })  # fmt: skip
    result.detail("learnt", learnt)
    return result


def page(story: LidarStory, result: Result) -> Report:
    """What a person reads."""
    told = story.told
    report = Report(
        "A scanner that explains what it sees",
        "Played by the model of its optics, behind its own driver; found, followed and learnt by fits.",
    )
    warn_of_misses(report, result)
    report.section("Targets").checks(result)
    report.section("Where it stands")
    found = story.again.scans[0].found
    fig, axes = figure(1, 2, size=(11.0, 4.6))
    draw_plan(axes[0], story.lidar, dict(zip(flat(), GUESS)), "As it was guessed", story.ranges)
    draw_plan(axes[1], story.lidar, found.values, "As it was found", story.ranges, legend=False)
    report.figure(
        fig, "Returns as they are expected, by how many surfaces their light met before; crosses were measured."
    )
    report.image(film_of_search(story.lidar, flat(), found, story.ranges), "How the search came to its end.")
    report.section("A mirror that moves")
    truth, seen = np.array(told["track"]["truth"]), np.array(told["track"]["found"])
    fig, axes = figure(3, 1, size=(8.0, 6.0))
    for k, (axis, name) in enumerate(zip(axes, ("x [m]", "y [m]", "yaw [rad]"))):
        axis.plot(truth[:, k], color="#8a8f98", lw=3, label="where it was")
        axis.plot(seen[:, k], ".", color=PALETTE[1], label="where it was found")
        axis.set(ylabel=name)
    axes[0].legend()
    axes[-1].set(xlabel="scan")
    report.figure(fig, f"Then it went out of view: {told['track']['message']}")
    report.section("A checkerboard, and what the diode does")
    fig, axis = figure(size=(9.0, 3.6))
    learnt = dict(zip(told["calibrate"]["names"], told["calibrate"]["values"]))
    staircase(axis, story.board, story.seen, {}, learnt)
    report.figure(fig, f"Mean of all scans; {told['calibrate']['message']}.")
    return report
