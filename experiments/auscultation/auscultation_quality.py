"""How well does an estimator foretell what listeners say of a recording, on bodies that it has not heard?

    ./refit experiment auscultation_quality            # fits to 800 bodies, judges on 150 others
    ./refit experiment auscultation_quality --quick    # judges the shipped estimators on 25 bodies, and fits small ones

Two estimators: boosted trees on a few features, as published, and a small convolutional network on the log-mel
spectrogram. Both are fitted to the mean of four listeners' marks, as the published one, and judged on other bodies:
against such marks, as published, and against the hidden rating behind them, which no estimator sees. The trees'
settings are chosen among bodies of the training set; those of the network are fixed, and were found on bodies 10000
to 10099, which are neither learnt from nor judged on.

The recordings are synthetic, eight of each body. What is learnt here is the rating of the simulated listeners, not
that of physicians.

With REFIT_CINC2016=FOLDER the shipped ones also judge the real hearts of the PhysioNet/CinC Challenge 2016, and the
result says how well they tell good recordings from poor ones.

The full size writes the four files that the project ships (heart and lung, trees and network) to the run's directory;
data/auscultation/README.md says how to put them in place.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from experiments.problems.changed_recordings import CHANGES, errors_when_changed
from experiments.problems.rated_recordings import STRUCTURES, RatedSet, rated_bodies
from experiments.problems.real_quality import cinc2016_folder, judged_cinc2016
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.auscultation.boosted_trees import TreeSettings, fit_trees
from sim_core.auscultation.network_training import train_network
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.quality_estimator import FEATURES, QualityEstimator
from sim_core.auscultation.quality_network import QualityNetwork
from sim_core.auscultation.regions import Structure
from sim_core.auscultation.shipped_estimators import Kind, shipped_estimator
from sim_core.auscultation.synthetic_recordings import random_recording
from sim_core.auscultation.usability import usable

TIERS = ("learning",)
SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 5.3.2"
OWN = "own target, after the thesis"
#: published mean absolute error on held-out recordings, against the mean of four raters
PUBLISHED: dict[Structure, float] = {"heart": 0.0945, "lung": 0.0733}
KINDS: tuple[Kind, ...] = ("trees", "network")
BODIES = {"quick": (60, 25), "full": (800, 150)}  # of training, of judgement
CHANGED_BODIES = {"quick": 3, "full": 20}
JUDGED_FROM, PROBE = 50_000, 90_000  # numbers of bodies; those of training count from 0
#: recordings to learn from in the curve; the first is the published three quarters of 80
CURVE = (60, 240, 960, 3840)
FEW = TreeSettings(trees=150, depth=3, rate=0.05, leaf=5)
REPEATS = 5
Estimator = QualityEstimator | QualityNetwork


def fitted(kind: Kind, structure: Structure, data: RatedSet, seed: int, size: str) -> Estimator:
    """An estimator of a kind; the quick size tries fewer settings."""
    if kind == "network":
        return train_network(structure, data.seen, data.label, seed=seed)
    if size == "quick":
        return QualityEstimator.fit(structure, data.features, data.label, data.body, (FEW,), 3, seed)
    return QualityEstimator.fit(structure, data.features, data.label, data.body, seed=seed)


def predicted(estimator: Estimator, data: RatedSet) -> np.ndarray:
    """What an estimator says of each recording (n,)."""
    if isinstance(estimator, QualityNetwork):
        return np.array([estimator.predict_seen(one) for one in data.seen])
    return estimator.predict_features(data.features)


def error(guess: np.ndarray | float, value: np.ndarray, body: np.ndarray) -> tuple[float, float]:
    """Mean absolute error and its standard error, whose independent units are bodies."""
    off = np.abs(guess - value)
    each = np.array([off[body == one].sum() for one in np.unique(body)])
    counts = np.array([np.sum(body == one) for one in np.unique(body)])
    mean = off.mean()
    spread_of = np.sqrt(np.sum((each - mean * counts) ** 2) * len(each) / max(1, len(each) - 1)) / len(off)
    return float(mean), float(spread_of)


def importance(estimator: QualityEstimator, data: RatedSet, seed: int) -> np.ndarray:
    """Error that is added when a feature is shuffled among the recordings, (d,): Breiman, Mach. Learn. 45 (2001)."""
    rng = np.random.default_rng([seed, 85])
    base = np.abs(estimator.predict_features(data.features) - data.label).mean()
    added = np.zeros(data.features.shape[1])
    for feature in range(len(added)):
        for _ in range(REPEATS):
            mixed = data.features.copy()
            mixed[:, feature] = rng.permutation(mixed[:, feature])
            added[feature] += np.abs(estimator.predict_features(mixed) - data.label).mean() - base
    return added / REPEATS


def latency(estimator: Estimator) -> float:
    """Median time from 10 s of samples at 44.1 kHz to a quality [s], on one core."""
    (_, heard), times = probe(estimator.structure, 44100.0), []
    for _ in range(9):
        start = time.perf_counter()
        estimator.predict(heard.sound, heard.rate)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def probe(structure: Structure, rate: float):
    """Number of the first recording of a body that can be judged, and the recording."""
    for number in range(100):
        heard = random_recording(PROBE, number, rate)
        if usable(heard.sound, heard.rate, structure):
            return number, heard
    raise RuntimeError("none of a hundred recordings can be judged; the synthetic recordings are broken")


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Hear all bodies, fit, judge.

    Returns:
        Result with the errors of both estimators of both structures beside the published ones, and acceptance checks.
    """
    result = Result("auscultation_quality", seed=seed, size=size)
    many, others = BODIES[size]
    first = 1_000_000 * seed
    with progress.stage("bodies", total=many + others) as stage:
        learn = rated_bodies(range(first, first + many), executor, stage.advance)
        judge = rated_bodies(range(first + JUDGED_FROM, first + JUDGED_FROM + others), executor, stage.advance)
    rows, guesses, added, curves, judged = [], {}, {}, {}, {}
    with progress.stage("estimators", total=len(STRUCTURES) * len(KINDS)) as stage:
        for structure in STRUCTURES:
            ours, theirs = learn[structure], judge[structure]
            guesses[structure, "mean"] = np.full(len(theirs.truth), ours.label.mean())
            rows.append(_row(structure, "mean of training", "-", guesses[structure, "mean"], theirs, len(ours.truth)))
            for kind in KINDS:
                estimator = fitted(kind, structure, ours, seed, size)
                name = "fitted here"
                guess = predicted(estimator, theirs)
                rows.append(_row(structure, kind, name, guess, theirs, len(ours.truth)))
                if size == "quick":
                    _half(result, rows, structure, kind)
                    estimator, name = shipped_estimator(structure, kind), "shipped"
                    guess = predicted(estimator, theirs)
                    rows.append(_row(structure, kind, name, guess, theirs, int(estimator.meta["recordings"])))
                rows[-1]["time [s]"] = latency(estimator)
                guesses[structure, kind], judged[structure, kind] = guess, estimator
                if isinstance(estimator, QualityEstimator):
                    added[structure] = importance(estimator, theirs, seed)
                if size == "full" and run_directory is not None:
                    _keep(estimator, rows[-1], f"{first} to {first + many - 1}", run_directory)
                _judge(result, rows, structure, kind)
                stage.advance()
            curves[structure] = _curve(ours, theirs, seed)
    for structure in STRUCTURES:
        network, trees = (_found(rows, structure, kind)["error to marks"] for kind in ("network", "trees"))
        result.check(f"{structure}: error of the network over that of the trees", network / trees, 1.0, "<", "1", OWN)
    changed = errors_when_changed(
        list(judged.values()), range(first + JUDGED_FROM, first + JUDGED_FROM + CHANGED_BODIES[size])
    )
    changes = {", ".join(key): one for key, one in zip(judged, changed)}
    result.detail("rows", rows)
    result.detail("changed recordings", changes)
    result.detail("refused", {s: learn[s].refused + judge[s].refused for s in STRUCTURES})
    result.detail("importance", {s: dict(zip(FEATURES[s][0], added[s].tolist())) for s in STRUCTURES})
    result.detail("trees by recordings learnt from", curves)
    if (folder := cinc2016_folder()) is not None:
        real = judged_cinc2016(folder, [shipped_estimator("heart", kind) for kind in KINDS])
        real["areas"] = dict(zip(KINDS, real["areas"]))
        result.detail("PhysioNet/CinC 2016, shipped", real)
    if run_directory is not None:
        report(result, rows, judge, guesses, added, curves, changes).write(Path(run_directory) / "report.html")
    return result


def _row(structure: Structure, kind: str, name: str, guess: np.ndarray, data: RatedSet, learnt: int) -> dict:
    to_marks, to_truth = error(guess, data.label, data.body), error(guess, data.truth, data.body)
    correlation = float(np.corrcoef(guess, data.truth)[0, 1]) if np.ptp(guess) > 0.0 else None
    return {
        "structure": structure,
        "estimator": kind,
        "which": name,
        "learnt from": learnt,
        "judged on": len(data.truth),
        "error to marks": to_marks[0],
        "error to marks +-": to_marks[1],
        "error to hidden": to_truth[0],
        "error to hidden +-": to_truth[1],
        "correlation": correlation,
    }


def _found(rows: list[dict], structure: Structure, kind: str) -> dict:
    return [row for row in rows if (row["structure"], row["estimator"]) == (structure, kind)][-1]


def _half(result: Result, rows: list[dict], structure: Structure, kind: Kind) -> None:
    row, mean = _found(rows, structure, kind), _found(rows, structure, "mean of training")
    share = row["error to marks"] / mean["error to marks"]
    said = f"{structure}, {kind} {row['which']}: error over that of the training mean"
    result.check(said, share, 0.5, "<=", "1", OWN)


def _judge(result: Result, rows: list[dict], structure: Structure, kind: Kind) -> None:
    row = _found(rows, structure, kind)
    said = f"{structure}, {kind} {row['which']}: mean absolute error"
    result.check(f"{said} to four listeners", row["error to marks"], PUBLISHED[structure], "<=", "1", SOURCE)
    result.check(f"{said} to the hidden rating", row["error to hidden"], PUBLISHED[structure], "<=", "1", OWN)
    _half(result, rows, structure, kind)
    result.check(f"{structure}, {kind}: time for 10 s of sound", row["time [s]"], 1.0, "<=", "s", "own target")


def _curve(ours: RatedSet, theirs: RatedSet, seed: int) -> list[tuple[int, float]]:
    """Recordings learnt from, and error of trees to the marks: what the number of recordings is worth."""
    found = []
    for count in (*(n for n in CURVE if n < len(ours.label)), len(ours.label)):
        settings = FEW if count < 500 else TreeSettings()
        trees = fit_trees(ours.features[:count], ours.label[:count], settings, seed)
        found.append((count, float(np.abs(np.clip(trees(theirs.features), 0.0, 1.0) - theirs.label).mean())))
    return found


def _keep(estimator: Estimator, row: dict, bodies: str, folder: Path) -> None:
    """Write an estimator as it is shipped, with what it says of one recording, which a test asks again."""
    number, heard = probe(estimator.structure, RATE)
    kind = "network" if isinstance(estimator, QualityNetwork) else "trees"
    estimator.meta |= {
        "learnt from bodies": bodies,
        "error to marks": row["error to marks"],
        "error to hidden": row["error to hidden"],
        "probe": {"body": PROBE, "number": number, "quality": estimator.predict(heard.sound, heard.rate)},
    }
    estimator.save(Path(folder) / f"{estimator.structure}_{kind}.safetensors")


def report(result: Result, rows, judge, guesses, added, curves, changes) -> Report:
    page = Report("The quality of a recording", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section(
        "Errors",
        "Mean absolute errors on bodies that were not learnt from, with the standard error over bodies. The "
        f"published error is {PUBLISHED['heart']} for hearts and {PUBLISHED['lung']} for lungs, on real recordings.",
    )
    page.table(
        [
            "structure",
            "estimator",
            "which",
            "learnt from",
            "to four listeners",
            "to the hidden rating",
            "correlation",
            "time [ms]",
        ],
        [
            [
                *(row[key] for key in ("structure", "estimator", "which", "learnt from")),
                *(f"{row[key]:.4f} +- {row[f'{key} +-']:.4f}" for key in ("error to marks", "error to hidden")),
                "-" if row["correlation"] is None else f"{row['correlation']:.3f}",
                f"{1e3 * row['time [s]']:.1f}" if "time [s]" in row else "-",
            ]
            for row in rows
        ],
    )
    page.section(
        "Recordings as others make them",
        "Mean absolute error to the hidden rating on some of these bodies, when their recordings are stored in whole "
        "numbers, of another rate, or cut. Lungs cannot be judged at 2 kHz.",
    )
    page.table(
        ["estimator", *CHANGES],
        [[name, *("-" if one[c] is None else f"{one[c]:.4f}" for c in CHANGES)] for name, one in changes.items()],
    )
    page.section("Predicted and hidden rating", "Each point is a recording of a body that was not learnt from.")
    fig, axes = figure(2, 2, size=(8.4, 8.0), sharex=True, sharey=True)
    for row, structure in zip(axes, STRUCTURES):
        for axis, kind, colour in zip(row, KINDS, PALETTE):
            axis.plot([0, 1], [0, 1], ":", color=PALETTE[6])
            axis.plot(judge[structure].truth, guesses[structure, kind], ".", color=colour, alpha=0.4, markersize=4)
            axis.set_title(f"{structure}, {kind}")
            axis.set_aspect("equal")
        row[0].set_ylabel("predicted [1]")
    for axis in axes[1]:
        axis.set_xlabel("hidden rating [1]")
    page.figure(fig, "Predicted quality against the hidden rating; the dotted line is agreement.")
    page.section(
        "Which features matter",
        "How much the error of the trees grows when one feature is shuffled among the recordings.",
    )
    fig, axes = figure(1, 2, size=(10.5, 5.0))
    for axis, structure in zip(axes, STRUCTURES):
        order = np.argsort(added[structure])
        axis.barh([FEATURES[structure][0][k] for k in order], added[structure][order], color=PALETTE[0])
        axis.set_title(structure)
        axis.grid(axis="y", visible=False)
        axis.set_axisbelow(True)
        axis.set_xlabel("error added [1]")
    page.figure(fig, "Permutation importance on held-out bodies.")
    page.section("How many recordings", "The published estimator had 60 recordings to learn from.")
    fig, axis = figure()
    for structure, colour in zip(STRUCTURES, PALETTE):
        axis.semilogx(*zip(*curves[structure]), "o-", color=colour, label=f"{structure}, trees")
        axis.axhline(PUBLISHED[structure], color=colour, linestyle=":", label=f"{structure}, published")
    axis.set_xlabel("recordings learnt from")
    axis.set_ylabel("mean absolute error [1]")
    axis.legend()
    page.figure(fig, "Error of trees to four listeners, by recordings that they learnt from.")
    return page
