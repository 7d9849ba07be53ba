"""The refit worker without ROS: samples in, rounds out. The same samples give the same rounds.

That is what makes a bag replayable: `replay` feeds recorded joint states up to the window end that
each published parameter set names, runs the round, and gets the same vector to the last bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import dropwhile

import numpy as np

from config.robot import load_robot
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.control.robot_task import (
    blueprint_of,
    considered_parameters,
    free_parameters,
    initial_coordinates,
    online_config,
    physical_vector,
    robot_model,
)
from nodes.framework.actuation import Actuation
from nodes.framework.joint_state_gate import JointSample
from sim_core.augmentation import augment, with_weights
from sim_core.control.refit import Refit, RefitResult
from sim_core.control.refit_online import OnlineRefit

__all__ = ["RefitSession", "Round", "config_from", "replay", "session_model"]


def session_model(config: RefitWorkerConfig):
    """The RobotModel without networks that a configuration fits.

    Raises:
        ValueError: an unusable parameter file, or a name in `free` that matches nothing.
    """
    return robot_model(config.robot, config.free, config.physical_parameters)


@dataclass(frozen=True)
class Round:
    """One round of the refit, accepted or not.

    Attributes:
        result: of the fit; None where there was too little data.
        accepted, reason: the verdict and its sentence.
        p: proposed physical vector (the one in use without a fit), shape (np_,), of the model without networks.
        revision: number of the set in use after the round.
        window_start, window_end: stamps of the first and the last sample at hand [s].
    """

    result: RefitResult | None
    accepted: bool
    reason: str
    p: np.ndarray
    revision: int
    window_start: float
    window_end: float


class RefitSession:
    """Samples, parameters in use, and the rounds that correct them.

    Args:
        model: RobotModel without networks, see `session_model`.
        config: RefitWorkerConfig.

    Attributes:
        robot: its description.
        blueprint: file of the networks that are fitted around, weights held, or ""; blueprints: how often they were exchanged.

    Raises:
        ValueError: a robot, a blueprint or a parameter file that cannot be used.
    """

    def __init__(self, model, config: RefitWorkerConfig) -> None:
        self.model, self.config, self.robot = model, config, load_robot(config.robot)
        self.actuation = Actuation(model)
        self.blueprint, self.blueprints = blueprint_of(config), 0
        self.online = self._online(self.blueprint)
        if config.physical_parameters != "start":
            self.online.set_parameters(self._coordinates(self._physical()))
        self._last: JointSample | None = None

    def _online(self, blueprint: str) -> OnlineRefit:
        """A window without samples around the networks of a file, or around none."""
        hybrid = augment(self.model, blueprint) if blueprint else self.model
        spec = free_parameters(self.robot, hybrid, self.config.recipe, self.config.free)
        if self.config.physical_parameters not in ("", "start"):
            # What a file knows and the refit leaves alone (an arm's damping) stays as the file has it.
            spec = spec.with_base(with_weights(hybrid, self._physical()))
        considered = considered_parameters(self.robot, hybrid, spec)
        return OnlineRefit(
            hybrid, spec, online_config(self.robot, self.config), dt=self.config.sample_period, considered=considered
        )

    def _physical(self) -> np.ndarray:
        """Physical vector that the configuration starts from (np_,), without weights."""
        return physical_vector(self.robot, self.model, self.config.physical_parameters)

    def _coordinates(self, p: np.ndarray) -> np.ndarray:
        hybrid = self.hybrid
        return initial_coordinates(self.robot, hybrid, self.spec, with_weights(hybrid, p))

    # The networks' weights are the end of the hybrid's vector; what is exchanged is what comes before.
    hybrid = property(
        lambda self: self.online.refit.model, doc="RobotModel that is fitted: with the networks in force."
    )
    spec = property(lambda self: self.online.spec, doc="FreeParameters of the hybrid.")
    p = property(lambda self: self.online.p[: self.model.np_], doc="Physical vector in use (np_,), without weights.")

    def around(self, blueprint: str) -> Refit:
        """The refit around other networks ("": none), its kernels built; what is in use is not touched.

        Raises:
            ValueError: a blueprint that cannot be used.
        """
        refit = self._online(blueprint).refit
        self.warm_up(refit)
        return refit

    def exchange(self, blueprint: str, refit: Refit) -> None:
        """Fit around the networks of `blueprint`, with what `around` made of it, from the next round on."""
        self.online.exchange(refit)
        self.blueprint, self.blueprints = blueprint, self.blueprints + 1

    def see(self, sample: JointSample) -> None:
        """Take the next joint state; a repetition of the last one is ignored."""
        last = self._last
        if (
            last is not None
            and sample.stamp == last.stamp
            and np.array_equal(sample.position, last.position)
            and np.array_equal(sample.velocity, last.velocity)
        ):
            return
        # The sample after a reset ends no transition: its effort may be anything but must be a number.
        u = np.nan_to_num(self.actuation.control(sample.effort))
        self.online.append(sample.stamp, sample.position, sample.velocity, u)
        self._last = sample

    def warm_up(self, refit: Refit | None = None) -> None:
        """Build and load every kernel now rather than in the first round: one round over a short made-up motion."""
        # Off the prior: a payload without mass has no COM, and kernels cover only what the coordinates move.
        refit = refit or self.online.refit
        spec, model = refit.spec, refit.model
        xi = spec.clip(spec.prior_mean + 0.1 * spec.prior_std)
        p = spec.to_physical(self.online.xi)
        count = round(self.online.config.min_window / self.online.dt) + 60
        dynamics = refit.dynamics(self.online.dt)
        rng = np.random.default_rng(0)
        U = 0.1 * rng.standard_normal((1, count, self.model.nu))
        x0 = np.concatenate([self.model.q_home, np.zeros(self.model.nv)])
        X = np.asarray(dynamics.rollout(x0[None], U, p))[0]
        for robots in (1, 2):  # one robot and several have kernels of their own
            start, controls = np.tile(x0, (robots, 1)), np.tile(U[:, :3], (robots, 1, 1))
            dynamics.rollout(start, controls, p)
            dynamics.rollout_sensitivity(start, controls, p, spec.jacobian(xi))
            if (considered := refit.considered) is not None:
                dpdxi = considered.spec.jacobian(considered.around(spec.names, xi))
                refit.considered_dynamics(self.online.dt).rollout_sensitivity(start, controls, p, dpdxi)
        rehearsal = OnlineRefit(model, spec, self.online.config, dt=self.online.dt)
        rehearsal.exchange(refit)
        rehearsal.set_parameters(xi)
        for k, x in enumerate(X):
            rehearsal.append(k * self.online.dt, x[: self.model.nq], x[self.model.nq :], U[0, max(k - 1, 0)])
        rehearsal.update()
        if refit.considered is not None and self.online.config.estimate_held:
            refit.released(self.online.dt).fit(rehearsal.windows())

    @property
    def newest(self) -> float:
        """Stamp of the newest sample [s]; -inf before the first."""
        return self._last.stamp if self._last is not None else -np.inf

    @property
    def due(self) -> bool:
        """Is it time for a periodic round?"""
        return self.config.schedule == "periodic" and self._last is not None and self.online.due(self._last.stamp)

    def set_parameters(self, p: np.ndarray) -> int:
        """Take a physical vector from a person as the one in use; returns its revision."""
        if self.online.refit.considered is not None:
            self.online.hold(with_weights(self.hybrid, p))
        self.online.set_parameters(self._coordinates(p))
        self.online.revision += 1
        return self.online.revision

    def round(self, window: float = 0.0, window_end: float = 0.0) -> Round:
        """Fit and judge.

        Args:
            window: stretch to use [s]; 0: the configured one, cut at a change of behaviour.
            window_end: stamp of the last sample to use [s]; 0: the newest.
        """
        online = self.online
        end = min(window_end, self.newest) if window_end > 0.0 else self.newest
        if window > 0.0:
            pieces = [
                piece for piece in (_between(w, end - window, end) for w in online.windows()) if piece is not None
            ]
            result = online.fit(pieces)
        else:
            result = online.update()
        if result is None:
            return Round(None, False, self._too_little(), self.p, online.revision, end, end)
        # From the first sample at hand to the newest: by these a replay finds its place. The fit itself may begin later or end
        # earlier, at a gap or between two stamps.
        start = online.first() if window == 0.0 else result.window[0] if np.isfinite(result.window[0]) else end
        return Round(result, result.accepted, result.reason, result.p[: self.model.np_], online.revision, start, end)

    def _too_little(self) -> str:
        change = self.online.change
        cut = f", cut at the change of behaviour at {change.time:.3f} s" if change is not None else ""
        return f"{self.online.span():.2f} s of data{cut}; {self.online.config.min_window:.2f} s are needed"


def _between(window, start: float, end: float):
    """The part of a Window within [start, end], or None where there is none."""
    half = 0.5 * window.dt
    inside = np.flatnonzero((window.t >= start - half) & (window.t <= end + half))
    return window.slice(int(inside[0]), int(inside[-1])) if len(inside) > 1 else None


def replay(
    model, config: RefitWorkerConfig, samples: Iterable[JointSample], published: Iterable
) -> Iterator[tuple[object, Round]]:
    """Run the rounds of a recorded session again, around the networks that it began with, until it took others.

    Args:
        config: of the worker that was recorded.
        samples: recorded joint states in order of arrival.
        published: the recorded refit_interfaces/ParameterSet messages in order.

    Yields:
        (message, round) for every message that stems from a round over samples that were recorded: a recorder that came
        after the worker has missed what the first rounds were fitted on, and those are left out.
    """
    session = RefitSession(model, config)
    # As the worker did: which kernels are loaded decides the last bits.
    session.warm_up()
    published = [message for message in published if message.window_end > 0.0]
    # The recorder may have been there before the worker: what that never saw must not be fitted.
    begin = published[0].window_start if published and published[0].window_start < published[0].window_end else -np.inf
    samples = dropwhile(lambda sample: sample.stamp < begin - 1e-9, samples)
    ahead: JointSample | None = next(samples, None)
    first = ahead.stamp if ahead is not None else np.inf
    while published and published[0].window_start < first - 1e-9:
        missed = published.pop(0)
        if missed.accepted and missed.model_hash == session.hybrid.hash:
            session.set_parameters(np.asarray(missed.vector))
    for message in published:
        if message.model_hash != session.hybrid.hash:
            return  # the bag does not hold the networks that it names
        # Forward to the sample that the round ended with. Stamps may restart in between (a reset).
        # A sample that the recorder lost is not waited for.
        while (
            ahead is not None
            and session.newest != message.window_end
            and not session.newest < message.window_end < ahead.stamp
        ):
            session.see(ahead)
            ahead = next(samples, None)
        explicit = config.schedule == "episodic"
        window = message.window_end - message.window_start if explicit else 0.0
        yield message, session.round(window, message.window_end if explicit else 0.0)


def config_from(values: dict) -> RefitWorkerConfig:
    """RefitWorkerConfig from recorded values; unknown keys are ignored."""
    names = {field.name for field in dataclasses.fields(RefitWorkerConfig)}
    return RefitWorkerConfig(**{name: value for name, value in values.items() if name in names})
