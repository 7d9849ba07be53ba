"""Pictures of posteriors: corner plots, roll-out bands over data, convergence, likelihood slices. Arrays in, figures out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from reporting.figures import PALETTE, TRUTH, figure

__all__ = ["convergence", "corner_plot", "likelihood_slice", "rollout_bands"]

#: share of a limit's range shown beyond it, so that particles on it stay visible
_MARGIN = 0.03


def corner_plot(
    values: ArrayLike,
    names: Sequence[str],
    units: Sequence[str],
    lower: ArrayLike,
    upper: ArrayLike,
    truth: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Figure:
    """Histograms of every quantity and scatter plots of every pair.

    The axes show where the particles are; a limit that lies within is a dashed line. Scatter rather than smoothed
    density: kernel estimates bleed over limits that no particle crosses.

    Args:
        values: particles (N, M).
        names, units: of the quantities, M each.
        lower, upper: limits (M,).
        truth: true values (M,), NaN where unknown; None where none is known.
        weights: of the particles (N,); None: all alike.
    """
    import corner

    points, lower, upper = (np.asarray(a, dtype=float) for a in (values, lower, upper))
    M = points.shape[1]
    known = np.full(M, np.nan) if truth is None else np.asarray(truth, dtype=float)
    shown = [np.r_[points[:, i], known[i : i + 1][np.isfinite(known[i : i + 1])]] for i in range(M)]
    span = []
    for column, low, high in zip(shown, lower, upper):
        reach = max(0.15 * np.ptp(column), _MARGIN * (high - low))
        span.append(
            (
                max(column.min() - reach, low - _MARGIN * (high - low)),
                min(column.max() + reach, high + _MARGIN * (high - low)),
            )
        )
    size = max(4.0, 1.5 * M + 1.0)
    fig = Figure(figsize=(size, size))
    FigureCanvasAgg(fig)
    with matplotlib.rc_context({"axes.grid": False}):
        corner.corner(
            points,
            fig=fig,
            bins=24,
            range=span,
            weights=weights,
            color=PALETTE[0],
            plot_density=False,
            plot_contours=False,
            labels=[f"{name}\n[{unit}]" if unit else name for name, unit in zip(names, units)],
            data_kwargs={"alpha": 0.5, "ms": 3},
            labelpad=0.3 / size,
            max_n_ticks=4,
            label_kwargs={"fontsize": 7.5},
        )
    fig.subplots_adjust(left=0.85 / size, bottom=0.85 / size)
    axes = np.array(fig.axes).reshape(M, M)
    for i in range(M):
        for j in range(i + 1):
            axis = axes[i, j]
            for at in (lower[j], upper[j]):
                if span[j][0] <= at <= span[j][1]:
                    axis.axvline(at, color=PALETTE[4], linestyle="--", linewidth=1)
            for at in (lower[i], upper[i]) if i != j else ():
                if span[i][0] <= at <= span[i][1]:
                    axis.axhline(at, color=PALETTE[4], linestyle="--", linewidth=1)
            if np.isfinite(known[j]):
                axis.axvline(known[j], color=PALETTE[1], linewidth=1.2)
            if i != j and np.isfinite(known[i]):
                axis.axhline(known[i], color=PALETTE[1], linewidth=1.2)
            axis.tick_params(labelsize=6.5)
    return fig


def rollout_bands(
    t: ArrayLike, simulated: ArrayLike, measured: ArrayLike, labels: Sequence[str], best: int | None = None
) -> Figure:
    """Median and 50 % and 90 % bands of roll-outs over time, one axes per quantity, with the data on top.

    Args:
        t: (T,) [s]. simulated: (N, T, d); particles that are not finite are left out and counted. measured: (T, d).
        labels: d axis labels with units. best: index of a roll-out drawn by itself.
    """
    simulated = np.asarray(simulated, dtype=float)
    finite = np.isfinite(simulated).all(axis=(1, 2))
    fig, axes = figure(len(labels), 1, size=(8.4, 1.5 * len(labels) + 0.9), sharex=True, squeeze=False)
    for k, (axis, label) in enumerate(zip(axes[:, 0], labels)):
        if finite.any():
            q = np.quantile(simulated[finite, :, k], [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
            axis.fill_between(t, q[0], q[4], color=PALETTE[0], alpha=0.2, linewidth=0, label="90 % of the particles")
            axis.fill_between(t, q[1], q[3], color=PALETTE[0], alpha=0.35, linewidth=0, label="50 %")
            axis.plot(t, q[2], color=PALETTE[0], label="median")
        if best is not None and finite[best]:
            axis.plot(t, simulated[best, :, k], color=PALETTE[2], linewidth=1, label="best")
        axis.plot(t, np.asarray(measured)[:, k], color=TRUTH, linestyle=":", label="measured")
        axis.set_ylabel(label)
    axes[-1, 0].set_xlabel("time [s]")
    note = "" if finite.all() else f"{int((~finite).sum())} of {len(finite)} roll-outs are not finite"
    axes[0, 0].legend(loc="upper right", ncol=5, title=note or None)
    return fig


def convergence(
    curves: Mapping[str, Mapping[str, tuple[Any, Any]]],
    x: str = "evaluations of the likelihood",
    log: Collection[str] = (),
) -> Figure:
    """How quantities develop: one axes per quantity, one line per method.

    Args:
        curves: quantity -> method -> (x, y). log: quantities with a logarithmic axis.
    """
    fig, axes = figure(1, len(curves), size=(2.9 * len(curves) + 0.4, 3.1), squeeze=False)
    methods = list(dict.fromkeys(m for lines in curves.values() for m in lines))
    for axis, (quantity, lines) in zip(axes[0], curves.items()):
        for method, (xs, ys) in lines.items():
            axis.plot(xs, ys, color=PALETTE[methods.index(method) % len(PALETTE)], label=method)
        if quantity in log:
            axis.set_yscale("log")
        axis.set_title(quantity)
        axis.set_xlabel(x)
    axes[0, 0].legend()
    return fig


def likelihood_slice(
    panels: Mapping[str, Any],
    x: ArrayLike,
    y: ArrayLike,
    labels: tuple[str, str],
    truth: ArrayLike | None = None,
    maxima: Mapping[str, Any] | None = None,
) -> Figure:
    """Log likelihoods over a grid of two quantities side by side, each by its own colours.

    Args:
        panels: title -> log p (len(y), len(x)). x, y: grid. truth: (x, y). maxima: title -> (K, 2) points to mark.
    """
    fig, axes = figure(1, len(panels), size=(4.2 * len(panels), 3.7), squeeze=False, sharey=True)
    for axis, (title, log_p) in zip(axes[0], panels.items()):
        values = np.where(np.isfinite(log_p), log_p, np.nan)
        # Far from the data the logarithm falls without end; the colours are for the upper three quarters.
        mesh = axis.pcolormesh(
            x, y, values, cmap="viridis", vmin=np.nanquantile(values, 0.25), shading="nearest", rasterized=True
        )
        fig.colorbar(mesh, ax=axis, shrink=0.85)
        if maxima is not None and len(maxima.get(title, ())):
            points = np.asarray(maxima[title])
            axis.plot(
                points[:, 0],
                points[:, 1],
                "o",
                color="white",
                markeredgecolor="black",
                markersize=4,
                linestyle="",
                label="local maxima",
            )
        if truth is not None:
            axis.plot(*truth, "x", color=PALETTE[1], markersize=9, markeredgewidth=2, linestyle="", label="truth")
        axis.set_title(title)
        axis.set_xlabel(labels[0])
        axis.grid(False)
    axes[0, 0].set_ylabel(labels[1])
    if axes[0, 0].get_legend_handles_labels()[0]:
        axes[0, 0].legend(loc="upper right", facecolor="white", framealpha=0.8, frameon=True)
    return fig
