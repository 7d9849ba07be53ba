"""All windows of all particles simulated, held against the data and differentiated in one call of a compiled kernel.

The parameters' map p(theta) is part of the step, so that constants fold away and the reverse sweep carries theta's
gradient alone; observation map and loss are part of the kernel too. Nothing as long as a trajectory is written to memory.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import casadi as ca
import numpy as np

from sim_core.codegen import compile_library
from sim_core.codegen.library import check, pointers

from .observation import observed

__all__ = ["HUBER", "ShootingKernel"]

HUBER = 1.345  # residuals beyond this many sigma count linearly: 95 % efficient where noise is Gaussian after all
SOURCE = Path(__file__).parent / "runtime" / "shooting.c"
_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


class ShootingKernel:
    """Misfit and defects of windows, and their gradients.

    Args:
        dynamics: Dynamics.
        parameters: `expression` (SX of p by theta) and n.
        observe: CasADi function y = h(x) or h(x, p), or None for the state.
        loss: "gaussian" or "huber".

    Raises:
        ValueError: an observation map with other inputs.
    """

    def __init__(self, dynamics, parameters, observe, loss: str):
        self.dynamics, self.n = dynamics, parameters.n
        x, u, theta = ca.SX.sym("x", dynamics.nx), ca.SX.sym("u", dynamics.nu), ca.SX.sym("theta", self.n)
        p = parameters.expression(theta)
        self._step = _function("step", [x, u, theta], [dynamics._step(x, u, p)])
        y = observed(observe, x, p, dynamics.np_)
        self.ny, self._misfit, self._libraries = y.numel(), _misfit(x, theta, y, loss), {}

    def __call__(self, start, theta, U, y, per_defect, per_sigma, multipliers=None, damping=1.0, form="vector", separate=False,
                 gradient=True):
        """
        Args:
            start: start states (W, nx), or (N, W, nx).
            theta: (N, n). U: (W, H, nu). y: (W, H+1, ny), of which the first sample is not used. per_sigma: (ny,).
            per_defect: (W, nx), 1 / unit of the defect; 0 for a window that ends its trajectory.
            multipliers: (N, W, nx) for form "vector", (N, W, 1) for "squared"; None: 0.
            separate: gradients of misfit and of the pull on defects apart; else of their sum.

        Returns:
            misfit (N, W): sum of the loss over samples and observations.
            d (N, W, nx): (next window's start - end) per_defect.
            startbar (N, W, nx, 2) or (.., 1), thetabar (N, W, n, 2 or 1): gradients of misfit, and of the end states' part
            of pull' d with pull = (multipliers + damping g) dg/dd held constant. Undefined without `gradient`.
        """
        N, W, H = len(theta), len(y), y.shape[1] - 1
        lead, seeds, width = (N, W), 2 if separate else 1, self.dynamics.nx if form == "vector" else 1
        if multipliers is None:
            multipliers = np.zeros((*lead, width))
        dtype = self.dynamics.dtype
        arrays = [np.ascontiguousarray(a, dtype) for a in (start, theta, U, y, per_defect, per_sigma, multipliers)]
        expected = [(*lead[2 - np.ndim(start) + 1:], self.dynamics.nx), (N, self.n), (W, H, self.dynamics.nu), (W, H + 1, self.ny),
                    (W, self.dynamics.nx), (self.ny,), (*lead, width)]
        if (found := [a.shape for a in arrays]) != expected:
            raise ValueError(f"shooting: expected arrays of shapes {expected}, found {found}")
        out = [np.empty((*lead, *core), dtype) for core in ((), (self.dynamics.nx,), (self.dynamics.nx, seeds), (self.n, seeds))]
        library = self._library(seeds, form, N * W == 1)
        if N and library.compiled:
            symbol = library.symbol("shooting", [_POINTER, _POINTER, ctypes.c_double, _INT64, _INT64, _INT64, _INT, _INT, _INT, _INT])
            check(symbol(pointers(arrays), pointers(out), damping, N, W, H, self.dynamics.substeps, np.ndim(start) == 3, gradient,
                         self.dynamics.threads))
        elif N:
            self._in_python(library, arrays, out, damping, gradient)
        return out

    def _library(self, seeds, form, single):
        key = seeds, form, single
        if key not in self._libraries:
            functions = {"step": self._step, "step_vjp": _step_vjp(self._step, seeds), "misfit": self._misfit,
                         "defect": _defect(self.dynamics.nx, form)}
            self._libraries[key] = compile_library(
                "refit_shooting", functions, [SOURCE], dtype=self.dynamics.dtype.name, lanes=1 if single else self.dynamics._lanes,
                defines={"SEEDS": seeds},
            )
        return self._libraries[key]

    def _in_python(self, library, arrays, out, damping, gradient):
        """shooting.c over CasADi's virtual machine."""
        start, theta, U, y, per_defect, per_sigma, multipliers = arrays
        misfit, d, startbar, thetabar = out
        (N, W), seeds, H = misfit.shape, startbar.shape[-1], U.shape[1]
        whole = lambda a: np.broadcast_to(a, (N, W, *a.shape[-1:]))  # noqa: E731
        theta = whole(theta[:, None])
        X = [whole(start).copy()]
        for k in range(H):
            X.append(self._advance(library, X[-1], whole(U[:, k]), theta)[-1])
        following = np.roll(whole(start), -1, axis=1)
        d[...], seed = library.call("defect", X[H], following, whole(per_defect), multipliers, np.full((N, W, 1), damping))
        startbar[...], thetabar[...], misfit[...] = 0.0, 0.0, 0.0
        lam, total = startbar.copy(), thetabar.copy()
        lam[..., -1] = seed
        for k in range(H, 0, -1):
            rho, xbar, tbar = library.call("misfit", X[k], theta, whole(y[:, k]), per_sigma)
            misfit += rho[..., 0]
            if gradient:
                lam[..., 0] += xbar
                total[..., 0] += tbar
                u = whole(U[:, k - 1])
                for x in reversed(self._advance(library, X[k - 1], u, theta)[:-1]):
                    lam, total = (a.reshape(N, W, -1, seeds) for a in library.call("step_vjp", x, u, theta, *_columns(lam, total)))
        startbar[...], thetabar[...] = lam, total

    def _advance(self, library, x, u, theta):
        states = [x]
        for _ in range(self.dynamics.substeps):
            states += library.call("step", states[-1], u, theta)
        return states


def _misfit(x, theta, y, loss: str):
    """f(x, theta, measured, per_sigma) -> rho and its gradients with respect to x and theta."""
    measured, per_sigma = ca.SX.sym("measured", y.numel()), ca.SX.sym("per_sigma", y.numel())
    r = (y - measured) * per_sigma
    if loss == "huber":
        inner = ca.fmax(ca.fmin(r, HUBER), -HUBER)
        rho = ca.dot(inner, r - inner / 2)
    else:
        rho = ca.dot(r, r) / 2
    return _function("misfit", [x, theta, measured, per_sigma], [rho, ca.gradient(rho, x), ca.gradient(rho, theta)])


def _step_vjp(step, seeds: int):
    """f(x, u, theta, lambda' (nx, seeds), thetabar (n, seeds)) -> lambda, thetabar + this step's share."""
    x, u, theta = step.sx_in()
    after, thetabar = ca.SX.sym("lambda", x.numel(), seeds), ca.SX.sym("thetabar", theta.numel(), seeds)
    gradient = ca.jtimes(step(x, u, theta), ca.vertcat(x, theta), after, True)
    before, share = ca.vertsplit(gradient, [0, x.numel(), x.numel() + theta.numel()])
    return _function("step_vjp", [x, u, theta, after, thetabar], [before, thetabar + share])


def _defect(nx: int, form: str):
    """f(end, next, per_defect, multipliers, damping) -> d, and what the reverse sweep starts with at `end`."""
    end, following, per = (ca.SX.sym(name, nx) for name in ("end", "next", "per_defect"))
    multipliers, damping = ca.SX.sym("multipliers", nx if form == "vector" else 1), ca.SX.sym("damping")
    d = (following - end) * per
    return _function("defect", [end, following, per, multipliers, damping], [d, -per * pull(d, multipliers, damping, form)])


def pull(d, multipliers, damping, form: str):
    """(multipliers + damping g) dg/dd, as SX (nx,) or arrays (..., nx): g = d for form "vector", |d|^2 for "squared".

    Raises:
        ValueError: another form.
    """
    if form == "vector":
        return multipliers + damping * d
    if form == "squared":
        square = ca.dot(d, d) if isinstance(d, ca.SX) else np.sum(d * d, axis=-1, keepdims=True)
        return 2 * d * (multipliers + damping * square)
    raise ValueError(f"form: expected 'vector' or 'squared', found '{form}'")


def _columns(*arrays):
    """Matrices of one column as the vectors that functions of one column take."""
    return [np.ascontiguousarray(a[..., 0]) if a.shape[-1] == 1 else a for a in arrays]


def _function(name, inputs, outputs):
    return ca.Function(name, inputs, ca.cse([ca.densify(ca.simplify(ca.SX(y))) for y in outputs]))
