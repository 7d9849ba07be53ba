"""`refit exam BAG`: a recorded exam, decided again and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli.errors import as_command_error
from cli.outputs import check_outputs
from identification.exam.record import ExamRecord, read_exam
from identification.exam.report import exam_page, judge_exam
from reporting import Report, Result, write_run

__all__ = ["exam"]


def exam(
    source: Annotated[
        Path, typer.Argument(help="bag of a run with an exam, or the file exam.json in which it kept its state")
    ],
    out: Annotated[Optional[Path], typer.Option(help="new folder for the report; default below runs/")] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
) -> int:
    """Read a recorded exam, have the planner decide everything again, and show where it listened, why, and what it heard.

    The new folder holds report.html: regions, trials in their order, maps of what was believed, and each region's recording with
    a player, where its file is still there.

    Exit code 0: the planner decides as it did then, and every region has ended; 1: it does not, or the exam was interrupted;
    2: there is no exam in it.
    """
    check_outputs(out, json)
    console = Console()
    with as_command_error(ValueError, OSError):
        record = read_exam(source)
    result = Result("exam", size=record.examination.side)
    judge_exam(result, record)
    folder = write_run("exam", lambda run: _write(run, record, result), out, source=str(source))
    result.print(console)
    console.print(f"report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if json is not None:
        result.to_json(json)
    return result.exit_code


def _write(folder: Path, record: ExamRecord, result: Result) -> None:
    page = Report("Where it listened, and why", record.source)
    if not record.agrees:
        page.warning("The planner does not decide today as it did then: another version, or another exam's trials.")
    exam_page(page, record).write(folder / "report.html")
    result.to_json(folder / "result.json")
