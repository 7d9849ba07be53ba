"""The published refit recipe: L-BFGS on the one-step prediction error.

    argmin_xi  sum_t | f(x_t, u_t, p(xi)) - x_{t+1} |^2 / std^2        (Eq. 2.6)

Residuals are divided by each feature's standard deviation over the data, a choice that the
source leaves open. No prior, no robust loss, no uncertainty weighting: it is here to be
compared with. Give it a spec whose coordinates are the raw physical numbers.

Source: Heiden, PhD thesis (USC 2022), Algorithm 3 and Eq. 2.6.
"""

import numpy as np
from scipy.optimize import minimize

from sim_core.inference.fit.least_squares import Ending, Solution
from sim_core.inference.shooting.shooting import ShootingProblem

__all__ = ["minimise_one_step"]


def minimise_one_step(problem: ShootingProblem, xi0: np.ndarray, iterations: int = 10) -> Solution:
    """L-BFGS from xi0 on a one-step problem with measured starts.

    Args:
        problem: segments of one step, fixed starts, Gaussian loss.
        iterations: cap on L-BFGS iterations (the source: 30, typically done within 10).
    """
    spread = np.std(problem.observed.reshape(-1, problem.nx), axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0)
    evaluations = 0
    costs: list[float] = []

    def objective(xi: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations
        evaluations += 1
        with np.errstate(all="ignore"):
            rollout = problem.evaluate(xi, problem.measured_starts)
            r = rollout.residual / scale
            slope = np.einsum("ski,skij->j", r / scale, rollout.jacobian[..., problem.nx :])
        cost = 0.5 * float(np.sum(r * r))
        if not (np.isfinite(cost) and np.isfinite(slope).all()):
            return 1e30, np.zeros_like(xi)  # the line search backs off
        costs.append(cost)
        return cost, slope

    start = np.clip(xi0, problem.lower, problem.upper)
    bounds = list(zip(problem.lower, problem.upper))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations})
    rollout = problem.evaluate(found.x, problem.measured_starts)
    ending = Ending.CONVERGED if found.status == 0 else Ending.EVALUATIONS
    if not np.isfinite(rollout.residual).all():
        ending = Ending.NOT_FINITE
    normal = problem.normal_equations(rollout, scale)
    return Solution(found.x, (rollout, normal), scale, ending, evaluations, costs)
