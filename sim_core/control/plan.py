"""What every iLQR solver takes, keeps and returns: settings, the plan, its warm start, and how a solve ended."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sim_core.control.cost import HorizonCost

__all__ = ["IlqrConfig", "IlqrResult", "IlqrStatus", "Outcome", "PlanSolver", "shaped"]


class IlqrStatus(enum.Enum):
    """How a solve ended; the text is the remedy. Order as in runtime/ilqr.c."""

    CONVERGED = "converged"
    ITERATION_LIMIT = (
        "stopped at max_iterations with an improved plan; normal in real-time iteration, otherwise raise max_iterations"
    )
    TIME_LIMIT = (
        "stopped at the time budget with the best plan so far; shorten the horizon or "
        "raise the budget if tracking suffers"
    )
    STALLED = (
        "no step length improves the plan, which is kept; normal at an optimum within "
        "rounding, otherwise restart from another plan (reset)"
    )
    BAD_INPUT = (
        "the state, the parameters, the reference or the plan holds NaN or infinity; "
        "check the sensor and the last parameter revision"
    )
    DIVERGED = "the first roll-out is not finite; reset the plan, shorten the horizon or use more substeps"
    NOT_CONVEX = (
        "the control Hessian stays indefinite at the largest regularisation; raise the control weights or mu_max"
    )

    @property
    def usable(self) -> bool:
        """The plan may be executed."""
        return self in (IlqrStatus.CONVERGED, IlqrStatus.ITERATION_LIMIT, IlqrStatus.TIME_LIMIT, IlqrStatus.STALLED)


@dataclass(frozen=True)
class IlqrConfig:
    """Settings of one solver.

    Attributes:
        horizon: knots H.
        dt: time between knots [s].
        integrator: of the model; None takes the model's own.
        substeps: integration steps per knot.
        max_iterations: per solve; 1 or 2 is real-time iteration.
        tolerance: relative cost decrease below which the solve has converged.
        mu_init, mu_min, mu_max: control regularisation added to diag(Q_uu), in units of cost per
            control^2: raised tenfold on failure, relaxed fivefold on success, 0 below mu_min.
        fill: control appended by ``shift``: "hold" the last one or "zero".
    """

    horizon: int
    dt: float
    integrator: str | None = None
    substeps: int = 1
    max_iterations: int = 10
    tolerance: float = 1e-6
    mu_init: float = 0.0
    mu_min: float = 1e-8
    mu_max: float = 1e8
    fill: str = "hold"

    def __post_init__(self) -> None:
        if self.horizon < 1 or self.substeps < 1 or self.max_iterations < 1:
            raise ValueError("horizon, substeps and max_iterations must be at least 1")
        if not self.dt > 0:
            raise ValueError(f"dt must be > 0 s, found {self.dt}")
        if not 0 <= self.mu_init <= self.mu_max or not 0 < self.mu_min <= self.mu_max:
            raise ValueError("expected 0 <= mu_init <= mu_max and 0 < mu_min <= mu_max")
        if self.fill not in ("hold", "zero"):
            raise ValueError(f"fill is 'hold' or 'zero', not {self.fill!r}")


@dataclass(frozen=True)
class IlqrResult:
    """A plan and its policy u = U[k] + K[k] (x - X[k]), clipped to the box.

    With several particles X is their mean and K the sum of their gains: what their common policy does about a
    deviation that all of them see.

    Attributes:
        X: (H+1, nx) states. U: (H, nu) controls.
        K: (H, nu, nx) feedback gains. k: (H, nu) last feed-forward step.
        cost: of the plan. iterations: spent.
        gradient: largest last step relative to its box.
        status: IlqrStatus. solve_time: wall time [s].
    """

    X: np.ndarray
    U: np.ndarray
    K: np.ndarray
    k: np.ndarray
    cost: float
    iterations: int
    gradient: float
    status: IlqrStatus
    solve_time: float


class Outcome(NamedTuple):
    """How one solve went: see IlqrResult."""

    status: IlqrStatus
    cost: float
    iterations: int
    gradient: float
    seconds: float


class PlanSolver:
    """A plan, its warm start and the inputs of a solve; how the plan is improved is the subclass's business.

    Not thread-safe: one instance, one caller.

    Args:
        cost: with `reference(horizon)`.
        config: IlqrConfig.
        nx: number of states.
        nominal: parameters (np_,) used until others come.
        parameter_names: np_ names, for messages.
        u_lower, u_upper: control box (nu,).
        smooth: the cost penalises changes between knots, so that gains have columns for the previous control.
        particles: N, hypotheses planned on at once.
        name: of the system, for messages.

    Attributes:
        p: physical parameters used when ``solve`` gets none; the nominal ones at first. (np_,), or (N, np_).
        X, U, K, k: the current plan, arrays as in IlqrResult, but X (H+1, N nx) and K (H, nu, N nx) of all particles
            side by side (K with the columns of the previous control, too, when the cost has smoothness).
    """

    def __init__(
        self,
        cost: HorizonCost,
        config: IlqrConfig,
        *,
        nx: int,
        nominal: np.ndarray,
        parameter_names: Sequence[str],
        u_lower: np.ndarray,
        u_upper: np.ndarray,
        smooth: bool,
        particles: int,
        name: str,
    ) -> None:
        self.cost, self.config, self.particles, self.name = cost, config, particles, name
        self.nominal, self.parameter_names = np.array(nominal, float), tuple(parameter_names)
        self.nx, self.nu, self.np_ = nx, len(u_lower), len(self.nominal)
        self.u_lower, self.u_upper = u_lower, u_upper
        if not np.all(self.u_lower < self.u_upper):
            raise ValueError(
                "expected u_lower < u_upper for every control, found "
                f"{self.u_lower.tolist()} and {self.u_upper.tolist()}"
            )
        H, nz = config.horizon, particles * nx + (self.nu if smooth else 0)
        self.X, self.U = np.zeros((H + 1, particles * nx)), np.zeros((H, self.nu))
        self.K, self.k = np.zeros((H, self.nu, nz)), np.zeros((H, self.nu))
        self.p = self.nominal.copy()
        self._x0, self._u_previous = np.zeros((particles, nx)), np.zeros(self.nu)
        self._r, self._mu, self._warm = cost.reference(H), config.mu_init, False

    # ---- what a solver does -------------------------------------------------------------------------------------

    def advance(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        """States (..., nx) one control period after x under u (..., nu) and parameters p (..., np_)."""
        raise NotImplementedError

    def _optimise(self, iterations: int, time_budget: float) -> Outcome:
        """Improve the plan from _x0, _u_previous, _r and p, in place."""
        raise NotImplementedError

    # ---- the plan -----------------------------------------------------------------------------------------------

    def reset(self, U: np.ndarray | None = None) -> None:
        """Forget the plan: controls U (H, nu), or zero; no gains; initial regularisation."""
        self.U[:] = 0 if U is None else np.clip(U, self.u_lower, self.u_upper)
        self.X[:], self.K[:], self.k[:] = 0, 0, 0
        self._warm = False
        self._mu = self.config.mu_init

    def shift(self, knots: int = 1) -> None:
        """Move the plan on by a knot; the appended control is held or zero (config.fill)."""
        for _ in range(knots):
            self.X[:-1] = self.X[1:]
            for array in (self.U, self.K, self.k):
                array[:-1] = array[1:]
            if self.config.fill == "zero":
                self.U[-1] = np.clip(0, self.u_lower, self.u_upper)
            self.K[-1] = 0

    def predict(self, x: np.ndarray, u: np.ndarray, p: np.ndarray | None = None) -> np.ndarray:
        """State one control period after x (..., nx) under u (..., nu): the mean over the particles in use."""
        p = self.p if p is None else np.asarray(p, float)
        if p.ndim == 1:
            return self.advance(x, u, p)
        return self.advance(np.asarray(x)[..., None, :], np.asarray(u)[..., None, :], p).mean(-2)

    def solve(
        self,
        x0: np.ndarray,
        U0: np.ndarray | None = None,
        p: np.ndarray | None = None,
        reference: np.ndarray | None = None,
        iterations: int | None = None,
        time_budget: float = 0.0,
        u_previous: np.ndarray | None = None,
    ) -> IlqrResult:
        """Improve the plan from state x0.

        Args:
            x0: (nx,), or (N, nx) where the particles disagree about it.
            U0: (H, nu) controls to start from; None continues with the current plan.
            p: (np_,) or (N, np_) physical parameters from now on; None keeps those in use.
            reference: (H+1, nr), see Cost.reference; None keeps the last one.
            iterations: limit of this solve; None takes config.max_iterations.
            time_budget: stop after the iteration that ends later than this [s]; 0: no limit.
            u_previous: (nu,) control applied last, for the smoothness term; None: the first
                control of the starting plan.

        Returns:
            IlqrResult with copies. Bad numbers in the inputs give BAD_INPUT and change nothing.

        Raises:
            ValueError: an input has the wrong shape.
        """
        given = {"x0": self._for_each(x0, self.nx, "x0")}
        for name, value, like in (("U0", U0, self.U), ("u_previous", u_previous, self._u_previous)):
            if value is not None:
                given[name] = shaped(value, like.shape, name)
        if p is not None:
            self._for_each(p, self.np_, "p")
            given["p"] = np.array(p, float)
        if reference is not None:
            given["reference"] = shaped(reference, self._r.shape, "reference", "; see cost.reference")
        if not all(np.isfinite(value).all() for value in given.values()):
            return self._result(IlqrStatus.BAD_INPUT)
        if U0 is not None:
            self.reset(given["U0"])
        if reference is not None:
            self._r[:] = given["reference"]
        self.p = given.get("p", self.p)
        self._x0[:] = given["x0"]
        self._u_previous[:] = given.get("u_previous", self.U[0])
        outcome = self._optimise(iterations or self.config.max_iterations, time_budget)
        self._warm = outcome.status.usable
        if not outcome.status.usable:  # gains of a failed sweep are half old, half new, or not finite
            self.K[:], self.k[:], self._mu = 0, 0, self.config.mu_init
        return self._result(*outcome)

    def solve_best_of(self, x0: np.ndarray, starts: Sequence[np.ndarray], **options: Any) -> IlqrResult:
        """Solve from every start (H, nu) in turn and keep the cheapest plan."""
        best: IlqrResult | None = None
        for U0 in starts:
            result = self.solve(x0, U0, **options)
            if best is None or (result.status.usable and not result.cost >= best.cost):
                best, mu = result, self._mu
                plan = [a.copy() for a in (self.X, self.U, self.K, self.k)]
        if best is None:
            raise ValueError("expected at least one start, found none")
        for array, kept in zip((self.X, self.U, self.K, self.k), plan):
            array[:] = kept
        self._mu, self._warm = mu, best.status.usable
        return best

    def _result(
        self,
        status: IlqrStatus,
        cost: float = np.nan,
        iterations: int = 0,
        gradient: float = np.nan,
        seconds: float = 0.0,
    ) -> IlqrResult:
        each = (self.particles, self.nx)
        X = self.X.reshape(-1, *each).mean(1)
        K = self.K[:, :, : self.particles * self.nx].reshape(*self.U.shape, *each).sum(2)
        return IlqrResult(X, self.U.copy(), K, self.k.copy(), cost, iterations, gradient, status, seconds)

    def _for_each(self, value: np.ndarray, n: int, what: str) -> np.ndarray:
        """A value (n,) or (N, n) as (N, n)."""
        value = np.array(value, float)
        if value.shape not in ((n,), (self.particles, n)):
            each = f" or ({self.particles}, {n})" if self.particles > 1 else ""
            raise ValueError(f"{what}: expected shape ({n},){each}, found {value.shape}")
        return np.tile(value, (self.particles, 1)) if value.ndim == 1 else value


def shaped(value: object, shape: tuple[int, ...], what: str, remedy: str = "") -> np.ndarray:
    """A copy of value as floats of the given shape."""
    value = np.array(value, float)
    if value.shape != shape:
        raise ValueError(f"{what}: expected shape {shape}, found {value.shape}{remedy}")
    return value
