"""The page of an exploration: how hard the object is where, how sure that is, and what each poke felt beside what is believed now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reporting import PALETTE, Report, figure
from sim_core.elastic.exploration import Exploration

__all__ = ["draw_curves", "draw_stiffness", "exploration_report", "write_exploration_report"]

#: curves on the page at most, and points that are painted at most
CURVES, POINTS = 9, 6000


def write_exploration_report(file: Path, exploration: Exploration, name: str, deviations: Sequence[float] = ()) -> None:
    """Write the page; see `exploration_report`."""
    exploration_report(exploration, name, deviations).write(file)


def exploration_report(exploration: Exploration, name: str, deviations: Sequence[float] = ()) -> Report:
    """What a person reads.

    Args:
        name: of the object. deviations: mean deviation of the predicted force after each poke [N].

    Raises:
        ValueError: nothing was learnt.
    """
    if exploration.model is None:
        raise ValueError("nothing was learnt; there is nothing to draw")
    depth = exploration.settings.depth
    report = Report(f"How hard {name or 'the object'} is", f"After {len(exploration.pokes)} pokes.")
    report.section("Where it is hard, and where that is not known")
    fig = draw_stiffness(exploration)
    report.figure(
        fig,
        f"From above: the force that a point probe would feel {1e3 * depth:g} mm deep, and its standard deviation. "
        "Crosses are pokes; hollow rings are places at which a poke failed.",
    )
    report.section("What the pokes felt")
    report.figure(
        draw_curves(exploration),
        "Dots are measured, lines are what the model believes of the same place now, with two standard deviations. Displacements begin "
        "where the surface was seen, so that an error of the camera shows as a shift.",
    )
    if len(deviations) > 1:
        report.section("How sure it became")
        fig, axis = figure()
        axis.plot(np.arange(1, len(deviations) + 1), deviations, ".-")
        axis.set_xlabel("pokes")
        axis.set_ylabel("standard deviation [N]")
        axis.set_ylim(0.0)
        report.figure(fig, f"Of the predicted force {1e3 * depth:g} mm deep, mean over all places that can be poked.")
    return report


def draw_stiffness(exploration: Exploration) -> Any:
    """Force at the settings' depth and its standard deviation over the surface, from above; returns the figure."""
    model, surface = exploration.model, exploration.surface
    if model is None:
        raise ValueError("nothing was learnt; there is nothing to draw")
    rows = np.flatnonzero(surface.normals[:, 2] > 0.0)
    rows = rows[:: max(1, len(rows) // POINTS)]
    force, deviation = model.predict_with_deviation(
        surface.features[rows], np.full(len(rows), exploration.settings.depth)
    )
    order = np.argsort(surface.points[rows, 2], kind="stable")  # what is higher hides what is below
    poked = np.array([poke.feature[:3] for poke in exploration.pokes])
    failed = exploration.failed
    fig, axes = figure(1, 3, size=(11.0, 3.8))
    painted = (surface.colours[rows], force, deviation)
    titles = ("as the camera saw it", "force [N]", "standard deviation [N]")
    for axis, values, title, colours in zip(axes, painted, titles, (None, "viridis", "magma")):
        points = 1e3 * surface.points[rows][order]
        shown = axis.scatter(points[:, 0], points[:, 1], s=5, c=values[order], cmap=colours, linewidths=0)
        if colours:
            fig.colorbar(shown, ax=axis, shrink=0.8)
        axis.plot(1e3 * poked[:, 0], 1e3 * poked[:, 1], "x", color="white", markersize=8, markeredgewidth=3)
        axis.plot(1e3 * poked[:, 0], 1e3 * poked[:, 1], "x", color="black", markersize=7, markeredgewidth=1.5)
        if failed:
            places = 1e3 * exploration.candidates.places[failed]
            axis.plot(places[:, 0], places[:, 1], "o", markerfacecolor="none", color=PALETTE[1], markersize=7)
        axis.set_aspect("equal")
        axis.set_title(title)
        axis.set_xlabel("x [mm]")
        axis.grid(False)
    axes[0].set_ylabel("y [mm]")
    return fig


def draw_curves(exploration: Exploration, truth: Sequence[tuple[np.ndarray, np.ndarray]] = ()) -> Any:
    """Force over displacement of the last pokes, as measured and as believed; returns the figure.

    Args:
        truth: displacements and forces at the places of the pokes that are drawn, where they are known.
    """
    model, pokes = exploration.model, exploration.pokes[-CURVES:]
    if model is None:
        raise ValueError("nothing was learnt; there is nothing to draw")
    columns = 3
    rows = -(-len(pokes) // columns)
    fig, axes = figure(rows, columns, size=(10.0, 2.4 * rows + 0.3), sharey=True, squeeze=False)
    first = len(exploration.pokes) - len(pokes)
    for k, axis in enumerate(axes.ravel()):
        if k >= len(pokes):
            axis.set_axis_off()
            continue
        poke = pokes[k]
        d = np.linspace(float(poke.displacement.min()), float(poke.displacement.max()), 60)
        mean, deviation = model.predict_with_deviation(np.tile(poke.feature, (len(d), 1)), d)
        axis.fill_between(1e3 * d, mean - 2.0 * deviation, mean + 2.0 * deviation, alpha=0.25, linewidth=0)
        axis.plot(1e3 * d, mean, label="believed")
        axis.plot(1e3 * poke.displacement, poke.force, ".", color=PALETTE[1], label="measured")
        if k < len(truth):
            axis.plot(1e3 * truth[k][0], truth[k][1], color="#444444", linestyle="--", label="true")
        axis.set_title(f"poke {first + k + 1}")
        if k // columns == rows - 1 or k + columns >= len(pokes):
            axis.set_xlabel("displacement [mm]")
        if k % columns == 0:
            axis.set_ylabel("force [N]")
    axes[0, 0].legend()
    return fig
