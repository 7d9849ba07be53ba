"""`refit identify BAG`: the physics of a recorded robot, from the bag alone.

With `--method gauss-newton`, the default, the result is one optimum with intervals (identification/identify_bag.py): a
report, a JSON file and a parameter file that plant and controller load (`params_file:=`). The other methods give particles
of the whole posterior (cli/infer.py).
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from cli.errors import as_command_error
from cli.infer import infer_command
from cli.outputs import check_outputs
from identification import identify_bag
from identification.errors import UnusableInput
from identification.identify_bag import BagIdentification
from identification.identify_changes import describe_changes
from identification.identify_results import write_identification
from identification.laplace import GAUSS_NEWTON
from reporting import progress_for
from reporting.checks import unit_text
from sim_core.inference.fit.change_point import ChangeConfig
from sim_core.inference.fit.identify import IdentifyConfig

__all__ = ["identify"]


class Changes(StrEnum):
    """Whether a robot may change within a recording."""

    AUTO = "auto"
    OFF = "off"


def identify(
    bag: Annotated[list[Path], typer.Argument(help="bag directory, .mcap or .csv file; particles take several")],
    free: Annotated[
        Optional[list[str]],
        typer.Option(
            help="free parameter, repeatable: hand.inertia, joint*.damping, "
            "joint*.friction, sensor.delay, ...; default: those of the robot's robot.yaml"
        ),
    ] = None,
    robot: Annotated[Optional[str], typer.Option(help="refuse a bag of another robot")] = None,
    blueprint: Annotated[
        Optional[Path], typer.Option(help="trained networks in the equations, held while the physics is fitted")
    ] = None,
    begin: Annotated[float, typer.Option("--from", help="first second of the recording to use", min=0.0)] = 0.0,
    end: Annotated[float, typer.Option("--to", help="last second of the recording to use")] = float("inf"),
    changes: Annotated[
        Changes,
        typer.Option(
            help="auto: find out whether and when the robot changed, identify each stretch "
            "between changes, or with particles what follows the last one; off: one set of parameters throughout"
        ),
    ] = Changes.AUTO,
    starts: Annotated[int, typer.Option(help="starting points", min=1)] = 6,
    seed: Annotated[int, typer.Option(help="of the starting points", min=0)] = 0,
    method: Annotated[
        str,
        typer.Option(
            help="gauss-newton: one optimum with intervals; particles of the posterior: csvgd, svgd, "
            "nuts, emcee, sgld, cem, cma, bayessim"
        ),
    ] = GAUSS_NEWTON,
    limits: Annotated[
        str,
        typer.Option(help="YAML file or text {hand.mass: [0.5, 3]}: limits of particles, beside or in place of --free"),
    ] = "",
    particles: Annotated[int, typer.Option(help="draws from the posterior", min=1)] = 100,
    iterations: Annotated[Optional[int], typer.Option(help="of the method; default: its own", min=1)] = None,
    windows: Annotated[
        Optional[int], typer.Option(help="shooting windows of a trajectory; default: 10 for csvgd, else 1", min=1)
    ] = None,
    length: Annotated[float, typer.Option(help="of a trajectory [s]", min=0.01)] = 1.0,
    sigma_obs: Annotated[float, typer.Option(help="noise in units of each state's standard deviation", min=1e-6)] = 0.2,
    errors: Annotated[
        str,
        typer.Option(
            help="of particles; fitted: noise and what the simulator has wrong are inferred as well, and intervals are as wide as that "
            "makes them; assumed: noise as --sigma-obs says, and nothing else; auto: fitted where they can be"
        ),
    ] = "auto",
    combine: Annotated[str, typer.Option(help="trajectories of one robot: product; of several: sum")] = "product",
    cluster: Annotated[
        str,
        typer.Option(
            help="where particles are computed: processes, processes:N, or a Dask scheduler "
            "tcp://HOST:PORT; default: here"
        ),
    ] = "",
    threads: Annotated[Optional[int], typer.Option(help="for particles; default: one per core", min=1)] = None,
    checkpoint: Annotated[
        Optional[Path], typer.Option(help="file to go on from and to leave behind (svgd, csvgd)")
    ] = None,
    allow_truncated: Annotated[
        bool, typer.Option("--allow-truncated", help="use what a cut-off bag still holds")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="write parameters.yaml although a verdict speaks against it")
    ] = False,
    out: Annotated[Optional[Path], typer.Option(help="new folder for the results; default below runs/")] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
) -> int:
    """Identify a robot's physics from a recorded bag.

    If the robot changed within the recording, the result is what it was last; the report shows the earlier
    stretches beside it.

    Every answer is judged: whether the method has converged, what leans on a limit, and what
    the answer predicts of the part that was held out. Exit code 0: nothing speaks against it;
    1: something does, and no parameter file is written; 2: the bag cannot be used.
    """
    check_outputs(out, json)
    console = Console()
    if method != GAUSS_NEWTON or len(bag) > 1 or bag[0].suffix == ".csv":
        config = {
            "method": method,
            "robot": robot or "",
            "particles": particles,
            "iterations": iterations,
            "windows": windows,
            "length": length,
            "sigma_obs": sigma_obs,
            "errors": errors,
            "combine": combine,
            "changes": changes is Changes.AUTO,
            "begin": begin,
            "end": end,
            "seed": seed,
            "blueprint": str(blueprint or ""),
            "threads": threads or len(os.sched_getaffinity(0)),
        }
        return infer_command(
            bag, free, limits, config, cluster, checkpoint, allow_truncated, out, json, anyway, console
        )
    recording = bag[0]
    with progress_for(console) as progress, as_command_error(UnusableInput):
        outcome = identify_bag.identify(
            recording,
            free,
            robot,
            begin,
            end,
            IdentifyConfig(starts=starts, seed=seed),
            allow_truncated,
            progress,
            ChangeConfig() if changes is Changes.AUTO else None,
            blueprint,
        )
    folder = write_identification(outcome, str(recording), out, anyway=anyway)
    outcome.result.print(console)
    _print_parameters(console, outcome)
    console.print(f"report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        outcome.result.to_json(json)
    return outcome.result.exit_code


def _print_parameters(console: Console, outcome: BagIdentification) -> None:
    found = outcome.found
    table = Table("parameter", "before", "after", "95 % interval", "unit", box=None, header_style="bold")
    for a, b in zip(found.before, found.after):
        table.add_row(
            b.name, f"{a.value:z.4g}", f"{b.value:z.5g}", f"{b.lower:z.5g} .. {b.upper:z.5g}", unit_text(b.unit)
        )
    console.print(table)
    if found.unexcited:
        console.print(f"not excited, prior kept: {', '.join(found.unexcited)}", markup=False)
    if found.at_bound:
        console.print(f"at a bound: {', '.join(found.at_bound)}", markup=False)
    for sentence in describe_changes(outcome.history):
        console.print(sentence, markup=False, highlight=False)
