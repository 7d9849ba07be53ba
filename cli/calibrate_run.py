"""What the four calibrations of `refit calibrate` have in common: open the bag, compute, leave a folder, print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cli.errors import as_command_error
from cli.outputs import check_outputs
from identification.calibrate.calibration import Calibration, open_bag, write_calibration
from identification.calibrate.estimates import interval_texts
from identification.errors import UnusableInput
from recording import BagReader

__all__ = ["run_calibration"]


def run_calibration(
    bag: Path, out: Path | None, json: Path | None, allow_truncated: bool, compute: Callable[[BagReader], Calibration]
) -> int:
    """Open the bag, compute, leave the folder, all or nothing, and print. Returns the exit code.

    Raises:
        CommandError: the bag cannot be used; one line.
    """
    check_outputs(out, json)
    with as_command_error(UnusableInput):
        reader = open_bag(bag, allow_truncated)
        found = compute(reader)
    result = found.result
    folder = write_calibration(found, str(bag), out)
    console = Console()
    result.print(console)
    _print_estimates(console, found)
    for sentence in [*([reader.truncated] if reader.truncated else []), *found.remarks]:
        console.print(sentence, markup=False, highlight=False)
    for name in ("report.html", *(found.files if result.passed else ())):
        console.print(f"{name.partition('.')[0]}: {folder / name}", markup=False, highlight=False, soft_wrap=True)
    if not result.passed:
        console.print(f"not written, because a check failed: {', '.join(found.files)}", markup=False, highlight=False)
    if json is not None:
        result.to_json(json)
    return result.exit_code


def _print_estimates(console: Console, found: Calibration) -> None:
    table = Table(box=None, header_style="bold")
    for column in ("parameter", *(["assumed"] if found.assumed else []), "value", "95 % interval", "unit"):
        table.add_column(column, overflow="fold")
    for e in found.estimates:
        assumed = [f"{found.assumed[e.name]:.4g}" if e.name in found.assumed else ""] if found.assumed else []
        value, lower, upper = interval_texts(e)
        table.add_row(e.name, *assumed, value, f"{lower} .. {upper}", e.unit)
    console.print(table)
