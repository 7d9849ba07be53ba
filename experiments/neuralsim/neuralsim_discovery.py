"""Which inputs does learned friction need? A network connected to everything is reduced to the joint's own velocity.

The engine knows a frictionless double pendulum; the recording is MuJoCo's, whose joints resist in proportion to their
velocity. One network per joint torque reads the positions and velocities of both joints. Sparse-group lasso by proximal
Gauss-Newton steps decides which it keeps; the rest is refitted on roll-outs. Rival: a feed-forward network that learns
the whole one-step dynamics from the same samples, and from many more.

Source: Heiden et al., NeuralSim, ICRA 2021, section IV and Fig. 9; Heiden, PhD thesis (USC 2022), Fig. 4.16.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from experiments.problems.friction_pendulum import JOINTS, SUBSTEPS, frictionless, recorded
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.augmentation import Blueprint, Network, Stage, TrajectoryError, augment, fit
from sim_core.augmentation.group_lasso import discover, pruned
from sim_core.host.executors import spread
from sim_core.multibody import Dynamics

TIERS = ("learning",)
SOURCE = "own target, after Heiden, PhD thesis (USC 2022), Fig. 4.16"
DAMPING = np.array([0.2, 0.1])  # [N m s/rad]
STEPS = 15
SAMPLES = 400  # one-step pairs the hybrid learns from
SIZES = {
    "quick": (2, (1, 10), 400),
    "full": (5, (1, 10, 100), 2000),
}  # seeds, rival's data over the hybrid's, the rival's epochs
TESTS, LENGTH = 10, 100  # trajectories, steps of each


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Discovery, refit and rival for each seed."""
    seeds, factors, _ = SIZES[size]
    result = Result("neuralsim_discovery", seed=seed, size=size)
    with progress.stage("seeds", total=seeds) as stage:
        outcomes = spread(partial(studied, size, seed), range(seeds), executor, lambda count: stage.advance())
    rows = [outcome.row for outcome in outcomes]
    result.check(
        "seeds with exactly the joints' own velocities left",
        np.mean([o.right for o in outcomes]),
        1.0,
        ">=",
        "1",
        SOURCE,
    )
    result.check(
        "step from which on the inputs stay, worst seed", max(o.settled for o in outcomes), STEPS, "<=", "", SOURCE
    )
    result.check(
        "test MSE over feed-forward's at equal data, worst seed",
        max(row["hybrid"] / row["feed-forward, 1 x data"] for row in rows),
        0.1,
        "<=",
        "1",
        SOURCE,
    )
    for factor in factors[1:]:
        result.check(
            f"test MSE over feed-forward's with {factor} x the data, worst seed",
            max(row["hybrid"] / row[f"feed-forward, {factor} x data"] for row in rows),
            1.0,
            "<=",
            "1",
            SOURCE,
        )
    result.detail("seeds", rows)
    result.detail("steps", [{"seed": k, **step} for k, o in enumerate(outcomes) for step in o.history])
    if run_directory is not None:
        report(result).write(Path(run_directory) / "report.html")
    return result


@dataclass(frozen=True)
class Outcome:
    """One seed: errors by model, whether exactly the joints' own velocities are left, from which step on, all steps."""

    row: dict
    right: bool
    settled: int
    history: list[dict]


def studied(size: str, seed: int, k: int) -> Outcome:
    """Discovery, refit and rival on the recordings number k of an experiment's seed."""
    torch.set_num_threads(1)
    _, factors, epochs = SIZES[size]
    rng = np.random.default_rng([seed, k])
    test = swings(rng, TESTS * LENGTH)
    train = swings(rng, SAMPLES)
    found, hybrid = discovered(train, k)
    row = {
        "seed": k,
        "surviving inputs": "; ".join(f"{n} <- {', '.join(i)}" for n, i in found.surviving.items()),
        "settled at step": found.settled,
        "frictionless": model_error(frictionless(), None, test),
        "hybrid": model_error(hybrid.model, hybrid.p, test),
    }
    for factor in factors:
        data = train if factor == 1 else swings(rng, factor * SAMPLES)
        # As many optimiser steps whatever the data.
        row[f"feed-forward, {factor} x data"] = feed_forward_error(data, test, k, epochs // factor)
    right = found.surviving == {f"friction_{j}": (f"{j}.velocity",) for j in JOINTS}
    return Outcome(row, right, found.settled, found.history)


def swings(rng, samples):
    """Trajectories of LENGTH steps with `samples` steps together, from anywhere at up to 3 rad/s."""
    x0 = rng.uniform(-1, 1, (samples // LENGTH, 4)) * [np.pi, np.pi, 3.0, 3.0]
    return recorded(x0, LENGTH, lambda v: -DAMPING * v)


def discovered(train, seed):
    """(Discovery, Fit of what is left on roll-outs)."""
    inputs = tuple(f"{joint}.{what}" for what in ("position", "velocity") for joint in JOINTS)
    blueprints = [
        Blueprint(
            f"friction_{joint}", f"{joint}.passive_torque", inputs, Network((4,), "tanh"), input_scale=train.scale
        ).initialised(2 * seed + i, 1.0)
        for i, joint in enumerate(JOINTS)
    ]
    found = discover(augment(frictionless(), blueprints), train, steps=STEPS, substeps=SUBSTEPS)
    smaller = pruned(found.model)
    stages = (Stage(1, 200, "lbfgs"), Stage(20, 200, "lbfgs"))
    return found, fit(smaller, train, stages=stages, dynamics=Dynamics(smaller, dt=train.dt, substeps=SUBSTEPS))


def model_error(model, p, test):
    """Mean squared error of roll-outs from the test trajectories' starts, in units of the states' spread."""
    dynamics = Dynamics(model, dt=test.dt, substeps=SUBSTEPS)
    return TrajectoryError(dynamics, test).value(model.parameters.nominal if p is None else p)


def feed_forward_error(train, test, seed, epochs):
    """The same of a network (sin q, cos q, v) -> change of x, trained on one-step pairs."""
    torch.manual_seed(seed)
    x, change = (torch.from_numpy(a.reshape(-1, 4)) for a in (train.x[:, :-1], np.diff(train.x, axis=1)))
    scale = change.std(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)
    ).double()
    speed = x[:, 2:].std(0)

    def predicted(x):
        return net(torch.cat([torch.sin(x[..., :2]), torch.cos(x[..., :2]), x[..., 2:] / speed], -1)) * scale

    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in range(epochs):
        for pick in torch.randperm(len(x)).split(128):
            optimiser.zero_grad()
            (((predicted(x[pick]) - change[pick]) / scale) ** 2).mean().backward()
            optimiser.step()
        fall.step()
    with torch.no_grad():
        state = torch.from_numpy(test.x[:, 0])
        states = [state]
        for _ in range(test.steps):
            state = state + predicted(state)
            states.append(state)
    error = (torch.stack(states, 1).numpy() - test.x)[:, 1:] / test.scale
    return float(np.mean(error**2))


def report(result: Result) -> Report:
    """Objective and surviving inputs over the steps; errors of all models."""
    page = Report("Discovering what friction depends on", result.size)
    page.checks(result)
    page.section(
        "Steps", "Sparse penalties join at the sixth step. Right are two inputs of eight: each joint's own velocity."
    )
    fig, (left, right) = figure(1, 2, size=(10, 4))
    steps = result.details["steps"]
    for k in sorted({row["seed"] for row in steps}):
        mine = [row for row in steps if row["seed"] == k]
        at, color = [row["step"] for row in mine], PALETTE[k % len(PALETTE)]
        left.plot(at, [row["objective"] for row in mine], color=color, label=f"seed {k}")
        right.step(at, [sum(map(len, row["surviving"].values())) for row in mine], where="mid", color=color)
    left.set(yscale="log", xlabel="step", ylabel="objective: unexplained share + penalties")
    left.legend()
    right.set(xlabel="step", ylabel="surviving inputs", ylim=(0, 8.5))
    page.figure(fig, "Objective and surviving inputs of each seed.")
    rows = result.details["seeds"]
    page.section(
        "Test error", "Mean squared error of 1 s roll-outs from unseen states, in units of the states' variance."
    )
    page.table(list(rows[0]), [list(row.values()) for row in rows])
    return page
