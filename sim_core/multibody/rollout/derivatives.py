"""Derivatives of a step function x' = step(x, u, p) as further CasADi functions, exact by construction."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

__all__ = ["step_vjp", "step_jacobian"]


def step_vjp(step: ca.Function) -> ca.Function:
    """f(x, u, p, lambda', pbar) -> lambda (nx,), ubar (nu,), pbar + share (np_,): one step of a reverse sweep.

    lambda = (dx'/dx)' lambda', ubar = (dx'/du)' lambda', share = (dx'/dp)' lambda'. The parameters' gradient is
    passed through, so that its sum over time costs no extra pass.
    """
    x, u, p = step.sx_in()
    x_next = step(x, u, p)
    after, pbar = ca.SX.sym("lambda", x.shape[0]), ca.SX.sym("pbar", p.shape[0])
    gradient = ca.jtimes(x_next, ca.vertcat(x, u, p), after, True)
    before, ubar, share = ca.vertsplit(gradient, [0, x.shape[0], x.shape[0] + u.shape[0], gradient.shape[0]])
    return _function("step_vjp", [x, u, p, after, pbar], [before, ubar, pbar + share])


def step_jacobian(step: ca.Function, of: str = "xu", parameters: Sequence[int] | None = None) -> ca.Function:
    """f(x, u, p) -> x' and its Jacobians with respect to the arguments named in `of`, e.g. "xp".

    Args:
        parameters: indices of p to differentiate by; default all.
    """
    x, u, p = step.sx_in()
    columns = {"x": x, "u": u, "p": p if parameters is None else p[list(parameters)]}
    x_next = step(x, u, p)
    J = ca.jacobian(x_next, ca.vertcat(*(columns[name] for name in of)))
    return jacobian_function([x, u, p], x_next, J, [columns[name].shape[0] for name in of])


def jacobian_function(inputs: Sequence[ca.SX], x_next: ca.SX, J: ca.SX, widths: Sequence[int]) -> ca.Function:
    """f(inputs) -> x_next and the blocks of J (nx, sum of widths) with `widths` columns each."""
    ends = [sum(widths[:i]) for i in range(len(widths) + 1)]
    return _function("step_jac", inputs, [x_next, *ca.horzsplit(J, ends)])


def _function(name: str, inputs: Sequence[ca.SX], outputs: Sequence[ca.SX]) -> ca.Function:
    return ca.Function(name, inputs, ca.cse([ca.densify(ca.SX(y)) for y in outputs]))
