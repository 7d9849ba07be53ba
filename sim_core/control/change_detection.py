"""Has the robot stopped behaving like its model? Predicted against observed, in real time.

Every `horizon` samples the model predicts the next `horizon` steps from the measured state
under the measured controls. The error, in units of sensor noise, is compared with its own
running median: a payload, a broken link or a weak motor raises it at once and for good, a
single disturbance does not.

Adaptive MPC's own monitor compares one-step errors in the same way ("a 20-sample median exceeds
3x its running baseline"). Here the horizon is longer than one step, because at servo rates noise
stays while the effect of a changed force grows with time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.inference.data.window import Window
from sim_core.system import System

__all__ = ["Change", "ChangeConfig", "detect_change", "prediction_errors"]


@dataclass(frozen=True)
class ChangeConfig:
    """When a rise in prediction error counts as a change.

    Attributes:
        horizon: steps predicted at a time.
        recent: predictions whose median is judged.
        baseline: predictions before those, at least this many, whose median is the norm.
        factor: rise that counts.
        noise: std of measured (positions, velocities); errors below it are no evidence [SI].
    """

    horizon: int = 10
    recent: int = 8
    baseline: int = 8
    factor: float = 3.0
    noise: tuple[float, float] = (1e-4, 1e-3)


@dataclass(frozen=True)
class Change:
    """time: first stamp after the change [s]; error, norm: recent and baseline medians [-]."""

    time: float
    error: float
    norm: float


def prediction_errors(
    dynamics: System, window: Window, p: np.ndarray, config: ChangeConfig
) -> tuple[np.ndarray, np.ndarray]:
    """End stamps (M,) [s] and normalised errors (M,) [-] of successive predictions over a window."""
    h = config.horizon
    begins = np.arange(window.transitions % h, window.transitions - h + 1, h)
    if len(begins) == 0:
        return np.zeros(0), np.zeros(0)
    x, nq = window.x, window.q.shape[1]
    controls = np.stack([window.u[k : k + h] for k in begins])
    predicted = np.asarray(dynamics.rollout(x[begins], controls, p))[:, -1]
    error = predicted - x[begins + h]
    # A measured start carries noise too, and its velocity noise grows into position.
    sq, sv = np.sqrt(2.0) * config.noise[0] + h * window.dt * config.noise[1], np.sqrt(2.0) * config.noise[1]
    with np.errstate(over="ignore", invalid="ignore"):
        if nq == x.shape[1]:  # states without rates
            size = np.sqrt(np.mean((error / (np.sqrt(2.0) * config.noise[0])) ** 2, 1))
            return window.t[begins + h], np.where(np.isfinite(size), size, np.inf)
        size = np.sqrt(0.5 * np.mean((error[:, :nq] / sq) ** 2, 1) + 0.5 * np.mean((error[:, nq:] / sv) ** 2, 1))
    return window.t[begins + h], np.where(np.isfinite(size), size, np.inf)


def detect_change(
    dynamics: System, window: Window, p: np.ndarray, config: ChangeConfig = ChangeConfig()
) -> Change | None:
    """The latest change of behaviour within a window, or None.

    Needs `baseline` + `recent` predictions; with fewer there is no norm to exceed.
    """
    times, errors = prediction_errors(dynamics, window, p, config)
    if len(errors) < config.baseline + config.recent:
        return None
    norm = float(np.median(errors[: -config.recent]))
    limit = config.factor * max(norm, 1.0)
    error = float(np.median(errors[-config.recent :]))
    if error <= limit:
        return None
    # Walk back over the unbroken run of large errors; the prediction that straddles the change
    # is the first of them, so sound data of the new regime begin where it ends.
    first = len(errors) - 1
    while first > 0 and (errors[first - 1] > limit or (first > 1 and errors[first - 2] > limit)):
        first -= 1
    return Change(time=float(times[first]), error=error, norm=norm)
