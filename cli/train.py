"""`refit train BAG --blueprint FILE`: networks in a robot's equations, trained from its recorded motion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli.errors import as_command_error
from cli.outputs import check_outputs
from identification.training import LOSSES, TrainConfig, stages_of
from identification.training import train as train_networks
from identification.training_report import training_result, write_training
from recording import open_recording
from reporting import progress_for, write_run
from sim_core.augmentation.training import Evaluation

__all__ = ["train"]


def train(
    bag: Annotated[list[Path], typer.Argument(help="bag directories, .mcap or .csv files of one robot")],
    blueprint: Annotated[
        Path, typer.Option(help="YAML file that says what the networks read and correct (docs/augmentation.md)")
    ],
    robot: Annotated[str, typer.Option(help="of tables; refuse a bag of another robot")] = "",
    loss: Annotated[
        str, typer.Option(help=f"{LOSSES[0]}: roll-outs on horizons that grow; {LOSSES[1]}: the next state alone")
    ] = LOSSES[0],
    iterations: Annotated[Optional[int], typer.Option(help="of each stage; default: its own", min=1)] = None,
    horizon: Annotated[Optional[int], typer.Option(help="longest roll-out trained on [samples]", min=1)] = None,
    length: Annotated[float, typer.Option(help="of a trajectory [s]", min=0.01)] = 1.0,
    seed: Annotated[int, typer.Option(help="of start weights, where the blueprint has none", min=0)] = 0,
    allow_truncated: Annotated[
        bool, typer.Option("--allow-truncated", help="use what a cut-off bag still holds")
    ] = False,
    out: Annotated[Optional[Path], typer.Option(help="new folder for the results; default below runs/")] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
) -> int:
    """Train the networks of a blueprint from recorded motion.

    No force has to be measured: weights are found by which the simulator moves as the robot did. The last fifth of the
    recording is held out and judges them; the report shows both errors over the training.

    The new folder holds blueprint.yaml with its weights, for identify, controllers and simulators to load, and the report.

    Exit code 0: the networks predict what they have not seen better than the equations alone; 1: they do not;
    2: the bag or the blueprint cannot be used.
    """
    check_outputs(out, json)
    console = Console()
    with progress_for(console) as progress, as_command_error(ValueError, OSError):
        config = TrainConfig(robot=robot, loss=loss, iterations=iterations, horizon=horizon, length=length, seed=seed)
        recordings = [open_recording(path, allow_truncated) for path in bag]
        with progress.stage("training", sum(stage.iterations for stage in stages_of(config))) as stage:

            def on_row(row: Evaluation) -> None:
                stage.advance()

            trained = train_networks(recordings, blueprint, config, on_row)
    source = ", ".join(map(str, bag))
    folder = write_run("train", lambda run: write_training(trained, run, source), out, bag=source)
    result = training_result(trained, seed)
    result.print(console)
    console.print(f"networks: {folder / 'blueprint.yaml'}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        result.to_json(json)
    return result.exit_code
