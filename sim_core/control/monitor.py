"""Notices that the robot no longer moves as predicted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np


class PredictionMonitor:
    """One-step prediction error against its own running baseline.

    The error of a transition is the root mean square of (predicted - measured) / resolution.
    A change is declared when the median of the last ``window`` errors exceeds ``factor`` times
    the baseline, the median of the errors before them. Medians, because single outliers (a
    bumped sensor) are no change of the robot.

    The baseline never falls below 1, i.e. below the resolution: a perfect model leaves rounding
    errors, and their ratios mean nothing.

    Args:
        resolution: (nx,) smallest believable prediction error of each state [SI].
        window, factor, history: see above; history in transitions.
    """

    def __init__(self, resolution: np.ndarray, window: int = 20, factor: float = 3.0, history: int = 300) -> None:
        self.resolution = np.asarray(resolution, float)
        if not np.all(self.resolution > 0):
            raise ValueError("resolution must be > 0 for every state")
        self.window, self.factor = window, factor
        self._transitions: deque = deque(maxlen=history)  # (x, u, x_next)
        self._errors: deque = deque(maxlen=history)
        self.baseline = np.inf  # no alarm before there is anything to compare with

    @property
    def error(self) -> float:
        """Latest error [-]; NaN before the first."""
        return self._errors[-1] if self._errors else np.nan

    @property
    def changed(self) -> bool:
        """The last ``window`` transitions stand out."""
        recent = list(self._errors)[-self.window :]
        return len(recent) == self.window and bool(np.median(recent) > self.factor * self.baseline)

    def update(
        self, x: np.ndarray, u: np.ndarray, x_next: np.ndarray, predicted: np.ndarray, watching: bool = True
    ) -> bool:
        """Add a transition and its prediction; True when a change is declared by it.

        Not watching: transitions are kept for ``rejudge``, and nothing is declared.

        On a change, older transitions are forgotten: they belong to another robot.
        """
        before = self.changed
        self._transitions.append((x, u, x_next))
        self._errors.append(self._distance(predicted, x_next))
        if not watching:
            return False
        older = list(self._errors)[: -self.window]
        if len(older) >= self.window and not before:
            self.baseline = max(1.0, float(np.median(older)))
        declared = self.changed and not before
        if declared:
            for history in (self._transitions, self._errors):
                while len(history) > self.window:
                    history.popleft()
        return declared

    def rejudge(self, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        """Parameters changed: predict all kept transitions again and take their median as baseline.

        Args:
            predict: (X (B, nx), U (B, nu)) -> (B, nx).
        """
        if not self._transitions:
            return
        X, U, X_next = (np.array(a) for a in zip(*self._transitions))
        errors = self._distance(predict(X, U), X_next)
        self._errors = deque(map(float, errors), maxlen=self._errors.maxlen)
        self.baseline = max(1.0, float(np.median(errors)))

    def _distance(self, predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """Errors (...) of predictions (..., nx)."""
        scaled = (np.asarray(predicted) - measured) / self.resolution
        return np.sqrt(np.mean(scaled**2, axis=-1))
