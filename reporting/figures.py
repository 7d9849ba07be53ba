"""Figures of one style, without pyplot's global state: safe in threads, and no figure stays open."""

from __future__ import annotations

from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

#: distinguishable also for colour-blind readers (Okabe & Ito, 2008), ordered for white paper
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
TRUTH = "#444444"

STYLE: Any = {
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#2b2f36",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.grid": True,
    "grid.color": "#e4e7ec",
    "grid.linewidth": 0.8,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.color": "#5b616b",
    "ytick.color": "#5b616b",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "path",
    "svg.hashsalt": "refit",  # same figure, same bytes
    "path.simplify": True,
}
# Once and for all: titles and legends read the settings when they are drawn, long after `figure` returned.
matplotlib.rcParams.update(STYLE)


def figure(
    rows: int = 1, cols: int = 1, size: tuple[float, float] | None = None, **subplots: Any
) -> tuple[Figure, Any]:
    """A figure with `rows` x `cols` axes in the reports' style.

    Args:
        size: width and height [inch]; default 8.4 wide, 2.9 per row.
        subplots: passed to `Figure.subplots` (sharex, squeeze, ...).

    Returns:
        Figure, and its axes as `Figure.subplots` returns them (one axes for 1 x 1).
    """
    made = Figure(figsize=size or (8.4, 2.9 * rows + 0.3), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.subplots(rows, cols, **subplots)
