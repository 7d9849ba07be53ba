"""What a person reads of the cart-pole demonstrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cli.demo.cartpole import BEFORE, PERIOD, STEPS, CartpoleStory, scores
from config.description import SwingUp
from reporting import PALETTE, Report, Result, figure
from reporting.figures import TRUTH

if TYPE_CHECKING:
    from cli.demo.film import Pictures

__all__ = ["report"]

CONTROLLERS = (
    ("adaptive", "refits", PALETTE[0]),
    ("oracle", "knows the truth", PALETTE[2]),
    ("frozen", "does not learn", PALETTE[1]),
)
UNITS = {
    "M_t": "kg",
    "h1.x": "kg m",
    "h1.z": "kg m",
    "h2.x": "kg m",
    "h2.z": "kg m",
    "J_1": "kg m²",
    "J_2": "kg m²",
    "l_1": "m",
}
Z95 = 1.96


def report(story: CartpoleStory, result: Result, film: Pictures | str) -> Report:
    """The page. film: pictures, or the sentence why there are none."""
    found = scores(story.adaptive)
    change = (
        ""
        if story.change is None
        else f" From episode {BEFORE + 1} on, {_said(story.change)}; nobody tells the controller."
    )
    stuck = "never learns" if story.change is None else "keeps what was learnt before the change"
    page = Report(
        f"{story.description.title}: swing-up from a wrong model",
        f"{len(found)} episodes, {story.recipe} refit, seed {result.seed}.",
    )
    page.numbers(
        {
            "score, first episode": found[0],
            "score, last episode": found[-1],
            "score, exact model": float(np.mean(scores(story.oracle))),
            "refits accepted": len(story.recording.accepted),
        }
    )
    page.text(
        "The controller believes that every mass, length and centre-of-mass coordinate is "
        f"{story.description.task_as(SwingUp).start:g}. It refits its physics after 50 steps of the first episode and after every episode.{change} Beside it, on the same robot: a controller that knows the truth and "
        f"one that {stuck}. Every number here is computed from the recorded bags."
    )
    page.section("Targets").checks(result)
    for missed in (c.name for c in result.checks if not c.passed):
        page.warning(f"Missed: {missed}.")
    page.section("What moved")
    if isinstance(film, str):
        page.text(film)
    else:
        page.image(film.film, f"The last episode on one clock: a controller that {stuck}, and the one that refits.")
        page.image(film.strip, "The same in six moments; below the one that refits.")
    page.section(
        "Score per episode", f"Mean over {STEPS} steps of the Control Suite's smooth reward, without its control term."
    )
    page.figure(_score_figure(story))
    page.section(
        "Base parameters",
        "The combinations of the parameters that the motion depends on, at every accepted refit, with 95 % "
        "intervals; single masses or centres of mass cannot be told apart and are not graded.",
    )
    page.figure(_base_figure(story), "Dashed: the truth.")
    last, truth = story.base[-1], story.truth[1]
    page.table(
        ["base parameter", "unit", "start", "learnt", "lower", "upper", "truth"],
        [
            [
                name,
                UNITS[name],
                story.base[0].values[name],
                value,
                value - Z95 * last.stds[name],
                value + Z95 * last.stds[name],
                truth[name],
            ]
            for name, value in last.values.items()
        ],
    )
    page.section("Motion", "Cart position and absolute pole angles; zero is upright.").figure(_motion_figure(story))
    if story.prediction:
        page.section(
            "Open-loop prediction",
            f"{STEPS} steps of the exact controller's swing-up predicted without any correction, by what "
            "was known after so many episodes; error in units of each state's spread on the way.",
        )
        page.table(["episodes learnt from", "error"], [[k, v] for k, v in story.prediction.items()])
    page.section("Refits").table(
        ["t [s]", "from [s]", "verdict", "loss before", "loss after", "rank", "fit [ms]", "reason"],
        [
            [
                m.window_end,
                m.window_start,
                "accepted" if m.accepted else "rejected",
                m.loss_before,
                m.loss_after,
                m.rank,
                1e3 * m.fit_time,
                m.message,
            ]
            for m in story.recording.parameters
        ],
        f"Repeated from the bag, {story.reproduced[0]} of {story.reproduced[1]} come out equal to the last bit.",
    )
    page.section(
        "Keeping time",
        "Plant and controller run in lock-step, so that results do not depend on the load of the machine.",
    )
    page.table(["", "ms"], list(story.timing.percentiles().items()))
    page.section(
        "Files",
        "`adaptive/bag`, `oracle/bag` and `frozen/bag` are rosbag2 (MCAP) recordings; `result.json` holds the numbers of "
        "this page; `parameters.yaml` holds the physics learnt, for plant and controller:\n\n"
        f"`./refit launch sim.launch.py robot:={story.robot} params_file:=parameters.yaml`",
    )
    return page


def _said(change) -> str:
    kind, factor = change
    return (
        f"the first pole weighs {factor:g} times as much"
        if kind == "pole_mass"
        else f"the motor gives {factor:g} of the force asked for"
    )


def _score_figure(story: CartpoleStory):
    made, ax = figure()
    for name, label, colour in CONTROLLERS:
        found = scores(getattr(story, name))
        first = BEFORE + 1 if story.change and name != "adaptive" else 1
        ax.plot(np.arange(first, first + len(found)), found, "o-", ms=4, color=colour, label=label)
    if story.change:
        ax.axvline(BEFORE + 0.5, color=TRUTH, ls="--", lw=1)
    ax.set(xlabel="episode", ylabel="score", ylim=(0, 1), xticks=np.arange(1, len(story.adaptive) + 1))
    ax.legend(loc="lower right", ncols=3)
    return made


def _base_figure(story: CartpoleStory):
    names = list(story.truth[0])
    rows = (len(names) + 1) // 2
    made, axes = figure(rows, 2, size=(8.4, 1.9 * rows + 0.3), sharex=True)
    end = STEPS * len(story.adaptive)
    for ax, name in zip(axes.ravel(), names):
        step = np.array([p.step for p in story.base] + [end])
        value = np.array([p.values[name] for p in story.base])
        spread = Z95 * np.array([p.stds[name] for p in story.base])
        ax.step(step, np.append(value, value[-1]), where="post", color=PALETTE[0])
        ax.errorbar(step[:-1], value, np.nan_to_num(spread), fmt="o", ms=3, color=PALETTE[0], lw=1, capsize=2)
        borders = (0, end) if story.change is None else (0, BEFORE * STEPS, end)
        for k, (a, b) in enumerate(zip(borders, borders[1:])):
            ax.hlines(story.truth[k][name], a, b, color=TRUTH, ls="--", lw=1)
        ax.set_title(f"{name} [{UNITS[name]}]")
    for ax in axes.ravel()[len(names) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("control step")
    return made


def _motion_figure(story: CartpoleStory):
    shown = [0, len(story.adaptive) - 1]
    nq = story.model.nq
    made, axes = figure(nq, len(shown), size=(8.4, 1.7 * nq + 0.3), sharex=True, sharey="row", squeeze=False)
    labels = ["cart [m]", *(f"pole {k + 1} [rad]" for k in range(nq - 1))]
    for column, k in zip(axes.T, shown):
        X = story.adaptive[k].X
        t = PERIOD * np.arange(len(X))
        signals = [X[:, 0], *np.cumsum(X[:, 1:nq], axis=1).T]
        for row, (ax, signal) in enumerate(zip(column, signals)):
            # Whole turns mean nothing: upright is upright.
            ax.plot(t, signal if row == 0 else np.angle(np.exp(1j * signal)), ".", ms=2.5, color=PALETTE[0])
        column[0].set_title(f"episode {k + 1}, score {story.adaptive[k].score:.2f}")
        column[-1].set_xlabel("time [s]")
    for ax, label in zip(axes[:, 0], labels):
        ax.set_ylabel(label)
    return made
