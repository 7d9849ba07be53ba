"""Lengths of a double pendulum from what a camera saw: how near, with noise, and with damping that the model lacks?

    ./refit experiment ids_pendulum

A pendulum of two balls on massless links with ball joints swings in MuJoCo, is released from rest again and again, and
filmed for ten steps at 25 Hz. Adam fits the two lengths to the links' headings: without noise, with 0.3 mm of noise,
and with joints that are damped in MuJoCo, by a model without damping and by one that finds the damping as well.

Published (Heiden, PhD thesis (USC 2022), section 2.2.2; arXiv 1905.10706): a real pendulum filmed by VICON, converged
after about 80 epochs of 200, the remaining error laid to damping that the model lacks; no numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from config.tiers import require
from reporting import PALETTE, TRUTH, Progress, Report, Result, SilentProgress, figure

if TYPE_CHECKING:
    from experiments.problems.ids_pendulum import Found

TIERS = ("learning",)
SOURCE = "own target, after Heiden, PhD thesis (USC 2022), section 2.2.2"
TRUTH_LENGTHS, START = (0.7, 0.5), (0.4, 0.9)  # [m]
LIMITS = (0.1, 2.0)  # [m]
MOST_DAMPING = 0.3  # [N m s]: beyond 0.42, 10 ms of Runge-Kutta no longer follow how it stops the balls' spin
EPOCHS, NOISE, DAMPING = 200, 3e-4, 0.1  # of Adam; [m], a tracking system's; [N m s]
RELEASES = {"quick": 20, "full": 60}
SEEDS = {"quick": 2, "full": 10}


@dataclass(frozen=True)
class Case:
    """A recording and the model that explains it."""

    title: str
    noise: float = 0.0
    damped: bool = False
    finds_damping: bool = False


CASES = (
    Case("no noise"),
    Case("noise", noise=NOISE),
    Case("unmodelled damping", damped=True),
    Case("damping found as well", damped=True, finds_damping=True),
)


def run(
    size: str = "full", seed: int = 0, progress: Progress = SilentProgress(), run_directory: Path | None = None
) -> Result:
    """Every case on every seed's releases.

    Returns:
        Result whose checks hold the largest errors of the lengths over seeds, and what finding the damping gains.
    """
    require("learning", "lengths found by Adam")
    import torch

    from experiments.problems.ids_layer import chain_layer
    from experiments.problems.ids_pendulum import DT, filmed, found_by_adam

    torch.set_num_threads(1)
    layers = {find: chain_layer(2, DT, LIMITS, "ball", MOST_DAMPING if find else None) for find in (False, True)}
    result, found = Result("ids_pendulum", seed=seed, size=size), {}
    worst: dict[str, float] = {}
    with progress.stage("fits", total=len(CASES) * SEEDS[size]) as stage:
        for case in CASES:
            off = []
            for k in range(SEEDS[size]):
                rng = np.random.default_rng([seed, k])
                data = filmed(TRUTH_LENGTHS, DAMPING * case.damped, RELEASES[size], case.noise, rng)
                start = np.array([*START, *([0.0] if case.finds_damping else [])])
                one = found_by_adam(layers[case.finds_damping], data, start, EPOCHS)
                errors = np.abs(one.theta[:, :2] / TRUTH_LENGTHS - 1.0).max(axis=1)
                off.append(errors[-1])
                if k == 0:
                    found[case.title] = one
                    settled = np.flatnonzero(np.abs(one.theta[:, :2] - one.theta[-1, :2]).max(axis=1) > 0.01)
                    result.detail(
                        case.title, {"found": one.theta[-1], "epochs to within 1 cm of it": int(settled[-1] + 1)}
                    )
                stage.advance()
            worst[case.title] = float(max(off))
    result.check("error of lengths, no noise", worst["no noise"], 0.01, "<=", "1", SOURCE)
    result.check("error of lengths, 0.3 mm of noise", worst["noise"], 0.03, "<=", "1", SOURCE)
    gain = worst["unmodelled damping"] / worst["damping found as well"]
    result.check("bias by unmodelled damping over that with it found", gain, 5.0, ">=", "1", SOURCE)
    result.detail("largest errors of lengths", worst)
    if run_directory is not None:
        report(result, found).write(Path(run_directory) / "report.html")
    return result


def report(result: Result, found: dict[str, Found]) -> Report:
    """Lengths over epochs beside the true ones, as in the source, for every case."""
    page = Report("Lengths of a double pendulum from its headings", f"{result.size}, {SEEDS[result.size]} seeds")
    page.checks(result)
    page.section("Errors", "Largest relative error of a length over all seeds.")
    page.table(["case", "error"], list(result.details["largest errors of lengths"].items()))
    page.section("Convergence", "First seed: lengths over epochs of Adam beside the true ones.")
    fig, axes = figure(2, 2, size=(8.4, 5.6), sharex=True, sharey=True)
    for axis, (title, one) in zip(axes.flat, found.items()):
        for k, truth in enumerate(TRUTH_LENGTHS):
            axis.plot(one.theta[:, k], color=PALETTE[k], label=f"length {k + 1}")
            axis.axhline(truth, color=TRUTH, linewidth=0.8, linestyle="--")
        axis.set(title=title, ylim=(0.3, 1.0))
    for axis in axes[1]:
        axis.set_xlabel("epoch")
    for axis in axes[:, 0]:
        axis.set_ylabel("length [m]")
    axes[0, 0].legend()
    page.figure(fig, "Dashed: the true lengths. The source's axis is 0.3 to 1.0 m as well.")
    return page
