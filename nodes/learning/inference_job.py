"""An inference as a job of its own process: recordings in, posterior and report out. Knows no ROS."""

from __future__ import annotations

from pathlib import Path

__all__ = ["infer_job"]


def infer_job(job: dict, told) -> dict:
    """Infer, write report and posterior; what a ParticleSet needs.

    Args:
        job: bags, config (of InferConfig, without limits), limits (text), cluster, checkpoint, output_directory.
        told: told(dict of feedback) -> whether to end early.

    Raises:
        ValueError, OSError: data that cannot be used, in one sentence.
    """
    # Imported by the job's process alone: the node, which starts it, waits for no plotting library.
    from identification.infer_report import inference_result, write_inference
    from identification.infer_settings import InferConfig, read_limits
    from identification.inference import infer
    from recording import open_recording
    from reporting import write_run
    from sim_core.augmentation import detach
    from sim_core.host.executors import open_executor

    told({"stage": "reading"})
    config = InferConfig(limits=read_limits(job["limits"]), **job["config"])
    recordings = [open_recording(path) for path in job["bags"]]
    checkpoint = Path(job["checkpoint"]) / "checkpoint.npz" if job["checkpoint"] else None

    def on_step(step) -> bool:
        return told(
            {
                "stage": config.method,
                "iteration": step.iteration,
                "progress": step.iteration / step.iterations,
                "best_log_p": step.best,
                "mean_log_p": step.mean,
                "max_defect": step.defect,
                "max_limit_violation": step.violation,
                "not_finite": step.not_finite,
            }
        )

    with open_executor(job["cluster"]) as executor:
        inference = infer(recordings, config, executor if job["cluster"] else None, checkpoint, on_step=on_step)
    told({"stage": "reporting", "progress": 1.0})
    result, source = inference_result(inference), ", ".join(job["bags"])
    out = Path(job["output_directory"]) if job["output_directory"] else None
    folder = write_run("infer", lambda run: write_inference(inference, result, run, source), out, bag=source)
    posterior = inference.posterior
    # Weights are held, and whoever takes the particles has them from the file.
    vectors = inference.vectors[:, : detach(inference.model).np_]
    return {
        "robot": posterior.meta["robot"],
        "model_hash": inference.model.hash,
        "blueprint": posterior.meta.get("blueprint", ""),
        "method": config.method,
        "names": list(posterior.names),
        "units": list(posterior.units),
        "lower": posterior.lower,
        "upper": posterior.upper,
        "values": posterior.values,
        "log_lik": posterior.log_p,
        "vectors": vectors,
        "file": str(Path(folder / "posterior.npz").resolve()),
        "report": str(Path(folder / "report.html").resolve()),
        "metrics": inference.metrics,
        "passed": result.passed,
        "not_finite": int(posterior.meta.get("not_finite", 0)),
        "cancelled": bool(posterior.meta.get("cancelled")),
        "resumable": inference.resumable,
        "error_ratio": inference.error_ratio,
        "notes": inference.notes,
    }
