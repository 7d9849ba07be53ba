"""Between the messages of an exam and what `sim_core.auscultation` computes with."""

from __future__ import annotations

from refit_interfaces.action import PlaceAndRecord, RunExam
from refit_interfaces.msg import AuscultationBelief, AuscultationReading

from nodes.framework.geometry_messages import point_message, vector_message
from sim_core.auscultation.examination import Examination, Fault, Target, Trial, spell
from sim_core.auscultation.regions import Region

__all__ = ["FAULTS", "belief_of", "exam_result", "goal_of", "reading_of"]

Outcome = PlaceAndRecord.Result
NAN = float("nan")
#: outcome of a placement -> what it says of the place; what is not listed brought a recording
FAULTS = {
    Outcome.OUT_OF_REACH: Fault.PLACE,
    Outcome.FORCE_NOT_REACHED: Fault.PLACE,
    Outcome.NO_CONTACT: Fault.BODY,
    Outcome.CONTACT_LOST: Fault.BODY,
    Outcome.TOO_MUCH_FORCE: Fault.BODY,
    Outcome.SENSOR_SILENT: Fault.EQUIPMENT,
    Outcome.ARM_STOPPED: Fault.EQUIPMENT,
    Outcome.CANCELLED: Fault.EQUIPMENT,
    Outcome.NO_SOUND: Fault.EQUIPMENT,
}


def goal_of(target: Target, frame: str, file: str, duration: float) -> PlaceAndRecord.Goal:
    """What the arm is asked for."""
    goal = PlaceAndRecord.Goal(
        point=point_message(target.point),
        normal=vector_message(target.normal),
        structure=target.visit.region[0],
        duration=duration,
        file=file,
    )
    goal.header.frame_id = frame
    return goal


def reading_of(target: Target, trial: Trial, outcome: int, frame: str) -> AuscultationReading:
    """What came of a target."""
    structure, side, name = trial.region
    message = AuscultationReading(
        structure=structure,
        side=side,
        region=name,
        reading=target.visit.reading,
        candidate=trial.candidate,
        place=[float(x) for x in target.visit.suggestion.place],
        point=point_message(target.point),
        normal=vector_message(target.normal),
        outcome=outcome,
        message=trial.message,
        score=NAN if trial.score is None else trial.score,
        mean_force=NAN if trial.force is None else trial.force[1],
        file=trial.file,
    )
    message.header.frame_id = frame
    return message


def belief_of(examination: Examination, region: Region) -> AuscultationBelief:
    """What is believed of a region's structure on its side."""
    planner = examination.exam.planners[region[:2]]
    mean, deviation = planner.belief()
    places = planner.candidates.places
    tried = [trial for trial in examination.trials if trial.region[:2] == region[:2]]
    message = AuscultationBelief(
        structure=region[0],
        side=region[1],
        region=region[2],
        points=[point_message(point) for point in examination.skin[region[:2]][0]],
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        mean=mean.tolist(),
        deviation=deviation.tolist(),
        theta=planner.posterior.theta.tolist(),
        tried=[trial.candidate for trial in tried],
        scores=[NAN if trial.score is None else trial.score for trial in tried],
    )
    message.header.frame_id = examination.frame
    return message


def exam_result(examination: Examination, success: bool, message: str, checkpoint: str) -> RunExam.Result:
    """How an exam ended."""
    regions = list(examination.exam.regions)
    handed = [examination.handed_over(region) for region in regions]
    return RunExam.Result(
        success=success,
        message=message,
        checkpoint=checkpoint,
        regions=[spell(region) for region in regions],
        states=[examination.exam.report(region).state for region in regions],
        scores=[NAN if trial is None or trial.score is None else trial.score for trial in handed],
        files=["" if trial is None else trial.file for trial in handed],
    )
