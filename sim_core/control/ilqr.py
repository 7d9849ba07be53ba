"""Box-constrained iLQR whose whole solve runs in compiled C (runtime/ilqr.c).

A solve starts from the plan of the last one (``shift`` moves it on by a knot),
rolls it out with and without its feedback gains, then iterates: Gauss-Newton
models of all knots, a backward sweep with a box-constrained quadratic program
per knot, and a line search over eight step lengths. It stops when converged,
after ``max_iterations`` (1 or 2: real-time iteration) or after the iteration
that exceeds the time budget, and always returns the best plan it has.

With several particles (hypotheses about the physical parameters) it is the mean of their costs that is minimised:
the controls are shared, every particle has states of its own, and the sweep runs over all of them stacked.

Source: Tassa, Erez, Todorov, IROS 2012; Tassa, Mansard, Todorov, ICRA 2014.
"""

from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim_core.codegen import compile_library
from sim_core.codegen.dense import DenseBlock
from sim_core.control.cost import Cost
from sim_core.multibody.model import build
from sim_core.multibody.rollout import derivatives, linearization

RUNTIME = Path(__file__).parent / "runtime"


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


_STATUS = tuple(IlqrStatus)


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

    def __post_init__(self):
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


class _Task(ctypes.Structure):
    """``ilqr_task`` of runtime/ilqr.c."""

    _fields_ = [
        *((n, ctypes.c_int32) for n in ("horizon", "substeps", "max_iterations", "warm_gains")),
        *((n, ctypes.c_double) for n in ("tolerance", "mu_min", "mu_max", "time_budget")),
        *(
            (n, ctypes.c_void_p)
            for n in (
                "x0",
                "u_previous",
                "p",
                "reference",
                "stage_weights",
                "final_weights",
                "smoothness",
                "u_lower",
                "u_upper",
                "X",
                "U",
                "K",
                "k",
                "scratch",
            )
        ),
        *((n, ctypes.c_double) for n in ("mu", "cost", "expected", "gradient", "seconds")),
        ("status", ctypes.c_int32),
        ("iterations", ctypes.c_int32),
    ]


class BoxIlqr:
    """Trajectory optimiser for one model and cost.

    Not thread-safe: one instance, one caller. The solve itself holds no lock of
    Python's, so other threads run meanwhile.

    Args:
        model: RobotModel.
        cost: Cost.
        config: IlqrConfig.
        step: f(x, u, p) -> x' over one substep, in place of the model's own.
        u_lower, u_upper: control box (nu,); the model's by default.
        lanes: see compile_library.
        particles: N, hypotheses planned on at once.

    Attributes:
        p: physical parameters used when ``solve`` gets none; the nominal ones at first. (np_,), or (N, np_).
        X, U, K, k: the current plan, arrays as in IlqrResult, but X (H+1, N nx) and K (H, nu, N nx) of all particles
            side by side (K with the columns of the previous control, too, when the cost has smoothness).
    """

    def __init__(
        self,
        model,
        cost: Cost,
        config: IlqrConfig,
        *,
        step=None,
        u_lower=None,
        u_upper=None,
        lanes="auto",
        particles: int = 1,
    ):
        if particles < 1:
            raise ValueError(f"particles must be at least 1, found {particles}")
        if model.nq != model.nv:
            model.require_scalar_joints("iLQR")
        self.model, self.cost, self.config, self.particles = model, cost, config, particles
        self.nx, self.nu, self.np_ = model.nq + model.nv, model.nu, len(model.parameters.nominal)
        if step is None:
            h = config.dt / config.substeps
            step = build.step(model, h, config.integrator)
            step_jac = linearization.step_jacobian(model, step, h, config.integrator)
        else:
            step_jac = derivatives.step_jacobian(step, "xu")
        smooth = bool(np.any(cost.smoothness > 0))
        functions = {"step": step, "step_jac": step_jac, **cost.functions()}
        # A particle's networks are the same in all lanes, which hold knots or step lengths.
        shared = {"step": 2, "step_jac": 2} if any(DenseBlock.of_call(f.name()) for f in step.find_functions()) else {}
        self._period = "period" if shared else "step"  # what Python may call
        functions[self._period] = step
        self.lib = compile_library(
            "ilqr",
            functions,
            sources=[RUNTIME / "ilqr.c"],
            lanes=lanes,
            defines={"SMOOTH": int(smooth), "PARTICLES": particles},
            flags=["-ftree-loop-vectorize"],
            shared=shared,
        )
        self._solve = self.lib.symbol("solve", [ctypes.POINTER(_Task)], None)
        self.u_lower = _shaped(model.u_lower if u_lower is None else u_lower, (self.nu,), "u_lower")
        self.u_upper = _shaped(model.u_upper if u_upper is None else u_upper, (self.nu,), "u_upper")
        if not np.all(self.u_lower < self.u_upper):
            raise ValueError(
                "expected u_lower < u_upper for every control, found "
                f"{self.u_lower.tolist()} and {self.u_upper.tolist()}"
            )
        self._allocate(particles * self.nx + (self.nu if smooth else 0))
        self.reset()

    def _allocate(self, nz):
        H = self.config.horizon
        self.X, self.U = np.zeros((H + 1, self.particles * self.nx)), np.zeros((H, self.nu))
        self.K, self.k = np.zeros((H, self.nu, nz)), np.zeros((H, self.nu))
        self.p = np.array(self.model.parameters.nominal, float)
        self._x0, self._u_previous = np.zeros((self.particles, self.nx)), np.zeros(self.nu)
        self._r = self.cost.reference(H)
        self._scratch = _aligned(self.lib.symbol("scratch_bytes", [ctypes.c_int64], ctypes.c_int64)(H))
        self._empty = np.zeros(1)
        c = self.config
        self._task = _Task(horizon=H, substeps=c.substeps, tolerance=c.tolerance, mu_min=c.mu_min, mu_max=c.mu_max)
        for name, array in dict(
            x0=self._x0,
            u_previous=self._u_previous,
            reference=self._r,
            smoothness=self.cost.smoothness,
            u_lower=self.u_lower,
            u_upper=self.u_upper,
            X=self.X,
            U=self.U,
            K=self.K,
            k=self.k,
            scratch=self._scratch,
        ).items():
            setattr(self._task, name, array.ctypes.data)

    def reset(self, U=None):
        """Forget the plan: controls U (H, nu), or zero; no gains; initial regularisation."""
        self.U[:] = 0 if U is None else np.clip(U, self.u_lower, self.u_upper)
        self.X[:], self.K[:], self.k[:] = 0, 0, 0
        self._warm = False
        self._task.mu = self.config.mu_init

    def shift(self, knots: int = 1):
        """Move the plan on by a knot; the appended control is held or zero (config.fill)."""
        for _ in range(knots):
            self.X[:-1] = self.X[1:]
            for array in (self.U, self.K, self.k):
                array[:-1] = array[1:]
            if self.config.fill == "zero":
                self.U[-1] = np.clip(0, self.u_lower, self.u_upper)
            self.K[-1] = 0

    def advance(self, x, u, p) -> np.ndarray:
        """States (..., nx) one control period after x under u (..., nu) and parameters p (..., np_)."""
        x, u, p = (np.asarray(a, float) for a in (x, u, p))
        for _ in range(self.config.substeps):
            (x,) = self.lib.call(self._period, x, u, p)
        return x

    def predict(self, x, u, p=None) -> np.ndarray:
        """State one control period after x (..., nx) under u (..., nu): the mean over the particles in use."""
        p = self.p if p is None else np.asarray(p, float)
        if p.ndim == 1:
            return self.advance(x, u, p)
        return self.advance(np.asarray(x)[..., None, :], np.asarray(u)[..., None, :], p).mean(-2)

    def solve(
        self, x0, U0=None, p=None, reference=None, iterations=None, time_budget=0.0, u_previous=None
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
                given[name] = _shaped(value, like.shape, name)
        if p is not None:
            self._for_each(p, self.np_, "p")
            given["p"] = np.array(p, float)
        if reference is not None:
            given["reference"] = _shaped(reference, self._r.shape, "reference", "; see cost.reference")
        if not all(np.isfinite(value).all() for value in given.values()):
            return self._result(IlqrStatus.BAD_INPUT)
        if U0 is not None:
            self.reset(given["U0"])
        if reference is not None:
            self._r[:] = given["reference"]
        self.p = given.get("p", self.p)
        self._x0[:] = given["x0"]
        self._u_previous[:] = given.get("u_previous", self.U[0])
        task = self._prepared()
        task.max_iterations = iterations or self.config.max_iterations
        task.warm_gains, task.time_budget = int(self._warm), time_budget
        self._solve(task)
        status = _STATUS[task.status]
        self._warm = status.usable
        if not status.usable:  # gains of a failed sweep are half old, half new, or not finite
            self.K[:], self.k[:], task.mu = 0, 0, self.config.mu_init
        return self._result(status, task.cost, task.iterations, task.gradient, task.seconds)

    def solve_best_of(self, x0, starts, **options) -> IlqrResult:
        """Solve from every start (H, nu) in turn and keep the cheapest plan."""
        best, plan = None, None
        for U0 in starts:
            result = self.solve(x0, U0, **options)
            if best is None or (result.status.usable and not result.cost >= best.cost):
                best = result
                plan = [a.copy() for a in (self.X, self.U, self.K, self.k)] + [self._task.mu]
        for array, kept in zip((self.X, self.U, self.K, self.k), plan):
            array[:] = kept
        self._task.mu, self._warm = plan[-1], best.status.usable
        return best

    def _result(self, status, cost=np.nan, iterations=0, gradient=np.nan, seconds=0.0) -> IlqrResult:
        each = (self.particles, self.nx)
        X = self.X.reshape(-1, *each).mean(1)
        K = self.K[:, :, : self.particles * self.nx].reshape(*self.U.shape, *each).sum(2)
        return IlqrResult(X, self.U.copy(), K, self.k.copy(), cost, iterations, gradient, status, seconds)

    def _for_each(self, value, n: int, what: str) -> np.ndarray:
        """A value (n,) or (N, n) as (N, n)."""
        value = np.array(value, float)
        if value.shape not in ((n,), (self.particles, n)):
            each = f" or ({self.particles}, {n})" if self.particles > 1 else ""
            raise ValueError(f"{what}: expected shape ({n},){each}, found {value.shape}")
        return np.tile(value, (self.particles, 1)) if value.ndim == 1 else value

    def _prepared(self) -> _Task:
        """The task with the addresses that may have changed since the last call."""
        self._weights = [
            np.ascontiguousarray(w, float) if np.size(w) else self._empty
            for w in (self.cost.stage_weights, self.cost.final_weights)
        ]
        self._p = self._for_each(self.p, self.np_, "p")
        self._task.p = self._p.ctypes.data
        self._task.stage_weights, self._task.final_weights = (w.ctypes.data for w in self._weights)
        return self._task


def _shaped(value, shape, what, remedy="") -> np.ndarray:
    """A copy of value as floats of the given shape."""
    value = np.array(value, float)
    if value.shape != shape:
        raise ValueError(f"{what}: expected shape {shape}, found {value.shape}{remedy}")
    return value


def _aligned(count: int) -> np.ndarray:
    """Zeroed bytes on a 64-byte boundary."""
    raw = np.zeros(count + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + count]
