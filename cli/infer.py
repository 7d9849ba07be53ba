"""`refit identify ... --method csvgd` and the like: particles of the posterior, from bags or tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cli.errors import as_command_error
from identification.infer_report import inference_result, write_inference
from identification.infer_settings import InferConfig, read_limits
from identification.inference import Inference, infer
from recording import open_recording
from reporting import progress_for, write_run
from reporting.checks import unit_text
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
    anyway: bool,
    console: Console,
) -> int:
    """Infer, report, print; the exit code of `refit identify`.

    Args:
        config: of InferConfig, without free and limits. anyway: see `write_inference`.

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
    folder = write_run(
        "infer", lambda run: write_inference(inference, result, run, source, anyway=anyway), out, bag=source
    )
    for note in inference.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    for verdict in inference.verdicts:
        style = "green" if verdict.passed else "red" if verdict.binding else "yellow"
        mark = "✓" if verdict.passed else "✗" if verdict.binding else "!"
        console.print(f"{mark} {verdict.sentence}", style=style, markup=False, highlight=False, soft_wrap=True)
    _print_posterior(console, inference)
    result.print(console)
    if not result.passed:
        console.print(
            "parameters.yaml was written although the posterior failed, as --anyway asks."
            if anyway
            else "No parameters.yaml: the posterior failed. --anyway writes it nevertheless.",
            markup=False,
        )
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
            unit_text(row["unit"]),
        )
    console.print(table)
    if masked := inference.posterior.meta.get("not_finite"):
        console.print(
            f"{masked} evaluations were masked: their roll-outs were not finite", markup=False, highlight=False
        )
