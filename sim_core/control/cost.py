"""Horizon costs: weighted squares of residuals over one knot.

    J = sum_k e(x_k, u_k, p, r_k)' W e + (u_k - u_{k-1})' S (u_k - u_{k-1}) + e(x_H, p, r_H)' W_f e

A term contributes residuals e_i, their weights, and the reference entries that
they compare with. Curvature is Gauss-Newton: 2 Y' W Y with Y the residuals'
Jacobian, built symbolically, so that sparsity costs nothing at run time.
Weights and references are inputs of the compiled functions: changing them
needs no compilation. All physical quantities are SI.

A cost belongs to a rigid-body model or to any other `System`; frames and joint
limits only the former has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import casadi as ca
import numpy as np

from sim_core.codegen import compile_library
from sim_core.codegen.library import Library
from sim_core.multibody.model import build
from sim_core.multibody.model.model import RobotModel

__all__ = [
    "ControlTerm",
    "Cost",
    "FeatureTerm",
    "FrameOrientation",
    "FramePosition",
    "HorizonCost",
    "LimitTerm",
    "StateTerm",
]

Weights = float | Sequence[float]
Simulated = Any  # RobotModel or System; the terms of frames and limits ask for the former


class HorizonCost(Protocol):
    """What iLQR over any System asks of a cost. All methods take leading batch dimensions.

    Attributes:
        smoothness: weights (nu,) on control changes between knots [1/control^2].
    """

    smoothness: np.ndarray

    def reference(self, horizon: int, **named: np.ndarray) -> np.ndarray:
        """References (H+1, nr) of all knots; nr may be 0."""
        ...

    def stage(self, x: np.ndarray, u: np.ndarray, p: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Cost (...,) of a knot with state x (..., nx), control u (..., nu), parameters p (..., np_), reference r (..., nr)."""
        ...

    def stage_quadratic(self, x: np.ndarray, u: np.ndarray, p: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, ...]:
        """l_x (..., nx), l_u (..., nu), l_xx (..., nx, nx), l_ux (..., nu, nx), l_uu (..., nu, nu); l_xx, l_uu >= 0."""
        ...

    def final(self, x: np.ndarray, p: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Cost (...,) of the last state."""
        ...

    def final_quadratic(self, x: np.ndarray, p: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """l_x (..., nx), l_xx (..., nx, nx) of the last state."""
        ...


@dataclass(frozen=True)
class StateTerm:
    """e = x - x_ref with x = [q, v]; weights (nx,) or one for all."""

    weights: Weights
    terminal: Weights | None = None
    name: str = "state"

    def residual(self, model: Simulated, x: ca.SX, u: ca.SX, p: ca.SX, r: ca.SX) -> ca.SX:
        return x - r

    def reference(self, model: Simulated) -> np.ndarray:
        return np.concatenate([model.q_home, np.zeros(model.nv)]) if hasattr(model, "q_home") else np.zeros(model.nx)


@dataclass(frozen=True)
class ControlTerm:
    """e = u - u_ref; weights (nu,) or one for all; no terminal part."""

    weights: Weights
    name: str = "control"
    terminal: Weights | None = field(default=0.0, init=False)

    def residual(self, model: Simulated, x: ca.SX, u: ca.SX, p: ca.SX, r: ca.SX) -> ca.SX:
        return u - r

    def reference(self, model: Simulated) -> np.ndarray:
        return np.zeros(model.nu)


@dataclass(frozen=True)
class FramePosition:
    """e = position of a site in world minus its reference [m]."""

    frame: str
    weights: Weights
    terminal: Weights | None = None
    name: str = "position"

    def residual(self, model: Simulated, x: ca.SX, u: ca.SX, p: ca.SX, r: ca.SX) -> ca.SX:
        return build.frame_position(model, self.frame)(x[: model.nq], p) - r

    def reference(self, model: Simulated) -> np.ndarray:
        return np.zeros(3)


@dataclass(frozen=True)
class FrameOrientation:
    """e = vec(R_WF - R_ref), row by row: 9 residuals, reference a rotation matrix.

    Chordal distance: |R - R_ref|^2 = 8 sin^2(angle / 2) grows up to half a
    turn, whereas the sine of the angle (the antisymmetric part) shrinks again
    beyond a quarter turn, and the logarithm has a kink at half a turn.
    """

    frame: str
    weights: Weights
    terminal: Weights | None = None
    name: str = "orientation"

    def residual(self, model: Simulated, x: ca.SX, u: ca.SX, p: ca.SX, r: ca.SX) -> ca.SX:
        _, R = build.frame_pose(model, self.frame)(x[: model.nq], p)
        return ca.reshape(R.T, 9, 1) - r

    def reference(self, model: Simulated) -> np.ndarray:
        return np.eye(3).ravel()


@dataclass(frozen=True)
class LimitTerm:
    """Quadratic hinge e = max(0, |v| - margin v_limit), and the same for joint positions.

    Soft: the control box is the only hard limit. ``margin`` < 1 starts the
    hinge inside the range, so that a small violation of the hinge is none of
    the limit. Joints without limits contribute nothing.
    """

    position: float
    velocity: float = 0.0
    margin: float = 0.95
    name: str = "limits"
    terminal: Weights | None = field(default=None, init=False)

    def _hinges(self, model: RobotModel, q: ca.SX, v: ca.SX) -> Iterator[tuple[float, ca.SX]]:
        centre, half = (model.q_upper + model.q_lower) / 2, (model.q_upper - model.q_lower) / 2
        for i in np.flatnonzero(np.isfinite(half)):
            yield self.position, ca.fabs(q[int(i)] - centre[i]) - self.margin * half[i]
        for i in np.flatnonzero(np.isfinite(model.v_limit)):
            yield self.velocity, ca.fabs(v[int(i)]) - self.margin * model.v_limit[i]

    @property
    def weights(self) -> float:
        return 1.0  # folded into the residuals: their number depends on the model

    def residual(self, model: Simulated, x: ca.SX, u: ca.SX, p: ca.SX, r: ca.SX) -> ca.SX:
        return ca.vertcat(
            *(
                np.sqrt(weight) * ca.if_else(gap > 0, gap, 0)
                for weight, gap in self._hinges(model, x[: model.nq], x[model.nq :])
                if weight > 0
            )
        )

    def reference(self, model: Simulated) -> np.ndarray:
        return np.zeros(0)


@dataclass(frozen=True)
class FeatureTerm:
    """e = feature(x, u, p) - reference, for a feature vector written by the task.

    Args:
        feature: callable of CasADi columns (x, u, p) -> column. In the
            terminal cost it is evaluated at u = 0.
    """

    feature: Callable
    goal: Sequence[float]
    weights: Weights
    terminal: Weights | None = None
    name: str = "feature"

    def residual(self, model: Simulated, x: ca.SX, u: ca.SX, p: ca.SX, r: ca.SX) -> ca.SX:
        return self.feature(x, u, p) - r

    def reference(self, model: Simulated) -> np.ndarray:
        return np.asarray(self.goal, float)


class Cost:
    """Sum of terms, with the knot-to-knot smoothness weights beside them.

    Args:
        model: RobotModel, or any System.
        terms: residual terms; names must differ.
        smoothness: (nu,) or scalar weight S on control changes between knots
            [1/control^2]; the first change is counted from the control
            applied last.

    Attributes:
        stage_weights, final_weights: numbers of all residuals in term order,
            free to be changed between solves.
        nr: length of one knot's reference vector.
    """

    def __init__(self, model: Simulated, terms: Sequence, smoothness: Weights = 0.0) -> None:
        names = [term.name for term in terms]
        if len(set(names)) != len(names):
            raise ValueError(f"cost terms need different names, found {names}; pass name=...")
        self.model, self.terms = model, tuple(terms)
        self.smoothness = _spread(smoothness, model.nu, "smoothness")
        defaults = [np.asarray(term.reference(model), float) for term in terms]
        ends = np.cumsum([0, *map(len, defaults)])
        self.slices = {n: slice(a, b) for n, a, b in zip(names, ends, ends[1:])}
        self.default_reference = np.concatenate([*defaults, np.zeros(0)])
        self.nr = len(self.default_reference)
        self._build()

    def _build(self) -> None:
        model = self.model
        nx, np_ = (
            (model.nq + model.nv, len(model.parameters.nominal)) if hasattr(model, "nq") else (model.nx, model.np_)
        )
        x, u, p, r = ca.SX.sym("x", nx), ca.SX.sym("u", model.nu), ca.SX.sym("p", np_), ca.SX.sym("r", self.nr)
        stage, final, stage_weights, final_weights = [], [], [], []
        self._sizes: dict[str, int] = {}  # of the terms' residuals
        for term in self.terms:
            here = r[self.slices[term.name]]
            e = term.residual(model, x, u, p, here)
            stage.append(e)
            self._sizes[term.name] = e.numel()
            stage_weights.append(_spread(term.weights, e.numel(), term.name))
            terminal = term.weights if term.terminal is None else term.terminal
            if np.any(np.asarray(terminal) != 0):
                final.append(ca.substitute(e, u, ca.SX.zeros(model.nu)))
                final_weights.append(_spread(terminal, e.numel(), f"terminal {term.name}"))
        self.stage_weights = np.concatenate([*stage_weights, np.zeros(0)])
        self.final_weights = np.concatenate([*final_weights, np.zeros(0)])
        self._stage = (x, u, p, r, ca.vertcat(ca.SX(0, 1), *stage))
        self._final = (x, u, p, r, ca.vertcat(ca.SX(0, 1), *final))

    def functions(self) -> dict[str, ca.Function]:
        """stage, stage_quad, final and final_quad, as the compiled solver expects them."""
        x, u, p, r, e = self._stage
        w = ca.SX.sym("w", e.numel())
        l, gradient, hessian = _least_squares(e, w, ca.vertcat(x, u))
        nx = x.numel()
        xf, _, pf, rf, ef = self._final
        wf = ca.SX.sym("wf", ef.numel())
        lf, gradient_f, hessian_f = _least_squares(ef, wf, xf)
        return {
            "stage": ca.Function("stage", [x, u, p, r, w], [l]),
            "stage_quad": ca.Function(
                "stage_quad",
                [x, u, p, r, w],
                [gradient[:nx], gradient[nx:], hessian[:nx, :nx], hessian[nx:, :nx], hessian[nx:, nx:]],
            ),
            "final": ca.Function("final", [xf, pf, rf, wf], [lf]),
            "final_quad": ca.Function("final_quad", [xf, pf, rf, wf], [gradient_f, hessian_f]),
        }

    def weights(self, **named: Weights) -> tuple[np.ndarray, np.ndarray]:
        """Stage and final weights like those in use, with other ones for the terms named.

        Args:
            named: term name -> weights of its residuals, (n,) or one for all; a term without a terminal part keeps none.
        """
        self._known(named)
        stage, final = self.stage_weights.copy(), self.final_weights.copy()
        at, end = 0, 0
        for term in self.terms:
            n = self._sizes[term.name]
            ends = term.terminal is None or bool(np.any(np.asarray(term.terminal) != 0))
            if term.name in named:
                w = _spread(named[term.name], n, term.name)
                stage[at : at + n] = w
                if ends:
                    final[end : end + n] = w
            at, end = at + n, end + n * ends
        return stage, final

    def _known(self, named: Mapping[str, object]) -> None:
        for name in named:
            if name not in self.slices:
                raise ValueError(f"no cost term named {name!r}; terms: {', '.join(self.slices)}")

    # ---- evaluated in batches: see HorizonCost ------------------------------------------------------------------

    @functools.cached_property
    def _library(self) -> Library:
        return compile_library("refit_cost", self.functions())

    def stage(self, x: np.ndarray, u: np.ndarray, p: np.ndarray, r: np.ndarray) -> np.ndarray:
        return self._library.call("stage", x, u, p, r, self.stage_weights)[0][..., 0]

    def stage_quadratic(self, x: np.ndarray, u: np.ndarray, p: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, ...]:
        derivatives = self._library.call("stage_quad", x, u, p, r, self.stage_weights)
        nx, nu = np.shape(x)[-1], np.shape(u)[-1]
        shapes = (nx,), (nu,), (nx, nx), (nu, nx), (nu, nu)
        lead = derivatives[0].shape[:-1]
        return tuple(d.reshape(*lead, *shape) for d, shape in zip(derivatives, shapes))

    def final(self, x: np.ndarray, p: np.ndarray, r: np.ndarray) -> np.ndarray:
        return self._library.call("final", x, p, r, self.final_weights)[0][..., 0]

    def final_quadratic(self, x: np.ndarray, p: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gradient, hessian = self._library.call("final_quad", x, p, r, self.final_weights)
        return gradient, hessian.reshape(*gradient.shape, gradient.shape[-1])

    def reference(self, horizon: int, **named: np.ndarray) -> np.ndarray:
        """References of all knots.

        Args:
            horizon: H.
            named: term name -> array (n,) held over the horizon, or (H+1, n).
                Terms not named keep their default.

        Returns:
            (H+1, nr).
        """
        self._known(named)
        r = np.tile(self.default_reference, (horizon + 1, 1))
        for name, values in named.items():
            r[:, self.slices[name]] = values
        return r


def _least_squares(e: ca.SX, w: ca.SX, z: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
    """e' W e, its gradient and its Gauss-Newton Hessian with respect to z."""
    Y = ca.jacobian(e, z)
    WY = ca.diag(w) @ Y
    return ca.dot(w * e, e), 2 * WY.T @ e, 2 * Y.T @ WY


def _spread(weights: Weights, n: int, what: str) -> np.ndarray:
    w = np.asarray(weights, float)
    if w.ndim > 1 or w.size not in (1, n):
        raise ValueError(f"{what}: expected 1 or {n} weights, found {w.size}")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        raise ValueError(f"{what}: weights must be finite and >= 0, found {w.tolist()}")
    return np.broadcast_to(w, (n,)).copy() if n else np.zeros(0)
