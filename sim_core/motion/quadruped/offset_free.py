"""References under which the walk has no lasting error: the robot's deviation from its model is estimated and subtracted.

The programme by itself settles beside its reference. Its forces cost something over a finite horizon, so that it lifts
too early, and it knows neither the blows of the feet that touch down nor a load that it was not told of
(docs/quadruped.md). The loop of robot and programme is modelled as a lag with a constant disturbance on its output,

    dy/dt = (r - y) / tau,   measured = y + d,

d is observed from what the model does not explain, and the programme is asked for r = asked - d. Where everything is at
rest the measured value is then the one asked for, whatever the lag and whatever pushes. After a step of the reference
the model lags as the robot does, so that d does not wind up. All of it goes in by the references, so the programme
stays a function of 41 inputs.

Source: Maeder, Borrelli, Morari, Linear offset-free model predictive control, Automatica 45 (2009); output disturbance model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["OffsetFree", "OffsetFreeConfig"]


@dataclass(frozen=True)
class OffsetFreeConfig:
    """Of velocity forward and to the left [m/s], yaw rate [rad/s] and height [m], four numbers each.

    Attributes:
        lag: tau [s]. gain: of the observer of d, the inverse of its time constant [1/s]; zero: no correction.
        limit: |d| never exceeds it, so that a robot that is held fast does not run off when it is let go.
    """

    lag: tuple[float, float, float, float] = (0.1, 0.1, 0.1, 0.2)
    gain: tuple[float, float, float, float] = (1.5, 1.5, 1.5, 1.5)
    limit: tuple[float, float, float, float] = (0.1, 0.1, 0.15, 0.08)

    def __post_init__(self) -> None:
        if min(self.lag) <= 0 or min(self.gain) < 0 or min(self.limit) < 0:
            raise ValueError("lag must be positive, gain and limit must not be negative.")


class OffsetFree:
    """The observer; `reference` is called once per control cycle.

    Attributes:
        disturbance: d (4,), see `OffsetFreeConfig`.
    """

    def __init__(self, config: OffsetFreeConfig = OffsetFreeConfig()) -> None:
        self._lag, self._gain, self._limit = (np.array(x) for x in (config.lag, config.gain, config.limit))
        self.reset()

    def reset(self) -> None:
        """Forget the disturbance; the model begins at the next measurement."""
        self._model: np.ndarray | None = None
        self._reference = np.zeros(4)
        self.disturbance = np.zeros(4)

    def reference(self, dt: float, asked: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """r (4,) that makes `measured` (4,) go to `asked` (4,); dt [s] since the last call.

        Measurements that are not finite change nothing.
        """
        if np.isfinite(measured).all():
            if self._model is None:
                self._model, self._reference = measured.copy(), measured
            self._model += (1 - np.exp(-dt / self._lag)) * (self._reference - self._model)
            unexplained = measured - self._model - self.disturbance
            self.disturbance = np.clip(
                self.disturbance + (1 - np.exp(-dt * self._gain)) * unexplained, -self._limit, self._limit
            )
        self._reference = asked - self.disturbance
        return self._reference
