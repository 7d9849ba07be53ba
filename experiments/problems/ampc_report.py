"""Checks and report of the cart-pole experiments, from what _ampc_study measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.problems.ampc_study import (
    BEFORE,
    DT,
    Lab,
    SeedRecord,
    corrupted_batches,
    fallback_is_plan_then_zero,
    parameter_error,
    scores,
)
from reporting.checks import Result
from reporting.figures import PALETTE, TRUTH, figure
from reporting.html import Report
from sim_core.multibody.model.cartpole_parameters import base_parameters

SOURCE = "own target, after Heiden et al., Interactive Differentiable Simulation, arXiv 1905.10706 (2019)"
SHARE = 0.9  # "on >= 9 of 10 seeds"


@dataclass(frozen=True)
class Targets:
    """What differs between the two robots."""

    score: float  # by episode 3
    kept: bool  # through episode 10, and 95 % of the oracle
    prototype: dict[str, str]  # case -> what a prototype in numpy and MuJoCo found before


def check_all(result: Result, lab: Lab, records: list[SeedRecord], targets: Targets) -> None:
    """Hold everything against the targets, and keep the curves for the report."""
    _swing_up(result, records, targets, "", "adaptive", "oracle")
    _first_refit(result, records)
    _prediction(result, records)
    _parameters(result, lab, records)
    frozen = [max(r.frozen) for r in records]
    result.check(
        "seeds that score below 0.2 with all parameters frozen at 2",
        share(f < 0.2 for f in frozen),
        SHARE,
        ">=",
        "1",
        SOURCE,
    )
    result.detail("best score of two with all parameters frozen at 2, per seed", frozen)
    for name in records[0].changes:
        _change(result, name, [r.changes[name] for r in records])
    _swing_up(result, records, targets, " with noise 0.005 and 20 ms delay", "robust", "robust_oracle")
    _runtime(result, records)
    _safety(result, lab, records)
    _details(result, lab, records, targets)


def share(flags) -> float:
    return float(np.mean([bool(f) for f in flags]))


def _swing_up(result, records, targets, how, case, oracle) -> None:
    episodes = [getattr(r, case) for r in records]
    best = [max(scores(e)[:3]) for e in episodes]
    result.check(
        f"seeds that score {targets.score} by episode 3{how}",
        share(b >= targets.score for b in best),
        SHARE,
        ">=",
        "1",
        SOURCE,
    )
    result.check(
        f"seeds upright (cos > 0.95) over the last 30 steps of episode 3{how}",
        share(e[2].upright() for e in episodes),
        SHARE,
        ">=",
        "1",
        SOURCE,
    )
    if targets.kept:
        result.check(
            f"seeds that keep {targets.score} in every episode 3 to 10{how}",
            share(min(scores(e)[2:]) >= targets.score for e in episodes),
            SHARE,
            ">=",
            "1",
            SOURCE,
        )
        ratio = np.mean([scores(e)[2:] for e in episodes]) / np.mean([getattr(r, oracle)[2:] for r in records])
        result.check(f"score over the exact model's, episodes 3 to 10{how}", ratio, 0.95, ">=", "1", SOURCE)


def _first_refit(result, records) -> None:
    firsts = [r.adaptive[0].first_accepted for r in records]
    good = [f is not None and f[0] <= 100 and f[1].loss_before >= 10 * f[1].loss_after for f in firsts]
    result.check(
        "seeds whose first refit uses <= 100 transitions and lowers the held-out one-step loss 10 x",
        share(good),
        SHARE,
        ">=",
        "1",
        SOURCE,
    )


def _prediction(result, records) -> None:
    """10 % of the error after episode 1; where that error is below 5 % of the motion, nothing is left to gain."""
    agree = [r.prediction[3] <= max(0.1 * r.prediction[1], 0.05) for r in records]
    result.check(
        "seeds whose 140-step open-loop error after episode 3 is <= 10 % of that after episode 1, "
        "or <= 5 % of the motion's spread",
        share(agree),
        SHARE,
        ">=",
        "1",
        SOURCE,
    )
    worst = max(r.prediction[3] / r.prediction[0] for r in records)
    result.check("open-loop error after episode 3 over that of the start, worst seed", worst, 0.1, "<=", "1", SOURCE)


def _parameters(result, lab, records) -> None:
    worst = [max(parameter_error(lab, r.adaptive[2].p).values()) for r in records]
    result.check(
        "seeds with every base parameter within 5 % after episode 3",
        share(w <= 0.05 for w in worst),
        SHARE,
        ">=",
        "1",
        SOURCE,
    )
    result.detail("largest base parameter error after episode 3, per seed", worst)


def _change(result, name, changes) -> None:
    result.check(
        f"{name}: samples until detected, slowest seed", max(c.detected for c in changes), 20, "<=", "", SOURCE
    )
    result.check(
        f"{name}: samples until a refit is accepted, slowest seed",
        max(c.refitted for c in changes),
        50,
        "<=",
        "",
        SOURCE,
    )
    recovered = [max(scores(c.adaptive)[k] / c.oracle[k] for k in (0, 1)) for c in changes]
    result.check(
        f"{name}: seeds with 85 % of the new oracle's score within 2 episodes",
        share(r >= 0.85 for r in recovered),
        SHARE,
        ">=",
        "1",
        SOURCE,
    )
    gain = np.mean([scores(c.adaptive)[1:] for c in changes]) - np.mean([c.frozen[1:] for c in changes])
    result.check(
        f"{name}: score gained over the frozen controller, after the episode of the change",
        gain,
        0.25,
        ">=",
        "1",
        SOURCE,
    )


def _runtime(result, records) -> None:
    solve = 1e3 * np.concatenate([e.solve_time for r in records for e in r.adaptive])
    result.check("MPC step, 95th percentile", float(np.percentile(solve, 95)), 20.0, "<=", "ms", SOURCE)
    fits = [f.fit_time for r in records for e in r.adaptive for k, f in e.refits if k == 140]
    result.check("refit of 140 transitions, longest", max(fits), 0.5, "<=", "s", SOURCE)
    result.detail("MPC step ms", {f"p{q}": float(np.percentile(solve, q)) for q in (50, 95, 99, 100)})


def _safety(result, lab, records) -> None:
    largest = max(np.abs(e.U).max() for r in records for e in [*r.adaptive, *r.robust])
    result.check("largest force commanded", largest, 200.0, "<=", "N", SOURCE)
    result.check(
        "solver failure: previous plan's next action, then zero",
        fallback_is_plan_then_zero(lab),
        True,
        "==",
        "",
        SOURCE,
    )
    kinds = corrupted_batches(lab, records[0].adaptive[2])
    result.check("kinds of corrupted batches that the gate rejects", sum(kinds.values()), len(kinds), ">=", "", SOURCE)
    result.detail("corrupted batches rejected", kinds)


# -- what the report draws -------------------------------------------------------------------------


def _details(result, lab, records, targets) -> None:
    columns = {
        "adaptive": [scores(r.adaptive) for r in records],
        "exact model": [r.oracle for r in records],
        "frozen at 2": [r.frozen for r in records],
        "adaptive, noise and delay": [scores(r.robust) for r in records],
        "literal recipe (L-BFGS, Euler, no gate)": [r.literal for r in records if r.literal],
    }
    result.detail("scores", columns)
    result.detail(
        "beside the prototype",
        [
            {"case": case, "here": _episodes_text(columns[case]), "prototype": text}
            for case, text in targets.prototype.items()
            if columns.get(case)
        ],
    )
    result.detail("prediction errors", [r.prediction for r in records])
    first = records[0]
    result.detail("predictions", {name: curve.tolist() for name, curve in first.curves.items()})
    result.detail("base parameters", _parameter_history(lab, first))
    for name in first.changes:
        result.detail(
            f"change: {name}",
            [
                {
                    "seed": k,
                    "detected": c.detected,
                    "refitted": c.refitted,
                    **{
                        who: " ".join(f"{s:.2f}" for s in values)
                        for who, values in (
                            ("adaptive", scores(c.adaptive)),
                            ("new oracle", c.oracle),
                            ("frozen", c.frozen),
                        )
                    },
                }
                for k, c in enumerate(r.changes[name] for r in records)
            ],
        )


def _episodes_text(seeds) -> str:
    """Mean over seeds per episode."""
    return " ".join(f"{x:.2f}" for x in np.mean(seeds, axis=0))


def _parameter_history(lab, record) -> dict:
    """Base parameters at every accepted refit: steps since the first, values, truth."""
    start = base_parameters(lab.model, lab.start())
    steps, rows = [0], [start]
    for e, episode in enumerate(record.adaptive):
        for k, refit in episode.refits:
            if refit.accepted:
                steps.append(140 * e + k)
                rows.append(base_parameters(lab.model, refit.p))
    truth = base_parameters(lab.model, lab.model.parameters.nominal)
    return {"step": steps, "truth": truth, "values": {n: [row[n] for row in rows] for n in truth}}


def report(result: Result, title: str) -> Report:
    """HTML report with scores, parameters and predictions."""
    page = Report(title, f"{result.size}, {len(result.details['scores']['adaptive'])} seeds from {result.seed}")
    page.section("Targets").checks(result)
    for text in (c.name for c in result.checks if not c.passed):
        page.warning(f"Missed: {text}.")
    page.section(
        "Score per episode",
        "Mean over 140 steps of the Control Suite's smooth reward without its control term. Thin lines are seeds.",
    ).figure(_score_figure(result))
    page.table(
        ["case", "here, mean over seeds per episode", "prototype"],
        [list(row.values()) for row in result.details["beside the prototype"]],
    )
    page.section(
        "Base parameters",
        "What the motion depends on, at every accepted refit of the first seed; "
        "all masses, lengths and COM coordinates start at 2.",
    ).figure(_parameter_figure(result))
    page.section(
        "Open-loop prediction",
        "140 steps from the same start under the same forces, without any "
        "correction, by what the model was after 1 and 3 episodes.",
    ).figure(_prediction_figure(result))
    for name, rows in result.details.items():
        if name.startswith("change: "):
            page.section(f"Hidden {name}", f"It happens at the start of episode {BEFORE + 1}; scores from then on.")
            page.table(list(rows[0]), [list(r.values()) for r in rows])
    return page


def _score_figure(result):
    made, ax = figure()
    styles = dict(zip(result.details["scores"], PALETTE))
    for name, seeds in result.details["scores"].items():
        if not seeds:
            continue
        x = np.arange(1, len(seeds[0]) + 1)
        for s in seeds if name == "adaptive" else []:
            ax.plot(x, s, color=styles[name], lw=0.7, alpha=0.4)
        ax.plot(x, np.mean(seeds, axis=0), "o-", ms=3, color=styles[name], label=name)
    ax.set(xlabel="episode", ylabel="score", ylim=(0, 1))
    ax.legend(loc="center right")
    return made


def _parameter_figure(result):
    history = result.details["base parameters"]
    names = list(history["truth"])
    rows = -(-len(names) // 3)
    made, axes = figure(rows, 3, size=(8.4, 1.9 * rows + 0.3), sharex=True, squeeze=False)
    for ax, name in zip(axes.flat, names):
        steps = [*history["step"], 140 * len(result.details["scores"]["adaptive"][0])]
        values = history["values"][name]
        ax.step(steps, [*values, values[-1]], where="post", color=PALETTE[0])
        ax.axhline(history["truth"][name], color=TRUTH, ls="--", lw=1)
        ax.set_title(name)
        ax.set_xscale("symlog", linthresh=50)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    for ax in axes[-1]:
        ax.set_xlabel("transitions seen")
    return made


def _prediction_figure(result):
    curves = {n: np.array(c) for n, c in result.details["predictions"].items()}
    robot = curves["robot"]
    nq = robot.shape[1] // 2
    names = [
        "cart [m]",
        *[f"angle {k + 1} [rad]" for k in range(nq - 1)],
        "cart [m/s]",
        *[f"rate {k + 1} [rad/s]" for k in range(nq - 1)],
    ]
    made, axes = figure(2, nq, size=(8.4, 4.4), sharex=True)
    t = DT * np.arange(len(robot))
    for ax, k in zip(axes.flat, range(2 * nq)):
        ax.plot(t, robot[:, k], color=TRUTH, lw=3, alpha=0.4, label="robot")
        for name, colour in (("after 1", PALETTE[1]), ("after 3", PALETTE[0])):
            ax.plot(t, curves[name][:, k], "--", color=colour, label=f"{name} episode{'s' * (name[-1] != '1')}")
        ax.set_title(names[k])
    axes.flat[0].legend()
    for ax in axes[-1]:
        ax.set_xlabel("time [s]")
    return made
