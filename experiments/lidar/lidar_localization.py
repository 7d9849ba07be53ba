"""Does a scan of a known empty box tell where the sensor stands, from a heading that is 60 degrees off?

    ./refit experiment lidar_localization            # five places, eight scans of each
    ./refit experiment lidar_localization --quick    # the published place, three scans

The box of 1.85 m by 0.92 m, its geometry and surfaces known. Ranges are a stand-in's for the real sensor, with a spread of 10 mm and
corners that are up to 2 mm off. The pose is fitted by L-BFGS, as published, and by Levenberg-Marquardt. ICP and GICP (small_gicp) and
NDT register the scan that is expected at the first guess with the measured one; of their settings those count that come nearest to the
truth. Times are of the processor, on one thread. Errors are told by place and by heading; the published figure combines them in a way that is not told, here metres and radians
count alike.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from experiments.problems.lidar_scenes import BOX, SOURCE, Case, draw_scene, located, measured, noise
from experiments.problems.scan_registration import METHODS, Registered, available, best_registration, pose_error
from reporting import Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.lidar.fit import FitOptions
from sim_core.lidar.material import PAPER
from sim_core.lidar.scan import Lidar

#: iterations, seconds and the best baseline's error, as published
ITERATIONS, SECONDS, BASELINE = 34, 1.6, 0.13
PLACES = ((0.0, 0.0, 0.0), (-0.5, 0.15, 0.4), (0.45, -0.2, 1.5), (0.6, 0.2, -2.6), (-0.2, -0.3, 2.2))
SIZES = {"quick": (PLACES[:1], 3), "full": (PLACES, 8)}
OFF = math.radians(60.0)
FITS = {"L-BFGS": FitOptions(method="lbfgs"), "Levenberg-Marquardt": FitOptions()}


def cloud(ranges: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Points of a scan (n, 2) in the sensor's frame [m]."""
    seen = np.isfinite(ranges)
    return ranges[seen, None] * np.column_stack([np.cos(angles), np.sin(angles)])[seen]


def baselines(case: Case, ranges: np.ndarray, plain: bool = False) -> dict[str, Registered]:
    """By method; those of small_gicp where it is installed. plain: what is expected is the nearest surface, whatever light does there."""
    lidar = Lidar(case.scene.made_of(dict.fromkeys(case.scene.materials, PAPER)) if plain else case.scene)
    x, y, yaw = case.start
    expected = lidar.scan({"sensor.x": x, "sensor.y": y, "sensor.yaw": yaw}).range
    source, target = (cloud(r, lidar.settings.angles) for r in (expected, ranges))
    names = METHODS if available() else ("NDT",)
    return {m: best_registration(m, source, target, np.array(case.start), np.array(case.truth)) for m in names}


def solved(case: Case) -> dict:
    """A scan, its fits and the baselines' poses."""
    ranges = measured(case.scene, case.truth, case.sensor, case.seed)
    out: dict = {"case": case, "ranges": ranges, "fits": {}, "baselines": baselines(case, ranges)}
    located(case, ranges, FitOptions(iterations=1))  # compiled before it is timed
    for name, options in FITS.items():
        began = time.process_time()
        found = located(case, ranges, options)
        took = time.process_time() - began
        place, heading = pose_error(np.array(list(found.values.values())), np.array(case.truth))
        path = [pose_error(p, np.array(case.truth)) for p in found.path]
        out["fits"][name] = {
            "place": place,
            "heading": heading,
            "iterations": found.iterations,
            "evaluations": found.evaluations,
            "seconds": took,
            "way": np.hypot(*np.array(path).T),
            "told": np.sqrt(np.diag(found.covariance)),
        }
    return out


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """All places and scans.

    Returns:
        Result with the published figures as checks.
    """
    result = Result("lidar_localization", seed=seed, size=size)
    places, scans = SIZES[size]
    cases = [
        Case(BOX, place, (*place[:2], place[2] + OFF), noise(), 1000 * seed + scans * k + j)
        for k, place in enumerate(places)
        for j in range(scans)
    ]
    with progress.stage("scans", total=len(cases)) as stage:
        found = spread(solved, cases, executor, lambda done: stage.advance())
    judge(result, found[:scans], "published place", 0.005, math.radians(0.3))
    if len(places) > 1:
        judge(result, found[scans:], "other places", 0.005, math.radians(0.3))
    tell(result, found)
    best = min(float(np.median([one["baselines"][m].combined for one in found])) for m in found[0]["baselines"])
    ours = max(math.hypot(f["place"], f["heading"]) for one in found for f in one["fits"].values())
    result.check(
        "worst error of ours, metres and radians alike", ours, BASELINE, "<", "1", f"{SOURCE}: best baseline's"
    )
    median = max(
        float(np.median([math.hypot(one["fits"][n]["place"], one["fits"][n]["heading"]) for one in found]))
        for n in FITS
    )
    result.check("median error of ours over the best baseline's", median / best, 1.0, "<", "1", SOURCE)
    if run_directory is not None:
        report(result, found, "Localisation in a box", __doc__).write(Path(run_directory) / "report.html")
    return result


def judge(result: Result, found: list[dict], where: str, place: float, heading: float) -> None:
    """Checks that both experiments with a sensor's pose have."""
    for name in found[0]["fits"]:
        rows = [one["fits"][name] for one in found]
        said = f"own target; {SOURCE}: {ITERATIONS}"
        result.check(
            f"{name}, {where}: largest error of the place", max(r["place"] for r in rows), place, "<", "m", "own target"
        )
        result.check(
            f"{name}, {where}: largest error of the heading", math.degrees(max(r["heading"] for r in rows)), math.degrees(heading),
            "<", "deg", "own target",
        )  # fmt: skip
        result.check(f"{name}, {where}: most iterations", max(r["iterations"] for r in rows), 50, "<=", "", said)
        result.check(
            f"{name}, {where}: median processor time", float(np.median([r["seconds"] for r in rows])), SECONDS, "<=", "s",
            f"{SOURCE}: i7-8700K, one thread",
        )  # fmt: skip


def tell(result: Result, found: list[dict]) -> None:
    """Tables that both experiments have."""
    result.check("small_gicp in the same run", available(), True, "==", "", "own target: small_gicp==1.0.1")
    result.detail("fits", [
        {
            "method": name,
            "place, median [mm]": 1e3 * float(np.median([one["fits"][name]["place"] for one in found])),
            "place, worst [mm]": 1e3 * max(one["fits"][name]["place"] for one in found),
            "heading, worst [deg]": math.degrees(max(one["fits"][name]["heading"] for one in found)),
            "iterations": [one["fits"][name]["iterations"] for one in found],
            "evaluations": [one["fits"][name]["evaluations"] for one in found],
            "seconds, median": float(np.median([one["fits"][name]["seconds"] for one in found])),
        }
        for name in found[0]["fits"]
    ])  # fmt: skip
    result.detail("baselines, at their best settings", [
        {
            "method": name,
            "place, median [mm]": 1e3 * float(np.median([one["baselines"][name].place for one in found])),
            "place, best [mm]": 1e3 * min(one["baselines"][name].place for one in found),
            "heading, median [deg]": math.degrees(float(np.median([one["baselines"][name].heading for one in found]))),
            "combined, median": float(np.median([one["baselines"][name].combined for one in found])),
            "combined, best": min(one["baselines"][name].combined for one in found),
            "seconds, median": float(np.median([one["baselines"][name].seconds for one in found])),
        }
        for name in found[0]["baselines"]
    ])  # fmt: skip


def report(result: Result, found: list[dict], title: str, about: str) -> Report:
    page = Report(title, f"{result.size}, seed {result.seed}")
    page.text(about.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    one = found[0]
    case = one["case"]
    fig, axes = figure(1, 2, size=(10.5, 4.0))
    draw_scene(axes[0], Lidar(case.scene), case.truth, "Returns at the true pose, and what was measured", one["ranges"])
    for name, row in one["fits"].items():
        axes[1].semilogy(row["way"], label=name)
    for name, row in one["baselines"].items():
        axes[1].axhline(row.combined, ls="--", lw=1.0, color="#8a8f98")
        axes[1].text(0.0, row.combined, f" {name}", fontsize=7, va="bottom")
    axes[1].set(title="Error of the pose", xlabel="iteration", ylabel="metres and radians alike")
    axes[1].legend()
    page.figure(fig, "Dashed: where the baselines end.")
    return page
