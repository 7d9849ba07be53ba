"""Fits the network that plans an excavation.

    ./refit experiment excavation_model            # 300 scripted trajectories and 300 of planners, the whole schedule
    ./refit experiment excavation_model --quick    # 60 and 60, half of the passes

The network that sees, feels and remembers seven states, and also says which force lasts inside of a primitive, learns from the trajectories to train on and from those to test on, as published for
deployment; the epoch of the lowest validation loss is kept. Then planners dig with it, on other piles and paths, and it learns anew from all of them: a planner goes
where its network believes too much, and scripted policies never do. It is written to weights.npz in the run's directory; data/excavation/README.md says
which one comes with the project. How good such networks are on trajectories that they have not seen is the question of
`./refit experiment excavation_dynamics`.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

from experiments.problems.excavation_models import FULL, QUICK, planning_network
from experiments.problems.excavation_runs import collect, data_jobs, folder, pupils_jobs
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.excavation.predictor import Weights

TIERS = ("learning",)
SOURCE = "own target"
SCRIPTED = {"quick": 60, "full": 300}
#: trajectories that follow when planners have a network
OWN = {"quick": 60, "full": 300}
SCHEDULES = {"quick": replace(QUICK, epochs=(24, 16), every=5), "full": FULL}


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Collect, fit, write.

    Returns:
        Result whose check says that learning came to something: the last validation loss over the first.
    """
    result = Result("excavation_model", seed=seed, size=size)
    schedule, jobs = SCHEDULES[size], data_jobs(SCRIPTED[size])
    for again in (True, False):
        with progress.stage("digs", total=len(jobs)) as stage:
            trials = collect(jobs, executor, stage.advance)
        with progress.stage("passes", total=sum(schedule.epochs)) as stage:
            one = planning_network(trials, schedule, seed, stage.advance)
        if again:
            weights = Weights.of(one).save(folder() / f"network_{size}_{seed}.npz")
            jobs += pupils_jobs(OWN[size], len(jobs), str(weights))
    last = [row["validation"] for row in one.history if row["stage"] == 2]
    result.check("whole horizon: best validation loss over that before", min(last) / last[0], 1.0, "<", "1", SOURCE)
    result.detail("passes", one.history)
    result.detail("trajectories, jammed", [len(trials), sum(each.jammed for each in trials)])
    if run_directory is not None:
        Weights.of(one).save(Path(run_directory) / "weights.npz")
        page = Report("The network that plans", f"{size}, seed {seed}")
        page.text(__doc__.split("\n\n", 2)[2])
        page.section("Targets").checks(result)
        fig, axis = figure()
        for name, colour in (("loss", PALETTE[0]), ("validation", PALETTE[1])):
            axis.semilogy([row[name] for row in one.history], color=colour, label=name)
        axis.set_xlabel("pass over the data")
        axis.set_ylabel("loss")
        axis.legend()
        page.figure(fig, "Learning curves: one step ahead first, then the whole horizon.")
        page.write(Path(run_directory) / "report.html")
    return result
