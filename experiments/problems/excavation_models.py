"""Networks fitted to collected digs: jobs for any process, and the one that plans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from config.share import shared_folder
from experiments.problems.excavation_runs import collect, data_jobs
from sim_core.excavation.model_settings import CPU, ModelSettings
from sim_core.excavation.reference_path import wrap
from sim_core.excavation.training import Fitted, Schedule, train
from sim_core.excavation.trial import Trial
from sim_core.excavation.windows import Windows, build_windows, split_by_trajectory

__all__ = ["FULL", "QUICK", "VARIANTS", "FitJob", "Judged", "fitted", "judged", "planning_network", "shipped_weights"]

#: name -> network
VARIANTS: dict[str, ModelSettings] = {
    "RNN l=7": CPU,
    "RNN l=7, peaks": replace(CPU, peaks=True),
    **{f"RNN l={n}": replace(CPU, history=n) for n in (1, 3, 5)},
    **{f"FF l={n}": replace(CPU, kind="forward", history=n, horizon=5) for n in (1, 3, 5)},
    "no vision": replace(CPU, vision=False),
    "no tactile": replace(CPU, touch=False),
    "no vision, no tactile": replace(CPU, vision=False, touch=False),
}
#: the published schedule but for larger steps: 80 passes over 300 trajectories with batches of 64
FULL = Schedule(epochs=(50, 30), rates=(2e-3, 5e-4), every=6, batch=64, block=8)
QUICK = Schedule(epochs=(8, 8), rates=(3e-3, 1e-3), every=2, batch=32, block=8)


@dataclass(frozen=True)
class FitJob:
    """One network. trajectories: to learn from, validate with and test on. seed: of weights and batches."""

    variant: str
    trajectories: int
    schedule: Schedule
    seed: int


@dataclass(frozen=True, eq=False)
class Judged:
    """What a network is worth on the test trajectories.

    Attributes:
        losses: by steps ahead (k,). still: those of a guess that nothing changes (k,). parameters: without encoders.
        errors: mean distance [m], angle [rad] and force [N] one step ahead. history: of the fit.
    """

    losses: np.ndarray
    still: np.ndarray
    parameters: int
    errors: tuple[float, float, float]
    history: list[dict]


@functools.lru_cache(maxsize=1)
def all_windows(trajectories: int) -> Windows:
    """Of all collected trajectories."""
    return build_windows(collect(data_jobs(trajectories)), 7, 7)


def fitted(job: FitJob) -> tuple[Fitted, Windows]:
    """The network and the test windows."""
    windows = all_windows(job.trajectories)
    learn, validate, test = split_by_trajectory(job.trajectories)
    found = train(windows.of(learn), windows.of(validate), VARIANTS[job.variant], job.schedule, job.seed)
    return found, windows.of(test)


def planning_network(
    trials: Sequence[Trial], schedule: Schedule, seed: int, advance: Callable[[], None] = lambda: None
) -> Fitted:
    """The network that plans, which learns from training and test trajectories. advance: called after each pass."""
    windows = build_windows(trials, 7, 7)
    learn, validate, test = split_by_trajectory(len(trials))
    learn = np.union1d(learn, test)
    return train(windows.of(learn), windows.of(validate), VARIANTS["RNN l=7, peaks"], schedule, seed, advance)


def judged(job: FitJob) -> Judged:
    """Fit and test."""
    from sim_core.excavation.network import parameters_without_encoders

    one, test = fitted(job)
    truth = np.concatenate([test.poses, test.forces], 1)
    off = (one.predict(test)[:, 0] - truth[test.future[:, 0]])[test.counts[:, 0]]
    errors = (
        float(np.linalg.norm(off[:, :3], axis=1).mean()),
        float(np.abs(wrap(off[:, 3])).mean()),
        float(np.linalg.norm(off[:, 4:], axis=1).mean()),
    )
    k = one.model.settings.horizon
    stays = (truth[test.history[:, -1], None] - truth[test.future[:, :k]]) / one.scale
    counts = test.counts[:, :k]
    still = ((stays**2 * np.array([10.0] * 4 + [1.0] * 3)).sum(-1) * counts).sum(0) / counts.sum(0)
    return Judged(one.losses(test), still, parameters_without_encoders(one.model), errors, one.history)


def shipped_weights() -> Path:
    """Of the network that comes with the project."""
    return shared_folder("data/excavation") / "weights.npz"
