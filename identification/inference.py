"""From recordings to a posterior: one function for every method.

    inference = infer([BagReader("runs/today/bag")], InferConfig("csvgd", free=("hand.mass_com",)))
    inference.posterior.save("posterior.npz")

A recording is a bag, or a table with joint states alone (bag_data.py). It is cut into trajectories of equal length; the
last fifth in time judges the posterior, the rest is what it is inferred from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from config.description import PayloadDemo, RobotError, Track
from config.robot import load_robot
from identification.bag_data import Bag, Table
from identification.errors import UnusableInput, unusable_input
from identification.infer_settings import InferConfig
from identification.judgement import Held, Verdict, judge_prediction, judge_samples, leaning
from identification.laplace import GAUSS_NEWTON, laplace_posterior, networks_meta
from identification.last_change import since_last_change
from identification.recordings import cut, read_recordings
from identification.spread_density import Recipe, SpreadDensity
from reporting import Progress
from reporting.checks import Check
from sim_core.augmentation import Blueprint, attaching, load_blueprints
from sim_core.inference.data.density import LogDensity
from sim_core.inference.data.window import Window
from sim_core.inference.fit.free_names import (
    default_names,
    free_parameters,
    model_with,
    names_that_free,
    natural_limits,
)
from sim_core.inference.fit.identify import IdentifyConfig, dynamics_at, identify
from sim_core.inference.posterior.error_model import Discrepant, ErrorModel
from sim_core.inference.posterior.finished import finished
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.samplers import METHODS, Samples, Trace, sample
from sim_core.inference.shooting.likelihood import Evaluation, MultipleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.inference.shooting.shooting import DelayPrior
from sim_core.multibody import RobotModel
from sim_core.multibody.model.parameters import is_positive

__all__ = ["Inference", "Step", "infer"]

#: methods that go on from a checkpoint
RESUMABLE = ("svgd", "csvgd")
#: what methods are asked for here unless somebody says otherwise: chains that can be held against each other, and curvatures
#: that are not computed where particles hardly moved
OPTIONS: dict[str, dict[str, Any]] = {"nuts": {"chains": 4}, "sgld": {"chains": 4}, "csvgd": {"refresh": 4}}
#: where nobody says how many iterations, and Markov moves finish the particles: CSVGD ends once the middle one rises no more [nat]
SETTLED = 1.0
#: how often limits are widened, and by how much of their range; walkers and sweeps of the run that tells
WIDENED, ROOM, PILOTS, PILOT_SWEEPS = 8, 3.0, 50, 200


@dataclass(frozen=True)
class Step:
    """Where an inference is. best, mean: log density; defect [sigma_def]; violation: share of a limit's range."""

    iteration: int
    iterations: int
    best: float
    mean: float
    defect: float
    violation: float
    not_finite: int


@dataclass(frozen=True)
class Inference:
    """A posterior and what it came from.

    Attributes:
        posterior: its meta names robot, method, seed, sizes.
        metrics: on the held-out part. error_ratio: median over particles of the RMS error, over the nominal model's.
        verdicts: whether it may be trusted. chains: see `Samples`.
        trace: course of the method, None for gauss-newton. held: what it predicts of the held-out part.
        model, parameters: that the particles belong to. dt: period [s]. notes: about the data.
        resumable: the run was stopped and its checkpoint leads on.
        errors: of the simulator, where they were fitted.
    """

    posterior: ParticlePosterior
    verdicts: tuple[Verdict, ...]
    metrics: dict[str, float]
    trace: Trace | None
    chains: np.ndarray | None
    held: Held
    model: RobotModel
    parameters: LimitedParameters
    model_hash: str
    dt: float
    notes: list[str]
    config: InferConfig
    resumable: bool = False
    errors: ErrorModel | None = None

    @property
    def error_ratio(self) -> float:
        return self.metrics["held-out error, posterior / nominal"]

    @property
    def vectors(self) -> np.ndarray:
        """The physical vector of every particle, (N, np_)."""
        return self.parameters.to_physical(self.posterior.values)


@unusable_input(ValueError, KeyError)
def infer(
    recordings: Iterable[Bag | Table],
    config: InferConfig,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    on_step: Callable[[Step], bool] = lambda step: False,
) -> Inference:
    """Posterior over free quantities of a robot, from recordings of its joints.

    Args:
        recordings: of `recording.open_recording`; all of one robot model.
        config: what is free, the method and its settings.
        executor: computes the likelihood in chunks of particles; None: one batch in this process.
        checkpoint: file to go on from and to leave behind (svgd, csvgd).
        on_step: told after every iteration; True ends the run with what there is.

    Raises:
        UnusableInput: recordings or settings that cannot be used.
        WorkerLost: the executor has no worker left (sim_core/host/executors.py).
    """
    if checkpoint is not None and config.method not in RESUMABLE:
        checkpoint = None  # nothing to go on from: the others start afresh
    recordings = list(recordings)
    source, nominal, windows, notes = read_recordings(recordings, config.robot, config.begin, config.end)
    if not (config.free or config.limits):
        config = replace(config, free=tuple(default_names(nominal.name)))
    networks = tuple(load_blueprints(config.blueprint, trained=True)) if config.blueprint else ()
    model, limits = _limits(source, nominal.name, config, networks)
    config = config.decided(model, len(limits))
    parameters = LimitedParameters(model, limits)
    if config.changes and config.combine == "product" and len(recordings) == 1:
        free = config.free or names_that_free(limits)
        windows, said = since_last_change(source, windows, free, networks, progress=progress)
        notes = [*notes, *said]
    training, held_out = cut(windows, config.length, config.held_out)
    meta = {
        "robot": nominal.name,
        "model_hash": nominal.hash,
        "seed": config.seed,
        "windows": config.windows,
        "trajectories": training.count,
        "seconds": training.count * training.steps * training.dt,
        **networks_meta(config.blueprint, model),
    }
    samples: Samples | None = None
    course: Trace | None = None
    errors: ErrorModel | None = None
    if config.method == GAUSS_NEWTON:
        posterior, verdicts = _laplace(source, networks, windows, parameters, config, progress, meta)
    else:
        recipe = Recipe(
            source,
            limits,
            training,
            config.windows or 1,
            config.sigma_obs,
            config.sigma_def,
            config.combine,
            config.loss,
            networks,
        )
        recipe = _with_room(recipe, config)
        samples = _sampled(recipe, config, executor, checkpoint, progress, on_step)
        course = samples.trace
        exact: LogDensity = replace(recipe, windows=1).density(config.threads)
        if config.errors == "fitted" and not samples.cancelled:
            samples, recipe, errors = _with_errors(samples, recipe, config, progress)
            exact = errors.density()
        elif config.finish and not samples.cancelled:
            # What was not yet there, or not yet one trajectory, is so after these: they are judged in place of the method.
            samples = finished(samples, exact, config.finish, config.seed, progress)
        if wider := [name for name in limits if recipe.limits[name] != limits[name]]:
            notes = [
                *notes,
                f"The recording asks for more than the prior's limits, which were widened: {', '.join(wider)}.",
            ]
        parameters = LimitedParameters(model, recipe.limits)
        posterior = replace(ParticlePosterior.of(parameters, samples, meta), units=tuple(parameters.units))
        verdicts = [*judge_samples(samples, posterior, exact, resumable=checkpoint is not None)]
    dynamics = dynamics_at(model, training.dt, config.threads)
    held = Held(
        held_out.x,
        posterior.rollout(dynamics, parameters, held_out.x[:, 0], held_out.u),
        dynamics.rollout(held_out.x[:, 0], held_out.u, model.parameters.nominal),
        training.scale,
    )
    judge = MultipleShooting(
        dynamics,
        parameters,
        held_out,
        1,
        config.sigma_obs,
        combine=config.combine,
        loss=config.loss,
        scale=training.scale,
    )
    noise = None if samples is None else config.sigma_obs if errors is None else errors.spread(judge)
    verdicts += judge_prediction(held, noise, config.combine)
    return Inference(
        posterior,
        tuple(verdicts),
        _metrics(posterior, held, judge, parameters),
        course,
        samples.chains if samples else None,
        held,
        model,
        parameters,
        nominal.hash,
        training.dt,
        notes,
        config,
        samples is not None and samples.cancelled and checkpoint is not None,
        errors,
    )


def _sampled(
    recipe: Recipe,
    config: InferConfig,
    executor: Executor | None,
    checkpoint: str | Path | None,
    progress: Progress | None,
    on_step: Callable[[Step], bool],
) -> Samples:
    """What the method draws from the recipe's density."""
    density = Watched(SpreadDensity(recipe, executor) if executor else recipe.density(config.threads))
    iterations = config.iterations or METHODS[config.method].iterations

    def callback(iteration: int, z: np.ndarray, log_p: np.ndarray) -> bool:
        finite = log_p[np.isfinite(log_p)]
        best, mean = (float(finite.max()), float(finite.mean())) if len(finite) else (np.nan, np.nan)
        return on_step(Step(iteration + 1, iterations, best, mean, density.defect, violation(z), density.not_finite))

    options = {**({} if "metric" in config.options else OPTIONS.get(config.method, {})), **config.options}
    if config.method == "csvgd" and "metric" not in config.options and config.iterations is None and config.finish:
        options.setdefault("settled", SETTLED)
    if checkpoint is not None:
        options["checkpoint"] = checkpoint
    return sample(
        config.method, density, config.particles, config.iterations, config.seed, progress, callback, **options
    )


def _with_room(recipe: Recipe, config: InferConfig) -> Recipe:
    """The recipe with limits beyond which nothing asks to go, by short runs."""
    for _ in range(WIDENED):
        density = replace(recipe, windows=1).density(config.threads)
        pilot = sample("emcee", density, max(PILOTS, 2 * density.n + 2), PILOT_SWEEPS, config.seed)
        wider = _widened(recipe, config, pilot, density)
        if wider == recipe:
            break
        recipe = wider
    return recipe


def _widened(recipe: Recipe, config: InferConfig, samples: Samples, density: MultipleShooting | Discrepant) -> Recipe:
    """The recipe, or one whose limits are wider where draws lean on them; those that somebody gave stay."""
    names, wider = tuple(recipe.limits), dict(recipe.limits)
    posterior = ParticlePosterior.of(density.parameters, samples)
    for lean in leaning(posterior, density.log_p_and_grad(samples.z)[1]):
        name = names[lean.index]
        low, high = wider[name]
        room = ROOM * (high - low)
        lowest = 0.0 if is_positive(name) else -np.inf
        if name not in config.limits:
            wider[name] = (low, high + room) if lean.upper else (max(low - room, lowest), high)
    return replace(recipe, limits=wider)


def _with_errors(
    samples: Samples, recipe: Recipe, config: InferConfig, progress: Progress | None
) -> tuple[Samples, Recipe, ErrorModel]:
    """Draws with the simulator's errors integrated out, the recipe with limits that have room for them, and the errors."""
    theta = replace(recipe, windows=1).density(config.threads).theta(samples.z)
    for again in range(WIDENED):
        exact = replace(recipe, windows=1).density(config.threads)
        samples = replace(samples, z=exact.z(theta))
        errors = ErrorModel.fitted(exact, samples.z[np.argmax(exact.log_p(samples.z))], config.seed, progress)
        density = errors.density()
        # The particles lie as closely as the assumed noise says, and moves along their differences would have to spread them first.
        drawn = errors.drawn(len(samples.z), config.seed)
        rolls = np.isfinite(density.log_p(drawn))
        spread_out = replace(samples, z=np.where(rolls[:, None], drawn, samples.z))
        samples = finished(spread_out, density, config.finish or 0, config.seed, progress)
        wider = _widened(recipe, config, samples, density)
        if wider == recipe or again == WIDENED - 1:
            break
        theta, recipe = density.theta(samples.z), wider
    return samples, recipe, errors


class Watched:
    """A density that remembers its largest defect, and otherwise is what it watches over."""

    def __init__(self, density: MultipleShooting | SpreadDensity) -> None:
        self._density, self.defect = density, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._density, name)

    def evaluate(self, *arguments: Any) -> Evaluation:
        evaluation = self._density.evaluate(*arguments)
        d = evaluation.defects
        self.defect = float(np.sqrt(np.einsum("nrsi,nrsi->nrs", d, d).max(initial=0.0)))
        return evaluation


def violation(z: np.ndarray) -> float:
    """The largest step of z (N, M) beyond a limit, as a share of its range."""
    return float(np.abs(np.clip(z, 0.0, 1.0) - z).max(initial=0.0))


def _limits(
    source: str, robot: str, config: InferConfig, networks: tuple[Blueprint, ...]
) -> tuple[RobotModel, dict[str, tuple[float, float]]]:
    """Model, and limits of everything that is free; those given win over the ones from priors.

    Raises:
        UnusableInput: a network's weight among them.
    """
    limits: dict[str, tuple[float, float]] = {}
    if config.free:
        # The delay is the sensor's; particles are over what the simulator is made of.
        limits = natural_limits(source, [name for name in config.free if name != "sensor.delay"])[1]
        limits = {name: _with_payload(robot, name, *ends) for name, ends in limits.items()}
    limits.update({name: (float(low), float(high)) for name, (low, high) in config.limits.items()})
    if weights := [name for name in limits if name.startswith("augmentation.")]:
        raise UnusableInput(
            f"{weights[0]} is a network's weight, and weights are held; name physical quantities (weights are trained: "
            "docs/augmentation.md)"
        )
    return model_with(source, list(limits), attaching(networks)), limits


def _with_payload(robot: str, name: str, low: float, high: float) -> tuple[float, float]:
    """Limits of a mass with room for the heaviest payload that the robot is made for, where its description says so."""
    try:
        described = load_robot(robot)
    except (FileNotFoundError, RobotError):  # a recording of a model that has no folder here
        return low, high
    if isinstance(described.task, Track) and isinstance(described.demo, PayloadDemo):
        if name == f"{described.task.payload_body}.mass":
            return low, high + described.demo.mass_range[1]
    return low, high


def _laplace(
    source: str,
    networks: tuple[Blueprint, ...],
    windows: list[Window],
    parameters: LimitedParameters,
    config: InferConfig,
    progress: Progress | None,
    meta: Mapping[str, Any],
) -> tuple[ParticlePosterior, list[Verdict]]:
    """Draws from the Gaussian about the optimum of `identify`, in its own coordinates, as natural quantities."""
    model, spec, with_delay = free_parameters(source, list(config.free), attaching(networks))
    settings = IdentifyConfig(seed=config.seed, held_out=config.held_out, delay=DelayPrior() if with_delay else None)
    found = identify(model, spec, windows, settings, progress)
    posterior = laplace_posterior(found, spec, config.particles, config.seed, {"method": GAUSS_NEWTON, **meta})
    values = posterior.values  # a Gaussian knows no limits
    ending = found.solution.ending.name.lower()
    verdict = Verdict(
        Check("fit ended", ending, ("converged",), "in"),
        "The fit has converged."
        if ending == "converged"
        else f"The fit ended before it had converged ({ending}); free less, or record more.",
    )
    return replace(
        posterior, lower=np.minimum(parameters.lower, values.min(0)), upper=np.maximum(parameters.upper, values.max(0))
    ), [verdict]


def _metrics(
    posterior: ParticlePosterior, held: Held, judge: MultipleShooting, parameters: LimitedParameters
) -> dict[str, float]:
    """How well the posterior predicts what it has not seen."""
    errors, nominal = held.error(held.simulated), float(held.error(held.nominal))
    finite = np.isfinite(errors)
    z = judge.z(posterior.values)
    log_p = judge.log_p(z)
    before = judge.log_p(judge.z(parameters.from_physical(parameters.model.parameters.nominal))[None])[0]
    metrics = {
        "held-out error, posterior / nominal": float(np.median(errors[finite]) / nominal) if finite.any() else np.inf,
        "held-out error [std of each state]": float(np.median(errors[finite])) if finite.any() else np.inf,
        "held-out log p, mean of the particles": float(np.mean(log_p[np.isfinite(log_p)]))
        if np.isfinite(log_p).any()
        else -np.inf,
        "held-out log p, best particle": float(log_p[np.argmax(posterior.log_p)]),
        "held-out log p, nominal": float(before),
        "particles that do not roll out": float((~finite).sum()),
    }
    return metrics
