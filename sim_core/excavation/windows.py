"""Trajectories cut into windows: what was, the actions that come, and what they lead to.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.4. At the start of a trajectory the history is filled with copies of
its first state; at its end, where fewer than k states follow, the missing ones do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim_core.excavation.primitives import NULL
from sim_core.excavation.trial import Trial

__all__ = ["Windows", "build_windows", "split_by_trajectory"]


@dataclass(frozen=True, eq=False)
class Windows:
    """n windows over S states.

    Attributes:
        poses: (S, 4) [m, m, m, rad]. forces: (S, 3) [N]. images: (S, 3, height, width) of bytes; None without.
        held: largest lasting force inside of the primitive that led to each state (S,) [N]; 0 at the start of a trajectory.
        history: rows of the last l states, the present one last (n, l). past: the actions before each of them (n, l), NULL where
            there was none. actions: that come (n, k), NULL behind the end. future: rows of the states they lead to (n, k).
        counts: whether there is such a state (n, k). trajectory: number of each window's (n,).
    """

    poses: np.ndarray
    forces: np.ndarray
    images: np.ndarray | None
    held: np.ndarray
    history: np.ndarray
    past: np.ndarray
    actions: np.ndarray
    future: np.ndarray
    counts: np.ndarray
    trajectory: np.ndarray

    def __len__(self) -> int:
        return len(self.history)

    def of(self, trajectories: np.ndarray) -> Windows:
        """The windows of some trajectories."""
        rows = np.isin(self.trajectory, trajectories)
        cut = {
            name: getattr(self, name)[rows] for name in ("history", "past", "actions", "future", "counts", "trajectory")
        }
        return Windows(self.poses, self.forces, self.images, self.held, **cut)


def build_windows(trials: Sequence[Trial], history: int = 7, horizon: int = 7) -> Windows:
    """All windows of trials, one for each action.

    Raises:
        ValueError: there is no trial with an action, or a history or a horizon below 1.
    """
    trials = [one for one in trials if len(one.actions)]
    if not trials or history < 1 or horizon < 1:
        raise ValueError("expected trials with actions, and a history and a horizon of 1 or more")
    first, rows = 0, []
    for number, one in enumerate(trials):
        T = len(one.actions)
        for t in range(T):
            back, ahead = t + np.arange(1 - history, 1), t + np.arange(horizon)
            past = np.where(back > 0, one.actions[np.maximum(back - 1, 0)], NULL)
            actions = np.where(ahead < T, one.actions[np.minimum(ahead, T - 1)], NULL)
            future = first + np.minimum(ahead + 1, T)
            rows.append((first + np.maximum(back, 0), past, actions, future, ahead < T, number))
        first += T + 1
    columns = [np.array(column) for column in zip(*rows)]
    seen = all(one.images is not None for one in trials)
    images = np.concatenate([one.images for one in trials]).transpose(0, 3, 1, 2) if seen else None
    poses, forces = (np.concatenate([getattr(one, name) for one in trials]) for name in ("poses", "forces"))
    held = np.concatenate([np.r_[0.0, one.held] for one in trials])
    return Windows(poses, forces, images, held, *columns)


def split_by_trajectory(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the trajectories to train on, to validate with and to test, 8 : 1 : 1.

    Raises:
        ValueError: fewer than three.
    """
    if count < 3:
        raise ValueError(f"expected three trajectories or more, one for each part, found {count}")
    order, tenth = np.random.default_rng([seed, 74]).permutation(count), max(1, count // 10)
    return np.sort(order[2 * tenth :]), np.sort(order[:tenth]), np.sort(order[tenth : 2 * tenth])
