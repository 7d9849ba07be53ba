"""Does an arm that plans where to listen come home with better recordings than one that goes to the landmarks?

    ./refit experiment auscultation_exam            # 10 bodies
    ./refit experiment auscultation_exam --quick    # 2

Every reading is made by a Panda in MuJoCo, which places the stethoscope onto the body, holds it there with 7 N for ten seconds, and
comes back (see `auscultation_contact`); the course of the force and the membrane's slipping shape the sound that is recorded. The
quality is estimated by the network that comes with the project, and the exam is planned by it: BO is the published planner, RO takes
one reading at each registered landmark. Landmarks are off by what registration was off in the published trials, and the
surface is told with an error of 5 mm. A placement that fails is told to the planner, which goes elsewhere.

What counts is the mean mark of four simulated raters for the recording that is handed over for a region. Bodies lie on their back, then on
their front, a rounded chest under the arm; registration itself is not part of this experiment, and its time not of an exam's.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel

from experiments.auscultation.auscultation_patients import HELD, Patient
from identification.exam.pictures import Told, show_beliefs, show_recordings, show_regions, told
from reporting import Progress, Report, Result, SilentProgress
from sim_core.auscultation.exam import ROBOT, Exam
from sim_core.auscultation.placement import Outcome, Phase
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.regions import REGIONS, Region
from sim_core.auscultation.shipped_estimators import shipped_estimator
from sim_core.auscultation.usability import usable
from sim_core.host.executors import spread
from sim_core.plant.stethoscope_bench import ChestConfig, PlacementTrace, StethoscopeBench

SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 5.4.2"
SPEC = "own target, after section 5.4.2 of the thesis"
BODIES = {"quick": 2, "full": 10}
#: first body, beyond those of estimators and of `auscultation_patients`
FIRST = 950_000
#: of the body's middle under the arm [m], with its head away from the arm; of its rounding [m]; of the told surface [m]
MIDDLE, ROUND, DEPTH_ERROR = np.array([0.48, 0.0, 0.3]), 0.18, 0.005
METHODS = ("BO", "RO")


@dataclass
class Examined:
    """One method on one body.

    Attributes:
        method: which. marks: mean mark of the recording that is handed over, by region. readings, failures: how many.
        seconds: of the arm's time. steady: least share of a recording within 1 N of 7 N. peak: force [N].
        errors: of the estimated quality, a reading each.
        history, recordings: of a body that is shown, what was believed, and what is handed over, with its mark.
    """

    method: str
    marks: dict[Region, float] = field(default_factory=dict)
    readings: int = 0
    failures: int = 0
    seconds: float = 0.0
    steady: float = 1.0
    peak: float = 0.0
    errors: list[float] = field(default_factory=list)
    history: list[Told] = field(default_factory=list)
    recordings: dict[Region, tuple[np.ndarray, float]] = field(default_factory=dict)


class Arm:
    """The arm before a body.

    Args:
        patient: the body. record: of this exam.
    """

    def __init__(self, patient: Patient, record: Examined) -> None:
        self.patient, self.record = patient, record
        self.heard: np.ndarray | None = None  # the last recording
        self._rng = np.random.default_rng([patient.body, 65])
        chest = ChestConfig(stiffness=self._rng.uniform(700.0, 2000.0), breath=0.0025)
        self._bench = StethoscopeBench(*surface(np.zeros(2)), chest, patient.body)

    def read(self, region: Region, place: np.ndarray) -> tuple[float, float] | str:
        """Estimated and true quality of a recording at a place (2,) [m] of a side, or why there is none."""
        point, normal = surface(place)
        self._bench.move_chest(point, normal)
        began = self._bench.time
        trace = self._bench.place(point + DEPTH_ERROR * self._rng.standard_normal() * normal, normal)
        self.record.seconds += self._bench.time - began
        self.record.peak = max(self.record.peak, *trace.force)
        if trace.placement.outcome is not Outcome.RECORDED:
            self.record.failures += 1
            return trace.placement.why
        course, slip = felt(trace, normal)
        self.record.steady = min(self.record.steady, float(np.mean(np.abs(course - 7.0) < 1.0)))
        heard, truth = self.patient.hear(region, place, course, slip)
        self.heard = heard.sound
        usability = usable(heard.sound, RATE, region[0])
        if not usability:
            self.record.failures += 1
            return usability.sentence
        score = shipped_estimator(region[0]).predict(heard.sound, RATE)
        self.record.readings += 1
        self.record.errors.append(abs(score - truth))
        return score, truth


def surface(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Point (3,) [m] and normal (3,) of a side's place (2,) [m] under the arm: x to the person's left, which is the arm's right."""
    x, y = place
    lean = x / ROUND
    return MIDDLE + [y, -x, -0.5 * x * lean], np.array([0.0, -lean, 1.0]) / np.hypot(lean, 1.0)


def felt(trace: PlacementTrace, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Force [N] and slipping speed [m/s] of the recording, 100 times a second."""
    during = trace.during(Phase.RECORD)
    force, position = np.array(trace.force)[during][::10], np.array(trace.position)[during][::10]
    along = np.diff(position, axis=0) / 0.01
    slip = np.linalg.norm(along - (along @ normal)[:, None] * normal, axis=1)
    return force, np.append(slip, slip[-1])


def tried(job: tuple[int, str, bool]) -> Examined:
    """One method on one body, which may be shown in the report."""
    body, method, is_shown = job
    patient, record = Patient(body, HELD), Examined(method)
    arm = Arm(patient, record)
    if method == "RO":
        for region, place in patient.landmarks.items():
            found = arm.read(region, place)
            record.marks[region] = 0.0 if isinstance(found, str) else patient.rated(region, found[1])
        return record
    exam, truth, sounds = Exam(patient.landmarks, config=ROBOT, seed=body), {}, {}
    while (visit := exam.ask()) is not None:
        found = arm.read(visit.region, visit.suggestion.place)
        if isinstance(found, str):
            exam.fail(visit, found)
            continue
        truth[*visit.region[:2], visit.suggestion.index] = found[1]
        sounds[*visit.region[:2], visit.suggestion.index] = arm.heard
        exam.tell(visit, found[0])
        if is_shown:
            record.history.append(told(exam, visit, found[0]))
    for region in exam.regions:
        candidate = exam.report(region).candidate
        record.marks[region] = 0.0 if candidate is None else patient.rated(region, truth[*region[:2], candidate])
        if is_shown and candidate is not None:
            record.recordings[region] = sounds[*region[:2], candidate], record.marks[region]
    return record


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Both methods on all bodies.

    Returns:
        Result with quality, forces, times, and the acceptance checks.
    """
    result = Result("auscultation_exam", seed=seed, size=size)
    bodies = [FIRST + BODIES["full"] * seed + k for k in range(BODIES[size])]
    jobs = [(body, method, body == bodies[0] and method == "BO") for body in bodies for method in METHODS]
    with progress.stage("exams", total=len(jobs)) as stage:
        found = spread(tried, jobs, executor, lambda done: stage.advance())
    by_method = {method: [one for one in found if one.method == method] for method in METHODS}
    values = np.array([[[one.marks[r] for r in REGIONS] for one in by_method[method]] for method in METHODS])
    _judge(result, values, found)
    for method, exams in by_method.items():
        result.detail(
            method,
            {
                "mean quality": float(values[METHODS.index(method)].mean()),
                "worst region of a body": float(values[METHODS.index(method)].min(1).mean()),
                "readings of a body": float(np.mean([one.readings for one in exams])),
                "failed placements or recordings": sum(one.failures for one in exams),
                "time of an exam [s]": float(np.mean([one.seconds for one in exams])),
                "time of a reading [s]": sum(o.seconds for o in exams) / sum(o.readings for o in exams),
            },
        )
    result.detail("mean error of the estimated quality", float(np.mean([e for one in found for e in one.errors])))
    if run_directory is not None:
        report(result, values, found[0]).write(Path(run_directory) / "report.html")
    return result


def _judge(result: Result, values: np.ndarray, found: list[Examined]) -> None:
    bo, ro = values
    gain, worst = bo.mean(1) - ro.mean(1), bo.min(1) - ro.min(1)
    result.check(
        "BO over RO: mean of a body's regions", float(gain.mean()), 0.036, ">=", "1", f"{SOURCE}: 0.036 to 0.079"
    )
    if len(bo) > 2:
        result.check("BO over RO: paired p", float(ttest_rel(bo.mean(1), ro.mean(1)).pvalue), 0.05, "<", "1", SPEC)
    result.check("BO over RO: a body's worst region", float(worst.mean()), 0.0, ">", "1", f"{SOURCE}: 0.094 to 0.375")
    result.check("least share of a recording within 7 +- 1 N", min(o.steady for o in found), 0.95, ">=", "1", SPEC)
    result.check("peak force", max(o.peak for o in found), 14.0, "<=", "N", SPEC)
    slowest = max(o.seconds / max(o.readings, 1) for o in found)
    result.check("time of a reading, slowest exam", slowest, 26.4, "<=", "s", f"{SOURCE}: 16.7 to 26.4")


def report(result: Result, values: np.ndarray, shown: Examined) -> Report:
    page = Report("An exam by an arm", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section("Methods")
    names = list(result.details[METHODS[0]])
    rows = [[name, *(f"{result.details[method][name]:.4g}" for method in METHODS)] for name in names]
    page.table(["", *METHODS], rows)
    page.section("Regions")
    show_regions(page, values, METHODS)
    page.section("One body: what was believed", "The first body, in the order in which the arm listened.")
    show_beliefs(page, shown.history)
    page.section("The same body: what was heard")
    show_recordings(page, shown.recordings)
    return page
