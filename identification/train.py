"""From recordings to trained networks: the same data and the same judgement as for the inference of parameters.

trained = train([open_recording("runs/today/bag")], "friction.yaml", TrainConfig())
save_blueprints("trained.yaml", attached(trained.model))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from identification.infer import cut, read_recordings
from sim_core.augmentation.augment import attached, augment, detach
from sim_core.augmentation.blueprint_file import load_blueprints
from sim_core.augmentation.training import STAGES, Fit, Stage, fit
from sim_core.augmentation.trajectory_error import TrajectoryError
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.fit.identify import dynamics_at
from sim_core.multibody import load_model

__all__ = ["LOSSES", "TrainConfig", "Trained", "stages_of", "train", "write_training"]

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

    def __post_init__(self):
        if self.loss not in LOSSES:
            raise ValueError(f"there is no loss '{self.loss}'; there are {', '.join(LOSSES)}")


@dataclass(frozen=True)
class Trained:
    """Networks and what they are worth.

    Attributes:
        fit: Fit; model: RobotModel with the networks; robot: its name.
        metrics: on the held-out part, errors in units of each state's standard deviation.
        held: Trajectories; plain, hybrid: their roll-outs without and with the networks, (R, T+1, nx).
        notes: about the data.
    """

    fit: Fit
    model: object
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
    stages = STAGES[:1] if config.loss == "one-step" else STAGES
    if config.horizon:
        shorter = [s for s in stages if s.horizon < config.horizon]
        stages = (*shorter, Stage(config.horizon, STAGES[-1].iterations)) if config.loss == "trajectory" else stages
    if config.iterations:
        stages = tuple(Stage(s.horizon, config.iterations, s.optimiser, s.rate, s.clip) for s in stages)
    return tuple(stages)


def train(
    recordings, blueprint, config: TrainConfig = TrainConfig(), on_row: Callable[[dict], None] = lambda row: None
) -> Trained:
    """Train the networks of a blueprint file on recordings.

    Args:
        recordings: of `recording.open_recording`. blueprint: path of its YAML file.
        on_row: told each row of the history; what it raises ends the training.

    Raises:
        DataError, BlueprintFileError, AugmentationError, ValueError: what cannot be used, in one sentence.
    """
    source, _, windows, notes = read_recordings(recordings, config.robot)
    plain = load_model(source)
    blueprints = [b if np.any(b.weights) else b.initialised(config.seed) for b in load_blueprints(blueprint)]
    hybrid = augment(plain, blueprints)
    training, held = cut(windows, config.length, config.held_out)
    fitted = fit(hybrid, training, stages=stages_of(config), dynamics=dynamics_at(hybrid, training.dt), callback=on_row)
    with_networks, without = dynamics_at(hybrid, training.dt), dynamics_at(plain, training.dt)
    errors = {}
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


def write_training(trained: Trained, folder, source: str) -> None:
    """report.html, and the trained blueprint as blueprint.yaml with its weights, into a folder."""
    from pathlib import Path

    from reporting import Report, figure
    from sim_core.augmentation.blueprint_file import save_blueprints

    folder, model = Path(folder), trained.model
    save_blueprints(folder / "blueprint.yaml", attached(model))
    report = Report(f"Networks in the equations of {trained.robot}", source)
    report.numbers({name: value for name, value in trained.metrics.items() if "/" in name})
    for note in trained.notes:
        report.text(note)
    report.section("Networks").table(
        ["name", "outputs", "inputs", "mode", "weights"],
        [[b.name, ", ".join(b.outputs), ", ".join(b.inputs), b.mode, len(b.weights)] for b in attached(model)],
    )
    report.section("On the held-out part").table(["measure", "value"], list(trained.metrics.items()))
    middle, n = len(trained.held.x) // 2, detach(model).nq
    t = trained.held.dt * np.arange(trained.held.steps + 1)
    fig, axes = figure(n, 1, size=(8.4, 1.5 * n + 0.9), sharex=True, squeeze=False)
    for i, axis in enumerate(axes[:, 0]):
        axis.plot(t, trained.held.x[middle, :, i], color="#444444", linestyle=":", label="measured")
        axis.plot(t, trained.plain[middle, :, i], label="without networks")
        axis.plot(t, trained.hybrid[middle, :, i], label="with networks")
        axis.set_ylabel(f"q{i}")
    axes[0, 0].legend(ncols=3)
    axes[-1, 0].set_xlabel("time [s]")
    report.figure(fig, "Open loop from the measured first state.")
    rows = trained.fit.history
    fig, axis = figure(1, 1, size=(8.4, 2.8))
    at = 0
    for key in dict.fromkeys((row["stage"], row["horizon"]) for row in rows):
        losses = [row["loss"] for row in rows if (row["stage"], row["horizon"]) == key]
        axis.semilogy(at + np.arange(len(losses)), losses, label=f"{key[0]}, {key[1] or 'whole'} steps")
        at += len(losses)
    axis.set_xlabel("evaluation")
    axis.legend()
    report.section("Training").figure(fig, "Loss of each stage.")
    report.write(folder / "report.html")
