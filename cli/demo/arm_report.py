"""What a person reads of an arm's demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cli.demo.arm import RELEARN, SETTLED, ArmStory
from cli.demo.judged import owner
from config.description import PayloadDemo
from reporting import PALETTE, Report, Result, figure
from reporting.figures import TRUTH

if TYPE_CHECKING:
    from cli.demo.film import Pictures

__all__ = ["report"]

WITHOUT, WITH = PALETTE[1], PALETTE[0]


def report(story: ArmStory, result: Result, film: Pictures | str) -> Report:
    """The page. film: pictures, or the sentence why there are none."""
    tracking = result.details["tracking RMSE m"]
    page = Report(
        f"{story.description.title} {'with an unknown payload' if story.carries else 'after an unknown change'}",
        f"{_what_happens(story)} Seed {result.seed}.",
    )
    page.numbers(
        {
            "tracking RMSE after, without refit [mm]": 1e3 * tracking["without refit"]["after"],
            "tracking RMSE after, with refit [mm]": 1e3 * tracking["with refit"]["after"],
            **_first_estimates(story),
            "re-learnt after [s]": story.relearnt if story.judged else "not asked for",
        }
    )
    page.text(
        "The hand follows a figure eight under model-predictive control. Nobody tells the controller of the change: "
        "the refit finds it in joint positions, velocities and torques alone. Both runs start from the same seed. "
        "Every number here is computed from the two recorded bags."
        + (
            f" The refit knows what kind of thing may change besides what the hand holds (`{story.free}`), and neither where "
            "nor by how much."
            if story.free
            else ""
        )
    )
    page.section("Targets").checks(result)
    for missed in (c.name for c in result.checks if not c.passed):
        page.warning(f"Missed: {missed}.")
    page.section("What moved")
    if isinstance(film, str):
        page.text(film)
    else:
        page.image(
            film.film,
            "Both runs on one clock. Grey: the path; blue: where the hand has been"
            + ("; the red ball is the payload, drawn at its true centre of mass." if story.carries else "."),
        )
        page.image(film.strip, "The same in six moments; above without refit, below with it.")
    page.section("Tracking", "Distance between the hand and its path; the dashed line is the moment of the change.")
    page.figure(_error_figure(story), "Tracking error over time.")
    page.figure(
        _path_figure(story),
        "The path in its own plane, after the change. Errors are drawn ten times as large as they are.",
    )
    page.table(
        ["tracking RMSE [mm]", "before the change", "after it", f"from {RELEARN:g} s after it on"],
        [[name, *(1e3 * x for x in row.values())] for name, row in tracking.items()],
        f"Before: from {SETTLED:g} s on, when the arm has left its start.",
    )
    page.section(
        "What was learnt", "Every accepted parameter set at the time of its first use, with its 95 % interval."
    )
    if story.judged:
        page.figure(
            _estimate_figure(story),
            "Estimates after the change against the truth (dashed); the grey band is what is judged as known.",
        )
    else:
        page.text("Nothing that changed is among what the refit may change: it cannot be learnt, and is not judged.")
    page.table(
        ["parameter", "unit", "estimate", "lower", "upper", "truth"],
        _estimate_rows(story),
        "The last set in use: first what changed. The hand is meant together with what it holds, a payload what was added "
        "to the model's hand, both in the hand's frame.",
    )
    recording, (reproduced, repeated) = story.with_refit.recording, story.reproduced
    made = len(recording.refits)
    page.text(
        f"{made} refits were made, {len(recording.accepted)} accepted. Repeated from the bag, {reproduced} of "
        f"{repeated} come out equal to the last bit."
        + (f" The {made - repeated} before them use joint states from before the bag begins." * (made > repeated))
    )
    page.section(
        "Keeping time",
        "Latency runs from the recorder's reception of a joint state to that of the command computed from it.",
    )
    page.table(["", *result.details["timing"]], _timing_rows(result))
    page.figure(_latency_figure(story), "Latency of every command; the dashed line is the control period.")
    halts = [
        (name, t, sentence)
        for name, run in (("without refit", story.without), ("with refit", story.with_refit))
        for t, sentence in run.recording.halts
    ]
    if halts:
        page.section("Halts").table(["run", "t [s]", "reason"], halts)
    page.section(
        "Files",
        "`with_refit/bag` and `without_refit/bag` are rosbag2 (MCAP) recordings; `result.json` holds the numbers of "
        "this page; `parameters.yaml` holds the physics learnt, for plant and controller:\n\n"
        f"`./refit launch {story.description.demo_as(PayloadDemo).launch} robot:={story.robot} params_file:=parameters.yaml`",
    )
    return page


def _error_figure(story: ArmStory):
    made, ax = figure()
    for run, colour, label in ((story.without, WITHOUT, "without refit"), (story.with_refit, WITH, "with refit")):
        ax.plot(run.t[::5], 1e3 * run.error[::5], color=colour, label=label, lw=1.2)
    ax.axvline(story.change, color=TRUTH, ls="--", lw=1)
    if np.isfinite(story.relearnt):
        ax.axvspan(story.change, story.change + story.relearnt, color=WITH, alpha=0.12, label="re-learning")
    ax.set(xlabel="simulated time [s]", ylabel="distance from the path [mm]", xlim=(0, story.duration), ylim=(0, None))
    ax.legend(ncols=3)
    return made


def _path_figure(story: ArmStory, magnified: float = 10.0):
    made, axes = figure(1, 2, sharex=True, sharey=True)
    for ax, run, colour, title in zip(
        axes, (story.without, story.with_refit), (WITHOUT, WITH), ("without refit", "with refit")
    ):
        inside = run.t >= story.change + RELEARN
        path, hand = run.path[inside], run.path[inside] + magnified * (run.hand - run.path)[inside]
        ax.plot(path[:, 1], path[:, 2], color=TRUTH, lw=1, ls="--", label="path")
        ax.plot(hand[::5, 1], hand[::5, 2], color=colour, lw=1.2, label=f"hand, errors x{magnified:g}")
        ax.set(title=title, xlabel="y [m]", aspect="equal")
        ax.legend(loc="lower center", ncols=2)
    axes[0].set_ylabel("z [m]")
    return made


def _what_happens(story: ArmStory) -> str:
    said = [f"{each.said}." for each in story.judged if each.called != "payload mass"]
    if story.carries:
        said.insert(0, f"a payload of {story.truth[f'{story.payload}.mass']:g} kg appears in the hand.")
    return f"At {story.change:g} s: " + " ".join(said or ["something changes that the refit does not estimate."])


def _first_estimates(story: ArmStory) -> dict[str, str]:
    found = {}
    for each in story.judged:
        if len(each.truth) == 1:
            value, low, high = story.estimate(next(iter(each.truth)))
            found[f"{each.called} [{each.unit}]"] = f"{value:z.3f} ({low:z.3f} to {high:z.3f})"
    return found


def _shown(story: ArmStory) -> list[tuple[str, str, float, float]]:
    """(name of the estimate, title, factor from SI, tolerance in SI or 0) of every panel."""
    panels = []
    for each in story.judged:
        for name in each.truth:
            factor, unit = (180.0 / np.pi, "degrees") if each.unit == "rad" else (1.0, each.unit)
            called = each.called if len(each.truth) == 1 else f"{each.called.partition(' of ')[0]}, {owner(name)}"
            panels.append((name, f"{called} [{unit}]", factor, each.tolerance * each.scale[name]))
    if story.carries:
        panels += [(f"{story.payload}.com.{axis}", f"centre {axis} [mm]", 1e3, 0.0) for axis in "xyz"]
    return panels


def _estimate_figure(story: ArmStory):
    panels = _shown(story)
    rows, columns = (len(panels) + 1) // 2, min(2, len(panels))
    made, axes = figure(rows, columns, size=(8.4, 0.4 + 2.4 * rows), sharex=True, squeeze=False)
    used = [(t, m) for t, m in story.used if t >= story.change]
    for ax in axes.ravel()[len(panels) :]:
        ax.set_visible(False)
    for ax, (name, label, scale, tolerance) in zip(axes.ravel(), panels):
        entries = [(t, e) for t, m in used for e in m.parameters if e.name == name]
        truth = scale * story.truth[name]
        ax.axhline(truth, color=TRUTH, ls="--", lw=1)
        if tolerance:
            ax.axhspan(truth - scale * tolerance, truth + scale * tolerance, color="#d8dce2", alpha=0.5, lw=0)
        if entries:
            t, value = np.array([t for t, _ in entries]), scale * np.array([e.value for _, e in entries])
            lower, upper = (scale * np.array([getattr(e, side) for _, e in entries]) for side in ("lower", "upper"))
            ax.errorbar(
                t,
                value,
                [np.maximum(value - lower, 0), np.maximum(upper - value, 0)],
                fmt="o",
                ms=3,
                color=WITH,
                lw=1,
                capsize=2,
            )
            settled = t >= story.change + story.relearnt
            if settled.any() and not tolerance:
                # What came before, of a hand that was still empty, would flatten the rest; it may leave the frame.
                seen = np.array([truth, *lower[settled], *upper[settled]])
                margin = max(0.2 * np.ptp(seen), 10.0)
                ax.set_ylim(seen.min() - margin, seen.max() + margin)
        ax.set(title=label, xlim=(story.change, story.duration))
    for ax in axes[-1]:
        ax.set_xlabel("simulated time [s]")
    return made


def _estimate_rows(story: ArmStory):
    for entry in sorted(story.final.parameters, key=lambda e: e.name not in story.truth) if story.final else ():
        yield [entry.name, entry.unit, entry.value, entry.lower, entry.upper, story.truth.get(entry.name, "–")]


def _timing_rows(result: Result):
    runs = result.details["timing"].values()
    for label, key, factor in (
        ("control rate in simulated time [Hz]", "rate", 1),
        ("deadlines met [%]", "deadlines met", 100),
        ("deadlines missed", "missed", 1),
        ("simulated seconds per second", "real-time factor", 1),
    ):
        yield [label, *(factor * timing[key] for timing in runs)]
    for kind, label in (("solve", "solver"), ("latency", "latency")):
        for q in (50, 95, 99):
            yield [f"{label}, {q}th percentile [ms]", *(timing["ms"].get(f"{kind} p{q}", np.nan) for timing in runs)]


def _latency_figure(story: ArmStory):
    made, ax = figure(size=(8.4, 2.4))
    for run, colour, label in ((story.without, WITHOUT, "without refit"), (story.with_refit, WITH, "with refit")):
        ax.plot(
            np.linspace(0, story.duration, len(run.timing.latency)),
            1e3 * run.timing.latency,
            ".",
            ms=2,
            color=colour,
            label=label,
        )
    ax.axhline(1e3 * story.period, color=TRUTH, ls="--", lw=1)
    ax.set(xlabel="simulated time [s]", ylabel="latency [ms]", xlim=(0, story.duration), ylim=(0, None))
    ax.legend(ncols=2, markerscale=4)
    return made
