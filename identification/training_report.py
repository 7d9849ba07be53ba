"""What a training writes: the trained networks, and a page on what they are worth."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from identification.training import Trained
from reporting import Report, Result, figure
from sim_core.augmentation import attached, detach
from sim_core.augmentation.blueprint_file import save_blueprints

__all__ = ["training_report", "training_result", "write_training"]


def training_result(trained: Trained, seed: int) -> Result:
    """The checks: what has not been seen is predicted better with the networks than without."""
    result = Result("train", seed=seed, size=trained.robot)
    for name in ("roll-out", "one-step"):
        ratio = trained.metrics[f"{name} error, with / without networks"]
        result.check(f"held-out {name} error, with / without networks", ratio, 1.0, "<", unit="1")
    result.detail("metrics", trained.metrics)
    result.detail("diverged evaluations", trained.fit.diverged)
    return result


def write_training(trained: Trained, folder: str | os.PathLike[str], source: str) -> None:
    """report.html, and the trained blueprint as blueprint.yaml with its weights, into a folder.

    Args:
        source: what was read, for the report.
    """
    save_blueprints(Path(folder) / "blueprint.yaml", attached(trained.model))
    training_report(trained, source).write(Path(folder) / "report.html")


def training_report(trained: Trained, source: str) -> Report:
    """The page: what the networks gain on the held-out part, and the course of the training."""
    model = trained.model
    report = Report(f"Networks in the equations of {trained.robot}", source)
    if not trained.better:
        report.warning(
            "The networks predict what they have not seen no better than the equations alone; record motion of the kind that "
            "they are for, train for longer (--iterations), or make them smaller."
        )
    report.numbers({name: value for name, value in trained.metrics.items() if "/" in name})
    for note in trained.notes:
        report.text(note)
    report.section("Networks").table(
        ["name", "outputs", "inputs", "mode", "weights"],
        [[b.name, ", ".join(b.outputs), ", ".join(b.inputs), b.mode, len(b.weights)] for b in attached(model)],
    )
    report.section("On the held-out part").table(["measure", "value"], list(trained.metrics.items()))
    _prediction_figure(report, trained)
    _training_figure(report, trained)
    return report


def _prediction_figure(report: Report, trained: Trained) -> None:
    """Positions of the middle held-out trajectory, open loop."""
    middle, n = len(trained.held.x) // 2, detach(trained.model).nq
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


def _training_figure(report: Report, trained: Trained) -> None:
    """Errors over evaluations, one line for each stage, and points of the held-out part."""
    rows = trained.fit.history
    fig, axis = figure(1, 1, size=(8.4, 2.8))
    at = 0
    for key in dict.fromkeys((row["stage"], row["horizon"]) for row in rows):
        losses = [row["loss"] for row in rows if (row["stage"], row["horizon"]) == key]
        axis.semilogy(at + np.arange(len(losses)), np.sqrt(losses), label=f"{key[0]}, {key[1] or 'whole'} steps")
        at += len(losses)
    watched = np.array([row["watched"] for row in rows])
    seen = np.isfinite(watched)
    axis.semilogy(np.flatnonzero(seen), watched[seen], "k.", label="held out, whole trajectories")
    axis.axhline(trained.metrics["roll-out error, without"], color="0.5", linestyle=":", label="held out, no networks")
    axis.set_xlabel("evaluation")
    axis.set_ylabel("error [std of a state]")
    axis.legend(fontsize="small", ncols=2)
    report.section("Training").figure(fig, "Error of each stage on its own horizon, and on what was held out.")
