"""What shooting windows do to the likelihood: local maxima over both lengths of a double pendulum, by number of windows.

One recording of 400 steps of 0.01 s (lengths 1.5 and 2 m, from rest at (90, 0) degrees); the log
likelihood on a 50 x 50 grid of lengths in [0.5, 5]^2 m, shooting states set to the measured ones.

Published (Heiden, PhD thesis (USC 2022), Fig. 4.2, no numbers): single shooting has many local maxima, ten windows few.
A prototype on a point-mass pendulum counted 8 maxima and 1, the latter within a grid cell of the truth.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.ndimage import maximum_filter

from experiments.problems.point_mass_pendulum import LIMITS, dynamics, lengths, simulated
from reporting import Report, Result, SilentProgress, figure
from reporting.posterior import likelihood_slice
from sim_core.inference.shooting.likelihood import MultipleShooting

SOURCE = "own target, after Heiden, PhD thesis (USC 2022), Fig. 4.2"
TRUTH = np.array([1.5, 2.0])
GRID = 50
WINDOWS = {"quick": (1, 10), "full": (1, 2, 4, 10, 20, 40)}


def run(size: str = "full", seed: int = 0, progress=SilentProgress(), run_directory=None) -> Result:
    """Count local maxima (no grid neighbour of eight is higher) for every number of windows. Nothing here is random.

    Returns:
        Result with the ratio of maxima and the distance of the highest one from the truth in grid cells.
    """
    result = Result("multiple_shooting_landscape", seed=seed, size=size)
    d = dynamics(threads=os.cpu_count() or 1)
    parameters = lengths(d.model)
    data = simulated(d, parameters, TRUTH)
    axis = np.linspace(*LIMITS, GRID)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    panels, maxima, cells = {}, {}, {}
    with progress.stage("windows", total=len(WINDOWS[size])) as stage:
        for windows in WINDOWS[size]:
            density = MultipleShooting(d, parameters, data, windows)
            log_p = density.log_p(density.z(grid.reshape(-1, 2))).reshape(GRID, GRID)
            panels[windows], maxima[windows] = log_p, grid[local_maxima(log_p)]
            cells[windows] = np.abs(grid.reshape(-1, 2)[np.argmax(log_p)] - TRUTH).max() / (axis[1] - axis[0])
            stage.advance()
    result.check(
        "local maxima, single shooting / ten windows", len(maxima[1]) / len(maxima[10]), 5.0, ">=", "1", SOURCE
    )
    for windows in (1, 10):
        result.check(
            f"highest point from the truth, {windows} window{'s' * (windows > 1)}",
            cells[windows],
            1.0,
            "<=",
            "grid cells",
            SOURCE,
        )
    result.detail("local maxima by windows", {w: len(points) for w, points in maxima.items()})
    if run_directory is not None:
        report(result, axis, panels, maxima).write(Path(run_directory) / "report.html")
    return result


def local_maxima(log_p: np.ndarray) -> np.ndarray:
    """Mask of grid points that none of their eight neighbours exceeds."""
    return np.isfinite(log_p) & (log_p == maximum_filter(log_p, size=3, mode="constant", cval=-np.inf))


def report(result: Result, axis, panels, maxima) -> Report:
    page = Report(
        "Shooting windows and the likelihood's landscape", f"{result.size}; Heiden, PhD thesis (USC 2022), Fig. 4.2"
    )
    page.checks(result)
    title = lambda w: "single shooting" if w == 1 else f"{w} windows"
    page.section("Log likelihood", "Over both lengths, each by its own colours, the lowest quarter cut off.")
    page.figure(
        likelihood_slice(
            {title(w): panels[w] for w in (1, 10)},
            axis,
            axis,
            ("length 1 [m]", "length 2 [m]"),
            TRUTH,
            {title(w): maxima[w] for w in (1, 10)},
        ),
        "Circles: local maxima of the grid.",
    )
    page.section("Slices", "Along each length with the other at its true value.")
    fig, axes = figure(1, 2, size=(8.4, 3.0))
    at = [int(np.argmin(np.abs(axis - t))) for t in TRUTH]
    for windows, log_p in panels.items():
        for plot, line in zip(axes, (log_p[at[1], :], log_p[:, at[0]])):
            plot.plot(axis, (line - line.max()) / np.abs(line - line.max()).max(), label=title(windows))
    for k, plot in enumerate(axes):
        plot.axvline(TRUTH[k], color="#8a8f98", linestyle=":")
        plot.set_xlabel(f"length {k + 1} [m]")
    axes[0].set_ylabel("log p, each scaled to [-1, 0]")
    axes[0].legend()
    page.figure(fig)
    page.table(["windows", "local maxima"], [[w, len(points)] for w, points in maxima.items()])
    return page
