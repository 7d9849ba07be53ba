"""What is foretold of a bucket among blocks by a network with a memory, and by one without; what pictures and forces are worth.

    ./refit experiment excavation_dynamics            # 300 trajectories, five seeds of each network
    ./refit experiment excavation_dynamics --quick    # 60 trajectories, one seed, a few passes

Trajectories of all scripted strategies are collected in the simulated pile (they are kept, and read again next time), split
8 : 1 : 1, and predicted up to seven primitives ahead. A recurrent network sees the last one, three, five or seven states; the
baseline without recurrence is the published one with widths in proportion. The pictures are encoded by a small convolutional
network instead of a ResNet50, and all widths are those for a machine without a GPU.

Losses are in units of how much states vary, so their ratios compare with the published ones and their values do not.
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from experiments.problems.excavation_models import FULL, QUICK, VARIANTS, FitJob, Judged, judged
from experiments.problems.excavation_runs import STRATEGIES, collect, data_jobs
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread

TIERS = ("learning",)
SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 7.6.2"
OWN = "own target, after the thesis"
TRAJECTORIES = {"quick": 60, "full": 300}
SEEDS = {"quick": 1, "full": 5}
SCHEDULES = {"quick": QUICK, "full": FULL}
#: loss over that of all modalities, published in table 7.1
PUBLISHED = {"no vision": 1.012, "no tactile": 1.075, "no vision, no tactile": 1.082}
SHARED = 5
Found = dict[str, list[Judged]]


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Collect, fit, test.

    Returns:
        Result with the losses of all networks by horizon, their ratios, and the acceptance checks.
    """
    result = Result("excavation_dynamics", seed=seed, size=size)
    count = TRAJECTORIES[size]
    with progress.stage("digs", total=count) as stage:
        trials = collect(data_jobs(count), executor, stage.advance)
    seeds = [SEEDS["full"] * seed + k for k in range(SEEDS[size])]
    jobs = [FitJob(name, count, SCHEDULES[size], one) for name in VARIANTS for one in seeds]
    with progress.stage("networks", total=len(jobs)) as stage:
        done = spread(judged, jobs, executor, lambda number: stage.advance())
    found: Found = {name: [one for job, one in zip(jobs, done) if job.variant == name] for name in VARIANTS}
    _judge(result, found)
    result.detail("trajectories", {
        "count": count, "actions": int(sum(len(one.actions) for one in trials)), "jammed": int(sum(one.jammed for one in trials)),
        "strategies": sorted(set(STRATEGIES)),
    })  # fmt: skip
    result.detail("networks", {
        name: {
            "losses by steps ahead": _mean(each).tolist(), "standard error": _error(each).tolist(), "parameters": each[0].parameters,
            "one step: position [m], angle [rad], force [N]": np.mean([one.errors for one in each], axis=0).tolist(),
        }
        for name, each in found.items()
    })  # fmt: skip
    if run_directory is not None:
        report(result, found).write(Path(run_directory) / "report.html")
    return result


def _mean(each: list[Judged]) -> np.ndarray:
    return np.mean([one.losses for one in each], axis=0)


def _error(each: list[Judged]) -> np.ndarray:
    losses = np.array([one.losses for one in each])
    return losses.std(0, ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else np.full(losses.shape[1], np.nan)


def ratio(found: Found, name: str) -> tuple[float, float]:
    """Loss over all horizons by that of the full network, and the half width of its 95 % interval over pairs of equal seeds."""
    full, other = (np.array([one.losses.mean() for one in found[key]]) for key in ("RNN l=7", name))
    pairs = other / full
    half = (
        2.776 * pairs.std(ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else float("nan")
    )  # t of 4 degrees of freedom
    return float(pairs.mean()), float(half)


def _judge(result: Result, found: Found) -> None:
    best = _mean(found["RNN l=7"])
    for name in (one for one in VARIANTS if one.startswith("FF")):
        worst = float(np.max(best[:SHARED] / _mean(found[name])[:SHARED]))
        result.check(f"RNN l=7 over {name}: loss, the worst of horizons 1 to {SHARED}", worst, 1.0, "<", "1", SOURCE)
    result.check("RNN l=7: least growth of the loss by a step more", float(np.diff(best).min()), 0.0, ">", "1", SOURCE)
    for family, lengths in (("RNN", (1, 3, 5, 7)), ("FF", (1, 3, 5))):
        losses = [_mean(found[f"{family} l={n}"])[:SHARED].mean() for n in lengths]
        grown = float(np.max(np.array(losses[1:]) / losses[:-1]))
        result.check(f"{family}: loss with more history over that with less, the worst", grown, 1.0, "<=", "1", SOURCE)
    share = found["RNN l=7"][0].parameters / found["FF l=1"][0].parameters
    result.check("parameters without encoders: RNN over FF l=1", share, 0.5, "<=", "1", f"{SOURCE}: about a third")
    result.check(
        "loss without tactile over all modalities", ratio(found, "no tactile")[0], 1.03, ">=", "1", f"{OWN}: 1.075"
    )
    still = float(np.max(best / found["RNN l=7"][0].still))
    result.check(
        "RNN l=7: loss over that of a guess that nothing changes, the worst horizon", still, 1.0, "<", "1", OWN
    )


def report(result: Result, found: Found) -> Report:
    page = Report("What a bucket's motions lead to", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section(
        "Losses",
        "Mean over seeds on the test trajectories; the last column is the loss of a guess that nothing changes.",
    )
    horizons = len(_mean(found["RNN l=7"]))
    page.table(
        ["network", "parameters", *(f"{k + 1} ahead" for k in range(horizons)), "one step: mm, rad, N"],
        [
            [
                name,
                f"{each[0].parameters:,}",
                *(f"{loss:.3f}" for loss in _mean(each)),
                *([""] * (horizons - len(_mean(each)))),
                "{:.1f}, {:.3f}, {:.1f}".format(*(np.mean([one.errors for one in each], axis=0) * [1e3, 1, 1])),
            ]
            for name, each in found.items()
        ]
        + [["nothing changes", "0", *(f"{loss:.3f}" for loss in found["RNN l=7"][0].still), ""]],
    )
    page.section(
        "Modalities", "Loss over that of the network that sees and feels, with the interval of 95 % over seeds."
    )
    page.table(
        ["network", "ratio", "+-", "published"],
        [[name, *(f"{x:.3f}" for x in ratio(found, name)), f"{PUBLISHED[name]:.3f}"] for name in PUBLISHED],
    )
    fig, axes = figure(1, 2)
    for colour, (name, each) in zip((*PALETTE, *PALETTE), found.items()):
        line = "--" if name.startswith("FF") else ":" if name.startswith("no") else "-"
        axes[0].plot(np.arange(1, len(_mean(each)) + 1), _mean(each), line, color=colour, label=name)
    axes[0].set_xlabel("steps ahead")
    axes[0].set_ylabel("test loss")
    axes[0].legend()
    history = found["RNN l=7"][0].history
    for stage, colour in ((1, PALETTE[0]), (2, PALETTE[1])):
        rows = [(k, row) for k, row in enumerate(history) if row["stage"] == stage]
        axes[1].semilogy(
            [k for k, _ in rows], [row["loss"] for _, row in rows], "-", color=colour, label=f"stage {stage}"
        )
        axes[1].semilogy(
            [k for k, _ in rows], [row["validation"] for _, row in rows], ":", color=colour, label="validation"
        )
    axes[1].set_xlabel("pass over the data")
    axes[1].set_ylabel("loss, RNN l=7")
    axes[1].legend()
    page.figure(fig, "Test loss by steps ahead; learning curves: stage 1 has a horizon of one, stage 2 the whole one.")
    return page
