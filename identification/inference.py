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

from identification.bag_data import Bag, Table
from identification.errors import UnusableInput, unusable_input
from identification.infer_settings import InferConfig
from identification.laplace import GAUSS_NEWTON, laplace_posterior, networks_meta
from identification.recordings import cut, read_recordings
from identification.spread_density import Recipe, SpreadDensity
from reporting import Progress
from sim_core.augmentation import Blueprint, attaching, load_blueprints
from sim_core.inference.data.window import Window
from sim_core.inference.fit.free_names import default_names, free_parameters, model_with, natural_limits
from sim_core.inference.fit.identify import IdentifyConfig, dynamics_at, identify
from sim_core.inference.posterior.metrics import kl_knn, mmd
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.samplers import METHODS, Trace, sample
from sim_core.inference.shooting.likelihood import Evaluation, MultipleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.inference.shooting.shooting import DelayPrior
from sim_core.multibody import RobotModel

__all__ = ["Held", "Inference", "Step", "infer"]

#: methods that go on from a checkpoint
RESUMABLE = ("svgd", "csvgd")


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
class Held:
    """Predictions of the held-out part: R trajectories open loop from their measured first states.

    measured (R, T+1, nx); simulated (N, R, T+1, nx) by every particle, nominal (R, T+1, nx) by the model before.
    scale (nx,): standard deviation of each state over the training part.
    """

    measured: np.ndarray
    simulated: np.ndarray
    nominal: np.ndarray
    scale: np.ndarray

    def error(self, simulated: np.ndarray) -> np.ndarray:
        """RMS over trajectories, time and states of simulated - measured in units of the scale; (...,) for (..., R, T+1, nx)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sqrt(np.mean(((simulated - self.measured) / self.scale)[..., 1:, :] ** 2, axis=(-3, -2, -1)))


@dataclass(frozen=True)
class Inference:
    """A posterior and what it came from.

    Attributes:
        posterior: its meta names robot, method, seed, sizes.
        metrics: on the held-out part. error_ratio: median over particles of the RMS error, over the nominal model's.
        trace: course of the method, None for gauss-newton. held: what it predicts of the held-out part.
        model, parameters: that the particles belong to. dt: period [s]. notes: about the data.
        resumable: the run was stopped and its checkpoint leads on.
    """

    posterior: ParticlePosterior
    metrics: dict[str, float]
    trace: Trace | None
    held: Held
    model: RobotModel
    parameters: LimitedParameters
    model_hash: str
    dt: float
    notes: list[str]
    config: InferConfig
    resumable: bool = False

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
    source, nominal, windows, notes = read_recordings(recordings, config.robot, config.begin, config.end)
    if not (config.free or config.limits):
        config = replace(config, free=tuple(default_names(nominal.name)))
    networks = tuple(load_blueprints(config.blueprint)) if config.blueprint else ()
    model, limits = _limits(source, config, networks)
    training, held_out = cut(windows, config.length, config.held_out)
    dynamics = dynamics_at(model, training.dt, config.threads)
    parameters = LimitedParameters(model, limits)
    trace: Trace | None = None
    resumable = False
    meta = {
        "robot": nominal.name,
        "model_hash": nominal.hash,
        "seed": config.seed,
        "windows": config.windows,
        "trajectories": training.count,
        "seconds": training.count * training.steps * training.dt,
        **networks_meta(config.blueprint, model),
    }
    if config.method == GAUSS_NEWTON:
        posterior = _laplace(source, networks, windows, parameters, config, progress, meta)
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
        density = Watched(SpreadDensity(recipe, executor) if executor else recipe.density(config.threads))
        iterations = config.iterations or METHODS[config.method].iterations

        def callback(iteration: int, z: np.ndarray, log_p: np.ndarray) -> bool:
            finite = log_p[np.isfinite(log_p)]
            best, mean = (float(finite.max()), float(finite.mean())) if len(finite) else (np.nan, np.nan)
            return on_step(
                Step(iteration + 1, iterations, best, mean, density.defect, violation(z), density.not_finite)
            )

        options: dict[str, Any] = {**config.options, **({"checkpoint": checkpoint} if checkpoint is not None else {})}
        samples = sample(
            config.method, density, config.particles, config.iterations, config.seed, progress, callback, **options
        )
        posterior = replace(ParticlePosterior.of(parameters, samples, meta), units=tuple(parameters.units))
        trace, resumable = samples.trace, samples.cancelled and checkpoint is not None
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
    return Inference(
        posterior,
        _metrics(posterior, held, judge, parameters),
        trace,
        held,
        model,
        parameters,
        nominal.hash,
        training.dt,
        notes,
        config,
        resumable,
    )


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
    source: str, config: InferConfig, networks: tuple[Blueprint, ...]
) -> tuple[RobotModel, dict[str, tuple[float, float]]]:
    """Model, and limits of everything that is free; those given win over the ones from priors.

    Raises:
        UnusableInput: a network's weight among them.
    """
    limits: dict[str, tuple[float, float]] = {}
    if config.free:
        # The delay is the sensor's; particles are over what the simulator is made of.
        limits = natural_limits(source, [name for name in config.free if name != "sensor.delay"])[1]
    limits.update({name: (float(low), float(high)) for name, (low, high) in config.limits.items()})
    if weights := [name for name in limits if name.startswith("augmentation.")]:
        raise UnusableInput(
            f"{weights[0]} is a network's weight, and weights are held; name physical quantities (weights are trained: "
            "docs/augmentation.md)"
        )
    return model_with(source, list(limits), attaching(networks)), limits


def _laplace(
    source: str,
    networks: tuple[Blueprint, ...],
    windows: list[Window],
    parameters: LimitedParameters,
    config: InferConfig,
    progress: Progress | None,
    meta: Mapping[str, Any],
) -> ParticlePosterior:
    """Draws from the Gaussian about the optimum of `identify`, in its own coordinates, as natural quantities."""
    model, spec, with_delay = free_parameters(source, list(config.free), attaching(networks))
    settings = IdentifyConfig(seed=config.seed, held_out=config.held_out, delay=DelayPrior() if with_delay else None)
    found = identify(model, spec, windows, settings, progress)
    posterior = laplace_posterior(found, spec, config.particles, config.seed, {"method": GAUSS_NEWTON, **meta})
    values = posterior.values  # a Gaussian knows no limits
    return replace(
        posterior, lower=np.minimum(parameters.lower, values.min(0)), upper=np.maximum(parameters.upper, values.max(0))
    )


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
    if len(held.measured) > 3 and finite.sum() > 3:
        real = (held.measured / held.scale)[:, 1:].reshape(len(held.measured), -1)
        drawn = (held.simulated[finite] / held.scale)[:, :, 1:]
        simulated = drawn.reshape(-1, real.shape[1])
        metrics |= {
            "KL(real || sim) [nats]": kl_knn(real, simulated),
            "KL(sim || real) [nats]": kl_knn(simulated, real),
            "MMD": mmd(simulated, real),
        }
    return metrics
