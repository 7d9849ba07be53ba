"""From recordings to a posterior: one function for every method.

    inference = infer([BagReader("runs/today/bag")], InferConfig("csvgd", free=("hand.mass_com",)))
    inference.posterior.save("posterior.npz")

A recording is a bag, by the three methods that bag_data.py uses, or a table with `joint_states` alone. It is cut into trajectories of
equal length; the last fifth in time judges the posterior, the rest is what it is inferred from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import yaml

from identification.bag_data import DataError, read_description, read_windows
from identification.spread_density import Recipe, SpreadDensity
from sim_core.augmentation import attaching, load_blueprints
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.fit.free_names import default_names, free_parameters, model_with, natural_limits
from sim_core.inference.fit.identify import IdentifyConfig, dynamics_at, identify
from sim_core.inference.posterior.metrics import kl_knn, mmd
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.samplers import METHODS, Trace, sample
from sim_core.inference.shooting.likelihood import MultipleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters

__all__ = [
    "Held",
    "InferConfig",
    "Inference",
    "Step",
    "cut",
    "infer",
    "laplace_posterior",
    "method_names",
    "networks_meta",
    "read_limits",
    "read_recordings",
]

GAUSS_NEWTON = "gauss-newton"
ALIASES = {"cma": "cma-es"}
RESUMABLE = ("svgd", "csvgd")
# A recording that is shorter than five trajectories is cut into five all the same.
PIECES = 5


@dataclass(frozen=True)
class InferConfig:
    """What is inferred, and how.

    Attributes:
        method: see `method_names`.
        free: names as for `free_parameters`. limits: name -> (lower, upper), SI; beside or in place of `free`. Without
            either the robot's own list (config/identify.yaml).
        robot: model of recordings that hold none (CSV), and what a bag must have been recorded with.
        particles, iterations: N, and of the method (None: its own).
        windows: of multiple shooting; None: 10 for csvgd, else 1.
        length: of a trajectory [s]. held_out: share of the recording, at its end, that judges.
        sigma_obs: noise of the observations in units of each state's standard deviation; the posterior is as wide as
            this says. sigma_def: spread of the defects in the same units.
        combine: "product": one robot throughout; "sum": every trajectory may be of another one.
        loss: "gaussian" or "huber".
        blueprint: file of networks in the equations (docs/augmentation.md); their weights are held.
        begin, end: stretch of every recording to use [s].
        seed: the same seed gives the same posterior.
        threads: of this process; without an executor they share the particles. The posterior is the same.
        options: of the method.
    """

    method: str = "csvgd"
    free: tuple[str, ...] = ()
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    robot: str = ""
    particles: int = 100
    iterations: int | None = None
    windows: int | None = None
    length: float = 1.0
    held_out: float = 0.2
    sigma_obs: float = 0.2
    sigma_def: float = 0.1
    combine: str = "product"
    loss: str = "gaussian"
    blueprint: str = ""
    begin: float = 0.0
    end: float = np.inf
    seed: int = 0
    threads: int = 1
    options: Mapping = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "method", ALIASES.get(self.method, self.method))
        if self.method not in method_names():
            raise DataError(f"there is no method '{self.method}'; there are {', '.join(method_names())}")
        if not 0.0 < self.held_out <= 0.5:
            raise DataError(f"held_out is {self.held_out}; expected a share above 0 and at most 0.5")
        if self.particles < 1 or self.threads < 1 or not self.length > 0:
            raise DataError(
                "expected at least one particle, one thread and a length > 0 s, found "
                f"{self.particles}, {self.threads} and {self.length}"
            )
        if self.method == GAUSS_NEWTON and self.limits:
            raise DataError("gauss-newton knows priors and no limits; name what is free, or take another method")
        if self.windows is None:
            object.__setattr__(self, "windows", 10 if self.method == "csvgd" else 1)


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

    def error(self, simulated) -> np.ndarray:
        """RMS over trajectories, time and states of simulated - measured in units of the scale; (...,) for (..., R, T+1, nx)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sqrt(np.mean(((simulated - self.measured) / self.scale)[..., 1:, :] ** 2, axis=(-3, -2, -1)))


@dataclass(frozen=True)
class Inference:
    """A posterior and what it came from.

    Attributes:
        posterior: ParticlePosterior; its meta names robot, method, seed, sizes.
        metrics: on the held-out part. error_ratio: median over particles of the RMS error, over the nominal model's.
        trace: Trace, None for gauss-newton. held: Held.
        model, parameters: that the particles belong to. dt: period [s]. notes: about the data.
        resumable: the run was stopped and its checkpoint leads on.
    """

    posterior: ParticlePosterior
    metrics: dict[str, float]
    trace: Trace | None
    held: Held
    model: object
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


def method_names() -> tuple[str, ...]:
    """Every method `infer` knows."""
    return (GAUSS_NEWTON, *METHODS)


def infer(
    recordings,
    config: InferConfig,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    progress=None,
    on_step: Callable[[Step], bool] = lambda step: False,
) -> Inference:
    """Posterior over free quantities of a robot, from recordings of its joints.

    Args:
        recordings: of `recording.open_recording`; all of one robot model.
        executor: computes the likelihood in chunks of particles; None: one batch in this process.
        checkpoint: file to go on from and to leave behind (svgd, csvgd).
        progress: reporting.Progress or None.
        on_step: told after every iteration; True ends the run with what there is.

    Raises:
        DataError, ValueError: what cannot be used, in one sentence.
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
    trace, resumable = None, False
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
            config.windows,
            config.sigma_obs,
            config.sigma_def,
            config.combine,
            config.loss,
            networks,
        )
        density = Watched(SpreadDensity(recipe, executor) if executor else recipe.density(config.threads))
        iterations = config.iterations or METHODS[config.method].iterations

        def callback(iteration, z, log_p) -> bool:
            finite = log_p[np.isfinite(log_p)]
            best, mean = (float(finite.max()), float(finite.mean())) if len(finite) else (np.nan, np.nan)
            return on_step(
                Step(iteration + 1, iterations, best, mean, density.defect, violation(z), density.not_finite)
            )

        options = {**config.options, **({"checkpoint": checkpoint} if checkpoint is not None else {})}
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

    def __init__(self, density):
        self._density, self.defect = density, 0.0

    def __getattr__(self, name):
        return getattr(self._density, name)

    def evaluate(self, *arguments):
        evaluation = self._density.evaluate(*arguments)
        d = evaluation.defects
        self.defect = float(np.sqrt(np.einsum("nrsi,nrsi->nrs", d, d).max(initial=0.0)))
        return evaluation


def violation(z: np.ndarray) -> float:
    """The largest step of z (N, M) beyond a limit, as a share of its range."""
    return float(np.abs(np.clip(z, 0.0, 1.0) - z).max(initial=0.0))


def cut(windows, length: float, held_out: float) -> tuple[Trajectories, Trajectories]:
    """Windows (in order of time) as trajectories of equal length, in seconds: the earlier ones and the last share.

    Raises:
        DataError: they hold fewer than two.
    """
    dt, total = windows[0].dt, sum(w.transitions for w in windows)
    steps = min(round(length / dt), max(total // PIECES, 2))
    pieces = [w.slice(at, at + steps) for w in windows for at in range(0, w.transitions - steps + 1, steps)]
    if len(pieces) < 2 or steps < 2:
        raise DataError(
            f"the recording holds {len(pieces)} stretches of {steps * dt:g} s without gaps, expected at least two: "
            "one to infer from and one to judge by; record longer or choose a shorter length"
        )
    count = max(1, round(held_out * len(pieces)))
    together = Trajectories(dt, np.array([w.x for w in pieces]), np.array([w.u for w in pieces]))
    return together.pick(slice(None, -count)), together.pick(slice(-count, None))


def read_recordings(recordings, robot: str = "", begin: float = 0.0, end: float = np.inf):
    """(source, nominal model, windows in order of time, notes) of recordings of one robot.

    Args:
        recordings: of `recording.open_recording`. robot: of tables, and what a bag must have been recorded with.
        begin, end: stretch of each to use [s].

    Raises:
        DataError: none, of different robots or periods, or one that cannot be used.
    """
    source, nominal, windows, notes = "", None, [], []
    for recording in recordings:
        if not hasattr(recording, "robot_description"):
            if not robot:
                raise DataError("a table holds no robot; name it with --robot")
            model, text = model_with(robot, []), robot
        else:
            model, text = read_description(recording, robot or None)
        if nominal is not None and model.hash != nominal.hash:
            raise DataError(
                f"the recordings are of two robots: '{nominal.name}' and '{model.name}', or two versions of one"
            )
        nominal, source = model, text
        data = read_windows(recording, model, begin, end)
        if windows and not np.isclose(windows[0].dt, data.dt, rtol=1e-6):
            raise DataError(f"the recordings have different periods: {windows[0].dt * 1e3:g} and {data.dt * 1e3:g} ms")
        windows += data.windows
        notes += data.notes
    if nominal is None:
        raise DataError("no recordings; name at least one bag or table")
    return source, nominal, windows, notes


def _limits(source, config: InferConfig, networks):
    """Model, and limits of everything that is free; those given win over the ones from priors.

    Raises:
        DataError: a network's weight among them.
    """
    limits = {}
    if config.free:
        # The delay is the sensor's; particles are over what the simulator is made of.
        limits = natural_limits(source, [name for name in config.free if name != "sensor.delay"])[1]
    limits.update({name: tuple(map(float, pair)) for name, pair in config.limits.items()})
    if weights := [name for name in limits if name.startswith("augmentation.")]:
        raise DataError(
            f"{weights[0]} is a network's weight, and weights are held; name physical quantities (weights are trained: "
            "docs/augmentation.md)"
        )
    return model_with(source, list(limits), attaching(networks)), limits


def _laplace(
    source, networks, windows, parameters: LimitedParameters, config: InferConfig, progress, meta
) -> ParticlePosterior:
    """Draws from the Gaussian about the optimum of `identify`, in its own coordinates, as natural quantities."""
    model, spec, with_delay = free_parameters(source, list(config.free), attaching(networks))
    options = {"seed": config.seed, "held_out": config.held_out}
    if with_delay:
        from sim_core.inference.shooting.shooting import DelayPrior

        options["delay"] = DelayPrior()
    found = identify(model, spec, windows, IdentifyConfig(**options), progress)
    posterior = laplace_posterior(found, spec, config.particles, config.seed, {"method": GAUSS_NEWTON, **meta})
    values = posterior.values  # a Gaussian knows no limits
    return replace(
        posterior, lower=np.minimum(parameters.lower, values.min(0)), upper=np.maximum(parameters.upper, values.max(0))
    )


def laplace_posterior(found, spec, count: int, seed: int, meta: dict) -> ParticlePosterior:
    """Draws from the Gaussian about an `Identification`'s optimum, in its coordinates, as named quantities.

    Their limits are where the draws end; log_p is relative to the optimum.
    """
    n = spec.n
    draws = np.random.default_rng(seed).standard_normal((count, n))
    variances, axes = np.linalg.eigh(found.posterior.covariance[:n, :n])
    coordinates = spec.clip(found.xi + draws * np.sqrt(np.maximum(variances, 0.0)) @ axes.T)
    none = np.zeros((n, n))
    rows = spec.report(found.xi, none)
    values = np.array([[row.value for row in spec.report(xi, none)] for xi in coordinates])
    low, high = values.min(0), values.max(0)
    margin = 0.05 * (high - low) + 1e-12 * (1 + np.abs(high))
    return ParticlePosterior(
        tuple(row.name for row in rows),
        low - margin,
        high + margin,
        values,
        -0.5 * (draws**2).sum(1),
        meta,
        tuple(row.unit for row in rows),
    )


def networks_meta(blueprint, model) -> dict:
    """What a posterior's meta says of the networks it was inferred around: their file, and what it held; {} for none."""
    return {"blueprint": str(Path(blueprint).absolute()), "networks": model.hash.partition("+")[2]} if blueprint else {}


def read_limits(text: str) -> dict[str, tuple[float, float]]:
    """{name: (lower, upper)} from a YAML file or the text itself; "" is none.

    Raises:
        DataError: it is no such mapping.
    """
    if not text:
        return {}
    try:
        source = text if "{" in text or "\n" in text else Path(text).read_text(encoding="utf-8")
        return {str(name): (float(low), float(high)) for name, (low, high) in yaml.safe_load(source).items()}
    except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"limits: expected YAML {{hand.mass: [0.5, 3.0]}} or a file with it, found {text!r} ({error})"
        ) from None


def _metrics(posterior: ParticlePosterior, held: Held, judge: MultipleShooting, parameters) -> dict[str, float]:
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
