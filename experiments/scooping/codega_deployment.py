"""How many attempts does it take to scoop enough of an unseen terrain, choosing among scoops that were logged?

    ./refit experiment codega_deployment            # three models of each method, gamma of 0, 1 and 2
    ./refit experiment codega_deployment --quick    # one, of smaller crops

15 unseen terrains (of the 16 all but the cardboard sheet alone). A method sees one picture of the terrain, chooses among its 100
logged scoops, each at most once, and is told the volume, until one reaches the fifth largest of the terrain. Those that adapt choose by
the upper confidence bound with gamma 2, the one that does not by its mean. Choosing blindly takes 101 / 6 = 16.8 attempts.

The terrain was scooped between the logged pictures, so that the one picture of the beginning grows old; beside it stands, for all
methods, the same with each scoop's own picture.
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from experiments.problems.scoop_study import METHODS, SIZES, SOURCE, data, models
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.meta.model import MetaModel, NonAdaptive
from sim_core.scooping.crops import crops, halved
from sim_core.scooping.dataset import TerrainRecord
from sim_core.scooping.deployment import deploy_logged
from sim_core.scooping.policies import ModelBelief, Observation
from sim_core.scooping.scoop_planner import ScoopPlanner
from sim_core.scooping.suite import SHEET

TIERS = ("learning",)
FIXED = "Non-adaptive"
GAMMA = 2.0
#: method -> mean and greatest number of attempts
PUBLISHED = {"CoDeGa": (5.2, 28), "DKMT": (6.9, 50), "CNP": (9.6, 40), FIXED: (8.3, 57)}
#: by how much CoDeGa shall be below each
MARGINS = {"DKMT": 0.15, FIXED: 0.25, "CNP": 0.30}
BLIND = 101.0 / 6.0
FIRST, OWN = "one picture", "own pictures"


def attempts(model: MetaModel, record: TerrainRecord, seen: Observation, gamma: float | None) -> int:
    """Until the fifth largest volume. gamma: None: by the mean before any trial, and never adapting."""
    size = seen.views.shape[-1]
    belief = ModelBelief(NonAdaptive(model) if gamma is None else model)
    rule = "greedy" if gamma is None else "ucb"
    planner = ScoopPlanner(record.actions, belief, size, rule, gamma or 0.0)
    return deploy_logged(planner, record, seen, record.threshold())


def observed(record: TerrainRecord, size: int, pictures: str) -> Observation:
    """What is known of a record's scoops before the first."""
    if pictures == FIRST and record.first is not None:
        return Observation(crops(record.first, record.actions, size), record.actions, record.first)
    own = halved(record.crops) if record.crops.shape[-1] == 2 * size else record.crops
    return Observation(own, record.actions)


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Attempts of all methods, with one picture and with each scoop's own.

    Returns:
        Result with the published comparison as checks.
    """
    result = Result("codega_deployment", seed=seed, size=size)
    chosen = SIZES[size]
    found = data(seed, progress, executor)
    trained = models(METHODS, found, chosen, seed, progress, executor)
    records = [record for record in found.test if record.materials != (SHEET,)]
    rules: dict[str, tuple[str, float | None]] = {name: (name, GAMMA) for name in METHODS}
    rules[FIXED] = ("CoDeGa", None)
    if size == "full":
        rules |= {f"CoDeGa, gamma {gamma:g}": ("CoDeGa", gamma) for gamma in (0.0, 1.0)}
    table: dict[tuple[str, str], np.ndarray] = {}
    for pictures in (FIRST, OWN):
        seen = [observed(record, chosen.crop, pictures) for record in records]
        for label, (name, gamma) in progress.track(rules.items(), f"deployments, {pictures}"):
            table[label, pictures] = np.array([
                [attempts(trained[name, chosen.seeds * seed + k], *pair, gamma) for pair in zip(records, seen)]
                for k in range(chosen.seeds)
            ])  # fmt: skip
    _judge(result, table)
    result.detail("attempts by terrain, mean over models, one picture", [
        {"terrain": record.name, **{label: float(table[label, FIRST][:, k].mean()) for label in rules}}
        for k, record in enumerate(records)
    ])  # fmt: skip
    if run_directory is not None:
        report(result, table, [record.name for record in records]).write(Path(run_directory) / "report.html")
    return result


def _judge(result: Result, table: dict[tuple[str, str], np.ndarray]) -> None:
    mean = {label: float(counts.mean()) for label, counts in table.items()}
    own = mean["CoDeGa", FIRST]
    result.check("CoDeGa: mean attempts", own, PUBLISHED["CoDeGa"][0], "<=", "attempts", SOURCE)
    for name, margin in MARGINS.items():
        said = f"own target, after {SOURCE}: {PUBLISHED['CoDeGa'][0] / PUBLISHED[name][0]:.2f}"
        result.check(f"CoDeGa's mean attempts over {name}'s", own / mean[name, FIRST], 1.0 - margin, "<=", "1", said)
    worst = {name: int(table[name, FIRST].max()) for name in PUBLISHED}
    said = f"{SOURCE}: {PUBLISHED['CoDeGa'][1]} and {PUBLISHED['DKMT'][1]}"
    result.check("CoDeGa: most attempts, at most DKMT's", worst["CoDeGa"], worst["DKMT"], "<=", "attempts", said)
    for name in PUBLISHED:
        result.check(f"{name}: mean attempts, fewer than blindly", mean[name, FIRST], BLIND, "<", "attempts", "101 / 6")
    result.detail("attempts", [
        {"method": label, "pictures": pictures, "mean": mean[label, pictures], "most": int(counts.max()),
         "standard error over terrains": float(counts.mean(0).std(ddof=1) / np.sqrt(counts.shape[1])),
         **dict(zip(("published", "published most"), PUBLISHED.get(label, (None, None))))}
        for (label, pictures), counts in table.items()
    ])  # fmt: skip


def report(result: Result, table: dict[tuple[str, str], np.ndarray], names: list[str]) -> Report:
    page = Report("Scooping enough in few attempts, among logged scoops", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section("Attempts")
    page.table(
        ["method", "pictures", "mean", "published", "most", "published"],
        [
            [
                label,
                pictures,
                f"{counts.mean():.1f}",
                PUBLISHED.get(label, ("",))[0],
                int(counts.max()),
                PUBLISHED.get(label, ("", ""))[1],
            ]
            for (label, pictures), counts in table.items()
        ],
    )
    page.section("By terrain", "With one picture, in the mean over models.")
    fig, axis = figure(1, 1, size=(8.4, 4.2))
    for k, (colour, name) in enumerate(zip(PALETTE, PUBLISHED)):
        axis.barh(np.arange(len(names)) + 0.2 * (k - 1.5), table[name, FIRST].mean(0), 0.2, color=colour, label=name)
    axis.axvline(BLIND, color="#444444", lw=0.8)
    axis.set_yticks(np.arange(len(names)), names)
    axis.set_xlabel("attempts; the line: blindly")
    axis.legend()
    page.figure(fig, "Attempts until a scoop of the fifth largest volume or more.")
    return page
