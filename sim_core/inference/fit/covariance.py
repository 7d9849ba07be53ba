"""What a fit knows: covariance, rank, and which coordinates the data excited.

With IRLS Hessian A of the data, prior precision L and the M-estimator's constants
a = E psi' / E w and m = E psi^2 / E w, independent residuals would give

    C0 = C (m A + L) C,   C = (a A + L)^-1        (the prior enters as one more observation).

Unmodelled physics leaves residuals that are correlated in time, so segments, not samples, are
what is independent. Leaving out segment s moves the estimate by d_s = (a (A - A_s) + L)^-1 g_s,
and the jackknife covariance is

    C1 = (S - 1) / S sum_s d_s d_s^T + C L C.

Intervals use C1's variances wherever they exceed C0's, with Student's quantile for S - 1 degrees.

Source: Huber and Ronchetti, Robust Statistics (2009), 7.6; the leave-one-cluster-out covariance is
CR3 of Cameron and Miller, A Practitioner's Guide to Cluster-Robust Inference (2015), section 6.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from sim_core.host.threads import single_threaded
from sim_core.inference.fit.definite import solve_definite
from sim_core.inference.fit.least_squares import Ending, Solution
from sim_core.inference.shooting.shooting import ShootingProblem

__all__ = ["Posterior", "capped", "posterior"]

# A coordinate counts as excited when the data shrank its prior standard deviation below this share.
EXCITED_RATIO = 0.9
# Directions about which the data say less than the prior count as unidentified, and so do those
# whose information is rounding error: noise-free data would otherwise identify null directions.
RANK_RATIO, RANK_ROUNDING = 1.0, 1e-13
# 97.5 % quantile of the normal, by which interval ends are formed.
Z95 = 1.959963985


@dataclass(frozen=True)
class Posterior:
    """Uncertainty of theta at the optimum.

    Attributes:
        covariance: shape (n, n), widened so that 1.96 std is a 95 % interval.
        ratio: posterior std over prior std, shape (n,).
        excited: ratio below the threshold, shape (n,).
        at_bound: stopped at a bound other than zero from above, shape (n,).
        rank: directions about which the data say more than the prior.
        singular_values: of the data Jacobian in units of prior std, descending, shape (n,).
        weakest_direction: right singular vector of the last one, shape (n,).
        inflation: jackknife std over independent-residual std, at least 1, shape (n,).
        degrees: degrees of freedom behind the intervals, S - 1.
    """

    covariance: np.ndarray
    ratio: np.ndarray
    excited: np.ndarray
    at_bound: np.ndarray
    rank: int
    singular_values: np.ndarray
    weakest_direction: np.ndarray
    inflation: np.ndarray
    degrees: float

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))


@single_threaded
def posterior(problem: ShootingProblem, solution: Solution, excited_ratio: float = EXCITED_RATIO) -> Posterior:
    """Covariance and excitation at a solution."""
    normal, std0 = solution.normal, problem.prior_std
    r = solution.rollout.residual / solution.scale
    mean_w = np.mean(problem.loss.weight(r))
    psi = problem.loss.weight(r) * r
    A, L = normal.data_hessian, np.diag(1.0 / std0**2)
    a = max(np.mean(problem.loss.curvature(r)) / mean_w, 0.1)
    m = np.mean(psi**2) / mean_w
    if (solution.scale <= problem.floor).any():
        m = max(m, a)  # residuals below the believable floor are no reason to be surer than it allows
    information, directions = np.linalg.eigh(std0[:, None] * A * std0)
    information = np.where(information > RANK_ROUNDING * information[-1], information, 0.0)
    W = std0[:, None] * directions
    C = W / (a * information + 1.0) @ W.T  # (a A + L)^-1
    independent = W * ((m * information + 1.0) / (a * information + 1.0) ** 2) @ W.T  # C (m A + L) C
    jackknife = _jackknife(normal.segment_hessians, normal.scores, a, L) + C @ L @ C
    degrees = max(len(normal.scores) - 1.0, 2.0)
    inflation = np.sqrt(np.maximum(np.diag(jackknife) / np.diag(independent), 1.0))
    # Few segments: their scatter is itself uncertain, so normal quantiles become Student's.
    widen = inflation * np.where(inflation > 1.0, stdtrit(degrees, 0.975) / Z95, 1.0)
    covariance = independent * np.outer(widen, widen)
    if solution.ending is not Ending.CONVERGED:
        # The way that is left to the optimum is an error like any other.
        left = solve_definite(normal.hessian, normal.gradient[:, None])[:, 0]
        covariance = covariance + np.outer(left, left)
    ratio = np.minimum(np.sqrt(np.diag(independent)) * inflation / std0, 1.0)
    # The prior is the ceiling: data cannot make a coordinate less certain than it.
    covariance = capped(covariance, std0)
    information = a * information[::-1]
    theta, width = (
        solution.theta,
        np.where(np.isfinite(problem.upper - problem.lower), problem.upper - problem.lower, 1.0),
    )
    # At zero nature ends, not the bounds: no delay or no damping is an answer like any other.
    below = (theta <= problem.lower + 1e-6 * width) & (problem.lower != 0.0)
    at_bound = below | (theta >= problem.upper - 1e-6 * width)
    return Posterior(
        covariance=covariance,
        ratio=ratio,
        excited=ratio < excited_ratio,
        at_bound=at_bound,
        rank=int(np.sum(information > RANK_RATIO)),
        singular_values=np.sqrt(information),
        weakest_direction=directions[:, 0],
        inflation=inflation,
        degrees=degrees,
    )


def capped(covariance: np.ndarray, ceiling: np.ndarray) -> np.ndarray:
    """The covariance (n, n), its correlations kept, with standard deviations of at most `ceiling` (n,)."""
    std = np.sqrt(np.diag(covariance))
    cap = np.minimum(np.asarray(ceiling) / np.maximum(std, np.finfo(float).tiny), 1.0)
    return covariance * np.outer(cap, cap)


def _jackknife(hessians: np.ndarray, scores: np.ndarray, a: float, L: np.ndarray) -> np.ndarray:
    """(S-1)/S sum_s d_s d_s^T: what leaving out one segment at a time does to the estimate."""
    S = len(scores)
    if S < 2:
        return np.zeros_like(L)
    rest = a * (hessians.sum(0) - hessians) + L
    shifts = solve_definite(rest, scores[..., None])[..., 0]
    return (S - 1) / S * shifts.T @ shifts
