"""Where to listen on a person: registers a scan, plans the exam, has the arm make each reading, and judges what was heard.

    ros2 service call /auscultation/register_patient refit_interfaces/srv/RegisterPatient "{side: front}"
    ros2 action send_goal --feedback /auscultation/run_exam refit_interfaces/action/RunExam "{regions: [heart/front]}"

The algorithms are `sim_core/auscultation` and `sim_core/planning`. Page: docs/nodes/auscultation.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from refit_interfaces.action import PlaceAndRecord, RunExam
from refit_interfaces.msg import AuscultationBelief, AuscultationReading
from refit_interfaces.srv import EstimateQuality, RegisterPatient, SetLandmarks
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String
from std_srvs.srv import Trigger

from nodes.frames.transform_listener import TransformListener
from nodes.frames.transforms import TransformError
from nodes.framework.clouds import cloud_message, cloud_points
from nodes.framework.geometry_messages import point_message
from nodes.framework.joint_state_gate import seconds
from nodes.framework.lifecycle import RefitNode, spin_main, turn
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import LATCHED, LEDGER, SENSOR
from nodes.planning.auscultation_config import AuscultationConfig
from nodes.planning.auscultation_messages import FAULTS, belief_of, exam_result, goal_of, reading_of
from nodes.planning.planned_goal import PlannedGoal
from nodes.planning.run_folder import new_folder
from recording.auscultation.wav_file import CollectionError, read_wav
from sim_core.auscultation.exam import ROBOT, ExamConfig
from sim_core.auscultation.examination import Examination, Fault, Target, Trial, parse_regions, spell
from sim_core.auscultation.heart_features import HEART_FEATURES, heart_features
from sim_core.auscultation.judged_sound import judged_sound
from sim_core.auscultation.lung_features import LUNG_FEATURES, lung_features
from sim_core.auscultation.regions import REGIONS, Structure
from sim_core.auscultation.registration import Registration
from sim_core.auscultation.scan import crop, register_scan
from sim_core.auscultation.shipped_estimators import shipped_estimator
from sim_core.auscultation.usability import UnusableRecording
from sim_core.planning.acquisition import ACQUISITIONS
from sim_core.planning.checkpoint import load, save

__all__ = ["Auscultation", "main"]

NAN = float("nan")


class Auscultation(RefitNode):
    """See the module's docstring."""

    name = "auscultation"
    Config = AuscultationConfig
    coroutines = True
    live_parameters = True
    goal: PlannedGoal | None = None
    _made: Sequence = ()  # subscriptions, publishers, services and timers; none: it is not configured
    _placing = _target = None
    registration: Registration | None = None
    examination: Examination | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        self.registration = self.examination = None
        self._placing = self._target = None
        for structure in ("heart", "lung"):
            shipped_estimator(structure, self.config.estimator)  # now, or a sentence why not
        self._frames = TransformListener(self)
        self._belief = self.create_publisher(AuscultationBelief, "auscultation/belief", LEDGER)
        self._reading = self.create_publisher(AuscultationReading, "auscultation/reading", LEDGER)
        self._scan = self.create_publisher(PointCloud2, "auscultation/scan", LATCHED)
        self._exam = self.create_publisher(String, "auscultation/exam", LATCHED)
        self._made = [
            self.create_service(RegisterPatient, "auscultation/register_patient", self._on_register),
            self.create_service(SetLandmarks, "auscultation/set_landmarks", self._on_landmarks),
            self.create_service(EstimateQuality, "auscultation/estimate_quality", self._on_estimate),
            self.create_timer(0.5, self._watch, clock=self.steady_clock),
        ]
        self._homing = self.create_client(Trigger, "auscultation/home")
        self._place = ActionClient(self, PlaceAndRecord, "auscultation/place_and_record")
        self.goal = PlannedGoal(
            self, RunExam, "auscultation/run_exam", "an exam", self._begin, self._refusal, self._on_cancel
        )

    def stop(self) -> None:
        if self.goal is not None and self.goal.under_way:
            self._end(False, "the node is not active any more; the exam can be resumed", "abort")

    def cleanup(self) -> None:
        if not self._made:
            return
        for made in (self.goal, self._place, self._frames):
            made.destroy()
        self.destroy_client(self._homing)
        self.discard(*self._made, self._belief, self._reading, self._scan, self._exam)
        self._made = []

    def time_jumped_back(self) -> None:
        if self._made:
            self._frames.clear()

    def diagnose(self) -> None:
        if not self._made:
            return
        say, found = self.diagnostics.set, self.registration
        say("registered", "nobody" if found is None else f"{found.side}: {found.why or 'accepted'}")
        say("exam", self.goal.doing(""))
        if self.examination is not None:
            say("trials", len(self.examination.trials))

    # -- registration ------------------------------------------------------------------------------

    async def _on_register(self, request: RegisterPatient.Request, response: RegisterPatient.Response):
        try:
            found = await self._registered(request)
        except (ValueError, TransformError) as error:
            response.message = f"{error}"
            return response
        self.registration = found
        self._scan.publish(cloud_message(found.points, self.stamp_now(), self.config.base_frame))
        response.success = found.is_accepted
        response.message = found.why or f"the {found.side} was registered"
        response.residual, response.frame_id = found.residual, self.config.base_frame
        response.regions = [spell(region) for region in found.landmarks]
        response.landmarks = [point_message(place) for place in found.landmarks.values()]
        self.get_logger().info(response.message)
        return response

    async def _registered(self, request) -> Registration:
        """Raises ValueError, TransformError: there is nothing to register; the text says why."""
        if not self.is_active:
            raise ValueError("the node is not active; activate it first")
        if self.goal.under_way:
            raise ValueError("an exam is under way; cancel it first")
        if request.side not in ("front", "back"):
            raise ValueError(f"side: expected front or back, found '{request.side}'")
        cloud = request.cloud if len(request.cloud.data) else await self._scanned()
        points = cloud_points(cloud)[0].astype(float)
        X = self._frames.lookup(self.config.base_frame, cloud.header.frame_id)
        c = self.config
        body = crop(points @ X[:3, :3].T + X[:3, 3], np.array(c.table_low), np.array(c.table_high))
        return register_scan(body, X[:3, 3], request.side, c.axes)

    async def _scanned(self) -> PointCloud2:
        """A cloud that was asked for now: the camera computes one only while somebody listens."""
        reader = create_polled_subscription(self, PointCloud2, "camera/depth/color/points", SENSOR)
        began, now = time.monotonic(), self.get_clock().now().nanoseconds
        try:
            while time.monotonic() - began < self.config.scan_patience:
                fresh = [m for m, _ in take(reader) if 1e9 * seconds(m.header.stamp) >= now]
                if fresh:
                    return fresh[-1]
                await turn()
        finally:
            self.destroy_subscription(reader)
        raise ValueError(
            f"no cloud came on {reader.topic_name} within {self.config.scan_patience:g} s: is the camera running, and "
            "does it send clouds?"
        )

    def _on_landmarks(self, request: SetLandmarks.Request, response: SetLandmarks.Response):
        try:
            if self.registration is None:
                raise ValueError("nobody was scanned; call register_patient first, landmarks are put onto its scan")
            if self.goal.under_way:
                raise ValueError("an exam is under way; cancel it first")
            if len(request.regions) != len(request.landmarks) or not request.regions:
                raise ValueError(
                    f"expected a landmark for each region, found {len(request.regions)} regions and "
                    f"{len(request.landmarks)} landmarks"
                )
            told = {}
            for word, place in zip(request.regions, request.landmarks):
                (region,) = parse_regions([word]) if word in map(spell, REGIONS) else (None,)
                if region is None:
                    raise ValueError(f"there is no region '{word}'; there are {', '.join(map(spell, REGIONS))}")
                told[region] = np.array([place.x, place.y, place.z])
            self.registration = self.registration.with_landmarks(told)
        except ValueError as error:
            response.message = str(error)
            return response
        response.success, response.message = True, f"{len(told)} landmarks were set by hand"
        return response

    # -- quality -----------------------------------------------------------------------------------

    def _on_estimate(self, request: EstimateQuality.Request, response: EstimateQuality.Response):
        try:
            if request.structure not in ("heart", "lung"):
                raise ValueError(f"structure: expected heart or lung, found '{request.structure}'")
            sound, rate = read_wav(request.file) if request.file else (np.array(request.samples, float), request.rate)
            judged = judged_sound(_mono(sound), rate, request.structure)
            response.score = self._score(_mono(sound), rate, request.structure)
        except (UnusableRecording, CollectionError, ValueError) as error:
            response.message = str(error)
            return response
        features, names = (
            (heart_features, HEART_FEATURES) if request.structure == "heart" else (lung_features, LUNG_FEATURES)
        )
        response.success, response.features = True, list(names)
        response.values = [float(value) for value in features(judged)]
        return response

    def _score(self, sound: np.ndarray, rate: float, structure: Structure) -> float:
        """Raises UnusableRecording."""
        return float(np.clip(shipped_estimator(structure, self.config.estimator).predict(sound, rate), 0.0, 1.0))

    # -- an exam -----------------------------------------------------------------------------------

    def _refusal(self, goal: RunExam.Goal) -> str:
        if self.registration is None and not goal.resume:
            return "nobody was registered; call register_patient first"
        if goal.acquisition and goal.acquisition not in ACQUISITIONS:
            return f"there is no acquisition '{goal.acquisition}'; there are {', '.join(ACQUISITIONS)}"
        try:
            parse_regions(goal.regions)
        except ValueError as error:
            return str(error)
        return ""

    def _begin(self, goal: RunExam.Goal) -> None:
        self._target = self._placing = None
        self._score_before, self._phase, self._heard = NAN, "", time.monotonic()
        try:
            self.examination, self._file = self._examination(goal)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._next()
        except (ValueError, OSError) as error:
            self.goal.fail(RunExam.Result(message=str(error)))

    def _examination(self, goal: RunExam.Goal) -> tuple[Examination, Path]:
        """The exam that is asked for, and the file of its state."""
        if goal.resume:
            file = Path(goal.resume).expanduser()
            resumed = Examination.resume(load(file))
            if self.registration is not None and self.registration.side == resumed.side:
                resumed.lay_upon(self.registration)
            return resumed, file
        c, found = self.config, self.registration.require()
        config: ExamConfig = replace(
            ROBOT,
            model=c.model,
            choose=c.choose,
            acquisition=goal.acquisition or c.acquisition,
            readings=goal.readings or c.readings,
            adequate=c.adequate,
        )
        regions = parse_regions(goal.regions)
        made = Examination.begin(found, regions, config, c.base_frame, c.seed)
        return made, new_folder(c.directory, "exam") / "exam.json"

    def _next(self) -> None:
        """Keep what is known, and go on: to the next place, or to the end."""
        exam = self.examination
        state = exam.state()
        save(state, self._file)
        self._exam.publish(String(data=json.dumps(state)))
        if self.goal.cancelled:
            self._end_cancelled()
            return
        if exam.interrupted:
            self._end(False, f"{exam.interrupted}. The exam can be resumed from {self._file}.", "abort")
            return
        self._target = exam.ask()
        if self._target is None:
            heard = [exam.exam.report(region).state for region in exam.exam.regions].count("heard")
            self._end(True, f"{heard} of {len(exam.exam.regions)} regions were heard well", "succeed")
            return
        visit = self._target.visit
        self._publish_belief(visit.region)
        self._asked, self._heard = False, time.monotonic()
        self._feedback("waiting for the node placement")
        self._ask_arm()

    def _ask_arm(self) -> None:
        """As soon as somebody serves the action."""
        if not self._place.server_is_ready():
            return
        exam, visit = self.examination, self._target.visit
        number = len(exam.trials)
        sound = self._file.parent / f"{number:03d}-{spell(visit.region).replace('/', '-').replace(' ', '_')}.wav"
        goal = goal_of(self._target, exam.frame, str(sound.absolute()), self.config.duration)
        self._asked, self._heard = True, time.monotonic()
        self._place.send_goal_async(goal, feedback_callback=self._on_placing).add_done_callback(self._on_answer)

    def _publish_belief(self, region) -> None:
        belief = belief_of(self.examination, region)
        belief.header.stamp = self.stamp_now()
        self._belief.publish(belief)

    def _on_answer(self, future) -> None:
        handle = future.result()
        if not self.goal.under_way:
            if handle is not None and handle.accepted:
                handle.cancel_goal_async()  # the exam ended while the goal was on its way
            return
        if handle is None or not handle.accepted:
            self._settled(PlaceAndRecord.Result.ARM_STOPPED, "the arm refused to go there; the node placement says why")
            return
        self._placing, self._heard = handle, time.monotonic()
        if self.goal.cancelled:
            handle.cancel_goal_async()
        handle.get_result_async().add_done_callback(self._on_placed)

    def _on_placing(self, message) -> None:
        self._heard = time.monotonic()
        self._feedback(message.feedback.phase)

    def _feedback(self, phase: str) -> None:
        if not self.goal.under_way or self._target is None:
            return
        visit, self._phase = self._target.visit, phase
        self.goal.tell(
            RunExam.Feedback(region=spell(visit.region), reading=visit.reading, score=self._score_before, phase=phase)
        )

    def _on_placed(self, future) -> None:
        self._placing = None
        if not self.goal.under_way:
            return
        answer = future.result()
        if answer is None or answer.status == GoalStatus.STATUS_UNKNOWN:
            self._settled(PlaceAndRecord.Result.ARM_STOPPED, "the node placement has gone")
            return
        found = answer.result
        self._settled(found.outcome, found.message, found.file, np.array(found.force))

    def _settled(self, outcome: int, message: str, file: str = "", force: np.ndarray = np.zeros(0)) -> None:
        """What came of the target."""
        trial = self._trial(self._target, outcome, message, file, force)
        cancelled = self.goal.cancelled and outcome == PlaceAndRecord.Result.CANCELLED
        if not cancelled:  # else nothing was tried
            self.examination.settle(self._target, trial)
            self._score_before = NAN if trial.score is None else trial.score
            said = reading_of(self._target, trial, outcome, self.examination.frame)
            said.header.stamp = self.stamp_now()
            self._reading.publish(said)
            self._publish_belief(trial.region)
            self.diagnostics.tick("readings" if trial.fault is None else "failed_trials")
            told = f"{trial.score:.2f}" if trial.score is not None else trial.message
            self.get_logger().info(f"{spell(trial.region)}, place {trial.candidate}: {told}")
        try:
            self._next()
        except OSError as error:
            self._end(False, f"the exam's state cannot be kept: {error.strerror or error}", "abort")

    def _trial(self, target: Target, outcome: int, message: str, file: str, force: np.ndarray) -> Trial:
        region, candidate = target.visit.region, target.visit.suggestion.index
        felt = None
        if len(force):
            low, high = np.quantile(force, [0.025, 0.975])
            felt = float(low), float(force.mean()), float(high)
        if outcome in FAULTS:
            return Trial(region, candidate, fault=FAULTS[outcome], message=message, file=file, force=felt)
        try:
            sound, rate = read_wav(file)
            score = self._score(_mono(sound), rate, region[0])
        except (UnusableRecording, CollectionError, ValueError) as error:
            return Trial(region, candidate, fault=Fault.EQUIPMENT, message=str(error), file=file, force=felt)
        return Trial(region, candidate, score=score, message=message, file=file, force=felt)

    def _watch(self) -> None:
        """On the wall clock: an arm that says nothing any more ends the exam."""
        if not self.goal.under_way:
            return
        if not self._asked:
            self._ask_arm()
        if time.monotonic() - self._heard < self.config.placement_patience:
            return
        self._end(
            False,
            f"the node placement has said nothing for {self.config.placement_patience:g} s, the last: {self._phase}. "
            f"The exam can be resumed from {self._file}.",
            "abort",
        )

    def _on_cancel(self) -> None:
        if not self._asked:
            self._end_cancelled()
        elif self._placing is not None:
            self._placing.cancel_goal_async()  # its result, after the way back, ends the exam

    def _end_cancelled(self) -> None:
        self._end(False, f"cancelled; the exam can be resumed from {self._file}", "canceled")

    def _end(self, success: bool, message: str, outcome: str) -> None:
        if self._placing is not None:
            self._placing.cancel_goal_async()
            self._placing = None
        self.goal.end(exam_result(self.examination, success, message, str(self._file)), outcome)
        if self._homing.service_is_ready():
            self._homing.call_async(Trigger.Request())


def _mono(sound: np.ndarray) -> np.ndarray:
    return sound if sound.ndim == 1 else sound[:, 0]


def main(args=None) -> int:
    return spin_main(Auscultation, args)
