"""The page that an identification leaves: fit, parameters, residuals, conditioning, starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from identification.identify_changes import changes_section
from reporting import PALETTE, Report, Result, figure
from sim_core.inference.fit.identify import Identification
from sim_core.inference.fit.repetition import autocorrelation
from sim_core.inference.fit.stretches import History
from sim_core.multibody import RobotModel

__all__ = ["identification_report", "residuals"]

MEASURED, BEFORE, AFTER = "#444444", PALETTE[1], PALETTE[0]
MAX_LAG = 20


def identification_report(
    history: History,
    model: RobotModel,
    result: Result,
    source: str,
    notes: Sequence[str],
    truth: Mapping[str, float] | None = None,
) -> Report:
    """Report of one identification: the changes of the robot, if any, and the last stretch.

    Args:
        history: what was found. model: that it belongs to. result: its checks. source: what was read.
        notes: sentences about the data.
        truth: {name of a quantity: true value}, where it is known (simulated runs).
    """
    found = history.found
    windows = found.problem
    report = Report(f"Identification of {model.name}", source)
    report.numbers(
        {
            "held-out error, after / before": found.error_ratio,
            "identified directions": f"{found.posterior.rank} of {len(found.theta)}",
            "segments fitted": f"{len(windows.times)} x {windows.length * windows.dt:.2f} s",
            "starts that agree": f"{100 * found.agreeing:.0f} %",
        }
    )
    for sentence in _warnings(found):
        report.warning(sentence)
    for note in notes:
        report.text(note)
    report.checks(result)
    if history.changes:
        changes_section(report, history)
    _parameters(report, found, truth or {})
    _forecasts(report, found, model.joint_names)
    _residuals(report, found, model.joint_names)
    _conditioning(report, found)
    _starts(report, found)
    return report


def _warnings(found: Identification) -> list[str]:
    sentences = []
    if found.at_bound:
        names = ", ".join(found.at_bound)
        sentences.append(f"At a bound: {names}. The data ask for more; check the model before widening it.")
    if found.unexcited:
        sentences.append(
            f"Not excited: {', '.join(found.unexcited)}. They keep their prior; a motion that moves them would be needed."
        )
    if found.agreeing < 0.5:
        sentences.append(
            "Most starts ended elsewhere: the problem has several minima, and the best found may not be the best."
        )
    if found.solution.ending.value != "converged":
        sentences.append(f"The fit ended early: {found.solution.ending.value}.")
    return sentences


def _parameters(report: Report, found: Identification, truth: Mapping[str, float]) -> None:
    """Table, and every interval before and after on one scale: the prior's standard deviations."""
    headers = ["parameter", "unit", "before", "after", "95 % interval", "std / prior std"]
    rows = []
    for a, b in zip(found.before, found.after):
        row = [b.name, b.unit, a.value, b.value, f"[{b.lower:z.4g}, {b.upper:z.4g}]", b.std / a.std]
        if truth:
            true = truth.get(b.name)
            inside = "" if true is None else ("inside" if b.lower <= true <= b.upper else "outside")
            row += ["" if true is None else true, inside]
        rows.append(row)
    report.section("Parameters").table(headers + (["truth", "interval"] if truth else []), rows)
    # Two scales: the prior's, where one sees what was learnt, and, beside a truth, the estimate's own.
    fig, axes = figure(1, 2 if truth else 1, size=(8.4, 0.26 * len(found.after) + 1.2), sharey=True)
    left, right = axes if truth else (axes, axes)
    y = np.arange(len(found.after))[::-1]
    for row, a, b in zip(y, found.before, found.after):
        left.plot([-1.96, 1.96], [row, row], color=BEFORE, lw=5, alpha=0.3)
        left.errorbar((b.value - a.value) / a.std, row, xerr=1.96 * b.std / a.std, color=AFTER, fmt="o", ms=3.5)
        if b.name in truth:
            right.plot([-1.96, 1.96], [row, row], color=AFTER, lw=2)
            left.plot((truth[b.name] - a.value) / a.std, row, marker="|", color=MEASURED, ms=11)
            right.plot((truth[b.name] - b.value) / b.std, row, marker="|", color=MEASURED, ms=11)
    left.set_yticks(y, [b.name for b in found.after])
    left.set_xlabel("(value - before) / std before")
    left.set_title("before (band) and after")
    if truth:
        right.set_xlabel("(truth - after) / std after")
        right.set_title("95 % interval after, truth marked")
    report.figure(fig, "Intervals of 95 %.")


def _forecasts(report: Report, found: Identification, joints: Sequence[str]) -> None:
    """One stretch of the held-out part, predicted open loop."""
    before, after = found.forecast_before, found.forecast_after
    n = len(joints)
    report.section(
        "Prediction of the held-out part",
        f"Open loop over {after.t.shape[1] * found.problem.dt:.2f} s from a state fitted to the samples just before. "
        f"{len(after.t)} stretches, none used in the fit; shown is the one in the middle.",
    )
    s = len(after.t) // 2
    rows = (n + 1) // 2
    for what, unit, at in (("position", "[rad or m]", 0), ("velocity", "[rad/s or m/s]", n)):
        fig, axes = figure(rows, 2, size=(8.4, 1.35 * rows + 0.5), sharex=True, squeeze=False)
        for j, axis in enumerate(axes.ravel()):
            if j >= n:
                axis.set_visible(False)
                continue
            axis.plot(after.t[s], after.measured[s, :, at + j], color=MEASURED, lw=2.5, alpha=0.5, label="measured")
            axis.plot(before.t[s], before.predicted[s, :, at + j], color=BEFORE, ls="--", label="before")
            axis.plot(after.t[s], after.predicted[s, :, at + j], color=AFTER, label="after")
            axis.set_title(joints[j])
        axes[0, 0].legend(ncols=3)
        report.figure(fig, f"{what.capitalize()} {unit} over time [s].")
    report.table(
        ["joint", "position before", "position after", "velocity before", "velocity after"],
        [[joint, *(f.rmse[i] for i in (j, n + j) for f in (before, after))] for j, joint in enumerate(joints)],
        "RMSE of the forecasts [rad or m, rad/s or m/s].",
    )


def _residuals(report: Report, found: Identification, joints: Sequence[str]) -> None:
    """Normalised residuals over time, and their autocorrelation inside segments."""
    r, scale = residuals(found)
    problem, n = found.problem, len(joints)
    t = problem.times[:, None] + problem.dt * (problem.first + np.arange(r.shape[1]))
    report.section(
        "Residuals",
        "In units of their own standard deviation. White residuals mean that the model explains all there is; "
        "correlation in time is unmodelled physics, and widens the intervals above.",
    )
    fig, axes = figure(1, 2, size=(8.4, 3.0))
    order = np.argsort(t, axis=None)
    step = max(1, t.size // 1500)
    for j in range(n):
        axes[0].plot(t.ravel()[order][::step], r[..., n + j].ravel()[order][::step], ".", ms=1.5, alpha=0.6)
    axes[0].set_ylim(-6, 6)
    axes[0].set_title("velocity residuals")
    axes[0].set_xlabel("time [s]")
    lags = np.arange(min(MAX_LAG, r.shape[1] - 1) + 1)
    for j, joint in enumerate(joints):
        axes[1].plot(lags * problem.dt * 1e3, autocorrelation(r[..., n + j], lags), label=joint)
    bound = 1.96 / np.sqrt(r.shape[0] * r.shape[1])
    axes[1].axhspan(-bound, bound, color="#cccccc", alpha=0.6)
    axes[1].set_title("autocorrelation; band: white noise")
    axes[1].set_xlabel("lag [ms]")
    axes[1].legend(ncols=2)
    report.figure(fig)
    report.table(
        ["joint", "position std", "velocity std"],
        [[joint, scale[j], scale[n + j]] for j, joint in enumerate(joints)],
        "Noise estimated from the residuals [rad or m, rad/s or m/s].",
    )


def residuals(found: Identification) -> tuple[np.ndarray, np.ndarray]:
    """Residuals (S, K, nx) of all segments in units of their standard deviations, and those (nx,) [SI]."""
    rollout, scale = found.solution.rollout, found.solution.scale
    if rollout is None or scale is None:
        raise ValueError("expected a fit, found one whose start did not roll out; identify() keeps none of those")
    return rollout.residual / scale, scale


def _conditioning(report: Report, found: Identification) -> None:
    """Singular values of the data Jacobian in prior units, and what the weakest direction is made of."""
    values, n = found.posterior.singular_values, len(found.theta)
    weakest = found.posterior.weakest_direction
    report.section(
        "Conditioning",
        "Singular values of the data Jacobian with every coordinate in units of its prior standard deviation: above 1 the "
        "data say more about a direction than the prior does.",
    )
    fig, (left, right) = figure(1, 2, size=(8.4, max(3.0, 0.2 * n + 0.8)))
    left.semilogy(np.arange(1, n + 1), np.maximum(values, 1e-12), "o-", ms=4)
    left.axhline(1.0, color=BEFORE, ls="--")
    left.set_xlabel("direction")
    left.set_title("singular values; line: the prior")
    y = np.arange(n)[::-1]
    right.barh(y, weakest, color=AFTER)
    right.set_yticks(y, found.names)
    right.set_title("weakest direction")
    report.figure(
        fig, f"Condition number {values[0] / max(values[-1], 1e-300):.3g}, rank {found.posterior.rank} of {n}."
    )


def _starts(report: Report, found: Identification) -> None:
    best = min(start.cost for start in found.starts)
    rows = [[i, start.cost, start.cost - best, start.ending.name.lower()] for i, start in enumerate(found.starts)]
    report.section("Starts", "Number 0 is the prior mean, the others a Sobol sequence through the prior.")
    report.table(["start", "cost", "above the best", "ended"], rows, "Cost: negative log-likelihood of data and prior.")
