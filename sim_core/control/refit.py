"""Refit a simulator's physics to a window of recent motion, and say whether to believe the result.

    refit = Refit(model, spec)           # a RobotModel, or any System
    result = refit.fit(window)           # a Window, or several contiguous ones
    if result.accepted: controller.set_parameters(result.p)

A fit is multiple shooting with Levenberg-Marquardt (sim_core/inference). Part of the segments is
held out; the proposal is accepted only if it predicts those better than the parameters in use,
if it explains the motion at all, and if the mass matrix is positive definite wherever the
robot has been. Nothing here raises on bad data: a refused window is a result with a reason.

Source: Heiden, PhD thesis (USC 2022), section 2.2.5, Eq. 2.6 for the literal recipe. The robust
recipe (Levenberg-Marquardt, log masses, a robust loss, a gate on held-out data) is this project's.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from sim_core.host.threads import single_threaded
from sim_core.inference.data.window import Window, kinematic_inconsistency
from sim_core.inference.fit.considered import Considered, Doubt, consider
from sim_core.inference.fit.covariance import capped, posterior
from sim_core.inference.fit.evidence import promise
from sim_core.inference.fit.explained import TOLERATED, misfit, misfit_inflation, unexplained_share
from sim_core.inference.fit.least_squares import Ending, Solution, minimise
from sim_core.inference.fit.literal import minimise_one_step
from sim_core.inference.shooting.shooting import Rollout, ShootingProblem
from sim_core.multibody.model.parameters import NamedEstimate
from sim_core.system import System, is_compiled, require_derivatives

__all__ = ["Fit", "FreeCoordinates", "Refit", "RefitConfig", "RefitResult"]

#: a proposal that lowers the held-out loss by this factor is far better than what is in use, even if it explains not all
LEAP = 100.0
#: what is held is said to be off from this probability on
LIKELY = 0.9
#: residuals beyond so many times the sensors' noise are no late readings of a busy machine (seen up to 4) but a wrong model; its
#: proposal is used only if it lowers the held-out loss by the factor CLEAR
HOPELESS, CLEAR = 10.0, 10.0
#: roll-outs in one round of a fit of all that is considered, which goes on where it ended: they take several times as long as the others
ROUND = 12


class FreeCoordinates(Protocol):
    """What a refit asks of parameters: coordinates xi with a normal prior and bounds (FreeParameters, ParameterBox).

    Attributes:
        names: n names. n: their number. lower, upper, prior_mean, prior_std: (n,).
    """

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def n(self) -> int: ...
    @property
    def lower(self) -> np.ndarray: ...
    @property
    def upper(self) -> np.ndarray: ...
    @property
    def prior_mean(self) -> np.ndarray: ...
    @property
    def prior_std(self) -> np.ndarray: ...

    def to_physical(self, xi: np.ndarray) -> np.ndarray:
        """p (np_,) of xi (n,)."""
        ...

    def jacobian(self, xi: np.ndarray) -> np.ndarray:
        """dp/dxi (np_, n) at xi (n,)."""
        ...

    def report(self, xi: np.ndarray, covariance: np.ndarray) -> list[NamedEstimate]:
        """Named quantities with intervals, from xi (n,) and its covariance (n, n)."""
        ...


@dataclass(frozen=True)
class RefitConfig:
    """How a window is fitted and judged.

    Attributes:
        recipe: "robust" (multiple shooting, LM) or "literal" (Eq. 2.6: L-BFGS, one-step loss,
            semi-implicit Euler; no uncertainty weighting, kept for comparison).
        segment_length: steps per shooting segment.
        initial_state: "free" estimates each segment's start (noisy sensors, long segments),
            "measured" trusts the sample (noise-free data, or segments of one step).
        loss: "gaussian", "huber", "pseudo_huber" or "student_t".
        held_out: share of the segments that judge the proposal.
        held_out_choice: "interleaved" (every n-th) or "tail" (the latest).
        max_evaluations, extension: roll-outs with sensitivities per fit, up to so many times as many while they lower the cost.
        time_budget: wall time of the minimiser [s].
        scale_floor: smallest believable residual std of (positions, velocities) [SI]; what the
            sensors resolve or the integrator gets wrong, whichever is larger.
        excited_ratio: a coordinate whose posterior std stays above this share of its prior std is
            reported as unexcited.
        max_unexplained: residual variance allowed on the held-out stretch, as a share of what constant
            velocity leaves over; judged on the worst feature that moves beyond its noise. A proposal that lowers the
            held-out loss a hundredfold may leave more. Infinite: whether the model explains the data is no matter.
        max_inconsistency: largest disagreement between q and the integral of v, see window.py.
        integrator, substeps: of the model; None takes the model's own scheme and time step. A System has its own.
    """

    recipe: str = "robust"
    segment_length: int = 25
    initial_state: str = "free"
    loss: str = "huber"
    held_out: float = 0.2
    held_out_choice: str = "interleaved"
    max_evaluations: int = 20
    extension: int = 10
    time_budget: float = 0.4
    scale_floor: tuple[float, float] = (1e-6, 1e-5)
    excited_ratio: float = 0.9
    max_unexplained: float = 0.3
    max_inconsistency: float = 0.5
    integrator: str | None = None
    substeps: int | None = None

    def __post_init__(self) -> None:
        for name, choices in (
            ("recipe", ("robust", "literal")),
            ("initial_state", ("free", "measured")),
            ("held_out_choice", ("interleaved", "tail")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is '{getattr(self, name)}'; choose one of {', '.join(choices)}")
        if not 0.0 <= self.held_out <= 0.5:
            raise ValueError(f"held_out is {self.held_out}; expected a share between 0 and 0.5")
        if self.segment_length < 1 or self.max_evaluations < 1:
            raise ValueError("segment_length and max_evaluations must be at least 1")


@dataclass(frozen=True)
class RefitResult:
    """A proposal and the verdict on it. Use `p` only if `accepted`.

    Attributes:
        xi, p: proposed coordinates (n,) and physical vector (np_,).
        covariance: of xi, shape (n, n), prior's ceiling, see inference/covariance.py.
        loss_before, loss_after: robust loss per held-out residual; 1 is as good as the noise.
        terms: training cost after the fit: position.<joint>, velocity.<joint> (of another System its states), prior.
        accepted, reason: the verdict and one sentence for it.
        unexcited: coordinates about which the window says nothing; they keep their prior.
        at_bound: coordinates stopped at a bound.
        rank: directions about which the data say more than the prior.
        iterations: roll-outs with sensitivities spent; of_all: those of them that were of all that is considered.
        fit_time: wall time [s].
        estimates: spec.report: named human quantities with std and 95 % interval.
        window: first and last stamp of the data [s].
        misfit: residual scale over sensor noise of the worst feature; the covariance is widened by it, see explained.py.
        suspects: probability of each kind of held parameters that it is off, see inference/fit/considered.py.
        promise: logarithm of the evidence for estimating all of them, as far as a linear model can tell, see fit/evidence.py.
        spec: whose coordinates xi and covariance are.
        explained: whether the model explains the data; if not, no interval is to be relied on.
    """

    xi: np.ndarray
    p: np.ndarray
    covariance: np.ndarray
    loss_before: float
    loss_after: float
    accepted: bool
    reason: str
    unexcited: tuple[str, ...] = ()
    at_bound: tuple[str, ...] = ()
    rank: int = 0
    iterations: int = 0
    of_all: int = 0
    fit_time: float = 0.0
    estimates: list[NamedEstimate] = field(default_factory=list)
    terms: dict[str, float] = field(default_factory=dict)
    ending: Ending = Ending.CONVERGED
    window: tuple[float, float] = (np.nan, np.nan)
    misfit: float = np.nan
    suspects: dict[str, float] = field(default_factory=dict)
    promise: float = -np.inf
    spec: Any = None

    @property
    def explained(self) -> bool:
        return self.misfit <= TOLERATED


@dataclass(frozen=True)
class Fit:
    """A result, and what it was fitted to; no problem and no solution where nothing was fitted."""

    result: RefitResult
    problem: ShootingProblem | None = None
    solution: Solution | None = None


class Refit:
    """Refits the free coordinates `spec` of `model`.

    Args:
        model: RobotModel, any System, or whatever `dynamics` was made from.
        spec: FreeParameters, ParameterBox or the like, see FreeCoordinates.
        config: see RefitConfig.
        dynamics: roll-outs to use. By default a System itself, and those of a model at the first window's period.
        mass_matrix: callable (Q (B, nq), p) -> (B, nv, nv) for the positive-definiteness check; the model's by default.
            A System that is no rigid body has none and is not asked.
        considered: what the refit holds and may be off: intervals allow for it.

    Raises:
        ModelError: a model with ball or free joints.
        MissingDerivativesError: a System without derivatives.
        ValueError: an integrator or substeps for a System, which has its own.
    """

    def __init__(
        self,
        model: Any,
        spec: FreeCoordinates,
        config: RefitConfig = RefitConfig(),
        dynamics: System | None = None,
        mass_matrix: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
        considered: Considered | None = None,
    ) -> None:
        # A System steps at its own period; roll-outs of a model are made for the data's.
        self._own_period = dynamics is None and hasattr(model, "rollout_sensitivity")
        if self._own_period:
            require_derivatives(model, "Refit")
            if config.integrator is not None or config.substeps is not None:
                raise ValueError(f"integrator and substeps belong to {model.name}; leave them out of RefitConfig")
            model, dynamics = (model.model if is_compiled(model) else model), model
        if hasattr(model, "require_scalar_joints"):
            model.require_scalar_joints("Refit")
        self.model, self.spec, self.config, self.considered = model, spec, config, considered
        self._dynamics = self._considered_dynamics = dynamics
        self._mass_matrix = mass_matrix

    def fit(self, window: Window | Sequence[Window], xi0: np.ndarray | None = None) -> RefitResult:
        """Fit from xi0 (the parameters in use; the prior mean by default) and judge the proposal."""
        return self.attempt(window, xi0).result

    @single_threaded
    def attempt(self, window: Window | Sequence[Window], xi0: np.ndarray | None = None, temper: float = 1.0) -> Fit:
        """The same, with what was fitted.

        Args:
            temper: of what the data promise for what is held, see fit/evidence.py.
        """
        began = time.perf_counter()
        windows = [window] if isinstance(window, Window) else list(window)
        xi0 = np.array(self.spec.prior_mean if xi0 is None else xi0, dtype=float)
        complaint = self._data_complaint(windows)
        if complaint:
            return Fit(self._refused(xi0, windows, complaint, began))
        try:
            problem = self._problem(windows, self.spec, self.dynamics(windows[0].dt))
        except ValueError as error:
            return Fit(self._refused(xi0, windows, str(error), began))
        train, held = self._split(problem)
        if self.config.recipe == "literal":
            solution = minimise_one_step(train, xi0, self.config.max_evaluations)
        else:
            config = self.config
            solution = minimise(
                train, xi0, None, config.max_evaluations, config.time_budget, extension=config.extension
            )
        if solution.ending is Ending.NOT_FINITE:
            return Fit(self._refused(xi0, windows, solution.ending.value, began))
        certainty = posterior(train, solution, self.config.excited_ratio)
        xi = solution.theta
        p = self.spec.to_physical(xi)
        left_over = misfit(train, solution.scale)
        doubt, promised = self._doubt(windows, solution, temper)
        inflation = misfit_inflation(left_over, len(solution.normal.scores))
        own = capped(inflation * certainty.covariance, self.spec.prior_std)
        # What is held may have put the estimate where the prior does not expect it: its ceiling is the prior seen from there.
        ceiling = np.hypot(self.spec.prior_std, xi - self.spec.prior_mean)
        covariance = capped(own + doubt.covariance, ceiling)
        before, after, unexplained = self._held_out(held, xi0, solution)
        verdict = f"held-out loss {before:.4g} -> {after:.4g}"
        if left_over > TOLERATED:
            verdict += f"; the model does not explain the data: residuals are {left_over:.0f} times the sensors' noise"
        elif doubt.suspect[1] > LIKELY:  # farther off a linear model names the wrong kind
            verdict += f"; the data speak for {doubt.suspect[0]} other than the model's, which the refit holds"
        reason = self._objection(before, after, unexplained, left_over, p, windows)
        result = RefitResult(
            xi=xi,
            p=p,
            covariance=covariance,
            loss_before=before,
            loss_after=after,
            accepted=reason is None,
            reason=reason or verdict,
            unexcited=self._named(~certainty.excited),
            at_bound=self._named(certainty.at_bound),
            rank=certainty.rank,
            iterations=solution.evaluations,
            fit_time=time.perf_counter() - began,
            estimates=self.spec.report(xi, covariance),
            misfit=left_over,
            suspects=dict(doubt.probability),
            promise=promised,
            spec=self.spec,
            terms=self._terms(train, solution),
            ending=solution.ending,
            window=_span(windows),
        )
        return Fit(result, train, solution)

    @single_threaded
    def losses(self, windows: Sequence[Window], sets: Sequence[np.ndarray]) -> np.ndarray | None:
        """How sets of coordinates (n,) predict windows: robust loss of each over the sensors' noise, summed over all residuals.

        Returns:
            one for each set; infinite where it does not roll out. None where no window holds a segment.
        """
        if not windows or max(w.transitions for w in windows) < self.config.segment_length:
            return None
        problem = self._problem(list(windows), self.spec, self.dynamics(windows[0].dt))
        losses = [_judged(problem, np.asarray(xi, float), problem.noise)[1] for xi in sets]
        return problem.residual_count * np.array(losses)

    def with_base(self, p: np.ndarray) -> Refit:
        """The same refit; what it holds has the values of p (np_,), and is considered there.

        Its coordinates can be put anywhere else (`FreeParameters.with_base`), and roll-outs are shared.
        """
        other, considered = copy.copy(self), self.considered
        spec: Any = self.spec
        other.spec = spec.with_base(p)
        if considered is not None:
            whole = considered.spec.with_base(p)
            other.considered = replace(considered, spec=whole, at=whole.clip(whole.from_physical(p)))
        return other

    def brief(self) -> Refit:
        """The same refit with a bounded number of roll-outs, enough to see whether it suffices."""
        other = copy.copy(self)
        other.config = replace(self.config, max_evaluations=ROUND, extension=1)
        return other

    def released(self, dt: float) -> Refit:
        """A refit of what this one considers as well; it holds nothing that may be off.

        Args:
            dt: sample period [s].

        Raises:
            ValueError: nothing is considered.
        """
        if self.considered is None:
            raise ValueError("expected a refit that considers what it holds, found one that does not")
        other = copy.copy(self)
        other.spec, other.considered = self.considered.spec, None
        other.config = replace(self.config, max_evaluations=ROUND, extension=1)
        other._dynamics = self.considered_dynamics(dt)
        return other

    # -- data --------------------------------------------------------------------------

    def _data_complaint(self, windows: list[Window]) -> str | None:
        if not windows:
            return "no usable data: every sample lies next to a gap or is not finite"
        if not windows[0].v.shape[1]:
            return None  # states without rates of their own have nothing to disagree with
        worst = kinematic_inconsistency(*windows, resolution=self.config.scale_floor[0])
        if worst.max() > self.config.max_inconsistency:
            j = int(np.argmax(worst))
            names = getattr(self.model, "joint_names", None) or getattr(
                self.model, "state_names", [f"joint {i}" for i in range(len(worst))]
            )
            return (
                f"positions and velocities of {names[j]} disagree by {100 * worst[j]:.0f} % of its motion "
                f"(allowed {100 * self.config.max_inconsistency:.0f} %): corrupted batch"
            )
        return None

    def _problem(self, windows: list[Window], spec: FreeCoordinates, dynamics: System) -> ShootingProblem:
        config = self.config
        one_step = config.recipe == "literal"
        return ShootingProblem(
            dynamics,
            spec,
            windows,
            segment_length=1 if one_step else config.segment_length,
            free_starts=config.initial_state == "free" and not one_step,
            loss="gaussian" if one_step else config.loss,
            scale_floor=config.scale_floor,
        )

    def dynamics(self, dt: float) -> System:
        """Roll-outs of the model over one sample period [s].

        Raises:
            ValueError: a System that steps at another period.
        """
        if self._own_period and self._dynamics is not None and not np.isclose(self._dynamics.dt, dt, rtol=1e-3):
            raise ValueError(
                f"expected samples every {self._dynamics.dt} s as {self._dynamics.name} steps, found {dt} s"
            )
        if self._dynamics is None or not np.isclose(self._dynamics.dt, dt, rtol=1e-3):
            self._dynamics = self._rollouts(dt)
        return self._dynamics

    def considered_dynamics(self, dt: float) -> System:
        """The same for what is considered: roll-outs' kernels cover whatever any call has asked for, and the fit's are to stay small."""
        if self._considered_dynamics is None or not np.isclose(self._considered_dynamics.dt, dt, rtol=1e-3):
            self._considered_dynamics = self._rollouts(dt)
        return self._considered_dynamics

    def _rollouts(self, dt: float) -> System:
        """Of the model, over one sample period [s]."""
        from sim_core.multibody import Dynamics

        literal = self.config.recipe == "literal"
        integrator = self.config.integrator or ("semi_implicit_euler" if literal else None)
        substeps = self.config.substeps or (1 if literal else max(1, round(dt / self.model.timestep)))
        return Dynamics(self.model, dt=dt, integrator=integrator, substeps=substeps)

    def _split(self, problem: ShootingProblem) -> tuple[ShootingProblem, ShootingProblem]:
        """Segments to fit and segments to judge by; with a single segment both are the same."""
        order = np.argsort(problem.times, kind="stable")
        count = len(order)
        kept_out = min(int(np.ceil(self.config.held_out * count)), count - 1) if self.config.held_out else 0
        if kept_out == 0:
            return problem, problem
        if self.config.held_out_choice == "tail":
            held = order[count - kept_out :]
        else:
            # Evenly spaced, off the ends, so that both sets span the same motion.
            held = order[((np.arange(kept_out) + 0.5) * count / kept_out).astype(int)]
        mask = np.zeros(count, bool)
        mask[held] = True
        return problem.subset(~mask), problem.subset(mask)

    # -- verdict -----------------------------------------------------------------------

    def _held_out(self, held: ShootingProblem, xi0: np.ndarray, solution: Solution) -> tuple[float, float, float]:
        """Loss per residual under the old parameters and the proposal; share left unexplained."""
        _, before = _judged(held, xi0, solution.scale)
        rollout, after = _judged(held, solution.theta, solution.scale)
        if rollout is None or not np.isfinite(after):
            return before, after, np.inf
        return before, after, unexplained_share(held, rollout)

    def _objection(
        self, before: float, after: float, unexplained: float, left_over: float, p: np.ndarray, windows: list[Window]
    ) -> str | None:
        """Why the proposal must not be used, or None."""
        if not np.isfinite(p).all() or not np.isfinite(after):
            return "the proposal does not roll out over the held-out stretch"
        # A fit that starts at the optimum changes nothing; equal is not better.
        if not after < before:
            return f"held-out loss does not fall: {before:.4g} -> {after:.4g}"
        if unexplained > self.config.max_unexplained and not after <= before / LEAP:
            return (
                f"the proposal leaves {100 * unexplained:.0f} % of a joint's held-out motion unexplained "
                f"(allowed {100 * self.config.max_unexplained:.0f} %): corrupted batch or wrong model"
            )
        # What a model cannot express, it puts where it does not belong.
        if self.config.max_unexplained < np.inf and left_over > HOPELESS and not after <= before / CLEAR:
            return (
                f"the model does not explain the data (residuals are {left_over:.0f} times the sensors' noise), and the proposal "
                f"is not {CLEAR:g} times better: held-out loss {before:.4g} -> {after:.4g}"
            )
        if not self._positive_definite(p, windows):
            return "the mass matrix is not positive definite on a visited state"
        return None

    def _positive_definite(self, p: np.ndarray, windows: list[Window], samples: int = 64) -> bool:
        if self._mass_matrix is None and not hasattr(self.model, "nq"):
            return True
        Q = np.concatenate([w.q for w in windows])
        Q = Q[np.linspace(0, len(Q) - 1, min(samples, len(Q))).astype(int)]
        return bool((np.linalg.eigvalsh(self._inertia(Q, p)) > 0.0).all())

    def _inertia(self, Q: np.ndarray, p: np.ndarray) -> np.ndarray:
        if self._mass_matrix is None:
            from sim_core.multibody.model import build

            function = build.mass_matrix(self.model)
            self._mass_matrix = lambda Q, p: np.stack([np.array(function(q, p)) for q in Q])
        return self._mass_matrix(Q, p)

    def _doubt(self, windows: list[Window], solution: Solution, temper: float) -> tuple[Doubt, float]:
        """What the parameters that are held mean for the solution, and what estimating them promises."""
        considered, n = self.considered, self.spec.n
        if considered is None or self.config.recipe == "literal":
            return Doubt(np.zeros((n, n)), {}), -np.inf
        dynamics, names = self.considered_dynamics(windows[0].dt), self.spec.names
        train, _ = self._split(self._problem(windows, considered.spec, dynamics))
        rollout = train.evaluate(considered.around(names, solution.theta), solution.starts)
        if not np.isfinite(rollout.jacobian).all():
            # nothing is known of what they mean
            return Doubt(np.diag(np.asarray(self.spec.prior_std, float) ** 2), {}), -np.inf
        kinds = {kind: considered.indices(members) for kind, members in considered.kinds.items()}
        normal, fitted = train.normal_equations(rollout, solution.scale), considered.indices(names)
        held = np.concatenate(list(kinds.values()))
        std = train.prior_std
        return consider(normal, fitted, kinds, std), promise(normal, fitted, held, std, temper)

    # -- report ------------------------------------------------------------------------

    def _named(self, mask: np.ndarray) -> tuple[str, ...]:
        return tuple(name for name, hit in zip(self.spec.names, mask) if hit)

    def _terms(self, problem: ShootingProblem, solution: Solution) -> dict[str, float]:
        rho = problem.loss.rho(solution.rollout.residual / solution.scale).sum((0, 1))
        names = getattr(self.model, "state_names", None)
        if names is None:
            joints = getattr(self.model, "joint_names", range(problem.nq))
            names = [f"{quantity}.{joint}" for quantity in ("position", "velocity") for joint in joints]
        prior = 0.5 * np.sum(((solution.theta - problem.prior_mean) / problem.prior_std) ** 2)
        return {**{name: float(cost) for name, cost in zip(names, rho)}, "prior": float(prior)}

    def _refused(self, xi0: np.ndarray, windows: list[Window], reason: str, began: float) -> RefitResult:
        return RefitResult(
            xi=xi0,
            p=self.spec.to_physical(xi0),
            covariance=np.diag(np.asarray(self.spec.prior_std, float) ** 2),
            loss_before=np.nan,
            loss_after=np.nan,
            accepted=False,
            reason=reason,
            unexcited=tuple(self.spec.names),
            spec=self.spec,
            fit_time=time.perf_counter() - began,
            window=_span(windows),
        )


def _judged(held: ShootingProblem, xi: np.ndarray, scale: np.ndarray) -> tuple[Rollout | None, float]:
    """Roll-out of segments from the starts that suit a set best, and its loss per residual; infinite where it does not roll out."""
    with np.errstate(all="ignore"):
        try:
            rollout = held.settle_starts(xi, scale)
            loss = held.mean_loss(rollout, scale)
        except np.linalg.LinAlgError:
            return None, np.inf
    return rollout, loss if np.isfinite(loss) else np.inf


def _span(windows: list[Window]) -> tuple[float, float]:
    return (windows[0].t[0], windows[-1].t[-1]) if windows else (np.nan, np.nan)
