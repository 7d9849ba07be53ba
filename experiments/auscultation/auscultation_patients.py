"""Does planning where to listen give better recordings than listening at the landmarks, on bodies that differ?

    ./refit experiment auscultation_patients            # 24 bodies
    ./refit experiment auscultation_patients --quick    # 4

Synthetic bodies sound as `sim_core.auscultation` says, with bad spots of their own; the landmarks that a planner is given are off
by what registration was off in the published trials. Every reading is ten seconds of sound through a stethoscope that is pressed on
with 7 N by an arm whose motors hum, in a room that is as loud as it takes for landmarks alone to reach the published quality (on
other bodies than these). No arm moves here.

Four methods listen to the twelve regions of each body. BO is the published planner: expected improvement, four readings of a region
at most, on to the next when the score exceeds 0.5. RO, registration only, takes one reading at each landmark. DT is a scripted
operator, who hears what raters hear, searches around the landmark, and stops when content. "BO, own" integrates over what the
planner is not sure of, hands over the reading at the place of which most is expected (see `auscultation_bo`), expects sound as far
around a landmark as it is heard on other bodies, and goes on up to a score of 0.6, for which it spends more readings.

The planner's score is the truth with an error as large as the published estimator's. What counts is the mean mark of four simulated
raters for the recording that is handed over for a region, as it was with people.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel

from identification.exam.pictures import show_regions
from reporting import Progress, Report, Result, SilentProgress
from sim_core.auscultation.acoustic_field import AcousticField, Heard
from sim_core.auscultation.exam import ROBOT, Exam
from sim_core.auscultation.hidden_rating import hidden_rating, marks
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.rating_statistics import method_effects
from sim_core.auscultation.regions import REGIONS, Region, Side
from sim_core.auscultation.stethoscope_contact import ContactConditions
from sim_core.auscultation.synthetic_recordings import random_body
from sim_core.host.executors import spread

SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 5.4.2"
SPEC = "own target, after section 5.4.2 of the thesis"
METHODS = ("BO", "RO", "DT", "BO, own")
#: quality by the published mixed-effects model
PUBLISHED = {"BO": 0.662, "RO": 0.598, "DT": 0.703, "BO, own": None}
BODIES = {"quick": 4, "full": 24}
#: first body, beyond those with which estimators were trained
FIRST = 900_000
#: as an arm's motors and an examination room have it, see `ContactConditions`
HELD = ContactConditions(
    force=7.0, speed=2e-4, room=0.034, electronics=5e-4, hum=0.001, hum_frequency=130.0, bump_rate=0.02
)
#: prior as wide, and a threshold as high, as serve other bodies than these
OWN = replace(ROBOT, model="marginal", choose="belief", decay=0.05, adequate=0.6)
#: the operator's search around a landmark [m], in this order, until content
SEARCH = np.array([[0.0, 0.0], [0.02, 0.0], [-0.02, 0.0], [0.0, 0.02], [0.0, -0.02]])
#: mean absolute error of the published estimator, and what a normal error of that size has as standard deviation
ERROR = {"heart": 0.0945 * np.sqrt(np.pi / 2), "lung": 0.0733 * np.sqrt(np.pi / 2)}


@dataclass(frozen=True)
class Listened:
    """One method on one body.

    Attributes:
        body, method: which. marks: mean mark of the four raters for the best recording, by region. readings: how many in all.
        states: how the regions ended.
    """

    body: int
    method: str
    marks: dict[Region, float]
    readings: int
    states: tuple[str, ...] = ()


class Patient:
    """A body, as methods meet it: at a place of the registered side, through a stethoscope.

    Args:
        body: number of the body, from which everything follows. held: how the stethoscope is held; None: as `HELD`.
    """

    def __init__(self, body: int, held: ContactConditions | None = None) -> None:
        rng = np.random.default_rng([body, 61])
        self._fields: dict[Side, AcousticField] = {
            "front": random_body(body, "front"),
            "back": random_body(body, "back"),
        }
        self.body, self._count, self._held = body, 0, held or HELD
        moved = {side: rng.normal(0.0, ROBOT.translation) for side in self._fields}
        #: where registration puts the landmarks
        self.landmarks: dict[Region, np.ndarray] = {r: np.array(place) + moved[r[1]] for r, place in REGIONS.items()}

    def listen(self, region: Region, place: np.ndarray) -> float:
        """How good a recording for a region at a place (2,) [m] is, 0 to 1; no two recordings are alike."""
        return self.hear(region, place, self._held.force, self._held.speed)[1]

    def hear(
        self, region: Region, place: np.ndarray, force: float | np.ndarray, speed: float | np.ndarray
    ) -> tuple[Heard, float]:
        """The recording itself, with a course of force [N] and slipping speed [m/s], and how good it is."""
        self._count += 1
        conditions = replace(self._held, force=force, speed=speed)
        heard = self._fields[region[1]].listen(place, conditions, rate=RATE, seed=self._count)
        return heard, hidden_rating(heard, region[0])

    def rated(self, region: Region, truth: float) -> float:
        """Mean mark that four raters give to a recording."""
        rng = np.random.default_rng([self.body, list(REGIONS).index(region), 62])
        return float(marks(np.array([truth]), region[0], rng).mean())


def tried(job: tuple[int, str]) -> Listened:
    """One method on one body."""
    body, method = job
    patient, rng = Patient(body), np.random.default_rng([body, 63])
    if method == "RO":
        return registered(patient)
    if method == "DT":
        return operated(patient, rng)
    return planned(patient, rng, method)


def planned(patient: Patient, rng: np.random.Generator, method: str) -> Listened:
    """By the planner."""
    config = ROBOT if method == "BO" else OWN
    exam = Exam(patient.landmarks, config=config, seed=patient.body)
    truth: dict[tuple, float] = {}
    while (visit := exam.ask()) is not None:
        quality = patient.listen(visit.region, visit.suggestion.place)
        truth[*visit.region[:2], visit.suggestion.index] = quality
        exam.tell(visit, float(np.clip(quality + ERROR[visit.region[0]] * rng.standard_normal(), 0.0, 1.0)))
    reports = [exam.report(region) for region in exam.regions]
    best = {r.region: patient.rated(r.region, truth[*r.region[:2], r.candidate]) for r in reports}
    return Listened(patient.body, method, best, len(truth), tuple(r.state for r in reports))


def registered(patient: Patient) -> Listened:
    """At each landmark, once."""
    found = {r: patient.rated(r, patient.listen(r, place)) for r, place in patient.landmarks.items()}
    return Listened(patient.body, "RO", found, len(found))


def operated(patient: Patient, rng: np.random.Generator) -> Listened:
    """By a person who hears how good it is, as one rater does, and searches."""
    best, readings = {}, 0
    for region, landmark in patient.landmarks.items():
        heard = []
        for step in SEARCH:
            truth = patient.listen(region, landmark + step)
            heard.append((float(marks(np.array([truth]), region[0], rng)[0, readings % 4]), truth))
            readings += 1
            if heard[-1][0] >= ROBOT.adequate:
                break
        best[region] = patient.rated(region, max(heard)[1])
    return Listened(patient.body, "DT", best, readings)


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """All methods on all bodies.

    Returns:
        Result with the mean quality of each method, its worst regions, readings, and the acceptance checks.
    """
    result = Result("auscultation_patients", seed=seed, size=size)
    bodies = [FIRST + BODIES["full"] * seed + k for k in range(BODIES[size])]
    jobs = [(body, method) for body in bodies for method in METHODS]
    with progress.stage("exams", total=len(jobs)) as stage:
        found = spread(tried, jobs, executor, lambda done: stage.advance())
    by_method = {method: [one for one in found if one.method == method] for method in METHODS}
    values = np.array([[[one.marks[r] for r in REGIONS] for one in by_method[method]] for method in METHODS])
    effects = method_effects(values, METHODS)
    _judge(result, values, by_method)
    result.detail(
        "methods",
        {
            method: {
                "mean quality": effects.means[method],
                "95 % +-": effects.half_width,
                "published": PUBLISHED[method],
                "worst region of a body": float(values[k].min(1).mean()),
                "readings of a body": float(np.mean([one.readings for one in by_method[method]])),
            }
            for k, method in enumerate(METHODS)
        },
    )
    result.detail("Tukey's p", {f"{a}-{b}": p for (a, b), p in effects.p.items()})
    result.detail("residual variance (published 0.0196)", effects.residual)
    states = [state for one in by_method["BO"] for state in one.states]
    result.detail("how BO's regions ended", {state: states.count(state) for state in sorted(set(states))})
    if run_directory is not None:
        report(result, values).write(Path(run_directory) / "report.html")
    return result


def _judge(result: Result, values: np.ndarray, by_method: dict[str, list[Listened]]) -> None:
    bo, ro, _, own = values
    gain, worst = (bo.mean(1) - ro.mean(1)), bo.min(1) - ro.min(1)
    result.check(
        "BO over RO: mean of a body's regions", float(gain.mean()), 0.036, ">=", "1", f"{SOURCE}: 0.036 to 0.079"
    )
    if len(bo) > 2:
        p = float(ttest_rel(bo.mean(1), ro.mean(1)).pvalue)
        result.check("BO over RO: paired p", p, 0.05, "<", "1", SPEC)
    result.check("BO over RO: a body's worst region", float(worst.mean()), 0.0, ">", "1", f"{SOURCE}: 0.094 to 0.375")
    result.check("BO, own over RO: mean of a body's regions", float((own - ro).mean()), 0.036, ">=", "1", SPEC)
    readings = max(one.readings for one in by_method["BO"])
    result.check("readings of a body, most", readings, 48, "<=", "readings", SOURCE)
    heard = sum(state == "heard" for one in by_method["BO"] for state in one.states)
    result.check("regions that end because they are heard", heard, 1, ">=", "regions", SPEC)


def report(result: Result, values: np.ndarray) -> Report:
    page = Report("Listening by plan, at landmarks, and by hand", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section("Methods", "Mean mark of four raters for the best recording of a region; in brackets as published.")
    rows = result.details["methods"]
    page.table(
        ["method", "quality", "worst region of a body", "readings of a body"],
        [
            [
                method,
                f"{row['mean quality']:.3f} +- {row['95 % +-']:.3f} "
                + (f" ({row['published']:.3f})" if row["published"] else ""),
                f"{row['worst region of a body']:.3f}",
                f"{row['readings of a body']:.1f}",
            ]
            for method, row in rows.items()
        ],
    )
    page.section("Regions")
    show_regions(page, values, METHODS)
    return page
