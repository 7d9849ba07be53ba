"""`refit identify ... --method csvgd` and the like: particles of the posterior, from bags or tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from cli.errors import CommandError
from identification.bag_data import DataError
from identification.infer import InferConfig, Inference, infer, read_limits
from identification.infer_report import inference_result, inference_warnings, write_inference
from recording import BagError, open_recording
from reporting import progress_for, write_run
from sim_core.augmentation import AugmentationError, BlueprintFileError
from sim_core.host.executors import WorkerLost, open_executor
from sim_core.inference.fit.identify import IdentificationError

__all__ = ["infer_command"]


def infer_command(
    paths, free, limits, config: dict, cluster: str, checkpoint, allow_truncated: bool, out, json, console: Console
) -> int:
    """Infer, report, print; the exit code of `refit identify`.

    Raises:
        CommandError: data or options that cannot be used; one line.
    """
    try:
        recordings = [open_recording(path, allow_truncated) for path in paths]
        settings = InferConfig(free=tuple(free or ()), limits=read_limits(limits), **config)
        with progress_for(console) as progress, open_executor(cluster) as executor:
            inference = infer(recordings, settings, executor if cluster else None, checkpoint, progress)
    except (
        BagError,
        DataError,
        IdentificationError,
        WorkerLost,
        AugmentationError,
        BlueprintFileError,
        ConnectionError,
        KeyError,
        ValueError,
    ) as error:
        raise CommandError(str(error.args[0]) if isinstance(error, KeyError) else str(error)) from None
    result, source = inference_result(inference), ", ".join(map(str, paths))
    folder = write_run("infer", lambda run: write_inference(inference, result, run, source), out, bag=source)
    result.print(console)
    _print_posterior(console, inference)
    for warning in inference_warnings(inference):
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        result.to_json(json)
    return result.exit_code


def _print_posterior(console: Console, inference: Inference) -> None:
    table = Table(
        "quantity",
        "mean",
        "std",
        "90 % interval",
        "limits",
        "unit",
        box=None,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    for row in inference.posterior.summary():
        table.add_row(
            row["name"],
            f"{row['mean']:.4g}",
            f"{row['std']:.2g}",
            f"{row['q05']:.3g} .. {row['q95']:.3g}",
            f"{row['lower']:.2g} .. {row['upper']:.2g}",
            row["unit"],
        )
    console.print(table)
    if masked := inference.posterior.meta.get("not_finite"):
        console.print(
            f"{masked} evaluations were masked: their roll-outs were not finite", markup=False, highlight=False
        )
