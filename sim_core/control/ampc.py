"""Adaptive model-predictive control: plan on the simulator, refit the simulator, plan on.

This is the controller's half, free of ROS and of time: it turns states into commands, takes new
physical parameters between two solves, and keeps going when something fails:

    solver fails        -> next action of the last good plan, with its feedback
    that plan runs out  -> stop control (zero by default)
    parameters fail     -> last parameters that worked, then the nominal ones

Instead of one parameter vector it may be given several particles, for example of a posterior: then it plans the controls
whose mean cost over them is lowest.

Source: Heiden et al., Interactive Differentiable Simulation (2019), algorithm 3.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.control.monitor import PredictionMonitor
from sim_core.control.plan import IlqrResult, IlqrStatus, PlanSolver
from sim_core.control.solver import solver_for
from sim_core.control.tasks import Aim, Task


class CommandSource(enum.Enum):
    """Where a command came from."""

    PLAN = "plan of this cycle"
    PREVIOUS_PLAN = "next action of the last good plan, because this cycle's solve failed"
    STOP = "stop control, because the last good plan has run out"


@dataclass(frozen=True)
class AmpcConfig:
    """Settings of the loop around the solver.

    Attributes:
        delay_steps: control periods between a command and its effect; the state is predicted
            through the queued commands.
        time_budget: per solve [s]; 0: none. The first solve of an episode has none.
        start_iterations: limit for each start of an episode's first solve.
        max_failures: failed solves in a row after which parameters are given up.
        change_window, change_factor: of PredictionMonitor.
        particles: hypotheses about the parameters that are planned on at once.
    """

    delay_steps: int = 0
    time_budget: float = 0.0
    start_iterations: int = 60
    max_failures: int = 3
    change_window: int = 20
    change_factor: float = 3.0
    particles: int = 1


@dataclass(frozen=True)
class Command:
    """What to apply from now on: u + K (x - x_ref), clipped to the box; or u alone.

    Attributes:
        u: (nu,). K: (nu, nx). x_ref: (nx,) the state for which u was planned.
        applied: (nu,) the control that takes effect now: u, or with a delay an earlier one.
        source, status, message: how it came about; message is a sentence.
        revision: of the physical parameters used; 0 = nominal.
        cost, iterations, solve_time: of the solve (solve_time in s).
        prediction_error: last one-step error in units of the task's resolution.
        change_detected: the robot stopped moving as predicted with this sample: refit now.
    """

    u: np.ndarray
    K: np.ndarray
    x_ref: np.ndarray
    applied: np.ndarray
    source: CommandSource
    status: IlqrStatus
    message: str
    revision: int
    cost: float
    iterations: int
    solve_time: float
    prediction_error: float
    change_detected: bool


@dataclass(frozen=True)
class Revision:
    """A parameter vector (np_,), or one for each particle (N, np_), and its number."""

    number: int
    p: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The vector (np_,), or the mean of them."""
        return self.p if self.p.ndim == 1 else self.p.mean(0)


class AdaptiveMpc:
    """State in, command out, once per control period.

    ``command`` belongs to one thread; ``set_parameters`` may be called from any other.

    Args:
        task: Task (model, cost, solver settings, references, starts).
        config: AmpcConfig.
        p: parameters of revision 0; the model's nominal ones by default. Changes of the robot are
            declared only under nominal parameters or a later revision, not under a first guess.
        solver: of this task, to use instead of building one; controllers may share it if they run
            their episodes one after the other.
    """

    def __init__(
        self,
        task: Task,
        config: AmpcConfig = AmpcConfig(),
        p: np.ndarray | None = None,
        solver: PlanSolver | None = None,
    ) -> None:
        self.task, self.config = task, config
        self.solver = solver or solver_for(task.model, task.cost, task.ilqr, particles=config.particles)
        self.stop_control = np.clip(np.zeros(self.solver.nu), self.solver.u_lower, self.solver.u_upper)
        self._inbox: deque[Revision] = deque(maxlen=1)  # append and popleft are atomic
        nominal = Revision(0, self._checked(self.solver.nominal if p is None else p))
        self._nominal = self._current = self._good = nominal
        self.monitor = self._new_monitor()
        # A guess errs from the start; only a model that fitted once can reveal a change.
        self._watching = p is None or np.array_equal(nominal.p, self.solver.nominal)
        self.reset()

    @property
    def revision(self) -> Revision:
        """Parameters in use."""
        return self._current

    def set_parameters(self, p: np.ndarray, revision: int) -> None:
        """Use p (np_,), or one for each particle (N, np_), from the next solve on. The newest wins if several arrive in between.

        Raises:
            ValueError: wrong length, or not finite; the parameters in use stay.
        """
        self._inbox.append(Revision(int(revision), self._checked(p)))

    def reset(self) -> None:
        """A new episode, or time jumped back: forget the plan and what is queued; keep parameters."""
        self.solver.reset()
        self.solver.p = self._current.p
        self._plan: IlqrResult | None = None
        self._plan_time = 0.0
        self._sample_time: float | None = None
        self._failures, self._restart = 0, True
        self._queue = deque([self.stop_control.copy() for _ in range(self.config.delay_steps)])
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # (x, control applied since then)

    def command(self, x: np.ndarray, t: float, aim: Callable[[float], Aim] | None = None) -> Command:
        """The command for state x (nx,) measured at time t [s].

        Args:
            aim: time from now [s] -> Aim of a plan that begins then; by default the task's references at t.
        """
        x = np.array(x, float)
        if x.shape != (self.solver.nx,):
            raise ValueError(f"x: expected shape ({self.solver.nx},) = [q, v], found {x.shape}")
        if self._sample_time is not None and t < self._sample_time:
            self.reset()
        adopted = self._adopt_parameters()
        changed = self._observe(x, t)
        result = self._aimed(self._ahead(x), t, aim)
        command = self._command(result, changed, adopted)
        self._last = (x, command.applied) if np.all(np.isfinite(x)) else None
        self._sample_time = t
        return command

    # -- parameters ---------------------------------------------------------------------

    def _checked(self, p: np.ndarray) -> np.ndarray:
        p = np.array(p, float)
        n = self.solver.np_
        if p.shape not in ((n,), (self.solver.particles, n)):
            raise ValueError(
                f"parameters: expected shape ({n},) for {self.solver.name}, found "
                f"{p.shape}; fit and control must load the same model"
            )
        if not np.all(np.isfinite(p)):
            bad = [self.solver.parameter_names[i % n] for i in np.flatnonzero(~np.isfinite(p))[:3]]
            raise ValueError(
                f"parameters not finite: {', '.join(bad)}; the set is refused and "
                f"revision {self._current.number} stays in use"
            )
        return p

    def _adopt_parameters(self) -> bool:
        try:
            revision = self._inbox.popleft()
        except IndexError:
            return False
        self._use(revision)
        self._watching = True
        return True

    def _use(self, revision: Revision) -> None:
        self._current = revision
        self.solver.p = revision.p
        self.monitor.rejudge(lambda X, U: self.solver.predict(X, U))

    def _give_up_parameters(self) -> str:
        """Back to the last good revision, or from there to the nominal one."""
        if self._current is self._nominal:
            return "nominal parameters are in use already"
        failed = self._current
        self._good = self._nominal if failed is self._good else self._good
        self._use(self._good)
        return f"revision {failed.number} given up, back to revision {self._current.number}"

    # -- measurement --------------------------------------------------------------------

    def _new_monitor(self) -> PredictionMonitor:
        return PredictionMonitor(self.task.resolution, self.config.change_window, self.config.change_factor)

    def _observe(self, x: np.ndarray, t: float) -> bool:
        """Feed the monitor with the transition that ended now; True: change declared."""
        if self._last is None or self._sample_time is None or not np.all(np.isfinite(x)):
            return False
        if abs(t - self._sample_time - self.task.ilqr.dt) > 0.1 * self.task.ilqr.dt:
            return False  # not one control period: nothing to compare
        before, u = self._last
        return self.monitor.update(before, u, x, self.solver.predict(before, u), self._watching)

    def _ahead(self, x: np.ndarray) -> np.ndarray:
        """State (nx,) at which the next command takes effect, or what each particle expects it to be (N, nx)."""
        for u in self._queue:
            x = self.solver.advance(x, u, self._current.p)
        return x

    # -- planning -----------------------------------------------------------------------

    def _aimed(self, x0: np.ndarray, t: float, aim: Callable[[float], Aim] | None) -> IlqrResult:
        late = self.config.delay_steps * self.task.ilqr.dt
        if aim is None:
            return self._solve(x0, t, self.task.reference(t + late))
        wanted, cost = aim(late), self.task.cost
        if wanted.weights is None:
            return self._solve(x0, t, wanted.reference)
        own = cost.stage_weights, cost.final_weights
        cost.stage_weights, cost.final_weights = wanted.weights
        try:
            return self._solve(x0, t, wanted.reference)
        finally:
            cost.stage_weights, cost.final_weights = own

    def _solve(self, x0: np.ndarray, t: float, reference: np.ndarray) -> IlqrResult:
        if self._restart:
            self._plan_time = t
            return self.solver.solve_best_of(
                x0, self.task.starts(), reference=reference, iterations=self.config.start_iterations
            )
        # plans are moved on by whole knots; a control period shorter than a knot keeps the rest
        knots = int((t - self._plan_time) / self.task.ilqr.dt + 1e-6)
        self.solver.shift(min(knots, self.task.ilqr.horizon))
        self._plan_time += knots * self.task.ilqr.dt
        last = self._queue[-1] if self._queue else self._last[1] if self._last else None
        return self.solver.solve(x0, reference=reference, u_previous=last, time_budget=self.config.time_budget)

    def _command(self, result: IlqrResult, changed: bool, adopted: bool) -> Command:
        if result.status.usable:
            self._failures, self._restart, self._age = 0, False, 0
            self._plan, self._good = result, self._current
            message = f"parameters revision {self._current.number} adopted" if adopted else ""
            return self._compose(result, 0, CommandSource.PLAN, result, message, changed)
        self._failures += 1
        message = result.status.value
        if result.status is not IlqrStatus.BAD_INPUT:
            self._restart = True
            if self._failures >= self.config.max_failures:
                message += "; " + self._give_up_parameters()
                self._failures = 0
        if self._plan is not None and self._age + 1 < len(self._plan.U):
            self._age += 1
            return self._compose(self._plan, self._age, CommandSource.PREVIOUS_PLAN, result, message, changed)
        return self._compose(None, 0, CommandSource.STOP, result, message, changed)

    def _compose(
        self,
        plan: IlqrResult | None,
        k: int,
        source: CommandSource,
        result: IlqrResult,
        message: str,
        changed: bool,
    ) -> Command:
        """Action k of the plan, or the stop control where there is none."""
        s = self.solver
        u, K, x_ref = (
            (self.stop_control, np.zeros((s.nu, s.nx)), np.zeros(s.nx))
            if plan is None
            else (plan.U[k], plan.K[k], plan.X[k])
        )
        u = np.clip(u, s.u_lower, s.u_upper)
        self._queue.append(u)
        return Command(
            u,
            K.copy(),
            x_ref.copy(),
            self._queue.popleft(),
            source,
            result.status,
            message,
            self._current.number,
            result.cost,
            result.iterations,
            result.solve_time,
            self.monitor.error,
            changed,
        )
