"""From recordings to trained networks: the same data and the same judgement as for the inference of parameters.

trained = train([open_recording("runs/today/bag")], "friction.yaml", TrainConfig())
save_blueprints("trained.yaml", attached(trained.model))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from identification.bag_data import Bag, Table
from identification.errors import UnusableInput, unusable_input
from identification.recordings import cut, read_recordings
from recording import BagError
from sim_core.augmentation.augment import AugmentationError, augment
from sim_core.augmentation.blueprint_file import BlueprintFileError, load_blueprints
from sim_core.augmentation.training import STAGES, Evaluation, Fit, Stage, fit
from sim_core.augmentation.trajectory_error import TrajectoryError
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.fit.identify import dynamics_at
from sim_core.multibody import RobotModel, load_model

__all__ = ["LOSSES", "TrainConfig", "Trained", "stages_of", "train"]

LOSSES = ("trajectory", "one-step")


@dataclass(frozen=True)
class TrainConfig:
    """How networks are trained.

    Attributes:
        robot: model of recordings that hold none, and what a bag must have been recorded with.
        loss: "trajectory": roll-outs on horizons that grow; "one-step".
        iterations: of each stage; None: its own. horizon: longest roll-out trained on [samples]; None: the stages' own.
        length: of a trajectory [s]. held_out: share of the recording, at its end, that judges.
        seed: of the start weights, where the blueprint has none.
    """

    robot: str = ""
    loss: str = "trajectory"
    iterations: int | None = None
    horizon: int | None = None
    length: float = 1.0
    held_out: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise UnusableInput(f"there is no loss '{self.loss}'; there are {', '.join(LOSSES)}")


@dataclass(frozen=True)
class Trained:
    """Networks and what they are worth.

    Attributes:
        fit: the training; model: the robot with the networks; robot: its name.
        metrics: on the held-out part, errors in units of each state's standard deviation.
        held: the held-out part; plain, hybrid: its roll-outs without and with the networks, (R, T+1, nx).
        notes: about the data.
    """

    fit: Fit
    model: RobotModel
    robot: str
    metrics: dict[str, float]
    held: Trajectories
    plain: np.ndarray
    hybrid: np.ndarray
    notes: list[str]

    @property
    def better(self) -> bool:
        """Roll-outs of what training has not seen are closer with the networks than without."""
        return self.metrics["roll-out error, with / without networks"] < 1.0


def stages_of(config: TrainConfig) -> tuple[Stage, ...]:
    """The stages of a training: one-step, then horizons that grow up to the longest."""
    stages: tuple[Stage, ...] = STAGES[:1] if config.loss == "one-step" else STAGES
    if longest := config.horizon:
        shorter = [s for s in stages if s.horizon is not None and s.horizon < longest]
        stages = (*shorter, Stage(longest, STAGES[-1].iterations)) if config.loss == "trajectory" else stages
    if config.iterations:
        stages = tuple(Stage(s.horizon, config.iterations, s.optimiser, s.rate, s.clip) for s in stages)
    return tuple(stages)


def train(
    recordings: Iterable[Bag | Table],
    blueprint: str | Path,
    config: TrainConfig = TrainConfig(),
    on_row: Callable[[Evaluation], None] = lambda row: None,
) -> Trained:
    """Train the networks of a blueprint file on recordings.

    Args:
        recordings: of `recording.open_recording`; all of one robot model.
        blueprint: path of its YAML file.
        on_row: told each evaluation of the loss; what it raises ends the training, and comes through.

    Raises:
        UnusableInput: recordings, a blueprint or settings that cannot be used.
    """
    with unusable_input(BagError, BlueprintFileError, AugmentationError):
        source, _, windows, notes = read_recordings(recordings, config.robot)
        plain = load_model(source)
        hybrid = augment(plain, load_blueprints(blueprint, seed=config.seed))
    training, held = cut(windows, config.length, config.held_out)
    with_networks, without = dynamics_at(hybrid, training.dt), dynamics_at(plain, training.dt)
    unseen = TrajectoryError(with_networks, held, training.scale)
    fitted = fit(
        hybrid,
        training,
        stages=stages_of(config),
        dynamics=dynamics_at(hybrid, training.dt),
        callback=on_row,
        watch=lambda p: float(np.sqrt(unseen.value(p))),
    )
    errors: dict[str, float] = {}
    for name, horizon in (("one-step", 1), ("roll-out", None)):
        a, b = (
            np.sqrt(TrajectoryError(d, held, training.scale).value(p, horizon))
            for d, p in ((with_networks, fitted.p), (without, plain.parameters.nominal))
        )
        errors |= {
            f"{name} error, with networks": float(a),
            f"{name} error, without": float(b),
            f"{name} error, with / without networks": float(a / b) if b > 0 else np.inf,
        }
    return Trained(
        fitted,
        fitted.model,
        plain.name,
        errors,
        held,
        without.rollout(held.x[:, 0], held.u, plain.parameters.nominal),
        with_networks.rollout(held.x[:, 0], held.u, fitted.p),
        notes,
    )
