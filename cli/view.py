"""`refit view`: a recorded bag in the browser, with a time slider."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.errors import CommandError
from config.tiers import require
from reporting.checks import EXIT_OK

PORT = 8080


def view(
    bag: Annotated[Path, typer.Argument(help="a bag, its .mcap file, or a run directory with a bag in it")],
    port: Annotated[int, typer.Option(help="of the page on this machine; 0: a free one", min=0, max=65535)] = PORT,
    robot: Annotated[str, typer.Option(help="name or path of the robot; by default the one that was recorded")] = "",
) -> int:
    """Replay a bag in the browser: the robot, its plans, what was learnt, sensors and states, at any moment of the recording.

    The page is on this machine alone. Ctrl-C ends it, with exit code 0; 2: wrong usage, or a bag that cannot be shown.
    """
    require("view", "refit view")
    from nodes.view.replay import Replay
    from nodes.view.stage.page import PageError
    from recording import BagError, BagReader
    from sim_core.plant.errors import PlantError

    console = Console()
    try:
        reader = BagReader(bag / "bag" if (bag / "bag").is_dir() else bag)
        with console.status("reading the bag"):
            replay = Replay(reader, port, robot, lambda text: console.print(text, markup=False))
    except (BagError, PageError, PlantError) as error:
        raise CommandError(str(error)) from error
    if reader.truncated:
        console.print(reader.truncated, markup=False)
    console.print(f"Replay of {replay.duration:.1f} s: {replay.url}   (Ctrl-C ends it)", markup=False, soft_wrap=True)
    try:
        replay.run()
    except BagError as error:
        raise CommandError(str(error)) from error
    finally:
        replay.close()
    return EXIT_OK
