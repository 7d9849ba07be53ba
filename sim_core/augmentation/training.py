"""Training a hybrid model from trajectory error: first the physics, then the networks, on growing horizons.

    fitted = fit(hybrid, trajectories, physics=LimitedParameters(detach(hybrid), {"joint1.damping": (0, 1)}))
    save_blueprints("friction.yaml", attached(fitted.model))

The error of long roll-outs is a rough function of the weights, that of short ones tells little about slow effects. So
each horizon starts where the shorter one ended. Gradients are clipped in length, because a roll-out on the edge of
divergence has a large gradient whose direction means nothing.

Source: Heiden et al., NeuralSim, ICRA 2021 (physics first, trajectory error); growing horizons and clipping are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from sim_core.augmentation.augment import attached, augment, detach, weight_slice
from sim_core.augmentation.trajectory_error import TrajectoryError
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.samplers.stein import Adam
from sim_core.multibody import Dynamics, RobotModel

__all__ = ["Fit", "Stage", "fit"]

PATIENCE = 3  # diverged evaluations until the step is halved
WATCHED = 10  # evaluations from one look at what training does not see to the next


class PhysicsParameters(Protocol):
    """Parameters of a model without networks, in a box of coordinates theta; `LimitedParameters` is one."""

    @property
    def n(self) -> int: ...

    @property
    def lower(self) -> np.ndarray: ...

    @property
    def upper(self) -> np.ndarray: ...

    def to_physical(self, theta: np.ndarray) -> np.ndarray:
        """Physical vector (np_,) of coordinates (n,)."""
        ...

    def from_physical(self, p: np.ndarray) -> np.ndarray:
        """Coordinates (n,) of a physical vector (np_,)."""
        ...

    def pullback(self, theta: np.ndarray, pbar: np.ndarray) -> np.ndarray:
        """Gradient by the coordinates (n,) of a function whose gradient by the physical vector is pbar (np_,)."""
        ...


@dataclass(frozen=True)
class Stage:
    """Optimisation on windows of one length.

    Attributes:
        horizon: steps of a window; None: whole trajectories.
        iterations: of Adam or L-BFGS.
        optimiser: "adam" (steps of `rate`, which falls to a tenth) or "lbfgs" (whole batches, line searches).
        clip: largest length of Adam's gradient.
    """

    horizon: int | None
    iterations: int = 100
    optimiser: str = "adam"
    rate: float = 1e-2
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "lbfgs"):
            raise ValueError(f'Expected optimiser "adam" or "lbfgs", found "{self.optimiser}".')


class Evaluation(TypedDict):
    """One evaluation of the loss: optimiser or "physics", steps of a window (None for all), its number, its value; and what
    `watch` said, NaN where it was not asked."""

    stage: str
    horizon: int | None
    evaluation: int
    loss: float
    watched: float


@dataclass
class Fit:
    """What training found.

    Attributes:
        model: RobotModel with the trained weights.
        p: physical vector (np_,) of it: trained weights and fitted physics.
        history: one row per evaluation.
        diverged: evaluations whose roll-outs were not finite.
    """

    model: RobotModel
    p: np.ndarray
    history: list[Evaluation] = field(default_factory=list)
    diverged: int = 0


#: A function of (n,) coordinates that returns (loss, gradient (n,)).
LossAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]

STAGES = (Stage(1, 200, "lbfgs"), Stage(10, 200), Stage(50, 200), Stage(200, 200))


def fit(
    model: RobotModel,
    trajectories: Trajectories,
    physics: PhysicsParameters | None = None,
    stages: Sequence[Stage] = STAGES,
    ridge: float = 0.0,
    scale: ArrayLike | None = None,
    dynamics: Dynamics | None = None,
    callback: Callable[[Evaluation], None] | None = None,
    watch: Callable[[np.ndarray], float] | None = None,
) -> Fit:
    """Train the model's networks, and before them its physics.

    Args:
        model: RobotModel with networks (`augment`).
        trajectories: Trajectories at the period of training.
        physics: parameters of the model *without* networks (LimitedParameters or the like), fitted first, alone, on
            whole trajectories and then held; None: the model's values.
        stages: on the weights, one after the other.
        ridge: lambda of lambda * mean(w^2), added to the loss.
        scale: see TrajectoryError.
        dynamics: Dynamics of `model`; default one with the trajectories' period.
        callback: called with each row of the history; what it raises ends the training.
        watch: a number of the physical vector (np_,) that is kept beside every tenth loss of the networks' stages, such as
            the error on data that training does not see.

    Returns:
        Fit; the weights with the least loss of the last stage.

    Raises:
        ValueError: the model has no networks, or the first roll-outs diverge.
    """
    if not model.augmentation:
        raise ValueError(f"Model '{model.name}' has no networks to train; attach some with augment().")
    out = Fit(model, model.parameters.nominal.copy())
    where = weight_slice(model)
    if physics is not None:
        out.p[: where.start] = _fit_physics(detach(model), trajectories, physics, scale, out, callback)
    error = TrajectoryError(dynamics or Dynamics(model, dt=trajectories.dt), trajectories, scale)
    bound = np.concatenate([b.network.bounds(*b.shape) for b in attached(model)])
    for stage in stages:

        def loss_and_gradient(
            w: np.ndarray, p: np.ndarray = out.p.copy(), horizon: int | None = stage.horizon
        ) -> tuple[float, np.ndarray]:
            p[where] = w
            loss, pbar = error(p, horizon)
            return loss + ridge * np.mean(w**2), pbar[where] + 2 * ridge * w / w.size

        optimise = {"adam": _adam, "lbfgs": _lbfgs}[stage.optimiser]

        def watched(w: np.ndarray, p: np.ndarray = out.p.copy()) -> float:
            p[where] = w
            return watch(p) if watch else float("nan")

        function = _Recorded(loss_and_gradient, stage.optimiser, stage.horizon, out, callback, watched)
        out.p[where] = optimise(function, out.p[where], -bound, bound, stage)
    out.model = augment(detach(model), attached(model, out.p))
    return out


def _fit_physics(
    model: RobotModel,
    trajectories: Trajectories,
    physics: PhysicsParameters,
    scale: ArrayLike | None,
    out: Fit,
    callback: Callable[[Evaluation], None] | None,
) -> np.ndarray:
    """p (np_,) of the model without networks, by L-BFGS in the parameters' box from the model's own values."""
    error, width = (
        TrajectoryError(Dynamics(model, dt=trajectories.dt), trajectories, scale),
        physics.upper - physics.lower,
    )

    def loss_and_gradient(z: np.ndarray) -> tuple[float, np.ndarray]:
        theta = physics.lower + z * width
        loss, pbar = error(physics.to_physical(theta))
        return loss, physics.pullback(theta, pbar) * width

    start = np.clip((physics.from_physical(model.parameters.nominal) - physics.lower) / width, 0, 1)
    function = _Recorded(loss_and_gradient, "physics", None, out, callback)
    z = _lbfgs(function, start, np.zeros(physics.n), np.ones(physics.n), Stage(None, 100, "lbfgs"))
    return physics.to_physical(physics.lower + z * width)


class _Recorded:
    """A function (loss, gradient) that remembers its best argument and writes the history."""

    def __init__(
        self,
        function: LossAndGradient,
        name: str,
        horizon: int | None,
        out: Fit,
        callback: Callable[[Evaluation], None] | None,
        watch: Callable[[np.ndarray], float] = lambda x: float("nan"),
    ) -> None:
        self.function, self.out, self.callback, self.watch = function, out, callback, watch
        self.name, self.horizon, self.count = name, horizon, 0
        self.best: np.ndarray | None = None
        self.loss = float("inf")

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = self.function(x)
        watched = self.watch(x) if self.count % WATCHED == 0 else float("nan")
        self.out.history.append(
            Evaluation(stage=self.name, horizon=self.horizon, evaluation=self.count, loss=float(loss), watched=watched)
        )
        self.out.diverged += not np.isfinite(loss)
        self.count += 1
        if self.callback:
            self.callback(self.out.history[-1])
        if loss < self.loss:
            self.best, self.loss = x.copy(), loss
        elif self.best is None:
            raise ValueError(
                "The first roll-outs of training are not finite; start with a shorter horizon or smaller weights."
            )
        return loss, gradient

    @property
    def argmin(self) -> np.ndarray:
        """The argument (n,) with the least loss so far; the first call raises where there is none."""
        assert self.best is not None
        return self.best


def _adam(function: _Recorded, w: np.ndarray, lower: np.ndarray, upper: np.ndarray, stage: Stage) -> np.ndarray:
    adam, rate, lost = Adam(), stage.rate, 0
    for k in range(stage.iterations):
        loss, gradient = function(w)
        if not np.isfinite(loss):
            lost += 1
            w, adam, rate = function.argmin.copy(), Adam(), rate * (0.5 if lost % PATIENCE == 0 else 1.0)
            continue
        length = np.linalg.norm(gradient)
        gradient = gradient * min(1.0, stage.clip / length) if length > 0 else gradient
        w = np.clip(w - adam.step(rate * 0.1 ** (k / stage.iterations), gradient)[0], lower, upper)
    function(w)
    return function.argmin


def _lbfgs(function: _Recorded, x: np.ndarray, lower: np.ndarray, upper: np.ndarray, stage: Stage) -> np.ndarray:
    def finite(x: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = function(x)
        # A number that the line search can step back from.
        return (loss, gradient) if np.isfinite(loss) else (1e30, gradient)

    scipy.optimize.minimize(
        finite,
        x,
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(lower, upper),
        options={
            "maxiter": stage.iterations,
            "maxfun": 4 * stage.iterations,
            "maxcor": 20,
            "ftol": 1e-15,
            "gtol": 1e-12,
        },
    )
    return function.argmin
