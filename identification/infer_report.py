"""What an inference writes: a report with corner plot, roll-out bands and convergence, the posterior, and a parameter file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from identification.inference import Inference
from identification.posterior_corner import posterior_corner
from reporting import Report, Result, figure
from reporting.posterior import rollout_bands
from sim_core.augmentation import attached, save_parameters
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.samplers import Trace
from sim_core.multibody.model.parameter_file import ParameterFile

__all__ = ["inference_result", "inference_warnings", "write_inference"]

# Particles this close to a limit, as a share of its range, are on it.
AT_LIMIT = 0.01
# Quantities in one corner plot.
CORNER = 12
# A run whose mean log density rose by more than this [nat] over its last fifth has not arrived.
RISE = 1.0
# Windows whose ends lie farther apart than this [sigma_def] are no trajectory.
DEFECT = 2.0


def inference_result(inference: Inference) -> Result:
    """The checks: does the posterior predict what it has not seen better than the model before, and does it roll out?"""
    config, posterior = inference.config, inference.posterior
    result = Result("infer", seed=config.seed, size=posterior.meta.get("robot", ""))
    result.check("held-out prediction error, posterior / nominal", inference.error_ratio, 1.0, "<", unit="1")
    result.detail("method", config.method)
    result.detail("particles", posterior.count)
    result.detail("quantities", posterior.summary())
    result.detail("metrics", inference.metrics)
    result.detail("at_a_limit", at_limits(posterior))
    result.detail("not_finite", posterior.meta.get("not_finite", 0))
    result.detail("cancelled", bool(posterior.meta.get("cancelled", False)))
    return result


def at_limits(posterior: ParticlePosterior) -> list[str]:
    """Names of quantities of which a twentieth of the particles or more lie on a limit."""
    z = (posterior.values - posterior.lower) / (posterior.upper - posterior.lower)
    share = ((z < AT_LIMIT) | (z > 1 - AT_LIMIT)).mean(0)
    return [name for name, on in zip(posterior.names, share) if on >= 0.05]


def inference_warnings(inference: Inference) -> list[str]:
    """Why this posterior is to be taken with care, a sentence or two each; empty if nothing speaks against it."""
    found, trace = [], inference.trace
    if inference.posterior.meta.get("cancelled"):
        found.append(
            "Stopped before the last iteration."
            + (" The same command goes on from the checkpoint." if inference.resumable else "")
        )
    elif trace is not None and (rise := _rise(trace.mean)) > RISE:
        found.append(
            f"Not converged: the mean log density still rose by {rise:.3g} over the last fifth of the iterations; ask for more."
        )
    defect = np.empty(0) if trace is None else trace.extra.get("defect", np.empty(0))
    if len(defect) and not defect[-1] <= DEFECT:
        found.append(
            f"The windows do not join: defects of {defect[-1]:.3g} sigma_def, {DEFECT:g} at most are expected; "
            "ask for more iterations or fewer windows."
        )
    if on := at_limits(inference.posterior):
        found.append(
            f"At a limit: {', '.join(on)}. The data ask for more; widen the limits if that is possible at all."
        )
    return found


def _rise(mean: np.ndarray) -> float:
    """By how much a straight line through the last fifth of the values rises; 0 if they scatter as much about it."""
    last = np.asarray(mean)[-(-len(mean) * 4 // 5) :]
    if len(last) < 5 or not np.isfinite(last).all():
        return 0.0
    at = np.linspace(0.0, 1.0, len(last))
    slope, start = np.polyfit(at, last, 1)
    return float(slope) if slope > 2.0 * np.std(last - start - slope * at) else 0.0


def write_inference(
    inference: Inference,
    result: Result,
    folder: str | os.PathLike[str],
    source: str,
    truth: Mapping[str, float] | None = None,
) -> None:
    """report.html, result.json, posterior.npz and, if the checks passed, parameters.yaml (with its networks) into a folder.

    Args:
        result: of `inference_result`. source: what was read, for the report.
        truth: {name of a quantity: true value}, where it is known (simulated runs).
    """
    folder = Path(folder)
    inference_report(inference, result, source, truth or {}).write(folder / "report.html")
    result.to_json(folder / "result.json")
    inference.posterior.save(folder / "posterior.npz")
    if result.passed:
        save_parameters(folder / "parameters.yaml", parameter_file(inference), attached(inference.model))


def parameter_file(inference: Inference) -> ParameterFile:
    """The best particle, with the particles' spread, as plant and controller load it."""
    vectors = inference.vectors
    best = vectors[int(np.argmax(inference.posterior.log_p))]
    covariance = np.atleast_2d(np.cov(vectors.T)) if len(vectors) > 1 else np.zeros((vectors.shape[1],) * 2)
    nominal = inference.model.parameters.nominal
    moved = (vectors != nominal).any(0)
    names = [name for name, yes in zip(inference.model.parameters.names, moved) if yes]
    return ParameterFile.from_vector(inference.model, best, covariance, names, {}, inference.model_hash)


def inference_report(inference: Inference, result: Result, source: str, truth: Mapping[str, float]) -> Report:
    """The page; arguments as for `write_inference`."""
    posterior, meta = inference.posterior, inference.posterior.meta
    report = Report(f"Inference of {meta.get('robot', '')} by {inference.config.method}", source)
    report.numbers(
        {
            "held-out error, posterior / nominal": inference.error_ratio,
            "particles": posterior.count,
            "inferred from": f"{meta['trajectories']} x {meta['seconds'] / meta['trajectories']:.3g} s",
            "roll-outs masked": meta.get("not_finite", 0),
        }
    )
    for warning in inference_warnings(inference):
        report.warning(warning)
    for note in inference.notes:
        report.text(note)
    report.checks(result)
    _quantities(report, posterior, truth)
    _bands(report, inference)
    if inference.trace is not None and len(inference.trace.iteration):
        _convergence(report, inference.trace)
    report.section("On the held-out part").table(["measure", "value"], list(inference.metrics.items()))
    return report


def _quantities(report: Report, posterior: ParticlePosterior, truth: Mapping[str, float]) -> None:
    rows = [
        [
            r["name"],
            r["unit"],
            r["mean"],
            r["std"],
            r["best"],
            f"[{r['q05']:.4g}, {r['q95']:.4g}]",
            f"{r['lower']:.4g} .. {r['upper']:.4g}",
        ]
        + ([truth.get(r["name"], "")] if truth else [])
        for r in posterior.summary()
    ]
    headers = ["quantity", "unit", "mean", "std", "best", "90 % interval", "limits"] + (["truth"] if truth else [])
    report.section("Posterior").table(headers, rows)
    known = np.array([truth.get(name, np.nan) for name in posterior.names], dtype=float) if truth else None
    fig, shown = posterior_corner(posterior, known, CORNER)
    left_out = "" if shown == len(posterior.names) else f" The {shown} narrowest of {len(posterior.names)}."
    report.figure(fig, "Particles; dashed: limits." + left_out)


def _bands(report: Report, inference: Inference) -> None:
    held, joints, n = inference.held, inference.model.joint_names, inference.model.nq
    middle = len(held.measured) // 2
    t = inference.dt * np.arange(held.measured.shape[1])
    report.section(
        "Prediction of the held-out part",
        f"Open loop from the measured first state of each of {len(held.measured)} trajectories; shown is the one in the middle.",
    )
    best = int(np.argmax(inference.posterior.log_p))
    velocity = [f"{joint}\n[rad/s or m/s]" for joint in joints]
    for what, columns, labels in (
        ("Positions", slice(0, n), [f"{joint}\n[rad or m]" for joint in joints]),
        ("Velocities", slice(n, None), velocity),
    ):
        simulated, measured = held.simulated[:, middle, :, columns], held.measured[middle][:, columns]
        if len(labels) != measured.shape[1]:  # ball and free joints
            labels = [f"x{i}" for i in range(measured.shape[1])]
        report.figure(rollout_bands(t, simulated, measured, labels, best), what + ".")


def _convergence(report: Report, trace: Trace) -> None:
    curves = {"log density": [("best", trace.best), ("mean", trace.mean)]}
    curves |= {name: [(name, trace.extra[name])] for name in ("defect", "violation") if name in trace.extra}
    fig, axes = figure(1, len(curves), size=(2.9 * len(curves) + 0.4, 3.0), squeeze=False)
    for axis, (title, lines) in zip(axes[0], curves.items()):
        for label, values in lines:
            finite = np.isfinite(values)
            axis.plot(trace.evaluations[finite], np.asarray(values)[finite], label=label)
        axis.set_title(title)
        axis.set_xlabel("evaluations")
        axis.legend()
    report.section("Convergence").figure(
        fig, "Defects between windows in sigma_def; violation as a share of a limit's range."
    )
