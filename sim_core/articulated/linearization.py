"""Jacobians of a step from inverse dynamics instead of through the articulated-body recursion.

The acceleration of the one-stage integrators solves g(a; q, v, u, p) = 0 with dg/da = M + h K, so by the implicit
function theorem da/dz = -(M + h K)^-1 dg/dz. Inverse dynamics is half as long as forward dynamics and its derivative by
a parameter touches few rows: Panda, dx'/dx and dx'/dp for ten parameters of the hand: 14 700 operations against 31 000
by differentiating the step. Same values to rounding.

Source: Carpentier, Mansard, Analytical Derivatives of Rigid Body Dynamics Algorithms, RSS 2018 (the idea; here CasADi
differentiates the inverse dynamics).
"""

import casadi as ca

from . import derivatives
from .dynamics import aba, crba, rnea
from .forces import actuator_force, passive_force, velocity_feedback
from .physical import Physical

__all__ = ["step_jacobian"]

ONE_STAGE = ("semi_implicit_euler", "mujoco_euler", "implicitfast")


def step_jacobian(model, step, dt, integrator=None, of="xu", parameters=None):
    """f(x, u, p) -> x' and Jacobians, as `derivatives.step_jacobian(step, of, parameters)`.

    Args:
        step: `build.step(model, dt, integrator)`; differentiated as it is where the integrator has several stages.
    """
    integrator = integrator or model.integrator
    if integrator not in ONE_STAGE:
        return derivatives.step_jacobian(step, of, parameters)
    x, u, p = step.sx_in()
    q, v, a = x[: model.nq], x[model.nq :], ca.SX.sym("a", model.nv)
    columns = {"x": x, "u": u, "p": p if parameters is None else p[list(parameters)]}
    z = ca.vertcat(*(columns[name] for name in of))

    a_value, residual, M = _equation(model, q, v, u, p, a, dt, integrator)
    da = ca.substitute(-_solve_symmetric(M, ca.jacobian(residual, z)), a, a_value)
    # v' = v + h a, q' = q + h v'
    dv = ca.jacobian(v, z) + dt * da
    dq = ca.jacobian(q, z) + dt * dv
    v_next = v + dt * a_value
    return derivatives.jacobian_function([x, u, p], ca.vertcat(q + dt * v_next, v_next), ca.vertcat(dq, dv),
                                         [columns[name].shape[0] for name in of])


def _equation(model, q, v, u, p, a, h, integrator):
    """Acceleration (nv,), the residual that vanishes there as a function of `a`, and its derivative (nv, nv)."""
    passive, driven = passive_force(model, q, v, p), actuator_force(model, q, v, u, p)
    force = passive + driven
    implicit = {"semi_implicit_euler": None, "mujoco_euler": passive, "implicitfast": force}[integrator]
    hK = ca.SX.zeros(model.nv) if implicit is None else h * velocity_feedback(implicit, v)
    solution = aba(model, q, v, force, p, Physical(model, p).armature + hK)
    return solution, rnea(model, q, v, a, p) + hK * a - force, crba(model, q, p) + ca.diag(hK)


def _solve_symmetric(M, B):
    """M^-1 B for symmetric positive M by L D L'; structural zeros of M and B cost nothing."""
    n = M.shape[0]
    L, D = [[0] * n for _ in range(n)], [0] * n
    for j in range(n):
        D[j] = M[j, j] - sum(L[j][k] ** 2 * D[k] for k in range(j))
        for i in range(j + 1, n):
            L[i][j] = (M[i, j] - sum(L[i][k] * L[j][k] * D[k] for k in range(j))) / D[j]
    X = [B[i, :] for i in range(n)]
    for i in range(n):
        X[i] = X[i] - sum((L[i][k] * X[k] for k in range(i)), start=ca.SX(1, B.shape[1]))
    X = [row / d for row, d in zip(X, D)]
    for i in reversed(range(n)):
        X[i] = X[i] - sum((L[k][i] * X[k] for k in range(i + 1, n)), start=ca.SX(1, B.shape[1]))
    return ca.vertcat(*X)
