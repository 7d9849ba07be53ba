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
from pathlib import Path

import casadi as ca
import numpy as np

from sim_core.codegen import compile_library
from sim_core.codegen.dense import DenseBlock
from sim_core.control.cost import Cost
from sim_core.control.plan import IlqrConfig, IlqrStatus, Outcome, PlanSolver, shaped
from sim_core.multibody.model import build
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.rollout import derivatives, linearization

__all__ = ["BoxIlqr"]

RUNTIME = Path(__file__).parent / "runtime"
_STATUS = tuple(IlqrStatus)


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


class BoxIlqr(PlanSolver):
    """Trajectory optimiser for one rigid-body model and cost.

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

    Attributes: see PlanSolver.

    Raises:
        ModelError: ball or free joints.
        ValueError: an empty control box, or fewer than one particle.
        RuntimeError: there is no C compiler.
    """

    cost: Cost

    def __init__(
        self,
        model: RobotModel,
        cost: Cost,
        config: IlqrConfig,
        *,
        step: ca.Function | None = None,
        u_lower: np.ndarray | None = None,
        u_upper: np.ndarray | None = None,
        lanes: int | str = "auto",
        particles: int = 1,
    ) -> None:
        if particles < 1:
            raise ValueError(f"particles must be at least 1, found {particles}")
        if model.nq != model.nv:
            model.require_scalar_joints("iLQR")
        self.model = model
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
        super().__init__(
            cost,
            config,
            nx=model.nq + model.nv,
            nominal=model.parameters.nominal,
            parameter_names=model.parameters.names,
            u_lower=shaped(model.u_lower if u_lower is None else u_lower, (model.nu,), "u_lower"),
            u_upper=shaped(model.u_upper if u_upper is None else u_upper, (model.nu,), "u_upper"),
            smooth=smooth,
            particles=particles,
            name=model.name,
        )
        self._scratch = _aligned(self.lib.symbol("scratch_bytes", [ctypes.c_int64], ctypes.c_int64)(config.horizon))
        self._empty = np.zeros(1)
        self._task = self._addressed()

    def _addressed(self) -> _Task:
        """A task with the settings, and the addresses of everything that stays where it is."""
        c = self.config
        task = _Task(horizon=c.horizon, substeps=c.substeps, tolerance=c.tolerance, mu_min=c.mu_min, mu_max=c.mu_max)
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
            setattr(task, name, array.ctypes.data)
        return task

    def advance(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        """States (..., nx) one control period after x under u (..., nu) and parameters p (..., np_)."""
        x, u, p = (np.asarray(a, float) for a in (x, u, p))
        for _ in range(self.config.substeps):
            (x,) = self.lib.call(self._period, x, u, p)
        return x

    def _optimise(self, iterations: int, time_budget: float) -> Outcome:
        task = self._prepared()
        task.max_iterations = iterations
        task.warm_gains, task.time_budget = int(self._warm), time_budget
        self._solve(task)
        self._mu = task.mu
        return Outcome(_STATUS[task.status], task.cost, task.iterations, task.gradient, task.seconds)

    def _prepared(self) -> _Task:
        """The task with what may have changed since the last call."""
        self._weights = [
            np.ascontiguousarray(w, float) if np.size(w) else self._empty
            for w in (self.cost.stage_weights, self.cost.final_weights)
        ]
        self._p = self._for_each(self.p, self.np_, "p")
        self._task.mu, self._task.p = self._mu, self._p.ctypes.data
        self._task.stage_weights, self._task.final_weights = (w.ctypes.data for w in self._weights)
        return self._task


def _aligned(count: int) -> np.ndarray:
    """Zeroed bytes on a 64-byte boundary."""
    raw = np.zeros(count + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + count]
