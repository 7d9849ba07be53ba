"""An arm changes, by default because it picks up something it was not told of: the same run without and with the refit.

The hand follows a figure eight. At t = 5 s a payload with an offset centre of mass appears in it, or whatever else was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

import scripting
from cli.demo.arm_change import ArmChange
from cli.demo.judged import Judged, judged
from cli.demo.live import NO_VIEW, LiveView
from cli.demo.recordings import Recording, Timing, load
from config.description import PayloadDemo, Robot, Track
from config.robot import load_robot
from nodes.control.adaptive_mpc import ORIGIN_GRACE
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_session import config_from, session_model
from nodes.control.robot_task import free_parameters, quantities, tool_path
from reporting import Result
from reporting.progress import SilentProgress
from sim_core.multibody import RobotModel, load_model
from sim_core.multibody.model import build
from sim_core.plant.robot_changes import truth_after

__all__ = ["ArmRun", "ArmStory", "check", "record", "tell"]

CHANGE = 5.0  # [s] when the robot changes
SETTLED = 1.0  # [s] after the start from rest, before which tracking is not judged
RELEARN = 3.0  # [s] allowed for
INSIDE = 0.8  # share of the truths that 95 % intervals hold, where several are judged together
SOURCE = "demo"


def record(
    robot: str,
    folder: Path,
    seed: int,
    change: ArmChange,
    duration: float,
    progress=SilentProgress(),
    view: LiveView = NO_VIEW,
) -> None:
    """Run both graphs, one after the other; leaves a bag in `folder`/without_refit and /with_refit.

    Args:
        change: what happens to the robot at CHANGE, and what the refit may change.
        view: of the graphs.
    """
    description = load_robot(robot)
    scene = description.demo_as(PayloadDemo)
    scenario = yaml.safe_dump(change.scenario(CHANGE), default_flow_style=True, width=float("inf")).strip()
    for name, refit in (("without_refit", False), ("with_refit", True)):
        label = f"{description.title} {name.replace('_', ' ')}"
        with (
            progress.stage(f"{label}: starting nodes", None) as stage,
            scripting.Robot.start(
                robot,
                record=folder / name,
                launch=scene.launch,
                refit=refit,
                seed=seed,
                scenario=scenario,
                free=change.free,
                **scene.arguments,
                **view.arguments(folder / "without_refit" / "bag" if refit else None),
            ) as arm,
        ):
            arm.wait_until_ready()
            stage.close()
            with progress.stage(label, duration) as stage:
                done = 0.0

                def advance(t):
                    nonlocal done
                    stage.advance(min(t, duration) - done)
                    done = min(t, duration)

                # The graph ends while the arm moves: a stand would be part of the recording.
                arm.follow_path(duration, stop_after=False, progress=advance).check()


@dataclass(frozen=True)
class ArmRun:
    """One run as its bag tells it.

    Attributes:
        t, hand, path: the plant's time [s] and positions of the hand and of its reference, (N,), (N, 3) [m].
        error: distance between the two, (N,) [m].
        origin: stamp at which the plant's time was zero [s]; 0 where time is the plant's.
    """

    recording: Recording
    timing: Timing
    t: np.ndarray
    hand: np.ndarray
    path: np.ndarray
    error: np.ndarray
    origin: float = 0.0

    def rmse(self, begin: float, end: float) -> float:
        """Root mean square of the tracking error over [begin, end) [m]."""
        inside = (self.t >= begin) & (self.t < end)
        return float(np.sqrt(np.mean(self.error[inside] ** 2)))


@dataclass(frozen=True)
class ArmStory:
    """Both runs and what the refit learnt.

    Attributes:
        robot: name in config/robots, or the path of its folder.
        truth: what changed by name of the estimate, from the plant's recorded scenario. judged: how it is judged.
        used: (plant's time [s], message) of every accepted set, by when a command was first computed with it.
        relearnt: time from the change until a set within the tolerance of all that is judged was in use for good [s]; inf if
            never.
        free: what the refit was told that it may change besides what the hand holds.
        reproduced: recomputed rounds equal to the published, and number of rounds.
    """

    robot: str
    without: ArmRun
    with_refit: ArmRun
    change: float
    duration: float
    truth: dict[str, float]
    used: list[tuple[float, object]]
    relearnt: float
    reproduced: tuple[int, int]
    judged: list[Judged]
    free: str = ""

    @property
    def description(self) -> Robot:
        """What robot.yaml says of it."""
        return load_robot(self.robot)

    @property
    def payload(self) -> str:
        """What the names of the payload's estimates begin with."""
        return f"{self.description.task_as(Track).payload_body}.payload"

    @property
    def carries(self) -> bool:
        """Did a payload appear?"""
        return f"{self.payload}.mass" in self.truth

    @property
    def period(self) -> float:
        """Control period [s]."""
        return float(
            self.with_refit.recording.node("adaptive_mpc").get("control_period", AdaptiveMpcConfig.control_period)
        )

    @property
    def final(self):
        """The last set in use."""
        return self.used[-1][1] if self.used else None

    def estimate(self, name: str):
        """(value, lower, upper) of the last set in use."""
        found = next((e for e in self.final.parameters if e.name == name), None) if self.final else None
        return (found.value, found.lower, found.upper) if found else (np.nan,) * 3


def tell(robot: str, folder: Path) -> ArmStory:
    """Read both bags."""
    description = load_robot(robot)
    without, with_refit = (
        _run(description, load_model(robot), folder / name) for name in ("without_refit", "with_refit")
    )
    recording = with_refit.recording
    config = config_from(recording.node("refit_worker"))
    model = session_model(config)
    spec = free_parameters(description, model, config.recipe, config.free)
    reported = [e.name for e in quantities(description, spec, spec.prior_mean, np.zeros((spec.n, spec.n)))]
    events = recording.scenario
    truth, changed = truth_after(events, model), judged(model, events, reported)
    used = [(stamp - with_refit.origin, message) for stamp, message in _used(recording)]
    rounds = recording.replay(model)
    same = sum(
        np.array_equal(message.vector, redone.p) and message.accepted == redone.accepted for message, redone in rounds
    )
    return ArmStory(
        robot,
        without,
        with_refit,
        float(events[0]["time"]),
        float(min(without.t[-1], with_refit.t[-1])),
        truth,
        used,
        _relearnt(used, float(events[0]["time"]), changed),
        (same, len(rounds)),
        changed,
        config.free,
    )


def _run(robot: Robot, model: RobotModel, folder: Path) -> ArmRun:
    recording = load(folder, model.joint_names)
    settings = recording.node("adaptive_mpc")
    config = AdaptiveMpcConfig(
        **{k: settings[k] for k in ("path_width", "path_height", "path_period") if k in settings}
    )
    first, last = recording.commands[0][0], recording.commands[0][-1]
    begin = 0.0 if first < ORIGIN_GRACE else first
    inside = (recording.t >= first) & (recording.t <= last)
    t, q = recording.t[inside], recording.q[inside]
    position = build.frame_position(model, robot.task_as(Track).frame)
    hand = np.array(position.map(len(t))(q.T, model.parameters.nominal)).T
    path = tool_path(robot, model, config)
    reference = np.array([path(s) for s in _path_times(recording, t, begin)])
    origin = recording.plant_origin()
    period = settings.get("control_period", config.control_period)
    return ArmRun(
        recording,
        recording.timing(period),
        t - origin,
        hand,
        reference,
        np.linalg.norm(hand - reference, axis=1),
        origin,
    )


def _path_times(recording: Recording, t: np.ndarray, begin: float) -> np.ndarray:
    """Times along the path at stamps t (N,) [s], as the controller had them: it lets the path wait for an arm that is led to it."""
    said = [m for m in recording.status if m.state != m.STATE_IDLE and hasattr(m, "path_time")]
    if not said:
        return t - begin
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in said]
    return np.interp(t, stamps, [m.path_time for m in said])


def _used(recording: Recording) -> list[tuple[float, object]]:
    """When each accepted set was first used; a set that no command was computed with is left out."""
    first: dict[int, float] = {}
    for status in recording.status:
        first.setdefault(int(status.parameters_revision), status.header.stamp.sec + 1e-9 * status.header.stamp.nanosec)
    return [(first[int(m.revision)], m) for m in recording.accepted if int(m.revision) in first]


def _relearnt(used, change: float, changed: Sequence[Judged]) -> float:
    """Time after the change from which on every set in use was within the tolerances of all that is judged [s]."""
    good = None
    for stamp, message in used:
        if stamp < change:
            continue
        if all(each.error(message.parameters) <= each.tolerance for each in changed):
            good = stamp if good is None else good
        else:
            good = None
    return np.inf if good is None else good - change


def check(story: ArmStory, seed: int, judge_deadlines: bool = True) -> Result:
    """Hold the run against its targets; deadlines, which are the machine's as well, only if asked to."""
    result = Result(f"demo-{story.description.name.replace('_', '-')}", seed=seed)
    final = story.final.parameters if story.final else []
    for each in story.judged:
        error, name = each.error(final), next(iter(each.truth))
        if each.called == "payload mass":
            result.check("payload mass, relative error", error, each.tolerance, "<=", "1", SOURCE)
        else:
            worst = "worst " if len(each.truth) > 1 else ""
            result.check(f"{each.called}, {worst}error over what changed", error, each.tolerance, "<=", "1", SOURCE)
        if len(each.truth) == 1:
            interval = story.estimate(name)[1:]
            result.check(f"{each.called} within its 95 % interval", each.truth[name], interval, "in", each.unit, SOURCE)
        else:
            result.check(f"{each.called}, share within 95 % intervals", each.inside(final), INSIDE, ">=", "1", SOURCE)
    after = [run.rmse(story.change, story.duration) for run in (story.without, story.with_refit)]
    result.check("tracking RMSE after the change, with refit over without", after[1] / after[0], 0.5, "<=", "1", SOURCE)
    if story.judged:
        result.check("re-learnt after", story.relearnt, RELEARN, "<=", "s", SOURCE)
    for name, run in (("without refit", story.without), ("with refit", story.with_refit)):
        result.check(f"control rate in simulated time, {name}", round(run.timing.rate, 3), 50.0, ">=", "Hz", SOURCE)
        if judge_deadlines:
            result.check(f"deadlines met, {name}", run.timing.met, 0.99, ">=", "1", SOURCE)
    result.check(
        "refits that the bag reproduces bit for bit", story.reproduced[0], story.reproduced[1], "==", "", "replay"
    )
    result.detail(
        "tracking RMSE m",
        {
            name: {
                "before": run.rmse(SETTLED, story.change),
                "after": run.rmse(story.change, story.duration),
                "after re-learning": run.rmse(story.change + RELEARN, story.duration),
            }
            for name, run in (("without refit", story.without), ("with refit", story.with_refit))
        },
    )
    result.detail(
        "estimates",
        {
            name: dict(zip(("value", "lower", "upper", "truth"), (*story.estimate(name), value)))
            for name, value in story.truth.items()
        },
    )
    result.detail(
        "timing",
        {
            name: {
                "rate": run.timing.rate,
                "deadlines met": run.timing.met,
                "missed": run.timing.missed,
                "real-time factor": run.timing.factor,
                "ms": run.timing.percentiles(),
            }
            for name, run in (("without refit", story.without), ("with refit", story.with_refit))
        },
    )
    return result
