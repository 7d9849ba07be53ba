"""What `refit identify` says about a robot that changed: sentences, and a section of the report."""

from __future__ import annotations

import numpy as np

from reporting import PALETTE, Report, figure
from sim_core.inference.fit.stretches import History

__all__ = ["changes_section", "describe_changes"]


def describe_changes(history: History) -> list[str]:
    """A sentence per change: when, and what from where to where. Empty if there is none."""
    sentences = []
    for i, change in enumerate(history.changes):
        names = history.changed(i)
        if names:
            found = [stretch.found for stretch in history.stretches[i : i + 2] if stretch.found is not None]
            old, new = ({e.name: e for e in one.after} for one in found)
            what = ", ".join(f"{n} {old[n].value:.4g} -> {new[n].value:.4g} {new[n].unit}" for n in names)
        else:
            what = "no single quantity differs significantly"
        sentences.append(
            f"The robot changed at {change.time:.3f} s ({change.lower:.3f} .. {change.upper:.3f} s): {what}."
        )
    for stretch in history.stretches:
        if stretch.found is None:
            sentences.append(
                f"The stretch from {stretch.begin:.3f} s to {stretch.end:.3f} s is not identified: {stretch.reason}."
            )
        elif stretch is not history.stretches[-1] and stretch.found.solution.ending.name != "CONVERGED":
            sentences.append(
                f"The fit from {stretch.begin:.3f} s to {stretch.end:.3f} s did not converge; its values are rough."
            )
    return sentences


def changes_section(report: Report, history: History) -> None:
    """Times of change, every stretch's parameters side by side, and how well each set explains the whole recording."""
    last = history.stretches[-1]
    report.section(
        "Changes of the robot",
        f"Two sets of parameters predict data held out from both far better than one. The rest of this page is about the last "
        f"stretch, {last.begin:.3f} s to {last.end:.3f} s: what the robot is now. Times are seconds since the first sample, as "
        "--from and --to take them.",
    )
    for sentence in describe_changes(history):
        report.text(sentence)
    report.table(
        ["change at [s]", "95 % interval [s]", "held-out cost, one set / two", "gain in standard errors"],
        [[f"{c.time:.3f}", f"[{c.lower:.3f}, {c.upper:.3f}]", c.factor, c.errors] for c in history.changes],
    )
    stretches = [(s, s.found) for s in history.stretches if s.found is not None]
    names = [(e.name, e.unit) for e in history.found.after]
    moved = {name for i in range(len(history.changes)) for name in history.changed(i)}
    estimates = [{e.name: e for e in found.after} for _, found in stretches]
    report.table(
        ["parameter", "unit", *(f"{s.begin:.2f} to {s.end:.2f} s" for s, _ in stretches), "changed"],
        [
            [
                name,
                unit,
                *(f"{e[name].value:.4g} [{e[name].lower:.4g}, {e[name].upper:.4g}]" for e in estimates),
                "yes" if name in moved else "",
            ]
            for name, unit in names
        ],
        "Estimates with 95 % intervals. Changed: by more than the intervals explain, with 5 % false alarms over all rows of a "
        "change together.",
    )
    fig, axis = figure(size=(8.4, 2.8))
    for k, (stretch, cost) in enumerate(zip(history.stretches, history.costs)):
        if stretch.found is not None:
            axis.semilogy(
                history.times,
                np.maximum(cost, 1e-3),
                color=PALETTE[k % len(PALETTE)],
                label=f"found from {stretch.begin:.2f} to {stretch.end:.2f} s",
            )
    for change in history.changes:
        axis.axvline(change.time, color="#444444", ls="--", lw=1)
    axis.set_xlabel("time [s]")
    axis.set_ylabel("mean loss [-]")
    axis.legend(ncols=2)
    report.figure(
        fig, "What each stretch's parameters leave unexplained of each 0.1 s, near 1 where they fit; dashed: changes."
    )
