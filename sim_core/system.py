"""What control, inference and refit ask of a simulator, and a base class that supplies most of it.

`System` is the whole contract: sizes, names, a period, parameters, batched roll-outs and their derivatives. Rigid bodies
(`sim_core.multibody.Dynamics`) fulfil it with compiled kernels; any other simulator (finite elements, a height field,
LIDAR, a learnt network) fulfils it by deriving from `StepSystem`, which needs one step and the step's Jacobians.
docs/systems.md holds a complete example.

Arrays are numpy, float64 unless the system says otherwise, with any leading batch dimensions; an array without them is
shared by the batch. A system without derivatives can still be simulated and sampled by methods that ask for none.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

__all__ = [
    "CompiledSystem",
    "Derivatives",
    "MissingDerivativesError",
    "Observation",
    "StepSystem",
    "System",
    "is_compiled",
    "require_derivatives",
]

ROOM = 64e6  # bytes of Jacobians held at a time


class Derivatives(enum.Enum):
    """What a system's Jacobians are of."""

    EXACT = "exact"  # of the step as it is computed
    SMOOTHED = "smoothed"  # of a smoother step than the one that is simulated
    NONE = "none"


class MissingDerivativesError(ValueError):
    """A method was asked for that needs derivatives which the system does not have."""


@runtime_checkable
class System(Protocol):
    """Discrete-time dynamics x[k+1] = f(x[k], u[k], p), u held over a period.

    Attributes:
        name: of the system, for messages.
        nx, nu, np_: numbers of states, controls and parameters.
        dt: period [s].
        nominal: parameters (np_,) of the system as it is described, SI.
        state_names, control_names, parameter_names: one each.
        u_lower, u_upper: control limits (nu,), infinite where there are none.
        derivatives: what the Jacobians are of.

    Methods raise ValueError for arrays of other shapes and for NaN or infinity in x, u or p, and
    MissingDerivativesError where `derivatives` is NONE. A roll-out that leaves the finite numbers returns them as
    NaN or infinity; its neighbours in the batch do not notice.
    """

    @property
    def name(self) -> str: ...
    @property
    def nx(self) -> int: ...
    @property
    def nu(self) -> int: ...
    @property
    def np_(self) -> int: ...
    @property
    def dt(self) -> float: ...
    @property
    def nominal(self) -> np.ndarray: ...
    @property
    def state_names(self) -> Sequence[str]: ...
    @property
    def control_names(self) -> Sequence[str]: ...
    @property
    def parameter_names(self) -> Sequence[str]: ...
    @property
    def u_lower(self) -> np.ndarray: ...
    @property
    def u_upper(self) -> np.ndarray: ...
    @property
    def derivatives(self) -> Derivatives: ...

    def step(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        """x' (..., nx) one period after x (..., nx) under u (..., nu) with p (..., np_)."""
        ...

    def linearize(self, X: np.ndarray, U: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A = dx'/dx (..., nx, nx) and B = dx'/du (..., nx, nu) at X (..., nx), U (..., nu), p (..., np_)."""
        ...

    def rollout(self, x0: np.ndarray, U: np.ndarray, p: np.ndarray) -> np.ndarray:
        """States X (..., H+1, nx) from x0 (..., nx) under U (..., H, nu) with p (..., np_)."""
        ...

    def rollout_vjp(
        self, x0: np.ndarray, U: np.ndarray, p: np.ndarray, X: np.ndarray, Xbar: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """dL/dx0 (..., nx), dL/dU (..., H, nu), dL/dp (..., np_) from Xbar = dL/dX (..., H+1, nx); X as `rollout` gave it."""
        ...

    def rollout_sensitivity(
        self, x0: np.ndarray, U: np.ndarray, p: np.ndarray, dpdxi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """X (..., H+1, nx) and d x[k] / d [x0, xi] (..., H+1, nx, nx+n), for p = p(xi) with dp/dxi (..., np_, n)."""
        ...


@runtime_checkable
class CompiledSystem(System, Protocol):
    """A system whose step is a CasADi graph: iLQR and shooting likelihoods then run whole in compiled C.

    Attributes:
        graph: CasADi function f(x, u, p) -> x' over dt / substeps.
        model: what `graph` was made from; its sizes, limits and nominal parameters.
        given_graph: `graph` where it was given in place of the model's own equations, else None.
        integrator: name of the scheme of the model's own equations.
        substeps: evaluations of `graph` in a period.
    """

    @property
    def graph(self) -> Any: ...
    @property
    def given_graph(self) -> Any: ...
    @property
    def model(self) -> Any: ...
    @property
    def integrator(self) -> str | None: ...
    @property
    def substeps(self) -> int: ...


class Observation(Protocol):
    """What is measured of a system: y (..., ny) = h(x, p), with its derivatives."""

    def __call__(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """y (..., ny) of x (..., nx) and p (..., np_)."""
        ...

    def jacobian(self, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """dy/dx (..., ny, nx) and dy/dp (..., ny, np_)."""
        ...


def is_compiled(system: object) -> bool:
    """Does the system offer a CasADi graph of its step, and with it the compiled solvers?"""
    return getattr(system, "graph", None) is not None


def require_derivatives(system: System, user: str) -> None:
    """Refuse a system without derivatives.

    Raises:
        MissingDerivativesError: names the system and `user`, what cannot do without.
    """
    if system.derivatives is Derivatives.NONE:
        raise MissingDerivativesError(
            f"{user} needs derivatives of the step, and {system.name} has none; give it Jacobians or take a method that "
            "asks for no gradient"
        )


class StepSystem:
    """A `System` from one step and its Jacobians, both for a flat batch.

    A subclass writes `advance` and, unless it has no derivatives, `jacobians`; it may write `pull_back` where products
    with the Jacobians' transposes are cheaper than the Jacobians. All three get arrays of N rows, finite in every
    number: a row that has left the finite numbers is never asked for again.

    Args:
        dt: period [s].
        states, controls: names of x and u, which give nx and nu.
        parameters: name -> nominal value, SI; gives p its order.
        u_lower, u_upper: control limits (nu,); infinite by default.
        derivatives: what `jacobians` are of.
        name: for messages; the class's by default.

    Raises:
        ValueError: a period that is not positive, or limits of another shape.
    """

    def __init__(
        self,
        dt: float,
        states: Sequence[str],
        controls: Sequence[str],
        parameters: dict[str, float],
        u_lower: Sequence[float] | None = None,
        u_upper: Sequence[float] | None = None,
        derivatives: Derivatives = Derivatives.EXACT,
        name: str | None = None,
    ) -> None:
        if not dt > 0:
            raise ValueError(f"expected a period > 0 s, found {dt}")
        self.name, self.dt, self.derivatives = name or type(self).__name__, float(dt), derivatives
        self.state_names, self.control_names = tuple(states), tuple(controls)
        self.parameter_names = tuple(parameters)
        self.nominal = np.array(list(parameters.values()), dtype=float)
        self.nx, self.nu, self.np_ = len(self.state_names), len(self.control_names), len(self.parameter_names)
        self.u_lower = np.full(self.nu, -np.inf) if u_lower is None else np.array(u_lower, dtype=float)
        self.u_upper = np.full(self.nu, np.inf) if u_upper is None else np.array(u_upper, dtype=float)
        for what, limits in (("u_lower", self.u_lower), ("u_upper", self.u_upper)):
            if limits.shape != (self.nu,):
                raise ValueError(f"{what}: expected shape ({self.nu},), found {limits.shape}")

    # ---- written by the subclass --------------------------------------------------------------------------------

    def advance(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        """x' (N, nx) of x (N, nx), u (N, nu), p (N, np_)."""
        raise NotImplementedError(f"{type(self).__name__} must define advance(x, u, p)")

    def jacobians(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """dx'/dx (N, nx, nx), dx'/du (N, nx, nu), dx'/dp (N, nx, np_) at x (N, nx), u (N, nu), p (N, np_)."""
        raise NotImplementedError(f"{type(self).__name__} must define jacobians(x, u, p), or say Derivatives.NONE")

    def pull_back(
        self, x: np.ndarray, u: np.ndarray, p: np.ndarray, after: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """dL/dx (N, nx), dL/du (N, nu), dL/dp (N, np_) from dL/dx' (N, nx)."""
        xbar, ubar, pbar = (np.einsum("nij,ni->nj", J, after) for J in self.jacobians(x, u, p))
        return xbar, ubar, pbar

    # ---- one period ---------------------------------------------------------------------------------------------

    def step(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        (x, u, p), lead = self._batch("step", ("x", x), ("u", u), ("p", p))
        return self._advanced(x, u, p).reshape(*lead, self.nx)

    def linearize(self, X: np.ndarray, U: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.sensitivity(X, U, p)[:2]

    def sensitivity(self, X: np.ndarray, U: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A and B as `linearize`, and C = dx'/dp (..., nx, np_)."""
        require_derivatives(self, "a linearisation")
        (x, u, p), lead = self._batch("sensitivity", ("x", X), ("u", U), ("p", p))
        with np.errstate(all="ignore"):
            jacobians = [np.asarray(J) for J in self.jacobians(x, u, p)]
        A, B, C = (J.reshape(*lead, *J.shape[1:]) for J in jacobians)
        return A, B, C

    # ---- horizons -----------------------------------------------------------------------------------------------

    def rollout(self, x0: np.ndarray, U: np.ndarray, p: np.ndarray) -> np.ndarray:
        (x, U, p), lead = self._batch("rollout", ("x0", x0), ("U", U), ("p", p))
        return self._rolled_out(x, U, p).reshape(*lead, U.shape[1] + 1, self.nx)

    def rollout_vjp(
        self, x0: np.ndarray, U: np.ndarray, p: np.ndarray, X: np.ndarray, Xbar: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        require_derivatives(self, "a gradient through a roll-out")
        (_, U, p, X, Xbar), lead = self._batch("rollout_vjp", ("x0", x0), ("U", U), ("p", p), ("X", X), ("Xbar", Xbar))
        Ubar, pbar, after = np.empty_like(U), np.zeros_like(p), Xbar[:, -1]
        with np.errstate(all="ignore"):
            for k in reversed(range(U.shape[1])):
                before, Ubar[:, k], share = self._pulled_back(X[:, k], U[:, k], p, after)
                after, pbar = before + Xbar[:, k], pbar + share
        x0bar, Ubar, pbar = (a.reshape(*lead, *a.shape[1:]) for a in (after, Ubar, pbar))
        return x0bar, Ubar, pbar

    def rollout_sensitivity(
        self, x0: np.ndarray, U: np.ndarray, p: np.ndarray, dpdxi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        require_derivatives(self, "a roll-out with sensitivities")
        (x, U, p, D), lead = self._batch("rollout_sensitivity", ("x0", x0), ("U", U), ("p", p), ("dpdxi", dpdxi))
        X, (N, H, _), n = self._rolled_out(x, U, p), U.shape, D.shape[2]
        A, CD = self._along(X, U, p, D)
        Z = np.zeros((N, H + 1, self.nx, self.nx + n))
        Z[:, 0, :, : self.nx] = np.eye(self.nx)
        with np.errstate(all="ignore"):
            for k in range(H):
                Z[:, k + 1] = A[:, k] @ Z[:, k]
                Z[:, k + 1, :, self.nx :] += CD[:, k]
        return X.reshape(*lead, H + 1, self.nx), Z.reshape(*lead, H + 1, self.nx, self.nx + n)

    # ---- flat batches -------------------------------------------------------------------------------------------

    def _rolled_out(self, x: np.ndarray, U: np.ndarray, p: np.ndarray) -> np.ndarray:
        X = np.empty((len(x), U.shape[1] + 1, self.nx))
        X[:, 0] = x
        for k in range(U.shape[1]):
            X[:, k + 1] = self._advanced(X[:, k], U[:, k], p)
        return X

    def _advanced(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            finite = np.isfinite(x).all(axis=1)
            if finite.all():
                return np.asarray(self.advance(x, u, p))
            after = np.full_like(x, np.nan)
            if finite.any():
                after[finite] = self.advance(x[finite], u[finite], p[finite])
        return after

    def _pulled_back(self, x: np.ndarray, u: np.ndarray, p: np.ndarray, after: np.ndarray) -> list[np.ndarray]:
        finite = np.isfinite(x).all(axis=1)
        if finite.all():
            return [np.asarray(a) for a in self.pull_back(x, u, p, after)]
        out = [np.full_like(a, np.nan) for a in (x, u, p)]
        if finite.any():
            for a, own in zip(out, self.pull_back(x[finite], u[finite], p[finite], after[finite])):
                a[finite] = own
        return out

    def _along(self, X: np.ndarray, U: np.ndarray, p: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A (N, H, nx, nx) and C D (N, H, nx, n) at all steps of roll-outs, as many rows at a time as fit into ROOM."""
        (N, H, _), n = U.shape, D.shape[2]
        x, u, which = X[:, :-1].reshape(-1, self.nx), U.reshape(-1, self.nu), np.repeat(np.arange(N), H)
        A, CD = np.full((N * H, self.nx, self.nx), np.nan), np.full((N * H, self.nx, n), np.nan)
        rows = np.flatnonzero(np.isfinite(x).all(axis=1))
        chunk = max(1, int(ROOM / (8 * self.nx * (self.nx + self.nu + self.np_))))
        with np.errstate(all="ignore"):
            for i in range(0, len(rows), chunk):
                some = rows[i : i + chunk]
                A[some], _, C = self.jacobians(x[some], u[some], p[which[some]])
                CD[some] = C @ D[which[some]]
        return A.reshape(N, H, self.nx, self.nx), CD.reshape(N, H, self.nx, n)

    def _batch(self, owner: str, *arguments: tuple[str, Any]) -> tuple[list[np.ndarray], tuple[int, ...]]:
        """Arrays with one batch dimension each, and the batch dimensions they came with."""
        known = {"x": (self.nx,), "x0": (self.nx,), "u": (self.nu,), "p": (self.np_,), "U": (None, self.nu)}
        known |= {"X": (None, self.nx), "Xbar": (None, self.nx), "dpdxi": (self.np_, None)}
        arrays: list[tuple[np.ndarray, int]] = []
        steps = 0
        for name, value in arguments:
            a, core = np.asarray(value, dtype=float), known[name]
            own = a.shape[len(a.shape) - len(core) :]
            if len(own) < len(core) or any(want not in (None, found) for want, found in zip(core, own)):
                wanted = ", ".join("n" if want is None else str(want) for want in core)
                raise ValueError(f"{owner}, argument {name}: expected shape (..., {wanted}), found {a.shape}")
            steps = a.shape[-2] if name == "U" else steps
            if name in ("X", "Xbar") and a.shape[-2] != steps + 1:
                raise ValueError(f"{owner}, argument {name}: expected {steps + 1} states, found {a.shape[-2]}")
            if name not in ("X", "Xbar", "dpdxi") and not np.isfinite(a).all():
                where = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
                raise ValueError(f"{owner}, argument {name}: expected finite numbers, found {a[where]} at {where}")
            arrays.append((a, len(a.shape) - len(core)))
        lead = np.broadcast_shapes(*(a.shape[:split] for a, split in arrays))
        size = math.prod(lead)
        return [np.broadcast_to(a, lead + a.shape[split:]).reshape(size, *a.shape[split:]) for a, split in arrays], lead
