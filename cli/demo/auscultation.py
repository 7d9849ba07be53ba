"""A robot finds by itself where to listen to a person: it scans, registers, plans, places the stethoscope, and judges what it hears."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from action_msgs.msg import GoalStatus
from refit_interfaces.action import RunExam
from refit_interfaces.srv import RegisterPatient

from cli.demo.graph import IN_STEP, begin_goal, demo_graph, end_goal
from cli.demo.live import NO_VIEW, LiveView
from cli.demo.page import warn_of_misses
from config.description import ListenDemo, Robot
from config.robot import load_robot
from identification.exam.record import ExamRecord, read_exam
from identification.exam.report import exam_page, judge_exam
from recording import BagReader
from reporting import Report, Result, figure
from reporting.progress import SilentProgress
from scripting import GraphError
from scripting.client import GraphClient
from sim_core.auscultation.hidden_rating import hidden_rating
from sim_core.auscultation.regions import REGIONS, Region
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.stethoscope_contact import ContactConditions
from sim_core.plant.patient import body_pose

__all__ = ["ExamStory", "check", "page", "record", "tell"]

#: what is done after the run, for people
READING = "reading the bag and deciding again"
SOURCE = "Zhu, PhD thesis (University of Illinois 2023)"
NODES = ("sim_plant", "placement", "supervisor", "sim_camera", "stethoscope", "auscultation", "recorder")
START_TIMEOUT, SCAN_TIMEOUT = 120.0, 120.0  # [s], wall time
#: [s] of wall time for one region, beyond which an exam hangs
REGION_TIMEOUT = 900.0
QUICK = ("heart/front/aortic", "heart/front/mitral")


@dataclass(frozen=True)
class ExamStory:
    """A run as its bag tells it.

    Attributes:
        patient: who lay there. record: the exam. landmarks: region -> error of the registered one [m].
        truth: region -> hidden quality where the recording that is handed over was made, and at the registered landmark.
        peak: greatest force on the body [N]. seconds: of simulated time of a reading.
    """

    patient: SimulatedPatient
    record: ExamRecord
    landmarks: dict[Region, float]
    truth: dict[Region, tuple[float, float]]
    peak: float
    seconds: float


def record(
    robot: str, folder: Path, seed: int, quick: bool, progress=SilentProgress(), view: LiveView = NO_VIEW
) -> Path:
    """Run the graph; leaves the bag in `folder`/bag and the recordings below it.

    Returns:
        The file of the exam's state.

    Raises:
        scripting.ScriptError: the graph failed, the scan was rejected, or the exam was interrupted.
    """
    scene = load_robot(robot).demo_as(ListenDemo)
    arguments = dict(robot=robot, patient=scene.patient, seed=seed, **IN_STEP)
    arguments |= dict(readings=2 if quick else 4, duration=5.0 if quick else 10.0)
    with demo_graph(scene.launch, arguments, NODES, folder, START_TIMEOUT, progress, view) as client:
        with progress.stage("scanning the person", None):
            request = RegisterPatient.Request(side="front")
            scan = client.call(RegisterPatient, "auscultation/register_patient", request, SCAN_TIMEOUT)
            if not scan.success:
                raise client.error(f"the scan was not accepted: {scan.message}")
        return _exam(client, list(QUICK) if quick else ["front"], progress)


def _exam(client: GraphClient, regions: list[str], progress) -> Path:
    order = ["/".join(region) for region in REGIONS if region[1] == "front"] if regions == ["front"] else regions
    with progress.stage("listening", len(order)) as stage:
        done = 0

        def advance(told: RunExam.Feedback) -> None:
            nonlocal done
            now = order.index(told.region)
            if now > done:
                stage.advance(now - done)
                done = now

        goal = RunExam.Goal(regions=regions)
        handle = begin_goal(client, RunExam, "auscultation/run_exam", goal, "the exam", START_TIMEOUT, advance)
        answer = end_goal(client, handle, "the exam", REGION_TIMEOUT * len(order), "while the robot listened")
        stage.advance(len(order) - done)
    if answer.status != GoalStatus.STATUS_SUCCEEDED:
        raise GraphError(f"the exam was interrupted: {answer.result.message}")
    return Path(answer.result.checkpoint)


def tell(robot: str, folder: Path) -> ExamStory:
    """What the bag in `folder` says, beside the truth about the simulated person."""
    patient = SimulatedPatient(load_robot(robot).demo_as(ListenDemo).patient)
    bag = BagReader(folder / "bag")
    found = read_exam(folder / "bag")
    rotation, origin = body_pose()
    marks = {r: origin + rotation @ place for r, place in patient.torso["front"].landmarks.items()}
    registered = found.examination.landmarks
    errors = {region: float(np.linalg.norm(registered[region] - marks[region])) for region in registered}
    field, truth = patient.field["front"], {}
    for region in found.examination.exam.regions:
        trial = found.examination.handed_over(region)
        if trial is None:
            continue
        places = [found.examination.skin[region[:2]][0][trial.candidate], registered[region]]
        truth[region] = tuple(
            hidden_rating(
                field.listen((rotation.T @ (point - origin))[:2], ContactConditions(), rate=8000.0), region[0]
            )
            for point in places
        )
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for _, m in bag.messages("auscultation/reading")]
    force = bag.array("sim_plant/stethoscope", "force")[1]
    count = max(len(stamps) - 1, 1)
    return ExamStory(patient, found, errors, truth, float(force.max()), (stamps[-1] - stamps[0]) / count)


def check(story: ExamStory, seed: int, quick: bool) -> Result:
    """The checks of the demonstration."""
    result = Result("demo auscultation", seed=seed, size="quick" if quick else "full")
    errors = list(story.landmarks.values())
    result.check("error of the landmarks, mean", float(np.mean(errors)), 0.0173, "<=", "m", f"{SOURCE}, section 5.4.2")
    judge_exam(result, story.record)
    result.check("greatest force on the body", story.peak, 15.0, "<", "N", "own limit")
    heard, marks = np.array(list(story.truth.values())).T
    result.detail("true quality of what is handed over, mean over regions", float(heard.mean()))
    result.detail("true quality at the registered landmarks, mean over regions", float(marks.mean()))
    result.detail("simulated time of a reading [s]", story.seconds)
    return result


def page(story: ExamStory, result: Result, description: Robot) -> Report:
    """What a person reads."""
    report = Report(
        "A robot finds out where to listen",
        f"{description.title}, simulated person {story.patient.body}: scanned, registered, and listened to.",
    )
    warn_of_misses(report, result)
    heard, marks = np.array(list(story.truth.values())).T
    report.numbers(
        {
            "trials": len(story.record.examination.trials),
            "true quality, mean over regions": f"{heard.mean():.2f}",
            "at the registered landmarks": f"{marks.mean():.2f}",
            "landmarks off by [mm]": f"{1e3 * np.mean(list(story.landmarks.values())):.1f}",
            "greatest force [N]": f"{story.peak:.1f}",
        }
    )
    report.section("Targets").checks(result)
    report.section("Landmarks", "Where the fitted torso has them, and where they are on this person.")
    _landmarks(report, story)
    return exam_page(report, story.record)


def _landmarks(report: Report, story: ExamStory) -> None:
    rotation, origin = body_pose()
    fig, axes = figure(1, 1)
    axis = np.ravel(axes)[0]
    vertices = story.patient.torso["front"].vertices
    axis.scatter(*vertices[vertices[:, 2] > 0.0][:, :2].T, s=1, color="#cccccc")
    true, found = story.patient.torso["front"].landmarks, story.record.examination.landmarks
    axis.plot(*np.array([true[r][:2] for r in found]).T, "o", fillstyle="none", color="black", label="of this person")
    axis.plot(*np.array([(rotation.T @ (p - origin))[:2] for p in found.values()]).T, "x", label="as registered")
    axis.set_xlabel("to the person's left [m]")
    axis.set_ylabel("to the head [m]")
    axis.set_aspect("equal")
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    report.figure(fig, "Grey: the person's front, which the robot knows from its scan alone.")
