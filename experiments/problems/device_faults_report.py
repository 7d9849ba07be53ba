"""The report of the fault study: when what failed, what became of it, and the drivers' memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reporting import PALETTE, Report, Result, figure

__all__ = ["write_report"]


def write_report(result: Result, faults: list, usage: list, path: Path) -> None:
    """Write the report.

    Args:
        result: with its details. faults: as played. usage: (time [s], of all drivers). path: of the file.
    """
    report = Report("Devices that fail", f"{result.size}, seed {result.seed}")
    report.numbers(
        {
            "faults": len(faults),
            "reported by their own sign": sum(f.telling.complete for f in faults),
            "longest until back": f"{np.nanmax([f.back for f in faults]):.2f} s",
        }
    )
    report.section("Targets").checks(result)
    report.section("Faults", "Each bar is a fault; dots are when the driver's diagnostics first told of it.")
    nodes = sorted({f.node for f in faults})
    fig, axes = figure(size=(8.4, 0.35 * len(nodes) + 1.0))
    for f in faults:
        y = nodes.index(f.node)
        axes.plot([f.t, f.end], [y, y], color=PALETTE[1], linewidth=5, solid_capstyle="butt")
        axes.plot(f.t + f.reported, y, ".", color=PALETTE[0])
    axes.set_yticks(range(len(nodes)), nodes)
    axes.set_xlabel("time [s]")
    report.figure(fig, "Faults over the run.")
    _table(report, result.details["by device"])
    report.section("Levels and counters", "What each fault must show, how often it was played and how often it did.")
    _table(report, result.details["matrix"])
    report.section("Processes", "Resident memory of every driver.")
    fig, axes = figure()
    for k, node in enumerate(nodes):
        axes.plot(
            [t for t, use in usage if node in use],
            [use[node].memory / 1e6 for _, use in usage if node in use],
            label=node,
            color=PALETTE[k % len(PALETTE)],
        )
    axes.set_xlabel("time [s]")
    axes.set_ylabel("memory [MB]")
    axes.legend()
    report.figure(fig, "Memory of the drivers.")
    _table(report, result.details["processes"])
    report.write(path)


def _table(report: Report, rows: list[dict]) -> None:
    report.table(list(rows[0]), [list(row.values()) for row in rows])
