"""`refit bench`: answer one question about speed, beside a named rival in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli import catalog
from cli.errors import CommandError
from reporting.checks import EXIT_OK


def bench(
    name: Annotated[Optional[str], typer.Argument(help="which one; --list shows them")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="fewer sizes and repetitions")] = False,
    seed: Annotated[Optional[int], typer.Option(help="all randomness follows from it", min=0)] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
    list_: Annotated[bool, typer.Option("--list", help="say what there is")] = False,
) -> int:
    """Measure, hold the numbers against their targets, leave a report below runs/.

    Exit code 0: every target met; 1: one missed; 2: wrong usage.
    """
    if list_:
        catalog.show("benchmarks", Console())
        return EXIT_OK
    if name is None:
        raise CommandError("which benchmark? --list shows them.")
    return catalog.execute("benchmarks", name, "quick" if quick else "full", seed, json)
