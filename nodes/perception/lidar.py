"""What scans say of a known scene: where the scanner stands, where a body stands, what surfaces and the diode do.

    ros2 action send_goal /lidar/localize refit_interfaces/action/LocalizeScan "{}"
    ros2 action send_goal --feedback /lidar/track_object refit_interfaces/action/TrackObject "{body: mirror}"

The algorithms are `sim_core/lidar`. Page: docs/nodes/lidar.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from geometry_msgs.msg import PoseStamped
from refit_interfaces.action import CalibrateScanner, LocalizeScan, TrackObject
from refit_interfaces.msg import ScanEstimate
from refit_interfaces.srv import SetScanScene, SimulateScans
from sensor_msgs.msg import LaserScan, PointCloud2
from std_msgs.msg import Float32MultiArray
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from config.whole_file import whole_file
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.messages import seconds
from nodes.framework.qos import LATCHED, LEDGER, SENSOR, STATE
from nodes.perception.lidar_config import LidarConfig
from nodes.perception.lidar_messages import estimate_of, phases_of, pose_of, returns_of, scan_of, scene_of, transform_of
from nodes.perception.lidar_page import page_of_goal
from sim_core.lidar.files import scene_of_file
from sim_core.lidar.measured import measured_ranges, seen_by, valid_scan
from sim_core.lidar.scan import Lidar as Model
from sim_core.lidar.scene import Scene
from sim_core.lidar.search import Found, Learnt, Outcome, calibrate, flat, locate
from sim_core.lidar.settings import LidarSettings

__all__ = ["Lidar", "main"]

#: [s] between two looks at what is computed
POLL_PERIOD = 0.02
#: scans that one call computes at most
MANY = 1000
NO_SCENE = "there is no scene; set the parameter 'scene', or call lidar/set_scene with a file"


@dataclass
class _Work:
    """A computation beside the node's thread. `steps` are those that a fit has taken, (number, cost, values)."""

    compute: Callable[[_Work], Any]
    cancelled: bool = False
    steps: list[tuple[int, float, dict[str, float]]] = field(default_factory=list)
    result: Any = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="fit", daemon=True)
        self._thread.start()

    def watch(self, step: int, cost: float, values: Mapping[str, float]) -> bool:
        self.steps.append((step, cost, dict(values)))
        return self.cancelled

    def _run(self) -> None:
        try:
            self.result = self.compute(self)
        except Exception as error:  # told by the node's thread
            self.error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()


@dataclass
class _Task:
    """A goal under way: what it waits for, and how it goes on."""

    action: str
    handle: Any
    names: tuple[str, ...]
    guess: dict[str, float]
    reach: dict[str, float]
    wanted: int
    until: float  # of time.monotonic(), by when a scan has to come
    scans: list[np.ndarray] = field(default_factory=list)
    stamp: Any = None
    work: _Work | None = None
    told: int = 0
    cancelled: bool = False
    # of a body that is followed
    body: str = ""
    ends: float = float("inf")
    patience: int = 0
    tracked: int = 0
    missed: int = 0
    missed_in_a_row: int = 0
    estimate: ScanEstimate | None = None


class Lidar(RefitNode):
    """See the module's docstring."""

    name = "lidar"
    Config = LidarConfig
    live_parameters = True
    _actions: dict[str, LongAction] | None = None
    _task: _Task | None = None
    _old: _Work | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        self._task = None
        self._scene: Scene | None = None
        self._model: Model | None = None
        self._values: dict[str, float] = {}
        self._file, self._sensor_frame, self._complaint = "", "", ""
        self._settings: LidarSettings | None = None
        self._estimates = self.create_publisher(ScanEstimate, "lidar/estimate", LEDGER)
        self._bodies = self.create_publisher(MarkerArray, "lidar/scene", LATCHED)
        self._pose = self.create_publisher(PoseStamped, "lidar/sensor", LATCHED)
        self._returns = self.create_publisher(PointCloud2, "lidar/returns", LATCHED)
        self._phases = self.create_publisher(Float32MultiArray, "lidar/phases", LATCHED)
        self._tf = self.create_publisher(TFMessage, "/tf", STATE) if config.broadcast else None
        self._made = [
            self.create_subscription(LaserScan, "scan", self._on_scan, SENSOR),
            self.create_service(SetScanScene, "lidar/set_scene", self._on_set_scene),
            self.create_service(SimulateScans, "lidar/simulate", self._on_simulate),
            self.create_timer(POLL_PERIOD, self._turn, clock=self.steady_clock),
        ]
        self._actions = {
            "localize": LongAction(
                self, LocalizeScan, "lidar/localize", self._begin_localize, self._refuse_localize, self._on_cancel
            ),
            "track_object": LongAction(
                self, TrackObject, "lidar/track_object", self._begin_track, self._refuse_track, self._on_cancel
            ),
            "calibrate": LongAction(
                self,
                CalibrateScanner,
                "lidar/calibrate",
                self._begin_calibrate,
                self._refuse_calibrate,
                self._on_cancel,
            ),
        }
        if config.scene:
            self._load(config.scene, _values_of(config.values_file) if config.values_file else {})

    def stop(self) -> None:
        if self._task is not None:
            self._finish(self._ended("the node is not active any more"), "abort")

    def cleanup(self) -> None:
        if self._actions is None:
            return
        for action in self._actions.values():
            action.destroy()
        self._actions = None
        subscription, *services, timer = self._made
        self.destroy_timer(timer)
        self.destroy_subscription(subscription)
        for service in services:
            self.destroy_service(service)
        for publisher in (self._estimates, self._bodies, self._pose, self._returns, self._phases, self._tf):
            if publisher is not None:
                self.destroy_publisher(publisher)

    def activate(self) -> None:
        self._show()

    def diagnose(self) -> None:
        task = self._task
        self.diagnostics.set("scene", getattr(self, "_file", "") or "none")
        self.diagnostics.set("goal", task.action if task else "none")
        if task is not None and task.body:
            self.diagnostics.set("missed_in_a_row", task.missed_in_a_row)
        if complaint := getattr(self, "_complaint", ""):
            self.diagnostics.warn(complaint)

    # -- the scene ---------------------------------------------------------------------------------

    def _load(self, file: str, values: Mapping[str, float]) -> None:
        """Take a scene, or leave everything as it was and raise ValueError, KeyError or OSError."""
        scene, given = scene_of_file(file)
        model = Model(scene, self._settings or self._assumed(), given, self.config.threads)
        model.tracer.inputs.full(values)
        self._scene, self._model, self._file = scene, model, str(file)
        self._values = {name: float(value) for name, value in values.items()}

    def _assumed(self) -> LidarSettings:
        return LidarSettings(beams=self.config.beams or LidarSettings.beams)

    def _posed(self) -> Model:
        """The model at the values in force."""
        assert self._model is not None, "goals and calls are refused without a scene"
        return Model(self._model.scene, self._model.settings, self._model.values | self._values, self.config.threads)

    def _show(self, stamp: Any = None) -> None:
        """Tell the scene, the scanner in it and what is expected to come back."""
        if self._model is None or not self.is_active and stamp is not None:
            return
        stamp, frame = stamp or self.stamp_now(), self.config.frame_id
        values = self._model.values | self._values
        self._bodies.publish(scene_of(self._model, self._values, stamp, frame))
        message = PoseStamped(pose=pose_of(values, "sensor"))
        message.header.stamp, message.header.frame_id = stamp, frame
        self._pose.publish(message)
        self._returns.publish(returns_of(self._model, self._values, stamp, frame))
        self._phases.publish(phases_of(self._model, self._values))
        if self._tf is not None and self._sensor_frame:
            self._tf.publish(TFMessage(transforms=[transform_of(values, stamp, frame, self._sensor_frame)]))

    def _on_set_scene(self, asked, answer):
        try:
            if len(asked.names) != len(asked.values):
                raise ValueError(f"each of {len(asked.names)} names has a value, found {len(asked.values)}")
            given = dict(zip(asked.names, map(float, asked.values)))
            if self._task is not None:
                raise ValueError(
                    f"a goal of lidar/{self._task.action} is under way, whose scene stays as it is; cancel it first"
                )
            if asked.file:
                self._load(asked.file, given)
            elif self._model is None:
                raise ValueError(NO_SCENE)
            else:
                changed = self._values | given
                self._model.tracer.inputs.full(changed)
                self._values = changed
        except (ValueError, KeyError, OSError) as error:
            answer.message = _text(error)
        else:
            answer.success = True
            self._show()
        if self._model is not None:
            present = self._model.values | self._values
            answer.names, answer.present = list(present), [float(value) for value in present.values()]
        answer.file = self._file
        return answer

    def _on_simulate(self, asked, answer):
        began = time.perf_counter()
        try:
            if self._model is None:
                raise ValueError(NO_SCENE)
            width = len(asked.names)
            count = len(asked.values) // width if width else 1
            if width * count != len(asked.values) or not 1 <= count <= MANY:
                raise ValueError(
                    f"values are rows of {width}, one for each of 1 to {MANY} scans; found {len(asked.values)} numbers"
                )
            rows = np.array(asked.values, float).reshape(count, width)
            found = self._model.scans(tuple(asked.names), rows, self._values)
        except (ValueError, KeyError) as error:
            answer.message = _text(error)
            return answer
        stamp, frame = self.stamp_now(), self._sensor_frame or "laser"
        answer.scans = [scan_of(ranges, self._model.settings, stamp, frame) for ranges in found.range]
        answer.success, answer.duration = True, time.perf_counter() - began
        return answer

    # -- scans -------------------------------------------------------------------------------------

    def _on_scan(self, message: LaserScan) -> None:
        try:
            if self._settings is None:
                self._see_by(message)
            ranges = measured_ranges(
                message.ranges,
                message.range_min,
                message.range_max,
                message.angle_min,
                message.angle_increment,
                self._settings,
            )
        except ValueError as error:
            self._complaint = str(error)
            self.diagnostics.tick("scans_refused")
            return
        self._complaint = valid_scan(ranges) and f"{valid_scan(ranges)}: is the window covered?"
        self._sensor_frame = message.header.frame_id
        self.diagnostics.tick("scans")
        task = self._task
        if task is None or self._complaint and task.body == "":
            return
        if task.body:  # the newest one counts
            task.scans, task.stamp = [ranges], message.header.stamp
        elif len(task.scans) < task.wanted:
            task.scans.append(ranges)
            task.stamp = message.header.stamp
            task.until = time.monotonic() + self.config.patience

    def _see_by(self, message: LaserScan) -> None:
        """The model's beams are the scanner's from its first scan on."""
        wanted = self.config.beams
        if wanted and len(message.ranges) != wanted:
            raise ValueError(
                f"a scan of {wanted} beams is expected, and this one has {len(message.ranges)}; set the parameter 'beams', or the "
                "driver's angles and cluster"
            )
        self._settings = seen_by(message.angle_min, message.angle_increment, len(message.ranges))
        if self._model is not None:
            self._model = Model(self._model.scene, self._settings, self._model.values, self.config.threads)

    # -- goals -------------------------------------------------------------------------------------

    def _refusal(self) -> str:
        if not self.is_active:
            return "not active"
        if self._task is not None:
            return f"a goal of lidar/{self._task.action} is under way"
        return "" if self._model is not None else NO_SCENE

    def _unknown(self, names: tuple[str, ...]) -> str:
        assert self._model is not None
        try:
            self._model.tracer.inputs.known(names)
        except KeyError as error:
            return _text(error)
        return ""

    def _refuse_localize(self, goal) -> str:
        if why := self._refusal():
            return why
        names = tuple(goal.names) or flat()
        for what, given in (("guess", goal.guess), ("reach", goal.reach)):
            if len(given) not in (0, len(names)):
                return f"{what} has a value for each of {len(names)} names, or none; found {len(given)}"
        if not np.isfinite([*goal.guess, *goal.reach]).all() or any(by <= 0.0 for by in goal.reach):
            return "guess and reach are finite, and reach is positive"
        return self._unknown(names)

    def _refuse_track(self, goal) -> str:
        if why := self._refusal():
            return why
        assert self._model is not None
        if goal.body not in (names := [body.name for body in self._model.scene.bodies]):
            return f"the scene has no body '{goal.body}'; it has {', '.join(names)}"
        if len(goal.guess) not in (0, 3) or not np.isfinite([*goal.guess, goal.duration]).all() or goal.duration < 0.0:
            return "a guess is x, y and yaw, or left out, and a duration is finite and not negative"
        return ""

    def _refuse_calibrate(self, goal) -> str:
        return self._refusal() or self._unknown(tuple(goal.names) or self.config.calibrated)

    def _new_task(self, action: str, handle: Any, names: tuple[str, ...], guess: list[float], wanted: int) -> _Task:
        assert self._model is not None
        present = self._model.values | self._values
        start = dict(zip(names, map(float, guess))) if len(guess) else {name: present[name] for name in names}
        self._task = _Task(action, handle, names, start, {}, wanted, time.monotonic() + self.config.patience)
        return self._task

    def _begin_localize(self, handle: Any) -> None:
        goal = handle.request
        task = self._new_task("localize", handle, tuple(goal.names) or flat(), list(goal.guess), goal.scans or 1)
        task.reach = dict(zip(task.names, map(float, goal.reach)))

    def _begin_track(self, handle: Any) -> None:
        goal = handle.request
        task = self._new_task("track_object", handle, flat(goal.body), list(goal.guess), 1)
        task.body, task.patience = goal.body, goal.patience
        if goal.duration > 0.0:
            task.ends = time.monotonic() + goal.duration

    def _begin_calibrate(self, handle: Any) -> None:
        goal, config = handle.request, self.config
        self._new_task(
            "calibrate", handle, tuple(goal.names) or config.calibrated, [], goal.scans or config.calibration_scans
        )

    def _on_cancel(self, handle: Any) -> None:
        task = self._task
        if task is None or task.handle.goal_id.uuid.tolist() != handle.goal_id.uuid.tolist():
            return
        task.cancelled = True
        if task.work is not None:
            task.work.cancelled = True
        else:
            self._finish(self._ended("cancelled on request"), "canceled")

    # -- the turn ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Start what can be computed, and tell what has been."""
        task = self._task
        if task is None or self._old is not None and not self._old.done:
            return  # what was given up may still be in its last step
        self._old = None
        if task.work is None:
            self._start(task)
            return
        self._feed(task)
        if not task.work.done:
            return
        work, task.work, task.told = task.work, None, 0
        if work.error is not None:
            self.get_logger().error(f"{task.action}: {_text(work.error)}")
            self._finish(self._ended(_text(work.error)), "abort")
        else:
            {"localize": self._localized, "track_object": self._followed, "calibrate": self._calibrated}[task.action](
                task, work.result
            )

    def _start(self, task: _Task) -> None:
        now = time.monotonic()
        if task.body and now > task.ends:
            self._finish(self._ended("the duration is over"), "succeed")
            return
        if len(task.scans) < task.wanted:
            if now > task.until:
                said = self._complaint or f"no scan came within {self.config.patience:g} s"
                self._finish(self._ended(said, no_scan=True), "abort")
            return
        scans, model = np.array(task.scans), self._posed()
        options = self.config.search(following=task.tracked > 0)
        guess, reach, names = dict(task.guess), dict(task.reach), task.names
        if task.action == "localize" and task.handle.request.starts:
            options = type(options)(**{**vars(options), "starts": int(task.handle.request.starts)})
        if task.action == "calibrate":
            task.work = _Work(lambda work: calibrate(model, scans, names, watch=work.watch))
        else:
            page = Path(self.config.directory) if task.action == "localize" and task.handle.request.report else None
            stamp = seconds(task.stamp)

            def searched(work: _Work) -> tuple[Found, str, str]:
                found = locate(model, scans, guess, reach, options, work.watch)
                return found, *(
                    ("", "") if page is None or work.cancelled else page_of_goal(page, stamp, model, scans, found)
                )

            task.work = _Work(searched)
        if task.body:
            task.scans, task.until = [], now + self.config.patience

    def _feed(self, task: _Task) -> None:
        """Feedback of a fit's last step."""
        work = task.work
        if task.body or work is None or len(work.steps) == task.told:
            return
        task.told = len(work.steps)
        step, cost, values = work.steps[-1]
        kind = LocalizeScan if task.action == "localize" else CalibrateScanner
        task.handle.publish_feedback(
            kind.Feedback(iteration=step, cost=cost, values=[values[name] for name in task.names])
        )

    def _localized(self, task: _Task, searched: tuple[Found, str, str]) -> None:
        found, report, why = searched
        if why:
            self.diagnostics.error(f"the page of a goal is not kept: {why}")
        estimate = estimate_of(task.names, found.values, task.stamp, self.config.frame_id, found)
        result = LocalizeScan.Result(
            outcome=int(found.outcome), message=found.message, estimate=estimate, report=report
        )
        if found.outcome == Outcome.FOUND:
            self._values |= found.values
            self._estimates.publish(estimate)
            self._show(task.stamp)
        ending = "canceled" if task.cancelled else "succeed" if found.outcome == Outcome.FOUND else "abort"
        self._finish(result, ending)

    def _followed(self, task: _Task, searched: tuple[Found, str, str]) -> None:
        found = searched[0]
        if task.cancelled:
            self._finish(self._ended("cancelled on request"), "canceled")
            return
        seen = found.outcome in (Outcome.FOUND, Outcome.NOT_CONVERGED)
        if seen:
            task.guess = dict(found.values)
            task.tracked, task.missed_in_a_row = task.tracked + 1, 0
            self._values |= found.values
        else:
            task.missed, task.missed_in_a_row = task.missed + 1, task.missed_in_a_row + 1
        estimate = estimate_of(task.names, task.guess, task.stamp, self.config.frame_id, found)
        estimate.lost = not seen
        task.estimate = estimate
        self._estimates.publish(estimate)
        task.handle.publish_feedback(TrackObject.Feedback(estimate=estimate))
        if seen:
            self._show(task.stamp)
        elif task.patience and task.missed_in_a_row >= task.patience:
            self._finish(
                self._ended(f"{task.body} was missed in {task.missed_in_a_row} scans in a row: {found.message}"),
                "abort",
            )

    def _calibrated(self, task: _Task, learnt: Learnt) -> None:
        Result = CalibrateScanner.Result
        found = Found(
            Outcome.FOUND, "", learnt.values, learnt.fit, learnt.after, int(np.isfinite(learnt.fit.residual).sum())
        )
        estimate = estimate_of(task.names, learnt.values, task.stamp, self.config.frame_id, found)
        estimate.weak = list(learnt.weak)
        result = Result(estimate=estimate, before=learnt.before, after=learnt.after)
        errors = f"root mean square of the ranges' errors {1e3 * learnt.before:.1f} mm before, {1e3 * learnt.after:.1f} mm after"
        if task.cancelled:
            result.outcome, result.message = Result.CANCELLED, "cancelled on request"
        elif learnt.weak:
            result.outcome = Result.UNDETERMINED
            result.message = (
                f"the scans do not tell {', '.join(learnt.weak)} apart; hold one of them, an albedo say ({errors})"
            )
        elif not learnt.fit.converged:
            result.outcome, result.message = Result.NOT_CONVERGED, f"the fit ran out of iterations ({errors})"
        else:
            result.outcome, result.message = Result.DONE, errors
            result.file = self._keep(learnt)
            self._estimates.publish(estimate)
            if task.handle.request.apply:
                self._values |= learnt.values
                self._show(task.stamp)
        ending = "canceled" if task.cancelled else "succeed" if result.outcome == Result.DONE else "abort"
        self._finish(result, ending)

    def _keep(self, learnt: Learnt) -> str:
        """The file with what was learnt; "" if it cannot be written."""
        path = Path(self.config.directory) / "calibration.yaml"
        try:
            with whole_file(path) as partial:
                document = {
                    "scene": self._file,
                    "values": learnt.values,
                    "before": learnt.before,
                    "after": learnt.after,
                }
                partial.write_text(yaml.safe_dump(document, sort_keys=False))
        except OSError as error:
            self.diagnostics.error(f"the calibration is not kept: {error}")
            return ""
        return str(path)

    def _ended(self, why: str, no_scan: bool = False) -> Any:
        """The result of a goal that ends before anything was found."""
        task = self._task
        assert task is not None, "only a goal under way ends"
        nothing = estimate_of(task.names, task.guess, task.stamp or self.stamp_now(), self.config.frame_id, None)
        if task.action == "localize":
            Result = LocalizeScan.Result
            outcome = Result.NO_SCAN if no_scan else Result.CANCELLED
            return Result(outcome=outcome, message=why, estimate=nothing)
        if task.action == "calibrate":
            Result = CalibrateScanner.Result
            outcome = Result.NO_SCAN if no_scan else Result.CANCELLED
            return Result(outcome=outcome, message=why, estimate=nothing)
        Result = TrackObject.Result
        over = time.monotonic() > task.ends
        lost = task.patience > 0 and task.missed_in_a_row >= task.patience
        outcome = Result.NO_SCAN if no_scan else Result.LOST if lost else Result.DONE if over else Result.CANCELLED
        return Result(
            outcome=outcome, message=why, tracked=task.tracked, missed=task.missed, estimate=task.estimate or nothing
        )

    def _finish(self, result: Any, ending: str) -> None:
        task, self._task = self._task, None
        assert task is not None and self._actions is not None, "only a goal under way ends"
        if task.work is not None:
            task.work.cancelled, self._old = True, task.work
        self._actions[task.action].finish(task.handle, result, ending)


def _values_of(path: str) -> dict[str, float]:
    """What a calibration keeps. Raises ValueError: the file holds no values."""
    found = yaml.safe_load(Path(path).expanduser().read_text())
    try:
        return {str(name): float(value) for name, value in found["values"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"values_file {path}: expected 'values' with numbers by the names of parameters ({error!r})"
        ) from None


def _text(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def main(args=None) -> int:
    return spin_main(Lidar, args)
