"""How far a predictor misses the joint states as they come: one step ahead, and a horizon ahead. Pure."""

from __future__ import annotations

from collections import deque

import numpy as np

__all__ = ["PredictionWatch"]

# Stamps may deviate from the grid by this share of a period.
JITTER = 0.1


class PredictionWatch:
    """The newest samples of a robot at constant rate, and predictions of their end.

    Args:
        model: RobotModel. control: callable effort (n,) -> u (nu,).
        horizon: [s].

    Attributes:
        period: of the samples [s], known from the third on.
    """

    def __init__(self, model, control, horizon: float) -> None:
        self.model, self._control, self.horizon = model, control, horizon
        self.forget()

    def forget(self) -> None:
        """Time jumped, or the robot was moved by hand."""
        self._t, self._x, self._u = deque(maxlen=100_000), deque(maxlen=100_000), deque(maxlen=100_000)
        self.period: float | None = None

    def see(self, sample) -> None:
        """Add a JointSample; a gap begins anew."""
        x = np.concatenate([sample.position, sample.velocity])
        effort = np.where(np.isfinite(sample.effort), sample.effort, 0.0)
        if self._t:
            gap = sample.stamp - self._t[-1]
            if gap <= 1e-9 or (self.period and abs(gap - self.period) > JITTER * self.period):
                self.forget()
        self._t.append(sample.stamp)
        self._x.append(x)
        self._u.append(self._control(effort))  # applied over the period that ended now
        if self.period is None and len(self._t) == 3:
            self.period = (self._t[-1] - self._t[0]) / 2
            steps = round(self.period / self.model.timestep)
            if steps >= 1:
                self.period = steps * self.model.timestep
        while self.period and len(self._t) > self.steps + 1:
            for row in (self._t, self._x, self._u):
                row.popleft()

    @property
    def steps(self) -> int:
        """Samples of a horizon."""
        return max(1, round(self.horizon / self.period)) if self.period else 0

    @property
    def ready(self) -> bool:
        """There are samples enough for a prediction of one step."""
        return self.period is not None and len(self._t) >= 3

    @property
    def full(self) -> bool:
        """There are samples of a whole horizon."""
        return self.period is not None and len(self._t) == self.steps + 1

    def scale(self) -> np.ndarray:
        """Standard deviation of each state over the samples (nx,); of those that rest the largest one's thousandth."""
        std = np.std(np.array(self._x), axis=0)
        return np.maximum(std, max(1e-3 * std.max(), 1e-9))

    def errors(self, dynamics, p) -> tuple[np.ndarray, np.ndarray | None]:
        """Predicted minus measured newest state (nx,): from the sample before, and from a horizon before, if it is full."""
        x, u = np.array(self._x), np.array(self._u)
        one = dynamics.rollout(x[-2], u[-1:], p)[-1] - x[-1]
        return one, dynamics.rollout(x[0], u[1:], p)[-1] - x[-1] if self.full else None
