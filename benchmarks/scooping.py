"""How long does one decision among all 11,520 scoops take, from a picture of the tray to the scoop that is worth most?

    ./refit bench scooping

The shipped model, after 20 scoops whose volumes are known: 1,440 views are cut out of the picture and encoded, each for the eight scoops
that share it, and the process predicts all of them. The rival does the same with PyTorch and GPyTorch as one writes it first: views of the
same code, one for every scoop, and GPyTorch's exact process with the same features, mean, kernel and noise. The comparison is void unless
the worth of all scoops agrees. Both have all cores; what counts is the least time of some rounds.

A GPU is not needed: the published bar is 10 s on a CPU.
"""

from __future__ import annotations

import importlib.util
import os
import time

import numpy as np

from benchmarks.rivals.scoop_decision import gpytorch_worth
from reporting import Result, SilentProgress
from sim_core.planning.acquisition import upper_confidence_bound
from sim_core.scooping.bed.actions import grid
from sim_core.scooping.bed.rendering import Camera
from sim_core.scooping.bed.suite import test_recipes
from sim_core.scooping.bed.terrain import make_terrain
from sim_core.scooping.learning.crops import crops
from sim_core.scooping.planning.scoop_planner import ScoopPlanner
from sim_core.scooping.planning.shipped_beliefs import shipped_belief

TIERS = ("learning",)
SOURCE = "own target; published: below 10 s on a CPU"
LIMIT = 0.1  # [s]
TRIALS, BETA = 20, 2.0
ROUNDS = {"quick": 5, "full": 30}
AGREEMENT = 1e-3


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Time both on the same pictures."""
    import torch

    result = Result("bench_scooping", seed=seed, size=size)
    threads = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    try:
        compare_decisions(result, progress, size, seed)
    finally:
        torch.set_num_threads(threads)
    return result


def compare_decisions(result: Result, progress, size: str, seed: int) -> None:
    """Adds the checks of one decision, with as many threads as torch has."""
    rng = np.random.default_rng([seed, 97])
    camera = Camera(make_terrain(test_recipes(seed)[5]))
    actions = grid()
    belief, side = shipped_belief("codega")
    planner = ScoopPlanner(actions, belief, size=side, beta=BETA, seed=seed)
    for _ in range(TRIALS):
        planner.observe(camera.picture(rng))
        planner.tell(planner.ask().index, float(rng.uniform(5e-6, 40e-6)))
    is_here = importlib.util.find_spec("gpytorch") is not None
    result.check(
        "GPyTorch in the same run", is_here, True, "==", "", "own target: ./refit bench says how it is installed"
    )
    times: dict[str, list[float]] = {"ours": [], "GPyTorch": []}
    apart = np.nan
    for _ in progress.track(range(ROUNDS[size]), "decisions"):
        picture = camera.picture(rng)
        began = time.perf_counter()
        planner.observe(picture)
        planner.ask()
        times["ours"].append(time.perf_counter() - began)
        if not is_here:
            continue
        began = time.perf_counter()
        views = crops(picture, actions, side)
        worth = gpytorch_worth(belief.model, views, actions, planner.trials, BETA)
        np.argmax(worth)
        times["GPyTorch"].append(time.perf_counter() - began)
        mean, deviation = planner.belief_of_all()
        ours = upper_confidence_bound(np.ones(1), mean[None], deviation[None], 0.0, BETA)
        apart = np.nanmax([apart, np.abs(ours - worth).max() / np.abs(ours).max()])
    least = {name: min(values) for name, values in times.items() if values}
    result.check("one decision among 11,520 scoops", least["ours"], LIMIT, "<=", "s", SOURCE)
    if is_here:
        result.check("worth of all scoops beside GPyTorch's, relative", float(apart), AGREEMENT, "<=", "1", "same task")
        share = least["ours"] / least["GPyTorch"]
        result.check("time of a decision over GPyTorch's", share, 1.0, "<", "1", "own target: faster")
    result.detail("least times [s]", least)
    result.detail("medians [s]", {name: float(np.median(values)) for name, values in times.items() if values})
