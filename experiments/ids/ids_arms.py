"""Design of an arm from the path of its end: are four rows of Denavit-Hartenberg parameters found again?

    ./refit experiment ids_arms

Twenty random arms move along random joint paths. From starts that are off in all twelve parameters (standard
deviations of 0.1, 0.3 and 1.0 m or rad) L-BFGS looks for parameters whose end points are those of the arm.

Published (Heiden, PhD thesis (USC 2022), section 2.2.4; arXiv 1905.10706): one arm, converged within the nine
iterations of the plot. The original's optimiser is Ceres. The sizes of arms and start errors are ours.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.problems.ids_arm import Recovery, end_points, random_arm, random_motion, rank, recovered
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure

SOURCE = "own target, after Heiden, PhD thesis (USC 2022), section 2.2.4"
ARMS = {"quick": 20, "full": 200}
STARTS = (0.1, 0.3, 1.0)  # standard deviation of the start's error [m, rad]
JUDGED = 0.3
FOUND = 1e-3  # RMSE of the end point below which an arm counts as recovered [m]


def run(
    size: str = "full", seed: int = 0, progress: Progress = SilentProgress(), run_directory: Path | None = None
) -> Result:
    """Every arm from every start.

    Returns:
        Result whose checks hold the share of arms that are found and the identifiable number of parameters.
    """
    result = Result("ids_arms", seed=seed, size=size)
    found: dict[float, list[Recovery]] = {off: [] for off in STARTS}
    ranks = []
    with progress.stage("arms", total=ARMS[size]) as stage:
        for k in range(ARMS[size]):
            rng = np.random.default_rng([seed, k])
            truth, q = random_arm(rng), random_motion(rng)
            points, _ = end_points(truth, q)
            ranks.append(rank(truth, q))
            direction = rng.standard_normal(len(truth))
            for off in STARTS:
                found[off].append(recovered(truth + off * direction, q, points))
            stage.advance()
    for off, of in found.items():
        last = np.array([one.errors[-1] for one in of])
        share = float(np.mean(last < FOUND))
        if off == JUDGED:
            result.check(f"arms found to 1 mm from errors of {off}", share, 0.95, ">=", "1", SOURCE)
        result.detail(
            f"start error {off}",
            {
                "share found": share,
                "median RMSE [m]": float(np.median(last)),
                "worst RMSE [m]": float(np.max(last)),
                "median iterations": float(np.median([len(one.errors) - 1 for one in of])),
                "median iterations to 1 mm": float(
                    np.median([np.argmax(np.array(one.errors) < FOUND) for one in of if one.errors[-1] < FOUND])
                ),
            },
        )
    result.check("identifiable parameters of 12, least of all arms", min(ranks), 11, "==", "1", SOURCE)
    result.check("identifiable parameters of 12, most of all arms", max(ranks), 11, "==", "1", SOURCE)
    if run_directory is not None:
        report(result, found).write(Path(run_directory) / "report.html")
    return result


def report(result: Result, found: dict[float, list[Recovery]]) -> Report:
    """Table of the starts and the error of every arm over iterations."""
    page = Report("Design of an arm from the path of its end", f"{result.size}, {ARMS[result.size]} arms")
    page.checks(result)
    page.section("Starts", "An arm counts as found where the root mean square distance of its end is below 1 mm.")
    rows = {off: result.details[f"start error {off}"] for off in STARTS}
    columns = list(rows[JUDGED])
    page.table(["start error [m, rad]", *columns], [[off, *(row[c] for c in columns)] for off, row in rows.items()])
    page.section(
        "Convergence", "Every arm's distance over the iterations of L-BFGS; the source plots iterations 0 to 8."
    )
    fig, axes = figure(1, len(STARTS), size=(8.4, 3.0), sharex=True, sharey=True)
    for axis, (off, of) in zip(axes, found.items()):
        for one in of[:20]:
            axis.semilogy(one.errors, color=PALETTE[0], alpha=0.5, linewidth=0.9)
        axis.axhline(FOUND, color=PALETTE[1], linewidth=0.9)
        axis.set(title=f"start error {off}", xlabel="iteration", xlim=(0, 100), ylim=(1e-8, 3))
    axes[0].set_ylabel("RMSE of the end [m]")
    page.figure(fig, "The line is 1 mm; the first twenty arms.")
    return page
