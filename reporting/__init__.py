"""Results people can read: checked numbers, HTML reports, progress, run directories.

Imports neither ROS nor the algorithms, so that everything may use it.

    from reporting import Result, Report, figure, SilentProgress, new_run
"""

from reporting.checks import Check, Result, machine, versions
from reporting.figures import PALETTE, TRUTH, figure
from reporting.html import Report
from reporting.progress import LineProgress, Progress, RichProgress, SilentProgress, progress_for
from reporting.runs import RunDirectory, git_state, new_run, write_run

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
