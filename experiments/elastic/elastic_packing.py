"""How deep may a ball be pressed beside soft objects with 2 N, said from ten pokes, and does it hold on finite elements?

    ./refit experiment elastic_packing            # five objects, two sets of pokes each
    ./refit experiment elastic_packing --quick    # one set each, on a coarser grid

Each object is seen up to 4 mm away from where it is. A map of the lowest height of a ball of 40 mm with at most 2 N is computed
in several ways and held against the one that finite elements give cell by cell, which share nothing with the model:

* as published: extra trees of the pokes, on the scan as it is;
* ours: the same after the scan is moved to where the pokes begin to push back (sim_core/elastic/scan_offset.py);
* careful: after that, a Gaussian process that takes the object to be as hard as two standard deviations say, its points to be coupled half
  as far, and a clearance of 1 mm (sim_core/elastic/cautious.py);
* without coupling, and with one stiffness for the whole object, as baselines.

Then the ball is pressed into the finite elements at every height that was said. The coupling is chosen by two presses of the cylinder
at places that were poked. The source shows a map of a leg of lamb and gives no numbers.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from reporting import Progress, Report, Result, SilentProgress, figure
from sim_core.elastic.cautious import CLEARANCE, careful_simulator
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.forest import Forest
from sim_core.elastic.objects.figures import FIGURES
from sim_core.elastic.objects.figures import figure as soft_figure
from sim_core.elastic.objects.soft_object import SoftObject, noisy
from sim_core.elastic.packing import Box, HeightMap, height_map
from sim_core.elastic.point_model import PointModel, fit_homogeneous, fit_regressor
from sim_core.elastic.poke import downsampled
from sim_core.elastic.rigid_body import cylinder_probe, sphere
from sim_core.elastic.scan_offset import scan_shift, shifted
from sim_core.elastic.stiffness_process import StiffnessProcess
from sim_core.elastic.surface import Surface

TIERS = ("learning",)
OWN = "own target"
LIMIT, POKES, POINTS, WITHIN = 2.0, 10, 20_000, 2e-3
COUPLINGS = (0.003, 0.005, 0.01, 0.02, 0.04)
#: objects, sets of pokes, grid [m], fineness of the finite elements
SIZES = {"quick": (FIGURES, 1, 0.02, 0.6), "full": (FIGURES, 2, 0.012, 0.8)}
WAYS = ("published", "ours", "careful", "no coupling", "one stiffness")
DOWN = np.array([0.0, 0.0, -1.0])


@dataclass(frozen=True)
class Job:
    """An object and a set of pokes."""

    name: str
    seed: int
    spacing: float
    fineness: float


@dataclass(frozen=True, eq=False)
class Found:
    """Maps of one job: heights and true forces there by way, and the true heights, each (rows, columns)."""

    job: Job
    x: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    heights: dict[str, np.ndarray]
    forces: dict[str, np.ndarray]
    error: float
    shift: np.ndarray
    coupling: dict[str, float]


def packed(job: Job) -> Found:
    """All maps of an object."""
    from sklearn.ensemble import ExtraTreesRegressor

    soft = soft_figure(job.name, 0, job.fineness)
    rng = np.random.default_rng([FIGURES.index(job.name), job.seed])
    seen = soft.surface(POINTS)
    places = rng.choice(soft.places(seen, margin=0.005), POKES, replace=False)
    pokes = [noisy(soft.poke(seen.features[k]), rng) for k in places]
    shift = scan_shift(pokes)
    moved, told = shifted(seen, pokes, shift)
    fitted = [fit_regressor(ExtraTreesRegressor(random_state=job.seed), p) for p in (pokes, told)]
    trees = [replace(model, estimator=Forest.of(model.estimator)) for model in fitted]
    process = StiffnessProcess.fit([downsampled(poke) for poke in told])
    coupling = {
        "published": _coupling(soft, seen, trees[0], seen, places[:2]),
        "ours": _coupling(soft, moved, trees[1], seen, places[:2]),
        "careful": _coupling(soft, moved, process, seen, places[:2]),
        "one stiffness": _coupling(soft, moved, fit_homogeneous(told), seen, places[:2]),
    }
    simulators = {
        "published": ContactSimulator(seen, trees[0], coupling["published"]),
        "ours": ContactSimulator(moved, trees[1], coupling["ours"]),
        "careful": careful_simulator(moved, process, coupling["careful"]),
        "no coupling": ContactSimulator(moved, trees[1], solver="apart"),
        "one stiffness": ContactSimulator(moved, fit_homogeneous(told), coupling["one stiffness"]),
    }
    low, high = soft.truth.vertices.min(0), soft.truth.vertices.max(0)
    box = Box((low[0] - 5e-3, low[1] - 5e-3, 0.0), (*(high[:2] - low[:2] + 0.01), high[2] + 0.1))
    maps = {
        way: height_map(s, sphere(), box, job.spacing, LIMIT, clearance=CLEARANCE if way == "careful" else 0.0)
        for way, s in simulators.items()
    }
    grid = maps["ours"]
    truth = true_heights(soft, grid, high[2] + 0.03)
    forces = {way: true_forces(soft, grid, m.heights) for way, m in maps.items()}
    return Found(
        job,
        grid.x,
        grid.y,
        truth,
        {way: m.heights for way, m in maps.items()},
        forces,
        _error(soft, simulators["ours"], grid, truth),
        shift,
        coupling,
    )


def _coupling(soft: SoftObject, surface: Surface, model: PointModel, seen: Surface, places: np.ndarray) -> float:
    """Of COUPLINGS, the one by which two presses of the cylinder are simulated best."""
    body = cylinder_probe()
    trials = [soft.probe(body.points, seen.features[k], "cylinder") for k in places]
    error = []
    for c in COUPLINGS:
        simulator = ContactSimulator(surface, model, c)
        off = [simulator.queries(body, t.poses, -t.poses[0, :3, 2]).force - t.force for t in trials]
        error.append(float(np.square(np.concatenate(off)).sum()))
    return COUPLINGS[int(np.argmin(error))]


def true_heights(soft: SoftObject, grid: HeightMap, top: float) -> np.ndarray:
    """By finite elements, one cell after the other: down by 4 mm until the limit is passed, then by halves to 0.2 mm."""
    ball = sphere().points

    def felt(x: float, y: float, z: float) -> float:
        return float(np.linalg.norm(soft.truth.press(ball + [x, y, z]).force))

    found = np.zeros((len(grid.y), len(grid.x)))
    for i, y in enumerate(grid.y):
        for j, x in enumerate(grid.x):
            z, refused = top, None
            while z > 0.02 and refused is None:
                below = max(z - 4e-3, 0.02)
                if felt(x, y, below) > LIMIT:
                    refused = below
                else:
                    z = below
            while refused is not None and z - refused > 2e-4:
                middle = 0.5 * (z + refused)
                if felt(x, y, middle) > LIMIT:
                    refused = middle
                else:
                    z = middle
            found[i, j] = z
    return found


def true_forces(soft: SoftObject, grid: HeightMap, heights: np.ndarray) -> np.ndarray:
    """What the ball feels in the finite elements at heights (rows, columns) [N]."""
    ball = sphere().points
    return np.array(
        [
            [
                np.linalg.norm(soft.truth.press(ball + [x, y, heights[i, j]]).force)
                if np.isfinite(heights[i, j])
                else 0.0
                for j, x in enumerate(grid.x)
            ]
            for i, y in enumerate(grid.y)
        ]
    )


def _error(soft: SoftObject, simulator: ContactSimulator, grid: HeightMap, truth: np.ndarray) -> float:
    """Root mean square error of the simulated force on the ball, within 2 mm of where it truly feels 2 N [N]."""
    y, x = np.meshgrid(grid.y, grid.x, indexing="ij")
    off = []
    for above in (-2e-3, 0.0, 2e-3):
        poses = np.tile(np.eye(4), (x.size, 1, 1))
        poses[:, :3, 3] = np.stack([x.ravel(), y.ravel(), (truth + above).ravel()], 1)
        said = np.linalg.norm(simulator.queries(sphere(), poses, DOWN).force, axis=1)
        off.append(said - true_forces(soft, grid, truth + above).ravel())
    return float(np.sqrt(np.mean(np.square(off))))


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """All maps.

    Returns:
        Result with own targets; the source has none.
    """
    from sim_core.host.executors import spread

    names, sets, spacing, fineness = SIZES[size]
    result = Result("elastic_packing", seed=seed, size=size)
    jobs = [Job(name, 100 * seed + k, spacing, fineness) for name in names for k in range(sets)]
    with progress.stage("maps", total=len(jobs)) as stage:
        found = spread(packed, jobs, executor, lambda done: stage.advance())
    rows = [_row(one, way) for one in found for way in WAYS]
    result.detail("maps", rows)
    for name in names:
        mine = {way: [r for r in rows if r["object"] == name and r["way"] == way] for way in WAYS}
        within = float(np.mean([r["within 2 mm"] for r in mine["ours"]]))
        result.check(f"{name}: cells within 2 mm of the truth, ours", within, 0.9, ">=", "1", OWN)
        for way in ("published", "no coupling", "one stiffness"):
            other = float(np.mean([r["within 2 mm"] for r in mine[way]]))
            result.check(f"{name}: the same, {way}", other, within, "<=", "1", "baseline of ours")
        worst = max(r["largest force, N"] - r["error of the model, N"] for r in mine["careful"])
        result.check(f"{name}: largest true force, careful, less the model's error", worst, LIMIT, "<=", "N", OWN)
    if run_directory is not None:
        report(result, found).write(Path(run_directory) / "report.html")
    return result


def _row(one: Found, way: str) -> dict:
    off, force = one.heights[way] - one.truth, one.forces[way]
    there = np.isfinite(off)
    return {
        "object": one.job.name,
        "pokes": one.job.seed,
        "way": way,
        "within 2 mm": float((np.abs(off[there]) <= WITHIN).mean()),
        "higher than the truth, mean mm": 1e3 * float(off[there].mean()),
        "largest force, N": float(force.max()),
        "cells above the limit and the error": float((force > LIMIT + one.error).mean()),
        "error of the model, N": one.error,
        "coupling, mm": 1e3 * one.coupling.get(way, np.nan),
        "cells": off.size,
    }


def report(result: Result, found: list[Found]) -> Report:
    page = Report("A ball pressed into soft objects with 2 N", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    for one in [f for f in found if f.job.seed % 100 == 0]:
        page.section(one.job.name)
        fig, axes = figure(2, 3, size=(10.5, 5.4))
        edges = (1e3 * one.x, 1e3 * one.y)
        heights = {"finite elements": one.truth, "ours": one.heights["ours"]}
        span = (1e3 * min(h.min() for h in heights.values()), 1e3 * max(h.max() for h in heights.values()))
        for axis, (title, h) in zip(axes[0], heights.items()):
            shown = axis.pcolormesh(*edges, 1e3 * h, shading="nearest", vmin=span[0], vmax=span[1])
            axis.set(title=f"lowest: {title}", aspect="equal")
            fig.colorbar(shown, ax=axis, label="mm", shrink=0.6)
        off = axes[0][2].pcolormesh(
            *edges, 1e3 * (one.heights["ours"] - one.truth), shading="nearest", cmap="RdBu", vmin=-4.0, vmax=4.0
        )
        axes[0][2].set(title="ours less the truth", aspect="equal")
        fig.colorbar(off, ax=axes[0][2], label="mm", shrink=0.6)
        for axis, way in zip(axes[1], ("published", "ours", "careful")):
            shown = axis.pcolormesh(
                *edges, one.forces[way], shading="nearest", cmap="magma", vmin=0.0, vmax=2.0 * LIMIT
            )
            axis.set(title=f"true force: {way}", aspect="equal")
            fig.colorbar(shown, ax=axis, label="N", shrink=0.6)
        for axis in axes.ravel():
            axis.grid(False)
        page.figure(
            fig,
            f"Ten pokes; the scan was moved by {np.round(1e3 * one.shift, 1).tolist()} mm. Axes in mm. The limit is {LIMIT} N, the model's error "
            f"{one.error:.2f} N.",
        )
    return page
