"""Observation maps: what is measured, as a differentiable function of state and parameters."""

from __future__ import annotations

import casadi as ca

from sim_core.multibody.model import build
from sim_core.multibody.model.model import RobotModel

__all__ = ["frame_positions", "observed"]


def frame_positions(model: RobotModel, *frames: str) -> ca.Function:
    """f(x, p) -> world positions (3 len(frames),) [m] of sites or bodies."""
    x, p = ca.SX.sym("x", model.nx), ca.SX.sym("p", model.np_)
    return ca.Function(
        "frame_positions", [x, p], [ca.vertcat(*(build.frame_position(model, f)(x[: model.nq], p) for f in frames))]
    )


def observed(observe: ca.Function | None, x: ca.SX, p: ca.SX, np_: int) -> ca.SX:
    """SX column of the observations of a state x under parameters p (np_,).

    Args:
        observe: CasADi function of x, or of x and p, with one output; None for the state itself.

    Raises:
        ValueError: a function of something else.
    """
    if observe is None:
        return x
    sizes = [observe.size_in(i) for i in range(observe.n_in())]
    if sizes not in ([(x.numel(), 1)], [(x.numel(), 1), (np_, 1)]) or observe.n_out() != 1:
        raise ValueError(
            f"observation map: expected a function of x ({x.numel()},), or of x and p ({np_},), with one output; found {observe}"
        )
    return ca.densify(ca.vec(observe(*(x, p)[: len(sizes)])))
