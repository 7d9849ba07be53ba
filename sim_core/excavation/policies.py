"""Scripted ways to choose primitives: they collect the data that a model learns from, and the planners are judged against them.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.6.1. The probabilities of the stochastic one are chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim_core.excavation.costs import Workspace, tracking_distance
from sim_core.excavation.primitives import ACTIONS, WIGGLE, PrimitiveSettings, displacements
from sim_core.excavation.reference_path import ReferencePath

__all__ = [
    "ClosedLoop",
    "Follow",
    "FollowSettings",
    "OpenLoop",
    "Policy",
    "RandomActions",
    "State",
    "StochasticFollow",
]


@dataclass(frozen=True, eq=False)
class State:
    """What is known between two primitives.

    Attributes:
        pose: (4,) measured [m, m, m, rad]. force: of the pile on the bucket (3,) [N].
        image: from above, (height, width, 3) of bytes; None where nobody looks.
    """

    pose: np.ndarray
    force: np.ndarray
    image: np.ndarray | None = None


class Policy(Protocol):
    """Chooses primitives one by one, from the start of a trial on."""

    def choose(self, state: State) -> int | None:
        """The next primitive at the state that the last one led to; None: it has no more to say."""


@dataclass(frozen=True)
class FollowSettings:
    """The moving reference point.

    The thesis asks for nearness of 0.04 m in x alone. Then the point runs away from the bucket where the path is steep and where it
    closes in place, and the bucket closes before it has come to the end; here it is nearness in x, y, z and angle.

    Attributes:
        near: tracking distance within which it moves on [m]. step: by which it does [m].
    """

    near: float = 0.02
    step: float = 0.02


class Follow:
    """Takes what brings the bucket nearest to a reference point that moves along the path; never wiggles."""

    def __init__(
        self,
        path: ReferencePath,
        primitives: PrimitiveSettings = PrimitiveSettings(),
        settings: FollowSettings = FollowSettings(),
    ) -> None:
        self.path, self.settings, self.moves = path, settings, displacements(primitives)
        self.reference = path.after(0, settings.step)

    def choose(self, state: State) -> int:
        """See `Policy`."""
        target = self.path.poses[self.reference]
        apart = tracking_distance(state.pose + self.moves[:WIGGLE], target)
        if tracking_distance(state.pose, target) < self.settings.near:
            self.reference = self.path.after(self.reference, self.settings.step)
        return int(np.argmin(apart))


class ClosedLoop:
    """`Follow`, with a wiggle after every two of its actions."""

    def __init__(
        self, path: ReferencePath, primitives: PrimitiveSettings = PrimitiveSettings(), every: int = 2
    ) -> None:
        self.follow, self.every, self.count = Follow(path, primitives), every, 0

    def choose(self, state: State) -> int:
        """See `Policy`."""
        self.count += 1
        return WIGGLE if self.count % (self.every + 1) == 0 else self.follow.choose(state)


class OpenLoop:
    """The actions that `ClosedLoop` would take if each did exactly what it is for, found before anything moves.

    Attributes:
        actions: all of them, in order.

    Raises:
        ValueError: they do not come to the end of the path.
    """

    def __init__(
        self,
        path: ReferencePath,
        primitives: PrimitiveSettings = PrimitiveSettings(),
        every: int = 2,
        longest: int = 400,
    ) -> None:
        policy, pose, index = ClosedLoop(path, primitives, every), path.poses[0].copy(), 0
        moves = displacements(primitives)
        found: list[int] = []
        while not path.finished(pose, index):
            if len(found) == longest:
                raise ValueError(f"after {longest} actions in free space the path's end is not reached")
            found.append(policy.choose(State(pose, np.zeros(3))))
            pose = pose + moves[found[-1]]
            index = int(path.closest(pose, index).index)
        self.actions, self.taken = tuple(found), 0

    def choose(self, state: State) -> int | None:
        """See `Policy`; blind."""
        if self.taken == len(self.actions):
            return None
        self.taken += 1
        return self.actions[self.taken - 1]


class RandomActions:
    """Every primitive that stays inside the bounds is equally likely."""

    def __init__(
        self,
        workspace: Workspace = Workspace(),
        primitives: PrimitiveSettings = PrimitiveSettings(),
        seed: int = 0,
    ) -> None:
        self.workspace, self.moves = workspace, displacements(primitives)
        self.rng = np.random.default_rng([seed, 71])

    def choose(self, state: State) -> int:
        """See `Policy`."""
        allowed = _allowed(state, self.moves, self.workspace)
        return int(self.rng.choice(np.flatnonzero(allowed)))


class StochasticFollow:
    """`Follow`'s choice with a probability, else any action: every one has some."""

    def __init__(
        self,
        path: ReferencePath,
        workspace: Workspace = Workspace(),
        primitives: PrimitiveSettings = PrimitiveSettings(),
        share: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.follow, self.workspace, self.share = Follow(path, primitives), workspace, share
        self.rng = np.random.default_rng([seed, 72])

    def choose(self, state: State) -> int:
        """See `Policy`."""
        best = self.follow.choose(state)
        if self.rng.random() < self.share:
            return best
        allowed = _allowed(state, self.follow.moves, self.workspace)
        return int(self.rng.choice(np.flatnonzero(allowed)))


def _allowed(state: State, moves: np.ndarray, workspace: Workspace) -> np.ndarray:
    """Actions (9,) that stay inside; a bucket that is outside may go nearer, and wiggle."""
    ends = state.pose + moves
    lower, upper = np.array(workspace.lower), np.array(workspace.upper)
    beyond = lambda poses: np.maximum(np.maximum(lower - poses, poses - upper), 0.0).sum(-1)
    allowed = (beyond(ends) == 0.0) | (beyond(ends) < beyond(state.pose))
    allowed[WIGGLE] = True
    assert allowed.shape == (ACTIONS,)
    return allowed
