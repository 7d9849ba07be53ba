"""Does a fitted model explain the motion at all? Judged without trusting the model.

The scales of a fit adapt to its residuals, so a hopeless fit looks no worse than a good one on
its own terms. Two model-free yardsticks tell them apart: the sensors' noise, from the third
differences of the signals, and what constant velocity leaves over within each segment.
"""

import numpy as np

from sim_core.inference.robust import robust_scale
from sim_core.inference.shooting import Rollout, ShootingProblem
from sim_core.inference.window import Window

__all__ = ["constant_velocity_residual", "sensor_noise", "unexplained_share"]

# Residuals up to this many times the sensor noise count as explained: unmodelled but small.
TOLERATED = 3.0


def sensor_noise(windows: list[Window], floor: np.ndarray) -> np.ndarray:
    """White-noise std of each measured feature, shape (nx,), never below `floor`.

    Third differences cancel everything quadratic in time; those of white noise have variance
    20 sigma^2. Motion beyond that inflates the estimate, which errs on the lenient side.
    """
    differences = [np.diff(w.x, n=3, axis=0) for w in windows if w.transitions >= 3]
    if not differences:
        return floor
    return np.maximum(robust_scale(np.concatenate(differences), axis=0) / np.sqrt(20.0), floor)


def constant_velocity_residual(problem: ShootingProblem) -> np.ndarray:
    """Residuals (S, K, ny) of the predictor without physics.

    Free starts: each segment's own mean velocity through its mean position. Measured starts:
    straight on from the start.
    """
    Y, n = problem.observed, problem.nx // 2
    time = problem.dt * np.arange(Y.shape[1])[:, None]
    if problem.free_starts:
        v = Y[..., n:].mean(1, keepdims=True)
        q = Y[..., :n].mean(1, keepdims=True) + (time - time.mean()) * v
    else:
        v = problem.measured_starts[:, None, n:]
        q = problem.measured_starts[:, None, :n] + (time + problem.dt) * v
    return np.concatenate([q, np.broadcast_to(v, q.shape)], axis=-1) - Y


def unexplained_share(problem: ShootingProblem, rollout: Rollout, noise: np.ndarray) -> float:
    """Residual variance over that of constant velocity, for the worst feature that moves [-].

    0 when nothing moves beyond its noise, or when all that moves is explained to within it.
    """
    left = robust_scale(rollout.residual, axis=(0, 1)) / noise
    constant = robust_scale(constant_velocity_residual(problem), axis=(0, 1)) / noise
    moving = constant > TOLERATED
    share = np.where(left > TOLERATED, left**2, 0.0) / np.maximum(constant, TOLERATED) ** 2
    return float(np.max(share[moving], initial=0.0))
