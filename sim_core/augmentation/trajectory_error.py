"""Mean squared error of roll-outs against recorded trajectories, and its exact gradient in the physical vector."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sim_core.inference.data.trajectories import Trajectories
from sim_core.multibody import Dynamics

__all__ = ["TrajectoryError"]

CHUNK = 256  # windows at once: a gradient by a thousand weights is kept for each


class TrajectoryError:
    """L(p) = mean over windows, steps k = 1..h and states of ((x_k - measured_k) / scale)^2.

    Windows of h steps start at measured states, one after the other; roll-outs of all windows are one kernel call.

    Args:
        dynamics: Dynamics of the model, dt that of the trajectories.
        trajectories: what was recorded.
        scale: unit of each state (nx,); default its standard deviation over the recording.

    Raises:
        ValueError: another period or size of state or control.
    """

    def __init__(self, dynamics: Dynamics, trajectories: Trajectories, scale: ArrayLike | None = None) -> None:
        if abs(dynamics.dt - trajectories.dt) > 1e-9 * dynamics.dt:
            raise ValueError(
                f"Expected trajectories of the dynamics' period {dynamics.dt:g} s, found {trajectories.dt:g} s."
            )
        found, expected = (trajectories.x.shape[2], trajectories.u.shape[2]), (dynamics.nx, dynamics.nu)
        if found != expected:
            raise ValueError(
                f"Expected trajectories of {expected[0]} states and {expected[1]} controls, found {found}."
            )
        self.dynamics, self.trajectories = dynamics, trajectories
        self.scale = trajectories.scale if scale is None else np.asarray(scale, dtype=float)

    def __call__(self, p: np.ndarray, horizon: int | None = None) -> tuple[float, np.ndarray]:
        """(L, dL/dp (np_,)) at p (np_,). A roll-out that diverges makes L infinite and the gradient zero.

        Args:
            horizon: steps of a window; default, and at most, the trajectories' length.
        """
        loss, pbar = 0.0, np.zeros_like(p)
        windows = self._windows(horizon)
        for at in range(0, windows.count, CHUNK):
            part = windows.pick(slice(at, at + CHUNK))
            X = self.dynamics.rollout(part.x[:, 0], part.u, p)
            if not np.isfinite(X).all():
                return np.inf, np.zeros_like(p)
            weight = 1.0 / (windows.count * windows.steps * self.dynamics.nx)
            error = (X - part.x) / self.scale
            loss += weight * float(np.sum(error**2))
            pbar += self.dynamics.rollout_vjp(part.x[:, 0], part.u, p, X, 2 * weight * error / self.scale, summed=True)[
                2
            ]
        return (loss, pbar) if np.isfinite(pbar).all() else (np.inf, np.zeros_like(p))

    def value(self, p: np.ndarray, horizon: int | None = None) -> float:
        """L alone: NaN or infinite where a roll-out diverges."""
        windows = self._windows(horizon)
        X = self.dynamics.rollout(windows.x[:, 0], windows.u, p)
        return float(np.mean(((X - windows.x)[:, 1:] / self.scale) ** 2))

    def _windows(self, horizon: int | None) -> Trajectories:
        steps = self.trajectories.steps
        return self.trajectories.windows(steps // min(horizon or steps, steps))
