"""What every System is held to, whatever it is made of."""

import numpy as np
from scipy.optimize import minimize

from sim_core.control.plan import IlqrStatus


def central_differences(f, at, step=1e-6):
    """df/d at, (..., at.size) of f(at) (...)."""
    columns = []
    for i in range(at.size):
        e = np.zeros(at.size)
        e[i] = step
        e = e.reshape(at.shape)
        columns.append((f(at + e) - f(at - e)) / (2 * step))
    return np.stack(columns, axis=-1)


def assert_close(found, expected, tolerance=1e-7):
    scale = max(np.abs(expected).max(), 1.0)
    assert np.abs(np.reshape(found, np.shape(expected)) - expected).max() < tolerance * scale


def check_derivatives(system, x, u, U, p):
    """Linearisation, reverse sweep and sensitivities against central differences."""
    A, B = system.linearize(x, u, p)
    assert_close(A, central_differences(lambda x: system.step(x, u, p), x))
    assert_close(B, central_differences(lambda u: system.step(x, u, p), u))
    X = system.rollout(x, U, p)
    Xbar = np.random.default_rng(0).standard_normal(X.shape)
    L = lambda x, U, p: (system.rollout(x, U, p) * Xbar).sum()
    x0bar, Ubar, pbar = system.rollout_vjp(x, U, p, X, Xbar)
    assert_close(x0bar, central_differences(lambda a: L(a, U, p), x))
    assert_close(Ubar.ravel(), central_differences(lambda a: L(x, a, p), U))
    assert_close(pbar, central_differences(lambda a: L(x, U, a), p))
    D = np.random.default_rng(1).standard_normal((system.np_, 2))
    X_again, Z = system.rollout_sensitivity(x, U, p, D)
    assert np.array_equal(X_again, X)
    assert_close(Z[..., : system.nx], central_differences(lambda a: system.rollout(a, U, p), x))
    assert_close(Z[..., system.nx :], central_differences(lambda a: system.rollout(x, U, p + D @ a), np.zeros(2)))


def check_batches(system, X, U, p):
    """A row's result does not depend on its neighbours, nor on how the batch is written; a lost row stays its own."""
    x0 = X[:, 0]
    P = p * np.linspace(0.9, 1.1, 3)[:, None]
    together = system.rollout(x0, U, P[:, None])
    assert together.shape == (3, *X.shape)
    for i in range(3):
        for r in range(len(X)):
            assert_close(together[i, r], system.rollout(x0[r], U[r], P[i]), 1e-12)
    far = np.stack([x0[0], np.full(system.nx, 1e200)])
    alone = system.rollout(far, U[0], p)
    assert_close(alone[0], system.rollout(x0[0], U[0], p), 1e-12)
    assert np.isfinite(alone[0]).all()


def plan_by_scipy(system, cost, x0, U0, p, reference):
    """Cost of the best controls in the box by L-BFGS, with the gradient by one reverse sweep."""

    def objective(flat):
        U = flat.reshape(U0.shape)
        X = system.rollout(x0, U, p)
        lx, lu, *_ = cost.stage_quadratic(X[:-1], U, p, reference[:-1])
        end, _ = cost.final_quadratic(X[-1], p, reference[-1])
        _, Ubar, _ = system.rollout_vjp(x0, U, p, X, np.vstack([lx, end]))
        J = cost.stage(X[:-1], U, p, reference[:-1]).sum() + cost.final(X[-1], p, reference[-1])
        return float(J), (Ubar + lu).ravel()

    bounds = list(zip(np.tile(system.u_lower, len(U0)), np.tile(system.u_upper, len(U0))))
    found = minimize(
        objective, U0.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 2000, "ftol": 1e-15}
    )
    return found.fun, found.x.reshape(U0.shape)


def check_plan(solver, x0, U0, reference):
    """Costs of single iterations never rise, and the plan they end at is scipy's optimum."""
    costs = [solver.solve(x0, U0, reference=reference, iterations=1).cost]
    while len(costs) < 100:
        result = solver.solve(x0, iterations=1)
        costs.append(result.cost)
        if result.status is IlqrStatus.CONVERGED and costs[-2] - costs[-1] <= 1e-9 * costs[-1]:
            break
    assert (np.diff(costs) <= 1e-12 * costs[0]).all() and costs[-1] < costs[0]
    best, U = plan_by_scipy(solver.system, solver.cost, x0, result.U, solver.p, reference)
    assert result.cost <= best * (1 + 1e-6) and np.abs(result.U - U).max() < 1e-2 * np.ptp(U)
    assert (result.U >= solver.u_lower).all() and (result.U <= solver.u_upper).all()
    return result
