"""Pictures of the experiment with soft objects: learning curves with bands, forces over depth, stiffness painted on objects, wrenches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reporting import PALETTE, TRUTH, Report, Result, figure
from sim_core.elastic.regressors import AUTO_TREES, REGRESSORS
from sim_core.elastic.tree_spread import SpreadTrees

__all__ = ["report"]

COUNTS = (2, 5, 10)


def report(
    result: Result, found: list[dict], about: str, mean_of: Callable[..., float], pooled: Callable[..., float]
) -> Report:
    """The page."""
    page = Report("Soft objects from ten pokes", f"{result.size}, seed {result.seed}")
    page.text(about.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section("Points").figure(
        curves(found), "Mean over repeats, and one standard deviation about it for the searched extra trees."
    )
    page.figure(forces(found), "Pokes that the model has not seen; dots are the truth, lines what ten others say.")
    page.figure(
        painted(found),
        "The object, the true force 5 mm below where forces begin, what ten pokes (circles) say, and how far the trees of plain extra trees differ in it.",
    )
    page.section("Probes").figure(
        probes(found), "Magnitudes of forces on lines and cylinders, each dot a sample; the line is equality."
    )
    page.figure(
        methods(found, pooled),
        "Root mean square errors of novel probes. Summing points without coupling is beyond the picture where no bar is seen to end.",
    )
    return page


def curves(found: list[dict]) -> Any:
    """Errors over the number of pokes."""
    fig, axes = figure(1, len(found), size=(2.6 * len(found) + 1.6, 3.2), squeeze=False, sharey=True)
    for ax, one in zip(axes[0], found):
        for k, name in enumerate((*REGRESSORS, "one spring")):
            some = [[r["error"] for r in one["curves"] if r["regressor"] == name and r["count"] == n] for n in COUNTS]
            mean, spread = np.mean(some, 1), np.std(some, 1)
            main = name == AUTO_TREES
            colour = TRUTH if name == "one spring" else PALETTE[k % len(PALETTE)]
            ax.plot(
                COUNTS,
                mean,
                color=colour,
                lw=2.4 if main else 1.1,
                ls="--" if name == "one spring" else "-",
                label=name,
            )
            if main:
                ax.fill_between(COUNTS, mean - spread, mean + spread, color=colour, alpha=0.18, lw=0)
        ax.set(title=one["name"], xlabel="pokes", xticks=COUNTS)
    axes[0, 0].set(ylabel="error of the force [N]", ylim=(0.0, None))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right center")
    return fig


def forces(found: list[dict]) -> Any:
    """Force over depth at places that are not known."""
    fig, axes = figure(1, len(found), size=(2.6 * len(found) + 0.6, 3.0), squeeze=False)
    for ax, one in zip(axes[0], found):
        stiff = np.argsort([p.force[-1] / p.displacement[-1] for p in one["held out"]])
        for k, which in enumerate(stiff[np.linspace(0, len(stiff) - 1, 4).astype(int)]):
            poke = one["held out"][which]
            d = np.linspace(poke.displacement[0], poke.displacement[-1], 120)
            ax.plot(1e3 * poke.displacement, poke.force, "o", ms=2.5, color=PALETTE[k])
            ax.plot(1e3 * d, one["model"].predict(np.tile(poke.feature, (120, 1)), d), color=PALETTE[k], lw=1.2)
        ax.set(title=one["name"], xlabel="displacement [mm]")
    axes[0, 0].set(ylabel="force [N]")
    return fig


def painted(found: list[dict]) -> Any:
    """Stiffness on the objects, from above."""
    fig, axes = figure(len(found), 4, size=(13.0, 2.6 * len(found)), squeeze=False)
    for row, one in zip(axes, found):
        surface, data = one["data"].surface, one["data"]
        depth = 0.005 + max(0.0, np.median([p.displacement[np.argmax(p.force > 0.1)] for p in data.pokes]))
        place = np.array([p.feature[:2] for p in data.pokes])
        true = np.array([np.interp(depth, p.displacement, p.force) for p in data.pokes])
        said = one["model"].predict(surface.features, np.full(len(surface.points), depth))
        high = float(np.quantile(true, 0.98))
        size = 1e3
        row[0].scatter(*(size * surface.points[:, :2]).T, c=surface.colours, s=3, lw=0)
        row[0].set(title=f"{one['name']}, as it is seen", ylabel="y [mm]")
        row[1].scatter(*(size * place).T, c=true, s=45, vmin=0.0, vmax=high, cmap="viridis")
        row[1].set(title=f"truth at {size * depth:.1f} mm")
        drawn = row[2].scatter(
            *(size * surface.points[:, :2]).T, c=said, s=3, lw=0, vmin=0.0, vmax=high, cmap="viridis"
        )
        known = size * np.array([p.feature[:2] for p in one["known"]])
        row[2].plot(*known.T, "o", mfc="none", mec="white", ms=6)
        row[2].set(title="what ten pokes say")
        fig.colorbar(drawn, ax=row[2], label="force [N]", shrink=0.9)
        apart = SpreadTrees(one["known"]).predict_with_deviation(surface.features, np.full(len(surface), depth))[1]
        drawn = row[3].scatter(*(size * surface.points[:, :2]).T, c=apart, s=3, lw=0, cmap="magma")
        row[3].set(title="how far trees differ")
        fig.colorbar(drawn, ax=row[3], label="deviation [N]", shrink=0.9)
        for ax in row:
            ax.set(aspect="equal", xlabel="x [mm]")
            ax.grid(False)
    return fig


def probes(found: list[dict]) -> Any:
    """Forces told over true ones."""
    fig, axes = figure(1, len(found), size=(2.6 * len(found) + 0.6, 3.0), squeeze=False)
    for ax, one in zip(axes[0], found):
        top = 0.0
        for k, kind in enumerate(("line", "cylinder")):
            shown = next(r["shown"] for r in one["wrenches"] if "shown" in r and r["probe"] == kind)
            true = np.concatenate([np.linalg.norm(s["true"], axis=1) for s in shown])
            said = np.concatenate([np.linalg.norm(s["told"], axis=1) for s in shown])
            ax.plot(true, said, "o", ms=2.2, alpha=0.6, color=PALETTE[k], label=kind)
            top = max(top, true.max(), float(np.quantile(said, 0.99)))
        ax.plot([0.0, top], [0.0, top], color=TRUTH, lw=1.0)
        ax.set(title=one["name"], xlabel="true force [N]", xlim=(0.0, 1.05 * top), ylim=(0.0, 1.05 * top))
    axes[0, 0].set(ylabel="simulated force [N]")
    axes[0, 0].legend()
    return fig


def methods(found: list[dict], pooled: Callable[..., float]) -> Any:
    """Errors by method."""
    names = ("simulator", "pure learning", "one spring", "no coupling")
    fig, axes = figure(1, 3, size=(11.0, 3.2))
    at = np.arange(len(found))
    for ax, (key, kinds, unit, scale) in zip(
        axes,
        (
            ("force", ("line", "cylinder"), "N", 1.0),
            ("torque", ("line", "cylinder"), "mN m", 1e3),
            ("force", ("tilted line",), "N", 1.0),
        ),
    ):
        values = np.array([[scale * pooled(one, name, key, kinds) for one in found] for name in names])
        for k, name in enumerate(names):
            ax.bar(at + 0.2 * (k - 1.5), values[k], 0.19, color=PALETTE[k], label=name)
        ax.set(
            title=f"{key}, {' and '.join(kinds)}s",
            ylabel=f"error [{unit}]",
            xticks=at,
            ylim=(0.0, 1.25 * values[:3].max()),
        )
        ax.set_xticklabels([one["name"] for one in found])
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right center")
    return fig
