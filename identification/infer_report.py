"""What an inference writes: a report with corner plot, roll-out bands and convergence, the posterior, and a parameter file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from identification.inference import Inference
from identification.posterior_corner import posterior_corner
from reporting import Report, Result, figure
from reporting.posterior import rollout_bands
from sim_core.augmentation import attached, save_parameters
from sim_core.inference.posterior.error_model import DELAY, ErrorModel
from sim_core.inference.posterior.error_sizes import EXPECTED, SIZES
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.samplers import Trace
from sim_core.multibody.model.parameter_file import ParameterFile

__all__ = ["inference_result", "inference_warnings", "write_inference"]

# Quantities in one corner plot.
CORNER = 12
# Log densities this close to the highest are drawn as if they were there [nat].
LEAST = 0.1
# Quantities and chains whose draws are shown; bars of their ranks.
CHAINED, TRACES, RANKS = 6, 8, 20


def inference_result(inference: Inference) -> Result:
    """The checks: a posterior passes if every verdict that binds does."""
    config, posterior = inference.config, inference.posterior
    result = Result("infer", seed=config.seed, size=posterior.meta.get("robot", ""))
    for verdict in inference.verdicts:
        if verdict.binding:
            result.checks.append(verdict.check)
    result.detail("verdicts", [verdict.sentence for verdict in inference.verdicts])
    result.detail("method", config.method)
    result.detail("particles", posterior.count)
    result.detail("quantities", posterior.summary())
    result.detail("metrics", inference.metrics)
    if inference.errors is not None:
        result.detail("errors", {name: column.tolist() for name, column in zip(SIZES, inference.errors.sizes.T)})
    result.detail("not_finite", posterior.meta.get("not_finite", 0))
    result.detail("cancelled", bool(posterior.meta.get("cancelled", False)))
    return result


def inference_warnings(inference: Inference) -> list[str]:
    """Why this posterior is to be taken with care, a sentence or two each; empty if nothing speaks against it."""
    return [verdict.sentence for verdict in inference.verdicts if not verdict.passed]


def write_inference(
    inference: Inference,
    result: Result,
    folder: str | os.PathLike[str],
    source: str,
    truth: Mapping[str, float] | None = None,
    anyway: bool = False,
) -> None:
    """report.html, result.json, posterior.npz and, if the checks passed, parameters.yaml (with its networks) into a folder.

    Args:
        result: of `inference_result`. source: what was read, for the report. anyway: parameters.yaml in any case.
        truth: {name of a quantity: true value}, where it is known (simulated runs).
    """
    folder = Path(folder)
    inference_report(inference, result, source, truth or {}).write(folder / "report.html")
    result.to_json(folder / "result.json")
    inference.posterior.save(folder / "posterior.npz")
    if result.passed or anyway:
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
    for verdict in inference.verdicts:
        if verdict.passed:
            report.text(verdict.sentence)
        else:
            report.warning(verdict.sentence)
    report.numbers(
        {
            "held-out error, posterior / nominal": inference.error_ratio,
            "particles": posterior.count,
            "inferred from": f"{meta['trajectories']} x {meta['seconds'] / meta['trajectories']:.3g} s",
            "roll-outs masked": meta.get("not_finite", 0),
        }
    )
    for note in inference.notes:
        report.text(note)
    report.checks(result)
    _quantities(report, posterior, truth)
    if inference.errors is not None:
        _errors(report, inference.errors)
    _bands(report, inference)
    if inference.trace is not None and len(inference.trace.iteration):
        _convergence(report, inference.trace)
    if inference.chains is not None and inference.chains.size:
        _chains(report, inference.chains, posterior)
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


def _errors(report: Report, errors: ErrorModel) -> None:
    report.section(
        "What the simulator has wrong",
        "Sizes that were fitted with the posterior, which is as wide as they make it: noise as a multiple of what was assumed, first "
        "states in units of the states' standard deviation, the sensors' delay in milliseconds, inertia that is held in shares of the body's "
        "mass times the square of its centre's distance from the body's frame, all else in shares of what loads the joints. "
        f"{100 * EXPECTED:g} % is expected of each, and a delay of {_share('delay', EXPECTED)}, before the recording is seen.",
    ).table(
        ["cause", "size, median", "smallest and largest draw"],
        [
            [name, _share(name, np.median(column)), f"{_share(name, column.min())} .. {_share(name, column.max())}"]
            for name, column in zip(SIZES, errors.sizes.T)
        ],
    )


def _share(name: str, size: float) -> str:
    if name == "delay":
        return f"{1e3 * DELAY * size:.2g} ms"
    return f"{size:.3g} x" if name == "noise" else f"{100 * size:.2g} %"


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


def _chains(report: Report, chains: np.ndarray, posterior: ParticlePosterior) -> None:
    """Trace and ranks of the chains (C, D, M) in their first quantities: chains that agree share every rank alike."""
    chains = chains[np.linspace(0, len(chains) - 1, min(len(chains), TRACES)).astype(int), :, :CHAINED]
    ranks = rankdata(chains.reshape(-1, chains.shape[2]), axis=0).reshape(chains.shape) / chains[..., 0].size
    names = [
        f"{name} [{unit}]" if unit not in ("", "1") else name for name, unit in zip(posterior.names, posterior.units)
    ]
    count = chains.shape[2]
    fig, axes = figure(count, 2, size=(8.4, 1.5 * count + 0.6), squeeze=False)
    for i, (trace, rank) in enumerate(axes):
        theta = posterior.lower[i] + chains[..., i] * (posterior.upper[i] - posterior.lower[i])
        trace.plot(theta.T, linewidth=0.6)
        trace.set_ylabel(names[i], fontsize="small")
        rank.hist(list(ranks[..., i]), bins=RANKS, range=(0.0, 1.0), histtype="step", density=True)
        rank.axhline(1.0, color="0.5", linestyle=":")
        rank.set_yticks([])
    axes[0, 0].set_title("draws")
    axes[0, 1].set_title("ranks among all draws")
    axes[-1, 0].set_xlabel("draw")
    axes[-1, 1].set_xlabel("rank, share of all")
    left_out = "" if count == len(posterior.names) else f" The first {count} of {len(posterior.names)} quantities."
    report.section("Chains").figure(
        fig, f"A colour is a chain; chains that agree lie over each other, and their ranks are even.{left_out}"
    )


def _convergence(report: Report, trace: Trace) -> None:
    highest = float(np.max(trace.best[np.isfinite(trace.best)], initial=-np.inf))
    # Of a density that rises by millions, the last nats are what counts.
    below = {
        label: np.maximum(highest - values, LEAST) for label, values in (("best", trace.best), ("mean", trace.mean))
    }
    curves = {"log density below its highest [nat]": list(below.items())}
    curves |= {name: [(name, trace.extra[name])] for name in ("defect", "violation") if name in trace.extra}
    fig, axes = figure(1, len(curves), size=(8.4, 3.0), squeeze=False)
    for axis, (title, lines) in zip(axes[0], curves.items()):
        for label, values in lines:
            finite = np.isfinite(values)
            axis.plot(trace.evaluations[finite] / 1000.0, np.asarray(values)[finite], label=label)
        axis.set_title(title, fontsize="small")
        axis.set_xlabel("thousand evaluations")
        axis.legend()
    axes[0, 0].set_yscale("log")
    told = "Defects between windows in sigma_def; violation as a share of a limit's range." if len(curves) > 1 else ""
    report.section("Convergence").figure(fig, told)
