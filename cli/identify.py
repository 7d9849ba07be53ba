"""`refit identify BAG`: the physics of a recorded robot, from the bag alone.

Reads joint states, the nominal robot and the run's description from the bag, looks for changes of the
robot, fits the free parameters of every stretch between them from many starts, judges them on the last
part of the stretch, and leaves a report, a JSON file and a parameter file that plant and controller load
(`params_file:=`). The file holds what the robot is now: the last stretch.

That is `--method gauss-newton`, the default. The other methods give particles of the whole posterior (cli/infer.py).
"""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli.errors import CommandError
from cli.infer import infer_command
from cli.outputs import check_outputs
from identification.bag_data import BagData, DataError, read_description, read_windows
from identification.infer import laplace_posterior, networks_meta
from recording import BagError, BagReader
from reporting import Result, RunDirectory, progress_for, write_run
from sim_core.augmentation import AugmentationError, BlueprintFileError, attached, attaching, save_parameters
from sim_core.inference.fit.change_point import ChangeConfig
from sim_core.inference.fit.free_names import FreeNameError, default_names, free_parameters
from sim_core.inference.fit.identify import Identification, IdentificationError, IdentifyConfig
from sim_core.inference.fit.stretches import History, Stretch, identify_stretches
from sim_core.inference.shooting.shooting import DelayPrior
from sim_core.multibody.model.parameter_file import ParameterFile, ParameterValue

__all__ = ["BagIdentification", "identify", "identify_bag", "parameter_file", "write_results"]

GAUSS_NEWTON = "gauss-newton"
# Draws from the optimum's Gaussian that are saved beside it.
DRAWS = 100


class Changes(StrEnum):
    """Whether a robot may change within a recording."""

    AUTO = "auto"
    OFF = "off"


@dataclass(frozen=True)
class BagIdentification:
    """What a bag said: the fits, the model they belong to, the bag's own model hash, and the data."""

    history: History
    model: object
    model_hash: str
    data: BagData
    result: Result
    truncated: str
    blueprint: str = ""

    @property
    def found(self) -> Identification:
        """What the robot is now: the last stretch."""
        return self.history.found


def identify(
    bag: Annotated[list[Path], typer.Argument(help="bag directory, .mcap or .csv file; particles take several")],
    free: Annotated[
        Optional[list[str]],
        typer.Option(
            help="free parameter, repeatable: hand.inertia, joint*.damping, "
            "joint*.friction, sensor.delay, ...; default: config/identify.yaml"
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
            "between changes; off: one set of parameters throughout"
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
    out: Annotated[Optional[Path], typer.Option(help="new folder for the results; default below runs/")] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
) -> int:
    """Identify a robot's physics from a recorded bag.

    If the robot changed within the recording, the result is what it was last; the report shows the earlier
    stretches beside it.

    Exit code 0: the fit converged and predicts the held-out part better; 1: it does not, no
    parameter file is written; 2: the bag cannot be used.
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
            "combine": combine,
            "begin": begin,
            "end": end,
            "seed": seed,
            "blueprint": str(blueprint or ""),
            "threads": threads or len(os.sched_getaffinity(0)),
        }
        return infer_command(bag, free, limits, config, cluster, checkpoint, allow_truncated, out, json, console)
    bag = bag[0]
    with progress_for(console) as progress:
        outcome = identify_bag(
            bag,
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
    folder = write_results(outcome, str(bag), out)
    outcome.result.print(console)
    _print_parameters(console, outcome)
    console.print(f"report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        outcome.result.to_json(json)
    return outcome.result.exit_code


def identify_bag(
    bag,
    free=None,
    robot=None,
    begin=0.0,
    end=float("inf"),
    config=IdentifyConfig(),
    allow_truncated=False,
    progress=None,
    detect=ChangeConfig(),
    blueprint=None,
) -> BagIdentification:
    """Fit the free parameters of a bag's robot to its joint states, on every stretch between changes of the robot.

    Args:
        detect: when a change is believed; None for one set of parameters throughout.
        blueprint: path of networks in the equations (docs/augmentation.md).

    Raises:
        CommandError: the bag or the blueprint cannot be used; one line.
    """
    try:
        reader = BagReader(bag)
        if reader.truncated and not allow_truncated:
            raise CommandError(f"{reader.truncated} Use --allow-truncated to identify from that part.")
        reader.require("joint_states", "robot_description", "run_info")
        nominal, source = read_description(reader, robot)
        data = read_windows(reader, nominal, begin, end)
        model, spec, with_delay = free_parameters(source, free or default_names(nominal.name), attaching(blueprint))
        config = replace(config, delay=DelayPrior() if with_delay else None)
        history = identify_stretches(model, spec, data.windows, config, detect, progress)
    except (BagError, DataError, FreeNameError, IdentificationError, AugmentationError, BlueprintFileError) as error:
        raise CommandError(str(error)) from None
    return BagIdentification(
        history,
        model,
        nominal.hash,
        data,
        _checks(history, nominal.name, config),
        reader.truncated,
        str(blueprint or ""),
    )


def _checks(history: History, robot: str, config: IdentifyConfig) -> Result:
    """The last stretch decides; the others are details."""
    found = history.found
    result = Result("identify", seed=config.seed, size=robot)
    result.check("held-out prediction error, after / before", found.error_ratio, 1.0, "<", unit="1")
    result.check("fit ended", found.solution.ending.name.lower(), ("converged",), "in")
    result.detail("parameters", _estimates(found))
    result.detail(
        "changes",
        [
            {
                "time": c.time,
                "lower": c.lower,
                "upper": c.upper,
                "held_out_cost_one_set_over_two": c.factor,
                "gain_in_standard_errors": c.errors,
                "changed": history.changed(i),
            }
            for i, c in enumerate(history.changes)
        ],
    )
    result.detail("stretches", [_stretch(s) for s in history.stretches])
    result.detail("unexcited", list(found.unexcited))
    result.detail("at_bound", list(found.at_bound))
    result.detail("rank", found.posterior.rank)
    result.detail("singular_values", found.posterior.singular_values)
    result.detail("starts_that_agree", found.agreeing)
    result.detail("held_out_rmse_before", found.forecast_before.rmse)
    result.detail("held_out_rmse_after", found.forecast_after.rmse)
    return result


def _estimates(found: Identification) -> list[dict]:
    return [
        {
            "name": b.name,
            "unit": b.unit,
            "before": a.value,
            "value": b.value,
            "std": b.std,
            "lower": b.lower,
            "upper": b.upper,
        }
        for a, b in zip(found.before, found.after)
    ]


def _stretch(stretch: Stretch) -> dict:
    row = {"begin": stretch.begin, "end": stretch.end}
    if stretch.found is None:
        return {**row, "not_identified": stretch.reason}
    found = stretch.found
    return {
        **row,
        "ended": found.solution.ending.name.lower(),
        "held_out_error_ratio": found.error_ratio,
        "unexcited": list(found.unexcited),
        "parameters": _estimates(found),
    }


def parameter_file(outcome: BagIdentification, leave_out: str = "") -> ParameterFile:
    """The identified values as plant and controller load them, without names that match the pattern `leave_out`."""
    found, sensor = outcome.found, {}
    if "sensor.delay" in found.names:
        delay = found.after[-1]
        sensor["delay"] = ParameterValue(delay.value, delay.std, "s")
    names = [name for name in written_names(outcome) if not fnmatch.fnmatch(name, leave_out)]
    return ParameterFile.from_vector(
        outcome.model, found.p, found.physical_covariance, names, sensor, outcome.model_hash
    )


def written_names(outcome: BagIdentification) -> list[str]:
    """Physical entries that the free coordinates set, in the order of the physical vector."""
    moved = outcome.found.physical_covariance.diagonal() > 0.0
    return [name for name, yes in zip(outcome.model.parameters.names, moved) if yes]


def write_results(outcome: BagIdentification, source: str, out: Path | None = None, truth: dict | None = None) -> Path:
    """Report, JSON and parameter file in a new folder, all or nothing. Returns the folder."""
    from identification.identify_report import identification_report  # matplotlib only when there is something to draw

    def fill(run: RunDirectory) -> None:
        notes = [*([outcome.truncated] if outcome.truncated else []), *outcome.data.notes]
        report = identification_report(outcome.history, outcome.model, outcome.result, source, notes, truth)
        report.write(run / "report.html")
        outcome.result.to_json(run / "result.json")
        meta = {
            "method": GAUSS_NEWTON,
            "robot": outcome.model.name,
            "model_hash": outcome.model_hash,
            **networks_meta(outcome.blueprint, outcome.model),
        }
        spec, seed = outcome.found.problem.spec, outcome.result.seed
        laplace_posterior(outcome.found, spec, DRAWS, seed, meta).save(run / "posterior.npz")
        if outcome.result.passed:
            save_parameters(run / "parameters.yaml", parameter_file(outcome), attached(outcome.model))

    return write_run("identify", fill, out, bag=source)


def _print_parameters(console: Console, outcome: BagIdentification) -> None:
    from rich.table import Table

    from identification.identify_changes import describe_changes

    found = outcome.found
    table = Table("parameter", "before", "after", "95 % interval", "unit", box=None, header_style="bold")
    for a, b in zip(found.before, found.after):
        table.add_row(b.name, f"{a.value:.4g}", f"{b.value:.5g}", f"{b.lower:.5g} .. {b.upper:.5g}", b.unit)
    console.print(table)
    if found.unexcited:
        console.print(f"not excited, prior kept: {', '.join(found.unexcited)}", markup=False)
    if found.at_bound:
        console.print(f"at a bound: {', '.join(found.at_bound)}", markup=False)
    for sentence in describe_changes(outcome.history):
        console.print(sentence, markup=False, highlight=False)
