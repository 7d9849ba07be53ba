"""The page as far as all calibrations have it in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from identification.calibrate.estimates import interval_texts
from recording import BagReader
from reporting import Report, Result
from sim_core.multibody.model.parameters import NamedEstimate

__all__ = ["start_page"]


def start_page(
    title: str,
    reader: BagReader,
    result: Result,
    estimates: Sequence[NamedEstimate],
    numbers: Mapping[str, object],
    warnings: Sequence[str],
    assumed: Mapping[str, float] = {},
) -> Report:
    """Numbers, warnings, checks, estimates.

    Args:
        numbers: name -> the few values to see first.
        assumed: name of an estimate -> what was taken for it until now.
    """
    report = Report(title, str(reader.path)).numbers(numbers)
    for sentence in [*([reader.truncated] if reader.truncated else []), *warnings]:
        report.warning(sentence)
    report.checks(result)
    headers = ["parameter", "unit", *(["assumed"] if assumed else []), "value", "95 % interval"]
    rows = []
    for e in estimates:
        value, lower, upper = interval_texts(e)
        rows.append([e.name, e.unit, *([assumed.get(e.name, "")] if assumed else []), value, f"{lower} to {upper}"])
    return report.section("Estimates").table(headers, rows)
