"""`refit localize BAG --scene FILE`: where a scanner stood in a known scene, or a body before it, scan by scan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli.errors import as_command_error
from cli.outputs import check_outputs
from identification.calibrate.calibration import open_bag
from identification.errors import UnusableInput
from identification.scans.bag_scans import BagSettings, poses_of_bag
from identification.scans.report import judge, poses_page, rows_of
from reporting import Result, progress_for, write_run
from reporting.checks import write_json

__all__ = ["localize"]


def localize(
    bag: Annotated[Path, typer.Argument(help="bag directory or .mcap file with scans")],
    scene: Annotated[Path, typer.Option(help="file with what the scanner stood in: docs/lidar.md")],
    body: Annotated[
        Optional[str], typer.Option(help="of the scene that is followed; by default the scanner itself is")
    ] = None,
    guess: Annotated[
        Optional[str], typer.Option(help="X,Y,YAW of it in the first scan, in m and rad; default: the scene's")
    ] = None,
    reach: Annotated[
        Optional[str], typer.Option(help="X,Y,YAW by which the guess may be off; default 0.2,0.2,0.4")
    ] = None,
    topic: Annotated[str, typer.Option(help="scans, sensor_msgs/LaserScan")] = "scan",
    every: Annotated[int, typer.Option(help="one of so many scans is fitted", min=1)] = 1,
    begin: Annotated[float, typer.Option("--from", help="first second of the recording to use", min=0.0)] = 0.0,
    end: Annotated[float, typer.Option("--to", help="last second of the recording to use")] = float("inf"),
    allow_truncated: Annotated[
        bool, typer.Option("--allow-truncated", help="use what a cut-off bag still holds")
    ] = False,
    out: Annotated[Optional[Path], typer.Option(help="new folder for the results; default below runs/")] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
) -> int:
    """Fit every recorded scan of a known scene, with the searches and the numbers of the node `lidar`.

    The new folder holds report.html (the scan over the scene, how the search came to its end, the pose over time),
    poses.json (a row a scan, also of those that could not be used, with the reason) and result.json.

    Exit code 0: it was found in nine of ten scans or more; 1: it was not; 2: the bag or the scene cannot be used.
    """
    check_outputs(out, json)
    console = Console()
    with as_command_error(UnusableInput):
        reader = open_bag(bag, allow_truncated)
        settings = BagSettings(
            str(scene), topic, body or "", _three("--guess", guess), _three("--reach", reach), every, begin, end
        )
        with progress_for(console) as progress, progress.stage("scans", total=None) as stage:
            found = poses_of_bag(reader, settings, stage.advance)
    result = Result("localize", size=body or "sensor")
    judge(result, found)

    def fill(run):
        poses_page(found, result, str(bag)).write(run / "report.html")
        write_json(run / "poses.json", rows_of(found))
        result.to_json(run / "result.json")

    folder = write_run("localize", fill, out, bag=str(bag), scene=str(scene), body=body)
    result.print(console)
    for name in ("report.html", "poses.json"):
        console.print(f"{name.partition('.')[0]}: {folder / name}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        result.to_json(json)
    return result.exit_code


def _three(option: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3:
        raise UnusableInput(f"{option} {text}: expected three numbers separated by commas, x and y in m and yaw in rad")
    return values
