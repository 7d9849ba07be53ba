"""What a person reads of the poses in a recording."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from identification.scans.bag_scans import BagPoses, ScanPose
from identification.scans.pictures import draw_plan, film_of_search
from reporting import Report, Result, figure
from sim_core.lidar.search import Outcome

__all__ = ["judge", "poses_page", "rows_of"]

#: share of scans in which what was looked for has to be found
SHARE = 0.9


def rows_of(found: BagPoses) -> list[dict[str, Any]]:
    """One a scan: when, what was found, how sure it is, how it ended."""
    return [_row(found, scan) for scan in found.scans]


def _row(found: BagPoses, scan: ScanPose) -> dict[str, Any]:
    told = scan.found
    row: dict[str, Any] = {
        "time": scan.time,
        "stamp": scan.stamp,
        "outcome": told.outcome.name.lower(),
        "message": told.message,
    }
    row |= {name: told.values.get(name, math.nan) for name in found.names}
    deviation = np.full(len(found.names), np.nan) if told.fit is None else np.sqrt(np.diag(told.fit.covariance))
    row |= {f"{name} std": float(d) for name, d in zip(found.names, deviation)}
    return row | {
        "residual": told.residual,
        "beams": told.beams,
        "agreement": told.agreement,
        "iterations": 0 if told.fit is None else told.fit.iterations,
    }


def judge(result: Result, found: BagPoses) -> None:
    """Checks of a recording."""
    share = len(found.found) / len(found.scans)
    result.check("scans in which it was found, share", share, SHARE, ">=", "", "own limit")
    if found.found:
        residual = float(np.median([scan.found.residual for scan in found.found]))
        result.detail("median error of the ranges [m]", residual)
    for outcome in Outcome:
        result.detail(f"scans: {outcome.name.lower()}", sum(scan.found.outcome == outcome for scan in found.scans))


def poses_page(found: BagPoses, result: Result, source: str) -> Report:
    """Report with the first scan's search, the last scan over the scene, and the pose over time."""
    what = found.names[0].split(".")[0]
    report = Report(f"Where the {'scanner' if what == 'sensor' else what} stood", source)
    for scan in found.scans:
        if scan.found.outcome != Outcome.FOUND:
            report.warning(f"{scan.time:.1f} s: {scan.found.message}")
            break
    report.section("Checks").checks(result)
    good = found.found
    if good:
        first, last = good[0], good[-1]
        report.section("The scene, and what was seen")
        fig, axes = figure(1, 2, size=(10.5, 4.2))
        draw_plan(axes[0], found.lidar, first.found.values, f"{first.time:.1f} s", first.ranges)
        draw_plan(axes[1], found.lidar, last.found.values, f"{last.time:.1f} s", last.ranges, legend=False)
        report.figure(
            fig,
            "Returns as the model expects them, by how many surfaces their light met before; crosses were measured.",
        )
        report.section("How the first scan was explained")
        report.image(
            film_of_search(found.lidar, found.names, first.found, first.ranges),
            "The best of all starts, stage after stage.",
        )
    if len(good) > 1:
        report.section("Over time")
        fig, axes = figure(len(found.names), 1, size=(8.0, 6.0))
        time = [scan.time for scan in good]
        for k, (name, axis) in enumerate(zip(found.names, axes)):
            value = np.array([scan.found.values[name] for scan in good])
            wide = np.array(
                [2.0 * math.sqrt(scan.found.fit.covariance[k, k]) if scan.found.fit else math.nan for scan in good]
            )
            axis.fill_between(time, value - wide, value + wide, alpha=0.25, lw=0)
            axis.plot(time, value, ".-", ms=3)
            axis.set(ylabel=f"{name} [{'rad' if name.endswith('yaw') else 'm'}]")
        axes[-1].set(xlabel="time [s]")
        report.figure(fig, "Shaded: two standard deviations, as the fit tells them.")
    report.data("poses", rows_of(found))
    return report
