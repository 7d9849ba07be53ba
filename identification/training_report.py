"""What a training writes: the trained networks, and a page on what they are worth."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from identification.training import Trained
from reporting import Report, figure
from sim_core.augmentation import attached, detach
from sim_core.augmentation.blueprint_file import save_blueprints

__all__ = ["training_report", "write_training"]


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
    """Loss over evaluations, one line for each stage."""
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
