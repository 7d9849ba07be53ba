"""Results people can read: checked numbers, HTML reports, progress, run directories.

Imports neither ROS nor the algorithms, so that everything may use it.

    from reporting import Result, Report, figure, SilentProgress, new_run
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporting.checks import Check, Result, machine, versions
from reporting.html import Report
from reporting.progress import LineProgress, Progress, RichProgress, SilentProgress, progress_for
from reporting.runs import RunDirectory, git_state, new_run, write_run

if TYPE_CHECKING:
    from reporting.figures import PALETTE, TRUTH, figure

__all__ = [
    "Check",
    "LineProgress",
    "PALETTE",
    "Progress",
    "Report",
    "Result",
    "RichProgress",
    "RunDirectory",
    "SilentProgress",
    "TRUTH",
    "figure",
    "git_state",
    "machine",
    "new_run",
    "progress_for",
    "versions",
    "write_run",
]


def __getattr__(name: str) -> object:
    # Figures only when the first is drawn: the plotting library takes a second to import, which no robot should wait for.
    if name in ("PALETTE", "TRUTH", "figure"):
        from reporting import figures

        return getattr(figures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
