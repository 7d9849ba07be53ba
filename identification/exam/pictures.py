"""What an exam's report shows of one body: what was believed while it listened, and what it brought home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import signal

from reporting import PALETTE, Report, figure
from sim_core.auscultation.exam import Exam, Visit
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.regions import BANDS, REGIONS, Region, Side, Structure

__all__ = ["Told", "show_beliefs", "show_recordings", "show_regions", "told"]

#: pictures of a side's belief at most: its first readings, evenly chosen, and the last
MOMENTS = 4


@dataclass(frozen=True)
class Told:
    """A reading, and what was believed after it.

    Attributes:
        region: listened for. place: (2,) [m]. score: its quality.
        places, mean, deviation: the pair's candidates (n, 2) [m], and what is believed of each (n,).
        moved: landmarks' displacement as estimated (2,) [m]. landmarks: as registered (m, 2) [m].
    """

    region: Region
    place: np.ndarray
    score: float
    places: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    moved: np.ndarray
    landmarks: np.ndarray


def told(exam: Exam, visit: Visit, score: float) -> Told:
    """After `exam.tell(visit, score)`."""
    planner = exam.planners[visit.region[:2]]
    mean, deviation = planner.belief()
    theta = planner.posterior.theta
    marks = np.array([place for region, place in exam.regions.items() if region[:2] == visit.region[:2]])
    moved = theta[:2] if len(theta) else np.zeros(2)
    return Told(visit.region, visit.suggestion.place, score, planner.candidates.places, mean, deviation, moved, marks)


def show_regions(page: Report, values: np.ndarray, methods: Sequence[str]) -> None:
    """Mean mark of each region over bodies: values (methods, bodies, regions)."""
    fig, axes = figure(1, 1)
    axis, at, width = np.ravel(axes)[0], np.arange(len(REGIONS)), 0.8 / len(methods)
    for k, (method, colour) in enumerate(zip(methods, PALETTE)):
        left = at + width * (k - 0.5 * (len(methods) - 1))
        axis.bar(left, values[k].mean(0), 0.95 * width, color=colour, label=method)
    axis.set_xticks(at, [f"{what}, {side}\n{name}" for what, side, name in REGIONS], rotation=60, ha="right")
    axis.set_ylabel("mean mark")
    axis.set_ylim(0.0, 1.0)
    axis.legend(ncols=len(methods), loc="upper left")
    page.figure(fig, "Mean over bodies of the mark of the recording that is handed over.")


def show_beliefs(page: Report, history: list[Told]) -> None:
    """Belief maps of each structure and side, in the order in which places were chosen."""
    for pair in dict.fromkeys(one.region[:2] for one in history):
        mine = [one for one in history if one.region[:2] == pair]
        moments = sorted({round(k) for k in np.linspace(1, len(mine), min(MOMENTS, len(mine)))})
        fig, axes = figure(1, len(moments), sharex=True, sharey=True)
        for axis, count in zip(np.ravel(axes), moments):
            _belief(axis, mine[:count])
            axis.set_title(f"after {count}")
            axis.set_xlabel("to the left [m]")
        np.ravel(axes)[0].set_ylabel("up [m]")
        page.figure(fig, _caption(pair))


def _caption(pair: tuple[Structure, Side]) -> str:
    return (
        f"{pair[0].capitalize()}, {pair[1]}: expected quality after so many readings, dark is good. Numbers: readings in their order. "
        "Crosses: landmarks as registered; plus signs: where the readings have moved them."
    )


def _belief(axis: Any, history: list[Told]) -> None:
    last = history[-1]
    axis.scatter(*last.places.T, c=last.mean, cmap="Blues", vmin=0.0, vmax=1.0, marker="s", s=14)
    axis.plot(*last.landmarks.T, "x", color=PALETTE[1])
    axis.plot(*(last.landmarks + last.moved).T, "+", color="black")
    for number, one in enumerate(history, 1):
        axis.annotate(str(number), one.place, fontsize=7, ha="center", va="center", color=PALETTE[1], weight="bold")
    axis.set_aspect("equal")


def show_recordings(page: Report, recordings: dict[Region, tuple[np.ndarray, float]]) -> None:
    """Waveform, spectrogram and a player of each region's recording (m,) at RATE with its mark."""
    for region, (sound, mark) in recordings.items():
        low, high = BANDS[region[0]]
        fig, (wave, spectrum) = figure(1, 2)
        wave.plot(np.arange(len(sound))[::4] / RATE, sound[::4], color=PALETTE[0], linewidth=0.4, rasterized=True)
        wave.set_xlabel("time [s]")
        wave.set_ylabel("of full scale")
        f, t, power = signal.spectrogram(sound, RATE, nperseg=512, noverlap=256)
        shown = f <= 1.5 * high
        level = 10.0 * np.log10(power[shown] + 1e-12)
        spectrum.imshow(
            level, aspect="auto", origin="lower", extent=(0.0, t[-1], 0.0, f[shown][-1]), cmap="magma",
            vmin=np.quantile(level, 0.05), vmax=level.max(),
        )  # fmt: skip
        spectrum.grid(False)
        for edge in (low, high):
            spectrum.axhline(edge, color="white", linestyle=":")
        spectrum.set_xlabel("time [s]")
        spectrum.set_ylabel("frequency [Hz]")
        what, side, name = region
        page.figure(fig, f"{what.capitalize()}, {side}, {name}: mark {mark:.2f}. Dotted: the band that is judged.")
        page.audio(
            sound / max(np.abs(sound).max(), 1e-9), RATE, f"{what.capitalize()}, {side}, {name}; loudness made equal."
        )
