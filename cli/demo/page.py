"""Paragraphs that the reports of demonstrations share."""

from __future__ import annotations

from pathlib import Path

from reporting import Report, Result
from sim_core.host.offscreen import draw_in_child

__all__ = ["film_of_grains", "show_film", "warn_of_misses"]


def warn_of_misses(report: Report, result: Result) -> None:
    """A warning for each target that was missed."""
    for one in result.checks:
        if not one.passed:
            report.warning(f"{one.name}: {one.value} {one.unit}, wanted {one.relation} {one.target}.")


def film_of_grains(folder: Path, cameras: tuple[str, ...], timeout: float) -> bytes | str:
    """What cameras of a robot in grains saw, as the contents of an animated picture, or the sentence why there is none.

    Args:
        folder: of the run, with its bag. cameras: names in the robot's model, from left to right. timeout: [s].
    """
    why = draw_in_child("cli.demo.grains_drawing", (str(folder), *cameras), timeout=timeout)
    return why or (folder / "film.webp").read_bytes()


def show_film(report: Report, shown: bytes | str, caption: str) -> None:
    """The film with its caption, or the sentence why there is none."""
    if isinstance(shown, str):
        report.text(shown)
    else:
        report.section("What the cameras saw").image(shown, caption)
