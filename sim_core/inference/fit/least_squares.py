"""Levenberg-Marquardt on normal equations, within bounds, until it converges or gains nothing within its budget.

min_theta  sum_k rho(r_k(theta) / s) + |theta - mean|^2 / (2 std^2),   lower <= theta <= upper

The problem supplies roll-outs and normal equations (see shooting.py). After every accepted
step the residual scales s are estimated afresh: minimising over theta and s in turn is maximum
likelihood with unknown noise, so data and prior are weighed by how well the model really fits.
First all features share one factor on the sensors' noise; once that has converged, each gets
the scale of its own residuals.

Source: Nielsen, Damping Parameter in Marquardt's Method (1999); Madsen, Nielsen, Tingleff,
Methods for Non-Linear Least Squares Problems (2004).
"""

import enum
import time
from dataclasses import dataclass

import numpy as np

from sim_core.host.threads import single_threaded
from sim_core.inference.fit.definite import solve_definite
from sim_core.inference.shooting.shooting import NormalEquations, Rollout, ShootingProblem

__all__ = ["Ending", "Solution", "minimise"]

# Stop once the quadratic model promises less than this: 1/2 is one standard deviation, this is 1.4 % of one.
DECREMENT = 1e-4
# The same before the features' own scales are in use: near enough for those scales to mean noise.
APPROACH = 1e-2
# Stop once an accepted step lowers the cost by less than this share: noise-free fits end here.
RELATIVE_GAIN = 1e-9

# A fit past its budget goes on while its last PATIENCE evaluations lowered the cost by this share, at most EXTENSION times
# the budget: a start far off needs many steps, and what is cut short there explains nothing.
WORTHWHILE, PATIENCE, EXTENSION = 0.01, 8, 10

# Nielsen doubles the growth of the damping after each failure; 4 saves roll-outs, which cost more than short steps.
GROWTH = 4.0


class Ending(enum.Enum):
    """Why the minimiser stopped; the text is the remedy."""

    CONVERGED = "converged"
    EVALUATIONS = "evaluation budget spent before convergence, and the last steps gained little: raise max_evaluations or start nearer"
    TIME = "time budget spent before convergence: raise time_budget or shorten the window"
    STALLED = "no step lowers the cost: the start lies in a flat or non-finite region, try another start"
    NOT_FINITE = "the model does not roll out from the start: check parameters, state and controls for extremes"


@dataclass(frozen=True)
class Solution:
    """Where the minimiser ended.

    Attributes:
        theta: (n,). scale: of the residuals (ny,), NaN where no roll-out could tell.
        model: roll-out and equations at theta; None for a start that did not roll out.
        evaluations, costs: roll-outs with sensitivities, and the cost after each accepted step.
    """

    theta: np.ndarray
    model: tuple[Rollout, NormalEquations] | None
    scale: np.ndarray
    ending: Ending
    evaluations: int
    costs: list[float]

    @property
    def rolled_out(self) -> bool:
        """There are a roll-out and equations."""
        return self.model is not None

    @property
    def rollout(self) -> Rollout:
        """At theta.

        Raises:
            ValueError: the start did not roll out.
        """
        return self._reached()[0]

    @property
    def normal(self) -> NormalEquations:
        """At theta.

        Raises:
            ValueError: the start did not roll out.
        """
        return self._reached()[1]

    @property
    def starts(self) -> np.ndarray:
        return self.rollout.starts

    def _reached(self) -> tuple[Rollout, NormalEquations]:
        if self.model is None:
            raise ValueError(f"expected a solution that rolled out, found none ({self.ending.value})")
        return self.model


@single_threaded
def minimise(
    problem: ShootingProblem,
    theta: np.ndarray,
    starts: np.ndarray | None = None,
    max_evaluations: int = 20,
    time_budget: float = np.inf,
    scale: np.ndarray | None = None,
    extension: int = EXTENSION,
) -> Solution:
    """Levenberg-Marquardt from `theta`; bounds by an active set, damping by Nielsen's rule.

    Args:
        problem: residuals, normal equations and bounds.
        theta: start, shape (n,).
        starts: segment starts, shape (S, nx); the measured states by default.
        max_evaluations: roll-outs with sensitivities, the costly part, after which the fit goes on only while the last
            of them gained something, at most `extension` times as many.
        time_budget: wall time [s] after which the best point so far is returned; inf for results that
            do not depend on the machine.
        scale: fixed residual scales, shape (ny,); estimated along the way by default.
    """
    fixed_scale = scale is not None
    theta = np.clip(theta, problem.lower, problem.upper)
    rollout = _evaluate(problem, theta, problem.measured_starts if starts is None else starts)
    deadline = time.perf_counter() + time_budget  # after the first roll-out, which may compile its kernel
    if rollout is None:
        return _nowhere(problem, theta, scale)
    scale = problem.common_scale(rollout) if scale is None else scale
    final = fixed_scale  # do the scales have their final form?
    normal = _normal_equations(problem, rollout, scale)
    if normal is None:
        return _nowhere(problem, theta, scale)
    evaluations, costs = 1, [normal.cost]
    gained = [0.0]  # logarithm of the factor by which the cost has fallen, after each evaluation
    damping, growth = 1e-3, GROWTH
    while True:
        if 0.0 <= _damped_step(problem, rollout.theta, normal, 0.0)[1] < (DECREMENT if final else APPROACH):
            if final:
                ending = Ending.CONVERGED
                break
            final, damping, growth = True, 1e-3, GROWTH
            scale = problem.own_scale(rollout, normal.leverage)
            normal = problem.normal_equations(rollout, scale)
            continue
        if evaluations >= max_evaluations and (
            evaluations >= extension * max_evaluations or not _gains(gained, max_evaluations)
        ):
            ending = Ending.EVALUATIONS
            break
        if time.perf_counter() > deadline:
            ending = Ending.TIME
            break
        if damping > 1e12:
            ending = Ending.STALLED
            break
        step, promised = _damped_step(problem, rollout.theta, normal, damping)
        if promised <= 0.0:
            damping, growth = damping * growth, GROWTH * growth
            continue
        moved = normal.start_step + normal.start_slope @ step
        trial = _evaluate(problem, rollout.theta + step, rollout.starts + moved)
        trial_normal = None if trial is None else _normal_equations(problem, trial, scale)
        evaluations += 1
        gained.append(gained[-1])
        if trial is None or trial_normal is None or not (gain := normal.cost - trial_normal.cost) > 0.0:
            damping, growth = damping * growth, GROWTH * growth
            continue
        damping *= max(1.0 / 3.0, 1.0 - (2.0 * gain / promised - 1.0) ** 3)
        growth = GROWTH
        flat = gain < RELATIVE_GAIN * normal.cost
        gained[-1] += np.log(normal.cost / max(trial_normal.cost, np.finfo(float).tiny))
        rollout, normal = trial, trial_normal
        costs.append(normal.cost)
        if flat and final:
            ending = Ending.CONVERGED
            break
        if not fixed_scale:
            final = final or flat
            scale = problem.own_scale(rollout, normal.leverage) if final else problem.common_scale(rollout)
            normal = problem.normal_equations(rollout, scale)
    return Solution(rollout.theta, (rollout, normal), scale, ending, evaluations, costs)


def _gains(gained: list[float], budget: int) -> bool:
    """Did the last evaluations, PATIENCE or as many as the budget has, lower the cost by a worthwhile share?"""
    return gained[-1] - gained[-1 - min(PATIENCE, budget, len(gained) - 1)] > WORTHWHILE


def _nowhere(problem: ShootingProblem, theta: np.ndarray, scale: np.ndarray | None) -> Solution:
    unknown = np.full_like(problem.floor, np.nan)
    return Solution(theta, None, unknown if scale is None else scale, Ending.NOT_FINITE, 1, [])


def _evaluate(problem: ShootingProblem, theta: np.ndarray, starts: np.ndarray) -> Rollout | None:
    """Roll-out, or None where it diverges."""
    with np.errstate(over="ignore", invalid="ignore"):
        p = problem.spec.to_physical(theta[: problem.spec.n])
        if not (np.isfinite(p).all() and np.isfinite(starts).all()):
            return None
        rollout = problem.evaluate(theta, starts)
    finite = np.isfinite(rollout.residual).all() and np.isfinite(rollout.jacobian).all()
    return rollout if finite else None


def _normal_equations(problem: ShootingProblem, rollout: Rollout, scale: np.ndarray) -> NormalEquations | None:
    """Normal equations, or None where a segment does not determine its start."""
    try:
        normal = problem.normal_equations(rollout, scale)
    except np.linalg.LinAlgError:
        return None
    return normal if np.isfinite(normal.cost) else None


def _damped_step(
    problem: ShootingProblem, theta: np.ndarray, normal: NormalEquations, damping: float
) -> tuple[np.ndarray, float]:
    """Step within the bounds and the cost reduction the quadratic model promises for it.

    (H + damping diag H) step = -g over the free coordinates. Coordinates that would cross a
    bound stop on it, and the others are solved again with those displacements given.
    """
    H, g = normal.hessian, normal.gradient
    A = H + damping * np.diag(np.diag(H))
    step = np.zeros_like(theta)
    free = np.ones(len(theta), bool)
    while free.any():
        pull = g[free] + A[np.ix_(free, ~free)] @ step[~free]
        step[free] = solve_definite(A[np.ix_(free, free)], -pull[:, None])[:, 0]
        bounded = np.clip(theta + step, problem.lower, problem.upper) - theta
        crossing = free & (bounded != step) & (np.abs(bounded - step) > 1e-12 * (1.0 + np.abs(theta)))
        step[crossing] = bounded[crossing]
        if not crossing.any():
            break
        free &= ~crossing
    promised = -float(g @ step + 0.5 * step @ H @ step) + normal.start_gain
    return step, promised
