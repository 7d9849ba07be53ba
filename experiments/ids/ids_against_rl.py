"""Adaptive MPC against reinforcement learning: how many steps of a cart-pole do SAC and DDPG need for the same swing-up?

    ./refit experiment ids_against_rl --quick   # cart-pole, one seed
    ./refit experiment ids_against_rl           # both robots, five seeds, settings searched on each: hours on one core

The rivals' settings are searched on each robot, with a seed that judges nobody; `--quick` takes those that such a search chose.
All learn on the same plant from the same starts, with the same state, reward, force bounds and control period. The score of
adaptive MPC's third episode, after 420 steps, is to be reached: by any training episode, or by any episode that the
policy plays without noise after it from adaptive MPC's own start. Such episodes are not counted, all other steps are.

Published (Heiden, PhD thesis (USC 2022), section 2.2.5; arXiv 1905.10706): curves over 120 episodes, adaptive MPC far more
sample efficient; on the single pole SAC and DDPG exceed it in the end. No numbers.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from config.tiers import require
from experiments.problems.ampc_study import EPISODES, STEPS, lab_of, play, scores
from reporting import PALETTE, TRUTH, Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread

if TYPE_CHECKING:
    from experiments.problems.ids_rivals import Job, Learnt, Settings

TIERS = ("learning",)
SOURCE = "own target, after Heiden, PhD thesis (USC 2022), section 2.2.5"
ALGORITHMS = ("SAC", "DDPG")
SEEDS = {"quick": 1, "full": 5}
#: steps of the plant for each learner; the double one's are the 120 episodes that the source plots
BUDGET = {"quick": {"cartpole": 4340}, "full": {"cartpole": 28_000, "double_cartpole": 16_800}}
#: steps for each setting of the search; 0: none is made
SEARCH = {"quick": 0, "full": 9800}
TIMES = 10


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Adaptive MPC, the frozen start, SAC and DDPG on every seed.

    Returns:
        Result whose checks hold the fastest seed's steps, and the frozen start's best score.
    """
    result = Result("ids_against_rl", seed=seed, size=size)
    is_here = importlib.util.find_spec("stable_baselines3") is not None
    result.check("Stable-Baselines3 in the same run", is_here, True, "==", "", "own target: stable-baselines3==2.9.2")
    if not is_here:
        return result
    require("learning", "reinforcement learning")
    from experiments.problems.ids_rivals import AMPC_STEPS, CHOSEN, JUDGED, Job, last_ten, mean_cost

    seeds = range(seed, seed + SEEDS[size])
    for robot, budget in BUDGET[size].items():
        lab = lab_of(robot)
        ours = [play(lab.adaptive(), s, range(EPISODES)) for s in seeds]
        frozen = [max(scores(play(lab.fixed(lab.start()), s, range(2)))) for s in seeds]
        goals = [e[JUDGED].score for e in ours]
        best = _searched(result, robot, SEARCH[size], progress, executor) if SEARCH[size] else CHOSEN
        found = _learn([Job(robot, best[a], s, budget) for a in ALGORITHMS for s in seeds], robot, progress, executor)
        rows = []
        for a in ALGORITHMS:
            of = [one for one in found if one.settings.algorithm == a]
            steps = [one.reached(goal) for one, goal in zip(of, goals)]
            _judge(result, robot, a, steps, budget, AMPC_STEPS)
            rows += [
                {
                    "algorithm": a,
                    "settings": str(one.settings),
                    "seed": one.seed,
                    "score to be reached": goal,
                    "steps until reached": s if s is not None else f"not within {budget}",
                    "best score of any episode": one.best,
                    "best of adaptive MPC": max(scores(mine)),
                    "exceeds it": one.best > max(scores(mine)),
                    "mean of the last ten": float(np.mean(one.training[-10:])),
                    "the same without noise": last_ten(one),
                    "negative cost without noise, best": -min(one.cost),
                }
                for one, goal, s, mine in zip(of, goals, steps, ours)
            ]
        result.check(f"{robot}: best score with all parameters frozen at 2", max(frozen), 0.2, "<", "1", SOURCE)
        result.detail(f"learners: {robot}", rows)
        result.detail(
            f"adaptive MPC: {robot}",
            [
                {
                    "seed": s,
                    "scores": " ".join(f"{x:.3f}" for x in scores(e)),
                    "negative cost of episode 3": -mean_cost(lab, e[JUDGED].X_true, e[JUDGED].U),
                }
                for s, e in zip(seeds, ours)
            ],
        )
        result.detail(f"curves: {robot}", _curves(found, [scores(e) for e in ours]))
    if run_directory is not None:
        report(result).write(Path(run_directory) / "report.html")
    return result


def _searched(
    result: Result, robot: str, steps: int, progress: Progress, executor: Executor | None
) -> dict[str, Settings]:
    """The settings of each algorithm that did best on a robot within so many steps, and a table of all."""
    from experiments.problems.ids_rivals import CANDIDATES, SEARCHED, Job, best_of, last_ten

    found = _learn(
        [Job(robot, s, SEARCHED, steps) for s in CANDIDATES], f"{robot}, search of settings", progress, executor
    )
    best = best_of(found)
    result.detail(f"settings tried: {robot}, {steps} steps, seed {SEARCHED}", [
        {
            "algorithm": one.settings.algorithm, "settings": str(one.settings), "best score of any episode": one.best,
            "mean of the last ten without noise": last_ten(one), "taken": one.settings in best.values(),
        }
        for one in found
    ])  # fmt: skip
    return best


def _learn(jobs: Sequence[Job], name: str, progress: Progress, executor: Executor | None) -> list[Learnt]:
    """All learners, in order."""
    from experiments.problems.ids_rivals import learnt

    episodes = [job.steps // STEPS for job in jobs]
    with progress.stage(name, total=sum(episodes)) as stage:
        if executor is None:  # here every episode can be told
            return [learnt(job, lambda steps: stage.advance()) for job in jobs]
        return spread(learnt, jobs, executor, lambda count: stage.advance(episodes[0]))


def _judge(result: Result, robot: str, algorithm: str, steps: list[int | None], budget: int, ours: int) -> None:
    """The fastest seed counts; one that never reaches the score counts as the budget, of which it needs more."""
    never = sum(s is None for s in steps)
    told = f"not reached within {budget} steps by {never} of {len(steps)} seeds"
    if robot == "cartpole":
        least = min(budget if s is None else s for s in steps) / ours
        name = (
            f"{robot}: steps of {algorithm} to adaptive MPC's score of episode 3 over its {ours}, fastest seed; {told}"
        )
        result.check(name, least, TIMES, ">=", "1", SOURCE)
    else:
        result.check(
            f"{robot}: seeds of {algorithm} that reach adaptive MPC's score of episode 3; {told}",
            len(steps) - never,
            0,
            "==",
            "",
            SOURCE,
        )


def _curves(found: list[Learnt], ours: list[list[float]]) -> dict[str, dict[str, list]]:
    """Name -> steps at the ends of episodes, and scores of every seed."""
    curves: dict[str, dict[str, list]] = {
        "adaptive MPC": {"steps": [STEPS * (k + 1) for k in range(len(ours[0]))], "scores": ours}
    }
    for a in ALGORITHMS:
        of = [one for one in found if one.settings.algorithm == a]
        curves[a] = {"steps": of[0].steps, "scores": [one.training for one in of]}
        curves[f"{a} without noise"] = {"steps": of[0].steps, "scores": [one.evaluated for one in of]}
    return curves


def report(result: Result) -> Report:
    """Targets, scores over steps of the plant, and what each seed reached."""
    page = Report("Adaptive MPC against reinforcement learning", f"{result.size}, {SEEDS[result.size]} seeds")
    page.section("Targets").checks(result)
    for name, rows in result.details.items():
        if name.startswith("curves: "):
            page.section(
                f"Scores: {name.removeprefix('curves: ')}", "Mean reward of an episode over steps of the plant."
            )
            page.figure(_figure(rows), "Lines: means over seeds; bands: least and greatest; dashed: episode 3.")
        elif isinstance(rows, list) and rows:
            page.section(name[0].upper() + name[1:]).table(list(rows[0]), [list(row.values()) for row in rows])
    return page


def _figure(curves: dict[str, dict[str, list]]):
    made, axis = figure()
    for colour, (name, curve) in zip(PALETTE, curves.items()):
        values = np.array(curve["scores"])
        axis.plot(curve["steps"], values.mean(axis=0), color=colour, label=name)
        axis.fill_between(curve["steps"], values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15)
    axis.axhline(np.mean([s[2] for s in curves["adaptive MPC"]["scores"]]), color=TRUTH, lw=0.8, ls="--")
    axis.set(xscale="log", xlabel="steps of the plant", ylabel="score", ylim=(0, 1))
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return made
