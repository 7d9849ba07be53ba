"""`refit identify ... --method csvgd` and the like: particles of the posterior, from bags or tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cli.errors import as_command_error
from identification.infer_report import inference_result, inference_warnings, write_inference
from identification.infer_settings import InferConfig, read_limits
from identification.inference import Inference, infer
from recording import open_recording
from reporting import progress_for, write_run
from sim_core.host.executors import WorkerLost, open_executor

__all__ = ["infer_command"]


def infer_command(
    paths: Sequence[Path],
    free: Sequence[str] | None,
    limits: str,
    config: Mapping[str, Any],
    cluster: str,
    checkpoint: Path | None,
    allow_truncated: bool,
    out: Path | None,
    json: Path | None,
    console: Console,
) -> int:
    """Infer, report, print; the exit code of `refit identify`.

    Args:
        config: of InferConfig, without free and limits.

    Raises:
        CommandError: data or options that cannot be used; one line.
    """
    # ValueError: also of a place to compute that is none.
    with as_command_error(ValueError, ConnectionError, WorkerLost):
        recordings = [open_recording(path, allow_truncated) for path in paths]
        settings = InferConfig(free=tuple(free or ()), limits=read_limits(limits), **config)
        with progress_for(console) as progress, open_executor(cluster) as executor:
            inference = infer(recordings, settings, executor if cluster else None, checkpoint, progress)
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
