"""Observation maps: what is measured as a differentiable function of the state, compiled with its transposed Jacobian."""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core.articulated import build
from sim_core.codegen import compile_library

__all__ = ["Observation", "frame_positions"]


class Observation:
    """y = h(x) or y = h(x, p) over any batch of states, and its reverse.

    Args:
        function: CasADi SX function of x (nx,), or of x and the physical vector p (np_,), with one output (ny,).

    Attributes:
        ny: length of y. entries: the positions in p that y depends on.

    Raises:
        ValueError: inputs or outputs that are not these.
    """

    def __init__(self, function, nx: int, np_: int):
        inputs = [function.size_in(i) for i in range(function.n_in())]
        if inputs not in ([(nx, 1)], [(nx, 1), (np_, 1)]) or function.n_out() != 1:
            raise ValueError(
                f"observation map: expected a function of x ({nx},), or of x ({nx},) and p ({np_},), with one output; "
                f"found {function}"
            )
        x, p = ca.SX.sym("x", nx), ca.SX.sym("p", np_)
        y = ca.densify(ca.vec(function(*(x, p)[: len(inputs)])))
        self.ny, self.entries = y.numel(), sorted(set(ca.jacobian_sparsity(y, p).get_triplet()[1]))
        # Few entries of p matter, and every sample of every particle is given a copy of its own.
        few, ybar = p[self.entries], ca.SX.sym("ybar", self.ny)
        xbar, fewbar = (ca.densify(ca.jtimes(y, wrt, ybar, True)) for wrt in (x, few))
        self._library = compile_library("refit_observation", {
            "observe": ca.Function("observe", [x, few], [y]),
            "pullback": ca.Function("pullback", [x, few, ybar], [xbar, fewbar]),
        })

    def __call__(self, X, p):
        """y (..., ny) of states X (..., nx) under parameters p (np_,) or (..., np_)."""
        return self._library.call("observe", X, self._few(p))[0]

    def pullback(self, X, p, ybar):
        """dL/dX (..., nx), and dL/dp of `entries` for every state by itself (..., len(entries)), from dL/dy (..., ny)."""
        return self._library.call("pullback", X, self._few(p), ybar)

    def _few(self, p):
        return np.ascontiguousarray(np.asarray(p, dtype=float)[..., self.entries])


def frame_positions(model, *frames):
    """CasADi function (x, p) -> world positions (3 len(frames),) [m] of sites or bodies, for `observe`."""
    x, p = ca.SX.sym("x", model.nx), ca.SX.sym("p", model.np_)
    positions = [build.frame_position(model, frame)(x[: model.nq], p) for frame in frames]
    return ca.Function("frame_positions", [x, p], [ca.vertcat(*positions)])
