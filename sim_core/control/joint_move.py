"""A move of all joints from any state to rest at a posture, with bounded speed and acceleration."""

from __future__ import annotations

import numpy as np

__all__ = ["JointMove"]


class JointMove:
    """First every joint is brought to rest, then all of them move together, on a minimum-jerk polynomial.

    Braking follows v = v0 (1 - 3 s^2 + 2 s^3), the move q = a + (b - a)(10 s^3 - 15 s^4 + 6 s^5) with s in [0, 1]. The
    first takes as long as the fastest joint needs at the acceleration allowed; the second as long as the joint needs
    that comes closest to its speed or its acceleration.

    Source of the polynomial: Flash, Hogan, The coordination of arm movements, J. Neuroscience 5(7), 1985.

    Args:
        q, v: where the joints are and how they move, (n,) [rad or m], [rad/s or m/s].
        goal: where they shall rest, (n,).
        speed: highest of the move, (n,), positive [rad/s or m/s]. What the joints have at the beginning may be more.
        acceleration: highest of braking and of the move, (n,), positive [rad/s^2 or m/s^2].
        lower, upper: range of the joints (n,); braking ends within it.

    Attributes:
        duration: of both together [s].
    """

    def __init__(
        self,
        q: np.ndarray,
        v: np.ndarray,
        goal: np.ndarray,
        speed: np.ndarray,
        acceleration: np.ndarray,
        lower: np.ndarray | float = -np.inf,
        upper: np.ndarray | float = np.inf,
    ) -> None:
        self._q, self._v = np.array(q, float), np.array(v, float)
        self._lower, self._upper = lower, upper
        # Peaks of the polynomials' derivatives over s: braking 3/2, speed 15/8, acceleration 10 / sqrt(3).
        self._brake = float(np.max(1.5 * np.abs(self._v) / acceleration, initial=0.0))
        self._rest = np.clip(self._q + 0.5 * self._brake * self._v, lower, upper)
        self._way = np.asarray(goal, float) - self._rest
        far = np.abs(self._way)
        self._move = float(
            max(
                np.max(15 / 8 * far / speed, initial=0.0),
                np.max(np.sqrt(10 / np.sqrt(3) * far / acceleration), initial=0.0),
            )
        )
        self.duration = self._brake + self._move

    def state(self, t: float) -> np.ndarray:
        """[q, v] (2n,) at t [s] after the beginning; after the duration at rest at the goal."""
        if t < self._brake:
            s = max(t, 0.0) / self._brake
            q = self._q + self._v * self._brake * (s - s**3 + s**4 / 2)
            return np.concatenate([np.clip(q, self._lower, self._upper), self._v * (1 - 3 * s**2 + 2 * s**3)])
        s = min((t - self._brake) / self._move, 1.0) if self._move > 0.0 else 1.0
        q = self._rest + self._way * (10 * s**3 - 15 * s**4 + 6 * s**5)
        v = self._way * 30 * s**2 * (1 - s) ** 2 / self._move if self._move > 0.0 else np.zeros_like(q)
        return np.concatenate([q, v])
