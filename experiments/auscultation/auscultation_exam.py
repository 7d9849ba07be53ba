"""Does an arm that scans a body and plans where to listen come home with better recordings than one that goes to the landmarks?

    ./refit experiment auscultation_exam            # 10 bodies
    ./refit experiment auscultation_exam --quick    # 1

Each body is scanned by a simulated depth camera, front and back, and a reference torso is fitted to the scan; where it is rejected, the
landmarks are set by hand, as in the published trials. Every reading is made by a Panda in MuJoCo, which places the stethoscope onto
the body, holds it there with 7 N for ten seconds, and comes back (see `auscultation_contact`). It is told the scan's point and normal,
and meets the body itself; the course of the force and the membrane's slipping shape the sound that is recorded there. The
quality is estimated by the network that comes with the project, and the exam is planned by it: BO is the published planner, RO takes
one reading at each registered landmark. A placement that fails is told to the planner, which goes elsewhere.

Both do it twice: with the landmarks as registered, which are off by a third of what they were on people, and with landmarks that are moved
over the scan until they are off by what was published ("displaced"), since with good landmarks there is less to be found.

What counts is the mean mark of four simulated raters for the recording that is handed over for a region.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.stats import ttest_rel

from experiments.auscultation.auscultation_patients import HELD
from identification.exam.pictures import Told, show_beliefs, show_recordings, show_regions, told
from reporting import Progress, Report, Result, SilentProgress
from sim_core.auscultation.depth_view import depth_view
from sim_core.auscultation.exam import ROBOT
from sim_core.auscultation.examination import Examination, Fault, Trial
from sim_core.auscultation.hidden_rating import hidden_rating, marks
from sim_core.auscultation.placement import Outcome, Phase
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.regions import REGIONS, Region, Side
from sim_core.auscultation.registration import Registration, register
from sim_core.auscultation.shipped_estimators import shipped_estimator
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.torso import Torso
from sim_core.auscultation.usability import usable
from sim_core.host.executors import spread
from sim_core.plant.stethoscope_bench import ChestConfig, PlacementTrace, StethoscopeBench

SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 5.4.2"
SPEC = "own target, after section 5.4.2 of the thesis"
BODIES = {"quick": 1, "full": 10}
#: first body, beyond those of estimators and of `auscultation_patients`
FIRST = 950_000
#: a lying body's axes in those of the arm's base: to its left, to its head, upwards; and where they begin [m]
AXES, ORIGIN = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0.48, 0.0, 0.18])
CAMERA = 0.9  # [m] before the body
SIDES: tuple[Side, ...] = ("front", "back")
METHODS = ("BO", "RO", "BO, displaced", "RO, displaced")


@dataclass
class Examined:
    """One method on one body.

    Attributes:
        method: which. marks: mean mark of the recording that is handed over, by region. readings, failures: how many.
        seconds: of the arm's time. steady: least share of a recording within 1 N of 7 N. peak: force [N].
        errors: of the estimated quality, a reading each. landmarks: errors of the registered ones [m]; by_hand: sides whose
            landmarks had to be set by hand.
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
    landmarks: list[float] = field(default_factory=list)
    by_hand: int = 0
    history: list[Told] = field(default_factory=list)
    recordings: dict[Region, tuple[np.ndarray, float]] = field(default_factory=dict)


class Skin:
    """The side of a body that is up, under the arm.

    Args:
        torso: of that side.
    """

    def __init__(self, torso: Torso) -> None:
        seen = torso.normals[:, 2] > 0.05
        rows = np.column_stack([torso.vertices[seen, 2], torso.normals[seen]])
        self._rows = LinearNDInterpolator(torso.vertices[seen, :2], rows)

    def under(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Point and normal (3,) of the skin below or above a point (3,), all in the body's axes [m].

        Raises:
            ValueError: there is none.
        """
        height, *normal = self._rows(point[:2])[0]
        if not np.isfinite(height):
            raise ValueError(f"there is no skin under {point}")
        return np.array([*point[:2], height]), np.array(normal) / np.linalg.norm(normal)


class Arm:
    """The arm before a body.

    Args:
        body: number of the person. record: of this exam.
    """

    def __init__(self, body: int, record: Examined) -> None:
        self.patient, self.record = SimulatedPatient(body), record
        self.heard: np.ndarray | None = None  # the last recording
        self._count = 0
        self._skin = {side: Skin(torso) for side, torso in self.patient.torso.items()}
        flesh = self.patient.flesh
        chest = ChestConfig(stiffness=flesh.stiffness, breath=flesh.breath, breath_rate=flesh.breath_rate)
        self._bench = StethoscopeBench(ORIGIN + [0.0, 0.0, 0.12], AXES[:, 2], chest, body)

    def scan(self, side: Side) -> Registration:
        """The body's side, registered; by hand where the fit is rejected."""
        torso = self.patient.torso[side]
        found = register(depth_view(torso, CAMERA, seed=self.patient.body), np.array([0.0, 0.0, CAMERA]), side)
        if not found.is_accepted:
            self.record.by_hand += 1
            return found.with_landmarks(torso.landmarks)
        errors = [np.linalg.norm(found.landmarks[region] - place) for region, place in torso.landmarks.items()]
        self.record.landmarks += [float(error) for error in errors]
        return found

    def read(self, region: Region, point: np.ndarray, normal: np.ndarray) -> tuple[float, float] | str:
        """Estimated and true quality of a recording where the scan has a point and a normal (3,) of the skin, or why there is none."""
        try:
            skin, out = self._skin[region[1]].under(point)
        except ValueError as error:
            self.record.failures += 1
            return str(error)
        self._bench.move_chest(ORIGIN + AXES @ skin, AXES @ out)
        began = self._bench.time
        trace = self._bench.place(ORIGIN + AXES @ point, AXES @ normal)
        self.record.seconds += self._bench.time - began
        self.record.peak = max(self.record.peak, *trace.force)
        if trace.placement.outcome is not Outcome.RECORDED:
            self.record.failures += 1
            return trace.placement.why
        course, slip = felt(trace, AXES @ out)
        self.record.steady = min(self.record.steady, float(np.mean(np.abs(course - 7.0) < 1.0)))
        self._count += 1
        place = skin[:2] * [1.0 if region[1] == "front" else -1.0, 1.0]
        held = replace(HELD, force=course, speed=slip)
        heard = self.patient.field[region[1]].listen(place, held, rate=RATE, seed=self._count)
        self.heard = heard.sound
        usability = usable(heard.sound, RATE, region[0])
        if not usability:
            self.record.failures += 1
            return usability.sentence
        truth, score = hidden_rating(heard, region[0]), shipped_estimator(region[0]).predict(heard.sound, RATE)
        self.record.readings += 1
        self.record.errors.append(abs(score - truth))
        return score, truth

    def rated(self, region: Region, truth: float) -> float:
        """Mean mark that four raters give to a recording."""
        rng = np.random.default_rng([self.patient.body, list(REGIONS).index(region), 62])
        return float(marks(np.array([truth]), region[0], rng).mean())


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
    record = Examined(method)
    arm = Arm(body, record)
    rng = np.random.default_rng([body, 61])
    for side in SIDES:
        registration = arm.scan(side)
        if method.endswith("displaced"):
            registration = _displaced(registration, rng.normal(0.0, ROBOT.translation))
        if method.startswith("RO"):
            _registered(arm, registration)
        else:
            _planned(arm, registration, is_shown)
    return record


def _displaced(registration: Registration, by: np.ndarray) -> Registration:
    """With landmarks that are moved on the coronal plane (2,) [m], as far as the scan goes."""
    moved = {}
    for region, place in registration.landmarks.items():
        there = registration.project(place) + by
        try:
            moved[region] = registration.deproject(there)[0]
        except ValueError:
            moved[region] = place
    return replace(registration, landmarks=moved)


def _registered(arm: Arm, registration: Registration) -> None:
    """A reading at each landmark of a side."""
    for region, place in registration.landmarks.items():
        found = arm.read(region, *registration.deproject(registration.project(place)))
        arm.record.marks[region] = 0.0 if isinstance(found, str) else arm.rated(region, found[1])


def _planned(arm: Arm, registration: Registration, is_shown: bool) -> None:
    """Readings of a side where the planner wants them."""
    record, truth, sounds = arm.record, {}, {}
    examination = Examination.begin(registration, seed=arm.patient.body)
    exam = examination.exam
    while (target := examination.ask()) is not None and not examination.interrupted:
        visit, index = target.visit, target.visit.suggestion.index
        found = arm.read(visit.region, target.point, target.normal)
        if isinstance(found, str):
            examination.settle(target, Trial(visit.region, index, fault=Fault.PLACE, message=found))
            continue
        truth[*visit.region[:2], index], sounds[*visit.region[:2], index] = found[1], arm.heard
        examination.settle(target, Trial(visit.region, index, float(np.clip(found[0], 0.0, 1.0))))
        if is_shown:
            record.history.append(told(exam, visit, found[0]))
    for region in exam.regions:
        candidate = exam.report(region).candidate
        record.marks[region] = 0.0 if candidate is None else arm.rated(region, truth[*region[:2], candidate])
        if is_shown and candidate is not None:
            record.recordings[region] = sounds[*region[:2], candidate], record.marks[region]


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
    result.detail("sides whose landmarks were set by hand", sum(one.by_hand for one in by_method["BO"]))
    result.detail("mean error of the estimated quality", float(np.mean([e for one in found for e in one.errors])))
    if run_directory is not None:
        report(result, values, found[0]).write(Path(run_directory) / "report.html")
    return result


def _judge(result: Result, values: np.ndarray, found: list[Examined]) -> None:
    for name, (bo, ro), least in (("", values[:2], 0.0), (", displaced", values[2:], 0.036)):
        gain, worst = bo.mean(1) - ro.mean(1), bo.min(1) - ro.min(1)
        source = f"{SOURCE}: 0.036 to 0.079" if least else SPEC
        result.check(f"BO over RO{name}: mean of a body's regions", float(gain.mean()), least, ">=", "1", source)
        if len(bo) > 2 and least:
            p = float(ttest_rel(bo.mean(1), ro.mean(1)).pvalue)
            result.check(f"BO over RO{name}: paired p", p, 0.05, "<", "1", SPEC)
        source = f"{SOURCE}: 0.094 to 0.375" if least else SPEC
        result.check(f"BO over RO{name}: a body's worst region", float(worst.mean()), 0.0, ">=", "1", source)
    landmarks = [error for one in found for error in one.landmarks if not one.method.endswith("displaced")]
    result.check(
        "error of the landmarks, mean", float(np.mean(landmarks)), 0.0173, "<=", "m", f"{SOURCE}: 30 scanned bodies"
    )
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
