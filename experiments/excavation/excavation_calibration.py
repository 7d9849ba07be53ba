"""At which contact force does a simulated arm stop as often as the published one did?

    ./refit experiment excavation_calibration            # 50 piles for each path
    ./refit experiment excavation_calibration --quick    # 5

The thesis does not say which force stops its arm. It says that following the path without thinking jammed in 50, 60 and 100 % of trials on
the shallow, the medium and the deep path. Here the same policy digs with a limit that is never reached, or nearly so; what is recorded is
the largest force that lasted for 20 ms, and so the jam rate at any lower limit. The limit that fits best is written to
calibration.json in the run's directory; that of data/excavation/calibration.json is frozen, and equals the settings' one.
"""

from __future__ import annotations

import json
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from config.share import shared_folder
from experiments.problems.excavation_runs import CALIBRATION, Job, collect
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.excavation.pile import PileSettings
from sim_core.excavation.reference_path import DEPTHS
from sim_core.excavation.trial import wilson

SOURCE = "Zhu, PhD thesis (University of Illinois 2023), table 7.2"
PUBLISHED = dict(zip(DEPTHS, (0.5, 0.6, 1.0)))
PILES = {"quick": 5, "full": 50}
BEYOND = 90.0  # a limit that hardly anything reaches [N]
LIMITS = np.arange(20.0, 89.0, 0.5)


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Dig, and count.

    Returns:
        Result with the jam rates at the frozen limit, and the limit that would fit these piles best.
    """
    result = Result("excavation_calibration", seed=seed, size=size)
    seeds = [CALIBRATION + PILES["full"] * seed + k for k in range(PILES[size])]
    jobs = [Job("follow", depth, one, limit=BEYOND) for depth in DEPTHS for one in seeds]
    with progress.stage("digs", total=len(jobs)) as stage:
        trials = collect(jobs, executor, stage.advance)
    parts = np.split(np.array([one.held.max() for one in trials]), len(DEPTHS))
    held = dict(zip(DEPTHS, parts))
    limit = PileSettings().force_limit
    frozen = json.loads((shared_folder("data/excavation") / "calibration.json").read_text())
    result.check("force limit of the settings: the frozen one", limit, frozen["force_limit"], "==", "N", "calibration")
    for depth, published in PUBLISHED.items():
        rate = float(np.mean(held[depth] >= limit))
        text = f"{depth}: jam rate of following at {limit:g} N, {len(seeds)} piles, apart from {published:g}"
        result.check(text, abs(rate - published), 0.1, "<=", "1", SOURCE)
    best = float(LIMITS[int(np.argmin([misfit(held, one) for one in LIMITS]))])
    result.detail("limit that fits these piles best [N]", best)
    result.detail("largest lasting force [N]", {depth: forces.tolist() for depth, forces in held.items()})
    if run_directory is not None:
        said = {
            "force_limit": best,
            "seeds": [seeds[0], seeds[-1]],
            "held": {d: np.round(f, 2).tolist() for d, f in held.items()},
        }
        (Path(run_directory) / "calibration.json").write_text(json.dumps(said, indent=1) + "\n")
        report(result, held, limit).write(Path(run_directory) / "report.html")
    return result


def misfit(held: dict[str, np.ndarray], limit: float) -> float:
    """Sum of squares of what the jam rates at a limit [N] are away from the published ones."""
    return float(sum((np.mean(held[depth] >= limit) - PUBLISHED[depth]) ** 2 for depth in DEPTHS))


def report(result: Result, held: dict[str, np.ndarray], limit: float) -> Report:
    page = Report("The force that stops the arm", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    rows = []
    for depth in DEPTHS:
        count, n = int(np.sum(held[depth] >= limit)), len(held[depth])
        low, high = wilson(count, n)
        rows.append([depth, f"{count} of {n}", f"{100 * low:.0f} to {100 * high:.0f}", f"{100 * PUBLISHED[depth]:.0f}"])
    page.table(["path", f"jammed at {limit:g} N", "95 % [%]", "published [%]"], rows)
    fig, axis = figure()
    for depth, colour in zip(DEPTHS, PALETTE):
        axis.plot(LIMITS, [100 * np.mean(held[depth] >= one) for one in LIMITS], color=colour, label=depth)
        axis.axhline(100 * PUBLISHED[depth], color=colour, linestyle=":")
    axis.axvline(limit, color=PALETTE[6])
    axis.set_xlabel("force limit [N]")
    axis.set_ylabel("jammed [%]")
    axis.legend()
    page.figure(fig, "Jam rate by limit; dotted as published, the line upright is the frozen limit.")
    return page
