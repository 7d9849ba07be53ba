"""Does the arm hold a stethoscope onto a chest as it shall, and does it let go when something goes wrong?

    ./refit experiment auscultation_contact            # 60 chests, and each bad day on 10
    ./refit experiment auscultation_contact --quick    # 8, and each on 1

A Panda in MuJoCo places a stethoscope onto a dome of flesh, which gives way by a spring and a damper, and breathes with an amplitude
of 5 mm. Where the surface is, is told with an error of up to 2 cm, along a normal that is up to 17 degrees from the vertical. The
arm follows by the project's own inverse kinematics and torque law, and feels by a noisy sensor at the wrist.

Then bad days in the middle of a recording: the person jerks towards the arm (5 mm at 0.1 m/s), moves towards it (3 cm at
6 cm/s) or away (5 cm), the sensor falls silent, the arm is stopped for four seconds (its joints hold with a tenth of their
stiffness), the microphone is silent, nobody is there, and flesh
that is too soft. Every one has to end with a declared outcome and with the stethoscope in the air.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.auscultation.placement import Outcome, Phase, Placement
from sim_core.host.executors import spread
from sim_core.plant.stethoscope_bench import ChestConfig, PlacementTrace, StethoscopeBench

SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 5.3"
SPEC = "own target"
CHESTS, BAD = {"quick": 8, "full": 60}, {"quick": 1, "full": 10}
#: of the flesh [N/m]; of the surface's place [m]; of the chest's place about the first one [m], and of its normal
STIFFNESS, ERROR, PLACE, LEAN = (700.0, 2000.0), 0.02, 0.06, 0.3
MIDDLE = np.array([0.5, 0.0, 0.3])
BREATH = 0.005
#: [s] when something goes wrong: the recording has begun by then
WHEN = 13.0


@dataclass(frozen=True)
class Placed:
    """One placement.

    Attributes:
        day: "good" or a key of `DAYS`. outcome: as declared. start: force at the begin of the recording [N].
        steady: share of the recording within 1 N of 7 N. peak: force [N]. transit, approach: speeds at most [m/s].
        away: distance from the told surface at the end [m]. course: force every 20 ms [N].
    """

    day: str
    outcome: str
    start: float
    steady: float
    peak: float
    transit: float
    approach: float
    away: float
    course: np.ndarray


def shifts(speed: float, way: float) -> Callable[[StethoscopeBench], None]:
    """The person moves along the normal by `way` [m]."""

    def act(bench: StethoscopeBench) -> None:
        bench.shift = float(np.clip((bench.time - WHEN) * speed, min(0.0, way), max(0.0, way)))

    return act


def silent(placement: Placement) -> None:
    if placement.recorded > 1.0:
        placement.cancel("the microphone is silent")


#: name -> outcomes that are right
DAYS: dict[str, tuple[Outcome, ...]] = {
    "jerk": (Outcome.TOO_MUCH_FORCE, Outcome.RECORDED),
    "towards": (Outcome.TOO_MUCH_FORCE, Outcome.RECORDED),
    "away": (Outcome.CONTACT_LOST,),
    "sensor silent": (Outcome.SENSOR_SILENT,),
    "arm stopped": (Outcome.ARM_STOPPED, Outcome.CONTACT_LOST),
    "microphone silent": (Outcome.CANCELLED,),
    "nobody there": (Outcome.NO_CONTACT,),
    "too soft": (Outcome.FORCE_NOT_REACHED,),
}
ACTS: dict[str, Callable[[StethoscopeBench], None]] = {
    "jerk": shifts(0.1, 0.005),
    "towards": shifts(0.06, 0.03),
    "away": shifts(-0.1, -0.05),
    "sensor silent": lambda bench: setattr(bench, "deaf", bench.time > WHEN),
    "arm stopped": lambda bench: setattr(bench, "hold", WHEN < bench.time < WHEN + 4.0),
    "nobody there": lambda bench: setattr(bench, "shift", -0.1),
}


def tried(job: tuple[int, str]) -> Placed:
    """One placement on one chest."""
    seed, day = job
    rng = np.random.default_rng([seed, 71])
    normal = np.array([*rng.uniform(-LEAN, LEAN, 2), 1.0])
    normal /= np.linalg.norm(normal)
    point = MIDDLE + rng.uniform(-PLACE, PLACE, 3)
    stiffness = 15.0 if day == "too soft" else rng.uniform(*STIFFNESS)
    chest = ChestConfig(stiffness, breath=BREATH, phase=rng.uniform(0.0, 2.0 * np.pi))
    bench = StethoscopeBench(point, normal, chest, seed)
    bench.interfere = ACTS.get(day, bench.interfere)
    told = point + rng.uniform(-ERROR, ERROR) * normal
    trace = bench.place(told, normal, watch=silent if day == "microphone silent" else lambda placement: None)
    return judged(day, trace, told, normal)


def judged(day: str, trace: PlacementTrace, told: np.ndarray, normal: np.ndarray) -> Placed:
    force, speed = np.array(trace.force), np.array(trace.speed)
    recorded = force[trace.during(Phase.RECORD)]
    return Placed(
        day,
        trace.placement.outcome.name,
        float(recorded[0]) if len(recorded) else np.nan,
        float(np.mean(np.abs(recorded - 7.0) < 1.0)) if len(recorded) else np.nan,
        float(force.max()),
        float(speed[trace.during(Phase.TRANSIT)].max()),
        float(max(speed[trace.during(Phase.APPROACH)], default=0.0)),
        float((trace.position[-1] - told) @ normal),
        force[::20],
    )


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Good days on all chests, then each bad day.

    Returns:
        Result with forces, speeds, outcomes, and the acceptance checks.
    """
    result = Result("auscultation_contact", seed=seed, size=size)
    first = CHESTS["full"] * seed
    jobs = [(first + k, "good") for k in range(CHESTS[size])]
    jobs += [(first + k, day) for day in DAYS for k in range(BAD[size])]
    with progress.stage("placements", total=len(jobs)) as stage:
        placed = spread(tried, jobs, executor, lambda done: stage.advance())
    good, bad = [p for p in placed if p.day == "good"], [p for p in placed if p.day != "good"]
    _judge(result, good, bad)
    result.detail("outcomes", {day: sorted({p.outcome for p in bad if p.day == day}) for day in DAYS})
    result.detail("peak force on bad days [N]", {day: max(p.peak for p in bad if p.day == day) for day in DAYS})
    result.detail("length of a placement [s]", float(np.mean([0.02 * len(p.course) for p in good])))
    if run_directory is not None:
        report(result, good, bad).write(Path(run_directory) / "report.html")
    return result


def _judge(result: Result, good: list[Placed], bad: list[Placed]) -> None:
    result.check("good days: recorded", np.mean([p.outcome == "RECORDED" for p in good]), 1.0, ">=", "1", SPEC)
    apart = max((abs(p.start - 7.0) for p in good), default=np.nan)
    result.check("good days: force at the recording's begin apart from 7 N", apart, 1.0, "<=", "N", f"{SOURCE}: 7 N")
    steady = min(p.steady for p in good)
    result.check("good days: least share of a recording within 7 +- 1 N", steady, 0.95, ">=", "1", SPEC)
    result.check("good days: peak force", max(p.peak for p in good), 14.0, "<=", "N", SPEC)
    result.check("good days: speed in the air", max(p.transit for p in good), 0.065, "<=", "m/s", SOURCE)
    result.check("good days: speed of approach", max(p.approach for p in good), 0.03, "<=", "m/s", SOURCE)
    declared = np.mean([p.outcome in [right.name for right in DAYS[p.day]] for p in bad])
    result.check("bad days: outcome as it shall be", declared, 1.0, ">=", "1", SPEC)
    result.check("bad days: peak force", max(p.peak for p in bad), 15.0, "<=", "N", SPEC)
    result.check(
        "bad days: least distance from the surface at the end", min(p.away for p in bad), 0.07, ">=", "m", SPEC
    )


def report(result: Result, good: list[Placed], bad: list[Placed]) -> Report:
    page = Report("A stethoscope on a chest", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section("Bad days", "On each of them the recording is given up, or goes on where it could.")
    page.table(
        ["day", "outcomes", "peak force [N]"],
        [
            [day, ", ".join(o.lower().replace("_", " ") for o in result.details["outcomes"][day]), f"{peak:.1f}"]
            for day, peak in result.details["peak force on bad days [N]"].items()
        ],
    )
    page.section("Force", "Good days on the left, one of each bad day on the right.")
    fig, axes = figure(1, 2, sharey=True)
    left, right = np.ravel(axes)
    for colour, placed in zip(PALETTE, good):
        left.plot(0.02 * np.arange(len(placed.course)), placed.course, color=colour)
    for colour, day in zip([*PALETTE, "black"], DAYS):
        placed = next(p for p in bad if p.day == day)
        right.plot(0.02 * np.arange(len(placed.course)), placed.course, color=colour, label=day)
    for axis in (left, right):
        axis.set_xlabel("time [s]")
        axis.axhline(7.0, color="black", linestyle=":")
    left.set_ylabel("force [N]")
    right.legend(fontsize=7)
    page.figure(fig, "The true force between stethoscope and chest.")
    return page
