"""Does a robot's hand hold what its operator's glove grasps, and what do targets that are closed too far change?

    ./refit experiment hand_retargeting            # twenty-four operators
    ./refit experiment hand_retargeting --quick    # three operators with two trials of each grasp, as the published study

Operators who are drawn at random imitate fifteen poses of the robot's hand with a glove, from which one regression for each finger
is learnt: a Gaussian process or kernel ridge regression, to the poses as they are (unbiased) or with fingers in contact closed
further (biased). Then they imitate four other grasps. The angles that the robot's hand gets are compared with those of a
hand-designed grasp, and the hand, alone on a wrist in MuJoCo, closes about an object and is shaken along a square, five rounds
that become faster; the score is the number of rounds that the object survives.

The operators and their glove are synthetic. Nobody looks at the grasp and corrects it, as the published operators could. Objects,
the size and speeds of the square, and by how much biased targets are closed further are not published, and are ours.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.plant.avatar.hand_bench import OBJECTS, ROUNDS, HandBench
from sim_core.telepresence.hand.calibration import GloveCalibration
from sim_core.telepresence.hand.poses import FINGERS, HandPose, over_closed
from sim_core.telepresence.hand.procedure import GloveProcedure
from sim_core.telepresence.hand.retargeting import METHODS, OVER_CLOSE, fit_hand
from sim_core.telepresence.hand.synthetic_operator import SyntheticOperator

THESIS = "Zhu, PhD thesis (University of Illinois 2023), table 8.5"
SOURCE = "own target, after table 8.5 of Zhu, PhD thesis (University of Illinois 2023)"
GRASPS = ("Pinch 1", "Pinch 2", "Cube", "Power")
HAND_DESIGNED = ("hand-designed", "none")
#: targets, model: published scores of the four grasps, and mean absolute error [rad]
PUBLISHED: dict[tuple[str, str], tuple[tuple[float, ...], float | None]] = {
    HAND_DESIGNED: ((3.50, 5.00, 4.00, 5.00), None),
    ("unbiased", "gaussian process"): ((2.67, 5.00, 3.00, 5.00), 0.317),
    ("unbiased", "kernel ridge"): ((2.17, 4.67, 2.00, 5.00), 0.217),
    ("biased", "gaussian process"): ((4.17, 4.83, 3.33, 5.00), 0.402),
    ("biased", "kernel ridge"): ((3.50, 5.00, 3.50, 5.00), 0.282),
}
#: operators, of which each does every grasp so many times
SIZES, TRIALS = {"quick": 3, "full": 24}, 2
#: the four grasps: angles at which the fingers touch the object, which the operator imitates [rad]
POSES = {
    "Pinch 1": HandPose("Pinch 1", "", (0.928, 0.2, 0.2, 0.2, 0.282, 1.75), contact=("index", "thumb")),
    "Pinch 2": HandPose("Pinch 2", "", (0.970, 0.997, 0.25, 0.25, 0.369, 1.9), contact=("index", "middle", "thumb")),
    "Cube": HandPose(
        "Cube", "", (0.829, 0.854, 0.832, 0.95, 0.136, 1.85), contact=("index", "middle", "ring", "thumb")
    ),
    "Power": HandPose("Power", "", (1.333, 1.37, 1.334, 1.217, 0.338, 1.9), contact=FINGERS),
}
#: by which the hand-designed grasps are closed further where they touch [rad]
SQUEEZE = 0.05
#: readings of the glove in a trial, at 62.5 Hz, which lead the hand again and again while it is shaken
SAMPLES = 60
#: seven minutes [s], and how often the glove is read in the calibration [Hz]
LONGEST, RATE = 420.0, 60.0


@dataclass(frozen=True)
class Trial:
    """One grasp of one operator by one model.

    Attributes:
        targets, model: as in `PUBLISHED`. grasp: one of `GRASPS`. operator: seed.
        error: mean absolute difference of the six motors from the hand-designed grasp [rad].
        squeeze: mean of angle beyond the first touch, of the fingers that touch [rad].
        score: rounds survived.
    """

    targets: str
    model: str
    grasp: str
    operator: int
    error: float
    squeeze: float
    score: int


def reference(grasp: str) -> np.ndarray:
    """The hand-designed grasp: angles of the motors (6,) [rad]."""
    return over_closed(POSES[grasp], SQUEEZE)


def calibrated(operator: SyntheticOperator) -> tuple[GloveCalibration, float]:
    """The operator's calibration, and how long the procedure took [s].

    He takes a pose within the time that he is given for it, as the procedure's prompts say.

    Raises:
        RuntimeError: the procedure failed; it says why.
    """
    procedure, now, glove, number = GloveProcedure(f"synthetic {operator.seed}", 0.0), 0.0, np.zeros((1, 20)), -1
    while not procedure.ended:
        if number != procedure.number:
            number, k = procedure.number, 0
            glove = operator.readings(np.array(procedure.pose.angles), 400, attempt=0)
        procedure.hear(glove[k % len(glove)], now)
        k, now = k + 1, now + 1.0 / RATE
    if procedure.calibration is None:
        raise RuntimeError(procedure.failure)
    return procedure.calibration, now


def tried(seed: int) -> tuple[list[Trial], float]:
    """All trials of one operator, and how long the calibration took [s]."""
    operator = SyntheticOperator(seed)
    calibration, duration = calibrated(operator)
    found = []
    for grasp in GRASPS:
        bench = HandBench(OBJECTS[grasp])
        gloves = [
            operator.readings(np.array(POSES[grasp].angles), SAMPLES, attempt, slipped=True)
            for attempt in range(1, TRIALS + 1)
        ]
        for targets, over in (("unbiased", 0.0), ("biased", OVER_CLOSE)):
            for method in METHODS:
                hand = fit_hand(calibration, method, bench.lower, bench.upper, over)
                for glove in gloves:
                    angles = np.array([hand(reading) for reading in glove])
                    found.append(judged(bench, targets, method, grasp, seed, angles))
    return found, duration


def judged(bench: HandBench, targets: str, model: str, grasp: str, seed: int, angles: np.ndarray) -> Trial:
    """What a grasp is worth that is led by angles (m, 6) [rad], one set after the other."""
    mean = angles.mean(0)
    touching = over_closed(POSES[grasp], 1.0) > np.array(POSES[grasp].angles)
    bench.close(mean)
    return Trial(
        targets,
        model,
        grasp,
        seed,
        float(np.abs(mean - reference(grasp)).mean()),
        float((mean - np.array(POSES[grasp].angles))[touching].mean()),
        bench.shake(angles),
    )


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Calibrate all operators, let them grasp, shake.

    Returns:
        Result with the five rows of the table beside the published ones, and acceptance checks.
    """
    result = Result("hand_retargeting", seed=seed, size=size)
    operators = [SIZES["full"] * seed + k for k in range(SIZES[size])]
    trials = [judged(HandBench(OBJECTS[grasp]), *HAND_DESIGNED, grasp, -1, reference(grasp)[None]) for grasp in GRASPS]
    with progress.stage("operators", total=len(operators)) as stage:
        found = spread(tried, operators, executor, lambda done: stage.advance())
    for theirs, _ in found:
        trials += theirs
    rows = _rows(trials)
    result.detail("rows", [{"targets": key[0], "model": key[1], **row} for key, row in rows.items()])
    result.detail("squeeze of hand-designed grasps [rad]", SQUEEZE)
    result.detail("biased targets are closed further by [rad]", OVER_CLOSE)
    _judge(result, rows, max(duration for _, duration in found))
    if run_directory is not None:
        report(result, rows, trials).write(Path(run_directory) / "report.html")
    return result


def _rows(trials: list[Trial]) -> dict[tuple[str, str], dict[str, float | None]]:
    """By targets and model: mean score of each grasp, its standard error over operators, and the mean absolute error."""
    rows = {}
    for key in PUBLISHED:
        mine = [trial for trial in trials if (trial.targets, trial.model) == key]
        row: dict[str, float | None] = {}
        for grasp in GRASPS:
            row[grasp] = float(np.mean([trial.score for trial in mine if trial.grasp == grasp]))
            row[f"{grasp} +-"] = _standard_error(
                [
                    float(np.mean([t.score for t in mine if t.grasp == grasp and t.operator == operator]))
                    for operator in {trial.operator for trial in mine}
                ]
            )
            row[f"{grasp} squeeze"] = float(np.mean([trial.squeeze for trial in mine if trial.grasp == grasp]))
        row["error"] = None if key == HAND_DESIGNED else float(np.mean([trial.error for trial in mine]))
        rows[key] = row
    return rows


def _standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _judge(result: Result, rows, duration: float) -> None:
    result.check("calibration with 15 poses", duration, LONGEST, "<", "s", SOURCE)
    for model in METHODS:
        published = PUBLISHED["unbiased", model][1]
        error = rows["unbiased", model]["error"]
        result.check(f"{model}, unbiased: mean absolute error", error, 0.32, "<=", "rad", f"{SOURCE}: {published}")
    ridge, process = (rows["unbiased", model]["error"] for model in ("kernel ridge", "gaussian process"))
    result.check(
        "unbiased: error of kernel ridge over that of the Gaussian process", ridge / process, 1.0, "<=", "1", SOURCE
    )
    for model in METHODS:
        biased, unbiased = rows["biased", model], rows["unbiased", model]
        was, became = (PUBLISHED[targets, model][0][0] for targets in ("unbiased", "biased"))
        gain = biased["Pinch 1"] - unbiased["Pinch 1"]
        said = f"{SOURCE}: {became} - {was}"
        result.check(f"{model}: rounds that biased targets gain in Pinch 1", gain, 1.0, ">=", "of 5", said)
        result.check(
            f"{model}: error that they add", biased["error"] - unbiased["error"], 0.0, ">", "rad", f"{SOURCE}: it rises"
        )


def report(result: Result, rows, trials: list[Trial]) -> Report:
    page = Report("From a glove to a robot's hand", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section(
        "Scores and errors",
        f"Rounds survived, of {ROUNDS}, with the standard error over operators; in brackets as published.",
    )
    page.table(
        ["targets", "model", *GRASPS, "mean absolute error [rad]"],
        [
            [
                *key,
                *(
                    f"{row[grasp]:.2f} +- {row[f'{grasp} +-']:.2f} ({score:.2f})"
                    for grasp, score in zip(GRASPS, PUBLISHED[key][0])
                ),
                "-" if row["error"] is None else f"{row['error']:.3f} ({PUBLISHED[key][1]:.3f})",
            ]
            for key, row in rows.items()
        ],
    )
    page.section(
        "Squeeze and score", "Each point is a trial; what is left of zero does not touch the object with all fingers."
    )
    fig, axes = figure(2, 2, sharex=True, sharey=True)
    for axis, grasp in zip(np.ravel(axes), GRASPS):
        for colour, key in zip(PALETTE, PUBLISHED):
            mine = [t for t in trials if t.grasp == grasp and (t.targets, t.model) == key]
            axis.plot([t.squeeze for t in mine], [t.score for t in mine], "o", color=colour, label=", ".join(key))
        axis.set_title(grasp)
        axis.axvline(0.0, color=PALETTE[6], linestyle=":")
    for axis in axes[1]:
        axis.set_xlabel("beyond the first touch [rad]")
    for axis in axes[:, 0]:
        axis.set_ylabel("rounds")
    axes[0, 0].legend()
    page.figure(fig, "Angle beyond the first touch, mean of the fingers that hold.")
    return page
