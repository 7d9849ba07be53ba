"""Jacobians of a step from inverse dynamics instead of through the articulated-body recursion.

The acceleration of the one-stage integrators solves g(a; q, v, u, p) = 0 with dg/da = M + h K, so by the implicit
function theorem da/dz = -(M + h K)^-1 dg/dz. Inverse dynamics is half as long as forward dynamics and its derivative by
a parameter touches few rows: Panda, dx'/dx and dx'/dp for ten parameters of the hand: 14 700 operations against 31 000
by differentiating the step. Same values to rounding. Constrained friction adds one equation of the same kind before it.

Source: Carpentier, Mansard, Analytical Derivatives of Rigid Body Dynamics Algorithms, RSS 2018 (the idea; here CasADi
differentiates the inverse dynamics).
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from sim_core.multibody.equations.configuration import integrate_position
from sim_core.multibody.equations.dynamics import crba, rnea
from sim_core.multibody.equations.friction import (
    constrained_acceleration,
    forward_dynamics,
    friction_force,
    sticking_inertia,
)
from sim_core.multibody.equations.symmetric import solve_symmetric
from sim_core.multibody.model.forces import resisting_force
from sim_core.multibody.model.integrators import ONE_STAGE
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.rollout import derivatives

__all__ = ["step_jacobian"]


def step_jacobian(
    model: RobotModel,
    step: ca.Function,
    dt: float,
    integrator: str | None = None,
    of: str = "xu",
    parameters: Sequence[int] | None = None,
) -> ca.Function:
    """f(x, u, p) -> x' and Jacobians, as `derivatives.step_jacobian(step, of, parameters)`.

    Args:
        step: `build.step(model, dt, integrator)`; differentiated as it is where the integrator has several stages, or
            impulses follow on the acceleration.
    """
    integrator = integrator or model.integrator
    if integrator not in ONE_STAGE or model.options.contact == "impulse":
        return derivatives.step_jacobian(step, of, parameters)
    x, u, p = step.sx_in()
    q, v = x[: model.nq], x[model.nq :]
    columns = {"x": x, "u": u, "p": p if parameters is None else p[list(parameters)]}
    z = ca.vertcat(*(columns[name] for name in of))

    tau, K = resisting_force(model, q, v, u, p, with_actuators=integrator == "implicitfast")
    hK = ca.SX(model.nv, model.nv) if integrator == "semi_implicit_euler" else dt * K
    derivative = _acceleration_jacobian if model.friction is None else _constrained_acceleration_jacobian
    a, da = derivative(model, q, v, tau, p, dt, hK, z)
    # v' = v + h a; q' follows from q and v'.
    dv = ca.jacobian(v, z) + dt * da
    v_next = ca.SX.sym("v_next", model.nv)
    q_next = integrate_position(model, q, v_next, dt)
    dq = ca.jacobian(q_next, q) @ ca.jacobian(q, z) + ca.jacobian(q_next, v_next) @ dv
    q_next, dq = ca.substitute([q_next, dq], [v_next], [v + dt * a])
    return derivatives.jacobian_function(
        [x, u, p], ca.vertcat(q_next, v + dt * a), ca.vertcat(dq, dv), [columns[name].shape[0] for name in of]
    )


def _acceleration_jacobian(
    model: RobotModel, q: ca.SX, v: ca.SX, tau: ca.SX, p: ca.SX, h: float, hK: ca.SX, z: ca.SX
) -> tuple[ca.SX, ca.SX]:
    """a (nv,) with (M + hK) a + bias = tau, and da/dz."""
    a = ca.SX.sym("a", model.nv)
    residual = rnea(model, q, v, a, p) + hK @ a - tau
    da = -solve_symmetric(crba(model, q, p) + hK, ca.jacobian(residual, z))
    value = forward_dynamics(model, q, v, tau, p, h, hK)
    return value, ca.substitute(da, a, value)


def _constrained_acceleration_jacobian(
    model: RobotModel, q: ca.SX, v: ca.SX, tau: ca.SX, p: ca.SX, h: float, hK: ca.SX, z: ca.SX
) -> tuple[ca.SX, ca.SX]:
    """a (nv,) with (M + hK) a + bias = tau + phi, and da/dz; phi is the friction force at c, M c + bias = tau + phi(c).

    The first residual is the second's plus M (a - c) + hK a.
    """
    a, c, zone = ca.SX.sym("a", model.nv), ca.SX.sym("c", model.nv), ca.SX.sym("zone", model.nv)
    M, sticking = crba(model, q, p), sticking_inertia(model, zone)
    dg = ca.jacobian(rnea(model, q, v, c, p) - tau - friction_force(model, v, c, zone, p, h), z)
    dc = -solve_symmetric(M + ca.diag(sticking), dg)
    dg += ca.jacobian(M @ (a - c) + hK @ a, z) + ca.diag(sticking) @ dc
    da = -solve_symmetric(M + hK, dg)
    f = tau - rnea(model, q, v, ca.SX.zeros(model.nv), p)
    c_value, zone_value = constrained_acceleration(model, M, f, v, p, h)
    value = solve_symmetric(M + hK, f + friction_force(model, v, c_value, zone_value, p, h))
    return value, ca.substitute([da], [a, c, zone], [value, c_value, zone_value])[0]
