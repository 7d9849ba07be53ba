"""What a calibration finds, and the folder it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from identification.errors import UnusableInput, unusable_input
from recording import BagError, BagReader
from reporting import Report, Result, RunDirectory, write_run
from sim_core.multibody.model.parameters import NamedEstimate

__all__ = ["Calibration", "open_bag", "write_calibration"]


@dataclass(frozen=True)
class Calibration:
    """What a calibration found.

    Attributes:
        result: its checks. estimates: with intervals. report: the page.
        files: name -> text of the parameters, written if every check passed.
        assumed: name of an estimate -> what was taken for it until now.
        remarks: sentences for the screen.
    """

    result: Result
    estimates: list[NamedEstimate]
    report: Report
    files: Mapping[str, str]
    assumed: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rows = []
        for e in self.estimates:
            row = {"name": e.name, "unit": e.unit, "value": e.value, "std": e.std, "lower": e.lower, "upper": e.upper}
            rows.append({**row, "assumed": self.assumed[e.name]} if e.name in self.assumed else row)
        self.result.detail("estimates", rows)


def open_bag(path: str | Path, allow_truncated: bool = False) -> BagReader:
    """The bag to calibrate from.

    Raises:
        UnusableInput: there is none, or it was cut off and that is not allowed.
    """
    with unusable_input(BagError):
        reader = BagReader(path)
    if reader.truncated and not allow_truncated:
        raise UnusableInput(f"{reader.truncated} Use --allow-truncated to calibrate from that part.")
    return reader


def write_calibration(found: Calibration, source: str, out: Path | None = None) -> Path:
    """report.html, result.json and, if every check passed, the parameter files in a new folder, all or nothing.

    Args:
        source: the bag, for run.json. out: the folder, which must not exist; None: below runs/.

    Returns:
        The folder.
    """

    def fill(run: RunDirectory) -> None:
        found.report.write(run / "report.html")
        found.result.to_json(run / "result.json")
        if found.result.passed:
            for name, text in found.files.items():
                (run / name).write_text(text, encoding="utf-8")

    return write_run(found.result.name.replace("_", "-"), fill, out, bag=source)
