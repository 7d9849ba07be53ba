"""`refit experiment`: run a published experiment and hold its numbers against the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli import catalog
from cli.errors import CommandError
from reporting.checks import EXIT_OK


def experiment(
    name: Annotated[Optional[str], typer.Argument(help="which one; --list shows them")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="the small size that CI runs")] = False,
    full: Annotated[bool, typer.Option("--full", help="the published size (default)")] = False,
    seed: Annotated[int, typer.Option(help="all randomness follows from it", min=0)] = 0,
    cluster: Annotated[
        Optional[str],
        typer.Option(
            help="where independent seeds, methods and data sets are computed: processes, processes:N, or a Dask "
            "scheduler tcp://HOST:PORT; default: here, one after another"
        ),
    ] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
    list_: Annotated[bool, typer.Option("--list", help="say what there is")] = False,
) -> int:
    """Run a published experiment, check its numbers, leave a report below runs/.

    Exit code 0: every target met; 1: one missed; 2: wrong usage.
    """
    if list_:
        catalog.show("experiments", Console())
        return EXIT_OK
    if name is None:
        raise CommandError("which experiment? --list shows them.")
    if quick and full:
        raise CommandError("--quick and --full exclude each other.")
    return catalog.execute("experiments", name, "quick" if quick else "full", seed, json, cluster)
