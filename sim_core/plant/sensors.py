"""What the joint sensors report: the true state, late and noisy as configured."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

__all__ = ["DelayLine", "JointSensor"]

MAX_DELAY = 0.5  # [s] history kept, so that a delay may appear in the middle of a run


class JointSensor:
    """Joint positions and velocities with a constant delay and white noise.

    The state at t - delay is interpolated between physics steps: cubic Hermite for q, linear for
    v; the error for the 1-5 ms delays meant here is far below encoder noise (q: h^4/384 |q''''|).

    Args:
        step: physics step h [s].
        position_noise, velocity_noise: standard deviations [rad or m], [rad/s or m/s].
    """

    def __init__(self, step: float, position_noise: float, velocity_noise: float) -> None:
        self._step = step
        self._noise = (position_noise, velocity_noise)
        self._history: deque = deque(maxlen=math.ceil(MAX_DELAY / step) + 2)
        self.delay = 0.0

    def clear(self, q: np.ndarray, v: np.ndarray) -> None:
        """Start anew from a state that has been there for ever."""
        self._history.clear()
        self.push(q, v)

    def push(self, q: np.ndarray, v: np.ndarray) -> None:
        """Record the true state after a physics step; the arrays are kept, not copied."""
        self._history.append((q, v))

    def read(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The measurement at the time of the last push."""
        q, v = self._delayed()
        noise_q, noise_v = self._noise
        if noise_q > 0.0:
            q = q + noise_q * rng.standard_normal(q.shape)
        if noise_v > 0.0:
            v = v + noise_v * rng.standard_normal(v.shape)
        return q, v

    def _delayed(self) -> tuple[np.ndarray, np.ndarray]:
        back = self.delay / self._step
        whole = int(back + 1e-9)
        s = back - whole
        newest = len(self._history) - 1 - whole
        if s < 1e-9 or newest < 1:
            return self._history[max(newest, 0)]
        (q0, v0), (q1, v1) = self._history[newest - 1], self._history[newest]
        a, h = 1.0 - s, self._step  # a: fraction of the way from sample 0 to sample 1
        q = (
            (1 + 2 * a) * (1 - a) ** 2 * q0
            + a * (1 - a) ** 2 * h * v0
            + a**2 * (3 - 2 * a) * q1
            + a**2 * (a - 1) * h * v1
        )
        return q, (1.0 - a) * v0 + a * v1


class DelayLine:
    """Actuator inputs that take effect a constant time after they were asked for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.delay = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget all inputs; zero is in force."""
        self._pending: deque = deque()
        self._now = np.zeros(self._size)

    def push(self, t: float, u: np.ndarray) -> None:
        """Ask for u, shape (nu,), at time t [s]."""
        self._pending.append((t + self.delay, u))

    def at(self, t: float) -> np.ndarray:
        """Input in force at time t [s], shape (nu,)."""
        while self._pending and self._pending[0][0] <= t + 1e-9:
            self._now = self._pending.popleft()[1]
        return self._now
