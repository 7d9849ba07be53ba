"""One control episode: which states count, what they score, when the physics is refitted. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Episode"]


@dataclass
class Episode:
    """Counts control steps and rewards; x_0 is the state it starts from, x_steps the last one.

    Args:
        steps: number of commands.
        period: between them [s].
        reward: state (nx,) -> reward in [0, 1]; None: the task has no reward.
        up: state -> is it at the goal.
        refit_every: ask for a refit every so many steps; 0: not during the episode.
        change_window: samples that a refit after a detected change may use, and the rhythm in
            which it is repeated while the episode lasts.

    Source: algorithm A5 of the adaptive MPC: a refit every 50 steps of the first episode and at
    the end of each; after a detected change at once.
    """

    steps: int
    period: float
    reward: Callable[[np.ndarray], float] | None
    up: Callable[[np.ndarray], bool] = lambda x: False
    refit_every: int = 0
    change_window: int = 20
    step: int = -1
    refits: int = 0
    total_cost: float = 0.0
    changed_at: int | None = None
    rewards: list[float] = field(default_factory=list)
    up_steps: int = 0

    def see(self, x: np.ndarray) -> None:
        """Take the next boundary state."""
        self.step += 1
        if self.step == 0:
            return
        if self.reward is not None:
            self.rewards.append(float(self.reward(x)))
        self.up_steps += bool(self.up(x))

    def see_change(self) -> float:
        """The state seen last revealed that the robot has changed; returns the seconds of data to refit to."""
        self.changed_at = self.step
        return self._since_change

    @property
    def finished(self) -> bool:
        """True once x_steps has been seen."""
        return self.step >= self.steps

    def refit_window(self) -> float | None:
        """Seconds of data to refit to before the next command, or None for no refit now."""
        if self.step <= 0 or self.finished:
            return None
        if self.changed_at is not None:
            since = self.step - self.changed_at
            if since % (self.change_window // 2) == 0:
                return self._since_change
            return None
        if self.refit_every and self.step % self.refit_every == 0:
            return self.step * self.period
        return None

    @property
    def final_window(self) -> float:
        """Seconds of data for the refit at the end: what followed a change, or everything."""
        return self.step * self.period if self.changed_at is None else self._since_change

    @property
    def _since_change(self) -> float:
        # The monitor declares a change when half of its window deviates, so at least that much
        # data belongs to the changed robot.
        return min(self.step, self.step - self.changed_at + self.change_window // 2) * self.period

    @property
    def score(self) -> float:
        """Mean reward; NaN without any."""
        return float(np.mean(self.rewards)) if self.rewards else float("nan")

    @property
    def up_time(self) -> float:
        """Time at the goal [s]."""
        return self.up_steps * self.period
