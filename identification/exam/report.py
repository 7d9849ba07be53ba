"""What a person reads of an exam: how each region ended, what was believed in the order of the readings, and what was heard."""

from __future__ import annotations

from identification.exam.pictures import show_beliefs, show_recordings
from identification.exam.record import ExamRecord
from reporting import Report, Result

__all__ = ["exam_page", "judge_exam"]

SOURCE = "the recorded exam"
SPEC = "7 N, within 1 N: Zhu, PhD thesis (University of Illinois 2023), section 5.3"


def judge_exam(result: Result, record: ExamRecord) -> None:
    """Checks that any recorded exam can be held against."""
    exam, trials = record.examination.exam, record.examination.trials
    agreeing = sum(decision.agrees for decision in record.decisions)
    result.check("decisions taken again by the planner", agreeing, len(record.decisions), "==", "1", SOURCE)
    states = [exam.report(region).state for region in exam.regions]
    result.check("regions that have not ended", states.count("waiting"), 0, "==", "1", SOURCE)
    courses = [trial.force for trial in trials if trial.force is not None and trial.score is not None]
    if courses:
        result.check("force in 95 % of every recording, least", min(low for low, _, _ in courses), 6.0, ">=", "N", SPEC)
        result.check(
            "force in 95 % of every recording, greatest", max(high for *_, high in courses), 8.0, "<=", "N", SPEC
        )
    result.detail("regions", {"/".join(region): state for region, state in zip(exam.regions, states)})
    result.detail("trials", len(trials))
    result.detail("trials without a recording", sum(trial.score is None for trial in trials))


def exam_page(page: Report, record: ExamRecord) -> Report:
    """Regions, trials, beliefs and recordings, as sections of a page."""
    examination = record.examination
    rows = []
    for region in examination.exam.regions:
        found, trial = examination.exam.report(region), examination.handed_over(region)
        score = "" if trial is None or trial.score is None else f"{trial.score:.2f}"
        rows.append(["/".join(region), found.state, found.why, found.readings, found.failures, score])
    page.section("Regions", "What is handed over, with its estimated quality from 0 to 1.")
    page.table(["region", "state", "why", "readings", "failures", "quality"], rows)
    page.section("Trials", "In the order in which the planner chose them.")
    page.table(
        ["", "region", "place [mm]", "quality", "force [N]", "what happened"],
        [
            [
                number,
                "/".join(trial.region),
                _place(record, number),
                "" if trial.score is None else f"{trial.score:.2f}",
                "" if trial.force is None else f"{trial.force[1]:.2f}",
                trial.message,
            ]
            for number, trial in enumerate(examination.trials)
        ],
    )
    page.section("What was believed")
    show_beliefs(page, record.told)
    page.section("What was heard")
    show_recordings(page, record.recordings())
    return page


def _place(record: ExamRecord, number: int) -> str:
    trial = record.examination.trials[number]
    x, y = record.examination.exam.planners[trial.region[:2]].candidates.places[trial.candidate]
    return f"{1e3 * x:.0f}, {1e3 * y:.0f}"
