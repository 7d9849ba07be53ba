"""The training of networks as a job of its own process: recordings and a blueprint in, trained file and report out. Knows no ROS."""

from __future__ import annotations

import tempfile
from pathlib import Path

__all__ = ["train_job"]


class Cancelled(ValueError):
    """The client wants no result any more."""


def train_job(job: dict, told) -> dict:
    """Train, write the trained blueprint and a report.

    Args:
        job: bags, blueprint (path or YAML text), config (of TrainConfig), output_directory.
        told: told(dict of feedback) -> whether to end.

    Raises:
        ValueError, OSError: data or a blueprint that cannot be used, in one sentence.
    """
    # Imported by the job's process alone: the node, which starts it, waits for no plotting library.
    from identification.training import TrainConfig, stages_of, train
    from identification.training_report import write_training
    from recording import open_recording
    from reporting import write_run

    told({"stage": "reading"})
    config = TrainConfig(**job["config"])
    recordings = [open_recording(path) for path in job["bags"]]
    total, seen = sum(stage.iterations for stage in stages_of(config)), 0

    def on_row(row: dict) -> None:
        nonlocal seen
        seen += 1
        if told(
            {
                "stage": row["stage"],
                "iteration": seen,
                "progress": min(seen / total, 1.0),
                "horizon": row["horizon"] or 0,
                "loss": row["loss"],
            }
        ):
            raise Cancelled("cancelled")

    with tempfile.TemporaryDirectory() as folder:
        path = job["blueprint"]
        if "\n" in path:
            path = Path(folder) / "blueprint.yaml"
            path.write_text(job["blueprint"], encoding="utf-8")
        trained = train(recordings, path, config, on_row)
    told({"stage": "reporting", "progress": 1.0})
    source = ", ".join(job["bags"])
    out = Path(job["output_directory"]) if job["output_directory"] else None
    written = write_run("train", lambda run: write_training(trained, run, source), out, bag=source)
    return {
        "blueprint": str(Path(written / "blueprint.yaml").resolve()),
        "report": str(Path(written / "report.html").resolve()),
        "metrics": trained.metrics,
        "better": trained.better,
        "diverged": trained.fit.diverged,
    }
