"""Offline identification: the best of many starts, judged on data it has not seen.

    result = identify(model, spec, windows, IdentifyConfig(delay=DelayPrior()))

The data are split in time: the earlier part is fitted, the last part predicted open loop with
the prior's and the fitted parameters. Starts are the prior mean and a Sobol sequence through
the prior; each is fitted to the end, and how many agree with the best is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from sim_core.inference.data.window import Window
from sim_core.inference.fit.covariance import Posterior, posterior
from sim_core.inference.fit.least_squares import Ending, Solution, minimise
from sim_core.inference.shooting.shooting import DelayPrior, Rollout, ShootingProblem
from sim_core.multibody import Dynamics
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameters import FreeParameters, NamedEstimate
from sim_core.system import System

__all__ = [
    "Forecast",
    "Identification",
    "IdentificationError",
    "IdentifyConfig",
    "Start",
    "dynamics_at",
    "identify",
    "shooting_problem",
    "split_in_time",
]

# Costs are log-likelihoods: ends this close are the same optimum, stopped at different distances from it.
AGREEMENT = 1.0


@dataclass(frozen=True)
class IdentifyConfig:
    """How a recording is identified.

    Attributes:
        starts: starting points, the prior mean included.
        segment_time: length of a shooting segment [s].
        held_out: share of the recording, at its end, that judges the fit.
        forecast_time: open-loop prediction on the held-out part [s]; lead_time: data before it that
            fix its initial state [s].
        loss: robust loss. delay: prior of the sensor delay, None if there is none.
        scale_floor: smallest believable residual std of (positions, velocities) [SI].
        excited_ratio: posterior over prior std above which a coordinate counts as unexcited.
        max_evaluations: roll-outs with sensitivities per start.
        seed: of the starts.
    """

    starts: int = 6
    segment_time: float = 0.1
    held_out: float = 0.2
    forecast_time: float = 0.5
    lead_time: float = 0.1
    loss: str = "huber"
    delay: DelayPrior | None = None
    scale_floor: tuple[float, float] = (1e-6, 1e-5)
    excited_ratio: float = 0.9
    max_evaluations: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise ValueError("starts must be at least 1")
        if not 0.0 < self.held_out <= 0.5:
            raise ValueError(f"held_out is {self.held_out}; expected a share above 0 and at most 0.5")


@dataclass(frozen=True)
class Start:
    """One start: where it began and ended, its cost there on the best fit's scales (inf: failed)."""

    theta: np.ndarray
    end: np.ndarray
    cost: float
    ending: Ending


@dataclass(frozen=True)
class Forecast:
    """Open-loop predictions over the held-out part.

    t: stamps of the predicted samples (S, K) [s]; measured, predicted: (S, K, nx);
    rmse: per feature (nx,) [rad or m, rad/s or m/s].
    """

    t: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray

    @property
    def rmse(self) -> np.ndarray:
        return np.sqrt(np.mean((self.predicted - self.measured) ** 2, axis=(0, 1)))


@dataclass(frozen=True)
class Identification:
    """What the data say.

    Attributes:
        theta, names: coordinates of the optimum, the delay last if it is free, and their names.
        xi, p, delay: the model's coordinates, physical vector, and sensor delay [s] (0 if not free).
        posterior: covariance, excitation, bounds, rank, singular values.
        physical_covariance: of p by the delta method, shape (np_, np_).
        before, after: named quantities with intervals under the prior and the fit.
        forecast_before, forecast_after: open-loop predictions of the held-out part.
        error_ratio: geometric mean over features of the RMSE after over before.
        starts: every start in order; agreeing: share that ended at the best one's cost.
        solution, problem: of the best fit, for residual plots.
    """

    theta: np.ndarray
    names: tuple[str, ...]
    xi: np.ndarray
    p: np.ndarray
    delay: float
    posterior: Posterior
    physical_covariance: np.ndarray
    before: list[NamedEstimate]
    after: list[NamedEstimate]
    forecast_before: Forecast
    forecast_after: Forecast
    starts: list[Start]
    agreeing: float
    solution: Solution
    problem: ShootingProblem = field(repr=False)

    @property
    def error_ratio(self) -> float:
        before, after = self.forecast_before.rmse, self.forecast_after.rmse
        return float(np.exp(np.mean(np.log(after / before))))

    @property
    def unexcited(self) -> tuple[str, ...]:
        return tuple(n for n, ok in zip(self.names, self.posterior.excited) if not ok)

    @property
    def at_bound(self) -> tuple[str, ...]:
        return tuple(n for n, hit in zip(self.names, self.posterior.at_bound) if hit)


class IdentificationError(ValueError):
    """The data cannot be fitted; one sentence why."""


def identify(
    model: RobotModel,
    spec: FreeParameters,
    windows: list[Window],
    config: IdentifyConfig = IdentifyConfig(),
    progress: Any = None,
    dynamics: System | None = None,
) -> Identification:
    """Fit the free coordinates (and the delay) of a model to windows, in order of time.

    Args:
        progress: reporting.Progress or None.
        dynamics: of the model at the windows' period, if it exists already.

    Raises:
        IdentificationError: too little data, or no start rolls out.
    """
    dt = windows[0].dt
    train, held = split_in_time(windows, config.held_out)
    dynamics = dynamics or dynamics_at(model, dt)
    problem = shooting_problem(dynamics, spec, train, config.segment_time, config)
    starts, solution = _best_of_starts(problem, config, progress)
    certainty = posterior(problem, solution, config.excited_ratio)
    n, theta = spec.n, solution.theta
    J = spec.jacobian(theta[:n])
    prior_cov = np.diag(problem.prior_std**2)
    ahead = shooting_problem(dynamics, spec, held, config.forecast_time + config.lead_time, config)
    lead = round(config.lead_time / dt)
    return Identification(
        theta=theta,
        names=_names(spec, config.delay),
        xi=theta[:n],
        p=spec.to_physical(theta[:n]),
        delay=float(theta[n]) if config.delay else 0.0,
        posterior=certainty,
        physical_covariance=J @ certainty.covariance[:n, :n] @ J.T,
        before=_report(spec, config.delay, problem.prior_mean, prior_cov),
        after=_report(spec, config.delay, theta, certainty.covariance),
        forecast_before=_forecast(ahead, problem.prior_mean, solution.scale, lead),
        forecast_after=_forecast(ahead, theta, solution.scale, lead),
        starts=starts,
        agreeing=float(np.mean([s.cost < min(s.cost for s in starts) + AGREEMENT for s in starts])),
        solution=solution,
        problem=problem,
    )


def dynamics_at(model: RobotModel, dt: float, threads: int = 1) -> Dynamics:
    """Roll-outs at the period dt [s] of a recording, in steps of the model, on so many threads."""
    model.require_scalar_joints("Identification")
    return Dynamics(model, dt=dt, substeps=max(1, round(dt / model.timestep)), threads=threads)


def shooting_problem(
    dynamics: System, spec: FreeParameters, windows: list[Window], duration: float, config: IdentifyConfig
) -> ShootingProblem:
    """Windows in segments of `duration` [s], or of what they hold.

    Raises:
        IdentificationError: they hold not even one.
    """
    steps = max(2, round(duration / windows[0].dt))
    try:
        return ShootingProblem(dynamics, spec, windows, steps, True, config.loss, config.delay, config.scale_floor)
    except ValueError as error:
        raise IdentificationError(str(error)) from None


def split_in_time(windows: list[Window], held_out: float) -> tuple[list[Window], list[Window]]:
    """The first share of all transitions to fit, the last share to judge by."""
    wanted = round((1.0 - held_out) * sum(w.transitions for w in windows))
    train: list[Window] = []
    held: list[Window] = []
    for window in windows:
        cut = min(wanted, window.transitions)
        wanted -= cut
        if cut > 1:
            train.append(window.slice(0, cut))
        if window.transitions - cut > 1:
            held.append(window.slice(cut, window.transitions))
    if not train or not held:
        raise IdentificationError("too little data to fit one part and judge by another; record longer")
    return train, held


def _names(spec: FreeParameters, delay: DelayPrior | None) -> tuple[str, ...]:
    return (*spec.names, "sensor.delay") if delay else tuple(spec.names)


def _report(
    spec: FreeParameters, delay: DelayPrior | None, theta: np.ndarray, covariance: np.ndarray
) -> list[NamedEstimate]:
    """The spec's named quantities, and the delay as one more of the same kind."""
    n = spec.n
    rows = list(spec.report(theta[:n], covariance[:n, :n]))
    if delay:
        d, s = float(theta[n]), float(np.sqrt(covariance[n, n]))
        rows.append(NamedEstimate.of("sensor.delay", "s", d, s))
    return rows


def _starting_points(problem: ShootingProblem, count: int, seed: int) -> np.ndarray:
    """The prior mean and Sobol points through the prior, clipped to the bounds, shape (count, n).

    Points lie within the middle 90 % of each coordinate's prior: its tails rarely roll out.
    """
    from scipy.stats import qmc  # slow to load, and most fits start once

    sobol = qmc.Sobol(problem.n, seed=seed).random_base2(int(np.ceil(np.log2(max(count - 1, 1)))))[: count - 1]
    spread = problem.prior_mean + problem.prior_std * ndtri(0.05 + 0.9 * sobol)
    return np.clip(np.vstack([problem.prior_mean[None], spread]), problem.lower, problem.upper)


def _best_of_starts(problem: ShootingProblem, config: IdentifyConfig, progress: Any) -> tuple[list[Start], Solution]:
    """Every start with its end, and the best solution."""
    points = _starting_points(problem, config.starts, config.seed)
    track = progress.track if progress else lambda items, text: items
    solutions = [minimise(problem, theta, max_evaluations=config.max_evaluations) for theta in track(points, "fitting")]
    usable = [s for s in solutions if s.ending is not Ending.NOT_FINITE]
    if not usable:
        raise IdentificationError("the model does not roll out from any start; check the data and the prior")
    # Each fit estimates its own noise, so costs compare on common scales only: the closest fit's.
    scale = min(usable, key=lambda s: np.sum(np.log(s.scale))).scale
    costs = [_cost(problem, s, scale) for s in solutions]
    starts = [Start(theta, s.theta, c, s.ending) for theta, s, c in zip(points, solutions, costs)]
    return starts, solutions[int(np.argmin(costs))]


def _cost(problem: ShootingProblem, solution: Solution, scale: np.ndarray) -> float:
    if solution.ending is Ending.NOT_FINITE:
        return np.inf
    return problem.normal_equations(solution.rollout, scale).cost


def _forecast(problem: ShootingProblem, theta: np.ndarray, scale: np.ndarray, lead: int) -> Forecast:
    """Open loop from a state fitted to the first `lead` steps of each segment alone."""
    start = problem.shortened(max(lead, problem.skip + 1)).settle_starts(theta, scale)
    rollout: Rollout = problem.evaluate(theta, start.starts)
    first = lead + 1 - problem.first
    k = problem.first + np.arange(problem.observed.shape[1])
    t = problem.times[:, None] + problem.dt * k
    return Forecast(t[:, first:], problem.observed[:, first:], (rollout.residual + problem.observed)[:, first:])
