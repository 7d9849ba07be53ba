"""Is a mirror found by what it shows, and followed as it moves?

    ./refit experiment lidar_mirror_tracking            # sixteen first guesses, forty scans of a way
    ./refit experiment lidar_mirror_tracking --quick    # four, ten

A mirror of 0.4 m stands in the box of 1.85 m by 0.92 m; the sensor's pose and the walls are known. First guesses of the mirror's pose
are 5 cm and 10 degrees off, in all directions. Then the mirror goes 2 cm and 3 degrees from scan to scan, each fit starting where the
last one ended, until it goes behind the sensor, where no beam sees it: there the track is lost, and the fit must say so.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.problems.lidar_scenes import SOURCE, clutter, draw_scene, measured, noise
from experiments.problems.scan_registration import pose_error
from reporting import Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.lidar.fit import Fit, FitOptions, fit
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene
from sim_core.lidar.shapes import panel

NAMES = ("mirror.x", "mirror.y", "mirror.yaw")
PLACE, TRUTH = (-0.3, 0.0, 0.0), (0.5, 0.05, 0.3)
#: as published
ITERATIONS = 6
OPTIONS = FitOptions(huber=0.1, softness=(0.05, 0.005), starts=8)
#: half widths of where starts are drawn, of the place [m] and the heading [rad]
AROUND = (0.07, 0.07, 0.2)
SIZES = {"quick": (4, 10), "full": (16, 40)}


def with_mirror(pose: tuple[float, ...]) -> Scene:
    """The box with the mirror at (3,), of the place and the heading."""
    there = (pose[0], pose[1], 0.0, 0.0, 0.0, pose[2])
    return clutter(Body("mirror", panel(0.4, 0.28, "mirror"), there, soft=True))


def found_from(start: np.ndarray, truth: tuple[float, ...], seed: int, options: FitOptions = OPTIONS) -> Fit:
    """The mirror's pose in a scan with it at `truth`, searched from `start` (3,)."""
    ranges = measured(with_mirror(truth), PLACE, noise(0.003), seed)
    lidar = Lidar(with_mirror(truth), values={"sensor.x": PLACE[0], "sensor.y": PLACE[1], "sensor.yaw": PLACE[2]})
    bounds = {n: (float(v - by), float(v + by)) for n, v, by in zip(NAMES, start, AROUND)}
    return fit(lidar, ranges, dict(zip(NAMES, map(float, start))), bounds, options)


def searched(job: tuple[int, int]) -> tuple[Fit, Fit]:
    """From a first guess: with softened outlines from eight starts, and by L-BFGS alone."""
    k, seed = job
    angle = 2.399963 * k
    start = np.array(TRUTH) + [0.05 * math.cos(angle), 0.05 * math.sin(angle), math.radians(10.0) * (-1) ** k]
    return found_from(start, TRUTH, seed), found_from(start, TRUTH, seed, FitOptions(method="lbfgs"))


def way(scans: int) -> np.ndarray:
    """Of the mirror (scans, 3): to and fro before the sensor."""
    time = np.arange(scans)
    turn = math.radians(3.0) * np.where(time % 20 < 10, time % 10, 10 - time % 10)
    return np.column_stack([0.45 + 0.1 * np.cos(0.2 * time), 0.1 * np.sin(0.2 * time), 0.1 + turn])


def followed(scans: int, seed: int) -> tuple[np.ndarray, list[Fit]]:
    """The way, and the fits along it from one another."""
    truth, fits = way(scans), []
    at = truth[0]
    for k, pose in enumerate(truth):
        fits.append(found_from(at, tuple(pose), seed + k, replace(OPTIONS, starts=4, softness=(0.02, 0.005))))
        at = np.array(list(fits[-1].values.values()))
    return truth, fits


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """First guesses, a way, and a mirror out of sight.

    Returns:
        Result with own targets beside the published figures.
    """
    result = Result("lidar_mirror_tracking", seed=seed, size=size)
    guesses, scans = SIZES[size]
    jobs = [(k, 100 * seed + k) for k in range(guesses)]
    with progress.stage("first guesses", total=guesses) as stage:
        pairs = spread(searched, jobs, executor, lambda done: stage.advance())
    truth = np.array(TRUTH)
    errors = np.array([[pose_error(np.array(list(f.values.values())), truth) for f in pair] for pair in pairs])
    result.check("largest error of the place", float(errors[:, 0, 0].max()), 0.005, "<", "m", "own target")
    result.check("largest error of the heading", math.degrees(errors[:, 0, 1].max()), 1.0, "<", "deg", "own target")
    most = max(pair[0].iterations for pair in pairs)
    result.check("most iterations", most, 20, "<=", "", f"own target; {SOURCE}: {ITERATIONS}")
    result.detail("first guesses", [
        {
            "guess": k,
            **{
                f"{name}: {what}": value
                for name, f, e in zip(("ours", "L-BFGS alone"), pair, error)
                for what, value in (
                    ("place [mm]", 1e3 * e[0]), ("heading [deg]", math.degrees(e[1])), ("iterations", f.iterations)
                )
            },
        }
        for k, (pair, error) in enumerate(zip(pairs, errors))
    ])  # fmt: skip
    with progress.stage("a way"):
        moved, fits = followed(scans, 1000 + seed)
    ends = np.array([list(f.values.values()) for f in fits])
    along = np.array([pose_error(end, pose) for end, pose in zip(ends, moved)])
    result.check("way: median error of the place", float(np.median(along[:, 0])), 0.005, "<", "m", "own target")
    result.check("way: largest error of the place", float(along[:, 0].max()), 0.02, "<", "m", "own target")
    result.check(
        "way: scans at which the track is called lost", sum(bool(f.lost) for f in fits), 0, "==", "", "own target"
    )
    behind = found_from(np.array([-0.8, 0.0, 0.0]), (-0.8, 0.0, 0.0), seed)
    result.check("behind the sensor: the track is called lost", behind.lost, ("mirror",), "==", "", "own target")
    if run_directory is not None:
        report(result, pairs, errors, moved, ends).write(Path(run_directory) / "report.html")
    return result


def report(result: Result, pairs: list, errors: np.ndarray, moved: np.ndarray, ends: np.ndarray) -> Report:
    page = Report("A mirror found and followed", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    fig, axes = figure(1, 2, size=(10.5, 4.0))
    draw_scene(axes[0], Lidar(with_mirror(TRUTH)), PLACE, "What the mirror shows, and what was measured",
               measured(with_mirror(TRUTH), PLACE, noise(0.003), 0))  # fmt: skip
    for pair in pairs:
        away = np.hypot(*(pair[0].path[:, :2] - np.array(TRUTH[:2])).T)
        axes[1].semilogy(1e3 * away, color="#0072B2", alpha=0.6)
        away = np.hypot(*(pair[1].path[:, :2] - np.array(TRUTH[:2])).T)
        axes[1].semilogy(1e3 * away, color="#D55E00", alpha=0.6)
    axes[1].set(title="Blue: ours; orange: L-BFGS alone", xlabel="iteration", ylabel="error of the place [mm]")
    page.figure(fig, "From all first guesses.")
    fig, axis = figure(1, 1, size=(6.0, 4.0))
    axis.plot(*moved[:, :2].T, "o-", label="the mirror's middle")
    axis.plot(*ends[:, :2].T, "+", ms=9, label="as fitted")
    axis.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title="Followed")
    axis.legend()
    page.figure(fig, "Each scan is fitted from where the last one ended.")
    return page
