"""How well do few scoops of an unseen terrain foretell the others, by CoDeGa, by its rivals, and without adapting?

    ./refit experiment codega_prediction            # three models of each method, three suites, ablations
    ./refit experiment codega_prediction --quick    # one

Of each unseen terrain (16, in the full size three times 16) 80 scoops are asked for; 0, 5 or 10 of the other 20 are given. The
measure is the mean absolute error in cm^3, of all queries and ("*") of the five that brought most, in the mean over terrains, models and five draws of the
queries (published: one draw). Beside it, for each terrain, how much ten scoops improve on none: DKMT, whose kernel learnt from
residuals of a mean that had seen everything, may get worse with more data.

Targets are orderings, not errors: terrains and materials are synthetic, and how far the errors are from the published ones is told and
not judged. With REFIT_SCOOPING_DATA=FOLDER everything runs on the published scoops, and then the errors are judged, too.

CoDeGa is the published procedure: folds of materials, extractors from one seed, a kernel on the deployed mean's features. The ablations
change the folds, the start of the extractors and what the kernel sees. "NLML" is that of the held-out residuals, per scoop, once under the
extractor of their fold and once under the deployed one: the difference is what the change of extractors costs.
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from experiments.problems.scoop_study import ABLATIONS, METHODS, SIZES, SOURCE, data, models, public_folder
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.meta.model import MetaModel, NonAdaptive
from sim_core.meta.tasks import Task
from sim_core.scooping.learning.tasks import tasks_of

TIERS = ("learning",)
SHOTS = (0, 5, 10)
QUERIES, BEST, DRAWS = 80, 5, 5
FIXED = "Non-adaptive"
#: method -> mean absolute error [cm^3] with 0, 5 and 10 shots, of all queries, then of the best
PUBLISHED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "CoDeGa": ((27.4, 24.7, 23.8), (68.4, 61.3, 60.8)),
    "DKMT": ((25.8, 22.1, 21.3), (103.4, 83.6, 80.1)),
    "CNP": ((25.7, 25.1, 25.0), (101.4, 100.4, 100.5)),
    FIXED: ((27.4, 27.4, 27.4), (68.4, 68.4, 68.4)),
}


def errors(model: MetaModel | NonAdaptive, task: Task, seed: int) -> np.ndarray:
    """Mean absolute error [cm^3] (all and best, shots), in the mean over draws that are the same for each model."""
    rng = np.random.default_rng([seed, int(task.name.split()[0]), 91])
    found = np.zeros((2, len(SHOTS)))
    for _ in range(DRAWS):
        order = rng.permutation(len(task))
        asked, given = order[:QUERIES], order[QUERIES:]
        inputs, values = task.take(asked)
        truth = values.numpy()
        best = np.argsort(truth)[-BEST:]
        for k, shots in enumerate(SHOTS):
            mean, _ = (
                model.condition(*task.take(given[:shots])).predict(inputs)
                if shots
                else model.condition().predict(inputs)
            )
            off = np.abs(mean - truth)
            found[:, k] += off.mean(), off[best].mean()
    return found / DRAWS


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """The published table, each terrain's improvement, and in the full size the ablations.

    Returns:
        Result with the errors' orderings as checks.
    """
    result = Result("codega_prediction", seed=seed, size=size)
    chosen = SIZES[size]
    found = data(chosen, seed, progress, executor)
    told = [*METHODS, *(ABLATIONS if size == "full" else ())]
    trained = models(told, found, chosen, seed, progress, executor)
    tasks = tasks_of(found.test, chosen.crop)
    table = {}
    for name in progress.track([*told, FIXED], "judging"):
        own = [trained["CoDeGa" if name == FIXED else name, chosen.seeds * seed + k] for k in range(chosen.seeds)]
        judged = [NonAdaptive(model) if name == FIXED else model for model in own]
        table[name] = np.array([[errors(model, task, seed) for task in tasks] for model in judged])
    _judge(result, table, found.names)
    for (name, k), model in trained.items():
        if "nlml_fold" in model.meta:
            nlml = {key: model.meta[key] for key in ("nlml_fold", "nlml_final")}
            result.detail(f"NLML of held-out residuals per scoop: {name}, seed {k}", nlml)
    volumes = np.concatenate([record.volumes for record in found.training]) * 1e6
    shape = {"mean": volumes.mean(), "greatest": volumes.max(), "95 %": np.percentile(volumes, 95)}
    result.detail("volumes of the training set [cm^3] (published: mean 31.3, greatest 260.8)", shape)
    if run_directory is not None:
        report(result, table, found.names).write(Path(run_directory) / "report.html")
    return result


def _judge(result: Result, table: dict[str, np.ndarray], names: list[str]) -> None:
    mean = {name: errs.mean((0, 1)) for name, errs in table.items()}
    better = f"{SOURCE}: 60.8 < 68.4 < 80.1"
    result.check(
        "* 10 shots: CoDeGa over Non-adaptive", mean["CoDeGa"][1, 2] / mean[FIXED][1, 2], 1.0, "<", "1", better
    )
    result.check("* 10 shots: DKMT over Non-adaptive", mean["DKMT"][1, 2] / mean[FIXED][1, 2], 1.0, ">", "1", better)
    gain = 1.0 - mean["CoDeGa"][0, 2] / mean["CoDeGa"][0, 0]
    result.check("CoDeGa: error less with 10 shots than with none", gain, 0.08, ">=", "1", f"{SOURCE}: 13.1 %")
    worse = {name: float((table[name][:, :, 0, 2] > table[name][:, :, 0, 0]).mean()) for name in table}
    said = f"own target, after {SOURCE}: less than DKMT's"
    result.check("CoDeGa: terrains that 10 shots make worse", worse["CoDeGa"], worse["DKMT"], "<", "1", said)
    result.detail("share of terrains that 10 shots make worse", worse)
    rows = []
    for name, errs in mean.items():
        row: dict[str, object] = {"method": name}
        for k, star in enumerate(("", "*")):
            for j, shots in enumerate(SHOTS):
                published = PUBLISHED[name][k][j] if name in PUBLISHED else None
                row[f"{shots}{star}"] = float(errs[k, j])
                row[f"{shots}{star} published"] = published
                if public_folder() and name == "CoDeGa" and published is not None:
                    ratio = float(errs[k, j]) / published
                    result.check(f"CoDeGa, {shots} shots{star}, over published", ratio, (0.85, 1.15), "in", "1", SOURCE)
        rows.append(row)
    result.detail("mean absolute error [cm^3]", rows)
    result.detail("by terrain: improvement from 0 to 10 shots", [
        {"terrain": name, **{one: 1.0 - float(e[0, 2] / e[0, 0]) for one in (*METHODS,) for e in [table[one][:, k].mean(0)]}}
        for k, name in enumerate(names)
    ])  # fmt: skip


def report(result: Result, table: dict[str, np.ndarray], names: list[str]) -> Report:
    page = Report("What few scoops tell of a terrain", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section("Mean absolute error", "In cm^3, in brackets as published; * of the five queries that brought most.")
    page.table(
        ["method", *(f"{shots} shots{star}" for star in ("", "*") for shots in SHOTS)],
        [
            [
                name,
                *(
                    f"{errs.mean((0, 1))[k, j]:.1f}" + (f" ({PUBLISHED[name][k][j]})" if name in PUBLISHED else "")
                    for k in (0, 1)
                    for j in range(len(SHOTS))
                ),
            ]
            for name, errs in table.items()
        ],
    )
    page.section("Improvement from none to ten shots, by terrain", "Of all queries; each point is a model.")
    fig, axis = figure(1, 1, size=(8.4, 4.2))
    for k, (colour, name) in enumerate(zip(PALETTE, METHODS)):
        gain = 1.0 - table[name][:, :, 0, 2] / table[name][:, :, 0, 0]
        for each in gain:
            axis.plot(100.0 * each, np.arange(len(names)) + 0.2 * (k - 1), "o", color=colour, label=name)
    axis.axvline(0.0, color="#444444", lw=0.8)
    axis.set_yticks(np.arange(len(names)), names)
    axis.set_xlabel("improvement [%]")
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(*zip(*dict(zip(labels, zip(handles, labels))).values()))
    page.figure(fig, "A negative improvement says that scoops of the terrain made what is believed of it worse.")
    return page
