"""Does a fitted model explain the motion at all? Judged without trusting the model.

The scales of a fit adapt to its residuals, so a hopeless fit looks no worse than a good one on
its own terms. Two model-free yardsticks tell them apart: the sensors' noise, from the third
differences of the signals, and what constant velocity leaves over within each segment.
"""

import numpy as np

from sim_core.inference.data.robust import robust_scale
from sim_core.inference.shooting.shooting import Rollout, ShootingProblem

__all__ = [
    "EXPLAINED",
    "TOLERATED",
    "constant_velocity_residual",
    "misfit",
    "misfit_inflation",
    "unexplained_share",
]

# Residuals up to this many times the sensor noise count as explained: unmodelled but small.
TOLERATED = 3.0
# Residuals up to this many times the sensor noise are what the estimate of that noise may be off.
EXPLAINED = 1.3


def misfit(problem: ShootingProblem, scale: np.ndarray) -> float:
    """Largest ratio of a feature's residual scale (ny,) to its sensor's noise or resolution [-]; 1: nothing is left over."""
    return float(np.max(scale / np.maximum(problem.noise, problem.floor)))


def misfit_inflation(ratio: float, segments: int) -> float:
    """Factor on a covariance from so many segments whose residuals are `ratio` times the noise (misfit).

    Noise differs from segment to segment and averages out; what a model lacks is the same in all of them and does not. With
    the share rho = 1 - (noise / residual)^2 of the variance in common, a mean of S segments has the variance of one times
    (1 + (S - 1) rho) / S.

    Source: Kish, Survey Sampling (1965), section 5.4, the design effect of clusters.
    """
    return 1.0 + (segments - 1) * (1.0 - min(EXPLAINED / ratio, 1.0) ** 2)


def constant_velocity_residual(problem: ShootingProblem) -> np.ndarray:
    """Residuals (S, K, ny) of the predictor without physics.

    Free starts: each segment's own mean velocity through its mean position. Measured starts:
    straight on from the start. States without rates stay at their mean, or at the start.
    """
    Y, n = problem.observed, problem.nq
    if not problem.nv:
        return (Y.mean(1, keepdims=True) if problem.free_starts else problem.measured_starts[:, None]) - Y
    time = problem.dt * np.arange(Y.shape[1])[:, None]
    if problem.free_starts:
        v = Y[..., n:].mean(1, keepdims=True)
        q = Y[..., :n].mean(1, keepdims=True) + (time - time.mean()) * v
    else:
        v = problem.measured_starts[:, None, n:]
        q = problem.measured_starts[:, None, :n] + (time + problem.dt) * v
    return np.concatenate([q, np.broadcast_to(v, q.shape)], axis=-1) - Y


def unexplained_share(problem: ShootingProblem, rollout: Rollout) -> float:
    """Residual variance over that of constant velocity, for the worst feature that moves [-].

    0 when nothing moves beyond its noise, or when all that moves is explained to within it.
    """
    left = robust_scale(rollout.residual, axis=(0, 1)) / problem.noise
    constant = robust_scale(constant_velocity_residual(problem), axis=(0, 1)) / problem.noise
    moving = constant > TOLERATED
    share = np.where(left > TOLERATED, left**2, 0.0) / np.maximum(constant, TOLERATED) ** 2
    return float(np.max(share[moving], initial=0.0))
