"""Planar pushing over a surface whose friction depends on place and direction: a network inside the friction law finds it.

A world of its own (numpy, experiments/problems/planar_pushing.py) pushes a square at constant velocity over a surface with the
hidden friction field; poses are seen with 0.5 mm and 0.2 degrees of noise, the tip's force, as in MCube's recordings, with
0.2 N: without a force, slow pushes tell of friction only how it is spread below the object, not how much there is. The engine's model has contact at force level
at a grid of points 2 cm apart and one friction coefficient. First its constants are fitted (friction of ground and tip,
mass, v_t, the tip's spring and damper), then a network that corrects the lateral friction force of every point from the
point's place, the direction of its slip and its normal force. Held-out pushes decide.

With $REFIT_MCUBE_PUSHES set to a folder of MCube's recordings of one surface (recording/mcube_pushes.py), the square's
pushes there take the world's place; what the network learned can then not be held against a true field.

The targets are this project's own; where MCube's recordings are missing, synthetic pushes take their place.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from experiments.problems.planar_pushing import (
    FORCE_NOISE,
    MASS,
    PERIOD,
    POSE_NOISE,
    SIDE,
    TIP_MASS,
    Field,
    G,
    draw_pushes,
    measured,
    planar_model,
    push_in_the_world,
    recorded,
)
from identification import UnusableInput
from recording.mcube_pushes import PushError
from reporting import PALETTE, Report, Result, SilentProgress, figure
from sim_core.augmentation import Blueprint, Network, Stage, TrajectoryError, attached, augment, fit
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics

SOURCE = "own target, after Heiden et al., NeuralSim, ICRA 2021 (planar pushing)"
VARIABLE = "REFIT_MCUBE_PUSHES"
SECONDS = 1.0
LOAD = MASS * G / 25  # of a point [N]
SUBSTEPS = 10
# training pushes, held-out pushes, L-BFGS iterations on 0.25 s, 0.5 s and all of the pushes
SIZES = {"quick": (32, 24, (20, 20, 130)), "full": (96, 60, (40, 40, 240))}
PASSES = 6
#: Errors count in units of the noise: of poses, and of the sum of half a second of forces. The rest is not observed.
IMPULSE_NOISE = FORCE_NOISE * np.sqrt(0.5 * PERIOD)
SCALE = np.r_[POSE_NOISE, np.full(5, np.inf), np.full(2, IMPULSE_NOISE / TIP_MASS)]
#: Inside these the friction of points is stable in steps of 1 ms. Pressure and friction coefficient only act together.
LIMITS = {
    "mu_ground": (0.2, 0.4),
    "mu_tip": (0.02, 1.0),
    "mass": (0.5, 1.5),
    "contact.ground.foot*.v_t": (0.0125, 0.03),
    "contact.tip.box.stiffness": (5e4, 2e6),
    "contact.tip.box.dissipation": (5e4, 3e7),
}
TIES = {
    "mass": {"object.mass": 1.0, "object.I.zz": SIDE**2 / 6},
    "mu_ground": {"contact.ground.foot*.mu_s": 1.0, "contact.ground.foot*.mu_d": 1.0},
    "mu_tip": {"contact.tip.box.mu_s": 1.0, "contact.tip.box.mu_d": 1.0},
}


def run(size: str = "full", seed: int = 0, progress=SilentProgress(), run_directory=None) -> Result:
    """Record pushes, fit the constants, train the network, compare on held-out pushes.

    Returns:
        Result with error reductions and the correlation of the learned field; details hold both fields and every push.
    """
    training, held_out, iterations = SIZES[size]
    rng, folder = np.random.default_rng([seed, 7]), os.environ.get(VARIABLE)
    field = None if folder else Field()
    result = Result("neuralsim_pushing", seed=seed, size=size)
    with progress.stage("reading the recordings" if folder else "pushing in the world", total=1) as stage:
        if folder:
            try:
                seen = recorded(folder, training + held_out, rng)
            except PushError as error:
                raise UnusableInput(f"${VARIABLE}: {error}") from None
            training = min(training, seen.count * training // (training + held_out))
            truth = seen.x[..., :3]
            result.detail("recordings", {"folder": folder, "pushes": seen.count, "for training": training})
        else:
            pushes = draw_pushes(training + held_out, rng)
            truth, impulses = push_in_the_world(pushes, field, SECONDS)
            seen = measured(pushes, truth, impulses, rng)
        stage.advance()
    train, test = seen.pick(slice(training)), seen.pick(slice(training, None))
    model = planar_model()
    hybrid = augment(model, network())
    p = hybrid.parameters.nominal.copy()
    with progress.stage("fit of the constants", total=4) as stage:
        constants = LimitedParameters(model, LIMITS | ({"mu_ground": (0.05, 0.4)} if folder else {}), TIES)
        p[: model.np_] = fit_constants(model, constants, train, stage)
    dynamics = Dynamics(hybrid, dt=PERIOD, substeps=SUBSTEPS)
    history = []
    with progress.stage("training of the network", total=sum(iterations)) as stage:
        for part, count in zip((0.25, 0.5, 1.0), iterations):
            trained = with_values(hybrid, p)
            found = fit(
                trained,
                train.slice(0, round(part * train.steps)),
                stages=(Stage(None, count, "lbfgs"),),
                scale=SCALE,
                dynamics=dynamics,
                ridge=1e-2,
                callback=lambda row: stage.say(f"loss {row['loss']:.1f}"),
            )
            p, history = found.p, history + found.history
            stage.advance(count)
    plain = Dynamics(model, dt=PERIOD, substeps=SUBSTEPS)
    untuned = final_errors(plain.rollout(test.x[:, 0], test.u, model.parameters.nominal), truth[training:])
    analytical = final_errors(plain.rollout(test.x[:, 0], test.u, p[: model.np_]), truth[training:])
    corrected = final_errors(dynamics.rollout(test.x[:, 0], test.u, p), truth[training:])
    judge(result, untuned, analytical, corrected)
    judge_field(result, with_values(hybrid, p), p, field, truth[:training])
    result.detail("constants", {e: float(v) for e, v in zip(constants.names, constants.from_physical(p[: model.np_]))})
    result.detail("weights", attached(hybrid, p)[0].n_weights)
    result.detail("history", history)
    if run_directory is not None:
        report(result).write(Path(run_directory) / "report.html")
    return result


# -- model and fit -----------------------------------------------------------------------------


def network() -> Blueprint:
    """Residual lateral friction of a point, in units of a third of its load."""
    at = "contact.ground.foot*"
    return Blueprint(
        "friction",
        (f"{at}.tangential_force.x", f"{at}.tangential_force.y"),
        (f"{at}.point.x", f"{at}.point.y", f"{at}.direction.x", f"{at}.direction.y", f"{at}.normal_force"),
        Network(hidden=(12, 12), activation="tanh"),
        input_offset=[0, 0, 0, 0, LOAD],
        input_scale=[0.1, 0.1, 1, 1, LOAD],
        output_scale=LOAD / 3,
    )


def with_values(model, p):
    """The model with nominal values p (np_,)."""
    parameters = model.parameters.copy()
    parameters.nominal = np.array(p)
    return replace(model, parameters=parameters)


def fit_constants(model, constants, train, stage, starts=4) -> np.ndarray:
    """Physical vector (np_,) of the model with the least error over whole pushes: L-BFGS from the model's values and, so
    that no poor minimum is held against it, from random ones."""
    error = TrajectoryError(Dynamics(model, dt=PERIOD, substeps=SUBSTEPS), train, SCALE)
    width, rng = constants.upper - constants.lower, np.random.default_rng(0)

    def loss_and_gradient(z):
        theta = constants.lower + z * width
        loss, pbar = error(constants.to_physical(theta))
        return (loss, constants.pullback(theta, pbar) * width) if np.isfinite(loss) else (1e30, np.zeros(len(z)))

    found = []
    for k in range(starts):
        z = (
            (constants.from_physical(model.parameters.nominal) - constants.lower) / width
            if k == 0
            else rng.random(constants.n)
        )
        found.append(
            minimize(
                loss_and_gradient,
                z,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0, 1)] * constants.n,
                options={"maxiter": 60},
            )
        )
        stage.advance()
    return constants.to_physical(constants.lower + min(found, key=lambda f: f.fun).x * width)


# -- what came of it ---------------------------------------------------------------------------


def final_errors(X, truth) -> np.ndarray:
    """(n, 2): distance [m] and turn [rad] between the object's last simulated and last true pose."""
    error = X[:, -1, :3] - truth[:, -1]
    return np.column_stack([np.linalg.norm(error[:, :2], axis=1), np.abs(error[:, 2])])


def judge(result, untuned, analytical, corrected):
    for k, (name, unit, factor) in enumerate((("position", "mm", 1e3), ("yaw", "deg", np.rad2deg(1.0)))):
        before, after = analytical[:, k].mean() * factor, corrected[:, k].mean() * factor
        result.check(
            f"held-out pushes: {name} error, reduction by the network", 1 - after / before, 0.3, ">=", "1", SOURCE
        )
        result.detail(
            f"{name} error [{unit}]",
            {
                label: [np.mean(errors[:, k]) * factor, np.median(errors[:, k]) * factor]
                for label, errors in (
                    ("the model file's constants", untuned),
                    ("tuned constants", analytical),
                    ("with the network", corrected),
                )
            },
        )
    result.detail("errors", {"analytical": analytical, "hybrid": corrected})


def judge_field(result, hybrid, p, field, truth):
    """Friction coefficient, force against the slip over load, every cm where PASSES training pushes or more came by.

    field: the true one, or None where nobody knows it."""
    x = np.linspace(-0.2, 0.2, 41)
    edges = [np.r_[x - 0.005, x[-1] + 0.005]] * 2
    passes = sum(np.histogram2d(*footprint(push).T, bins=edges)[0] > 0 for push in truth)
    passed = passes >= PASSES
    angle = np.arange(8) * np.pi / 4
    direction = np.column_stack([np.cos(angle), np.sin(angle)])
    X, Y = np.meshgrid(x, x, indexing="ij")
    at = np.concatenate(
        [np.stack([X, Y], -1)[:, :, None].repeat(8, 2), np.broadcast_to(direction, (*X.shape, 8, 2))], -1
    )
    load = hybrid.parameters.nominal[hybrid.parameters.index("contact.ground.foot*.stiffness")] * LOAD / 5e4
    said = attached(hybrid, p)[0](np.concatenate([at, np.full((*at.shape[:-1], 1), load)], -1))
    constant = p[hybrid.parameters.index("contact.ground.foot*.mu_d")]
    learned = constant - (said * direction).sum(-1) / load
    mean = lambda f: np.where(passed, f.mean(-1), np.nan)
    result.check(
        "network gives no energy: share of places and directions with friction against the slip",
        float((learned[passed] >= 0).mean()),
        1.0,
        ">=",
        "1",
        "NeuralSim, failure modes",
    )
    result.detail(
        "field",
        {"x": x, "learned": mean(learned), "along x / y": [float(learned[passed][:, k::4].mean()) for k in (0, 2)]},
    )
    if field is None:
        return
    true = field(X, Y)[..., None] * (direction**2 @ np.array(field.along))
    result.details["field"]["true"] = mean(true)
    result.check(
        "learned against true friction over places, correlation",
        correlation(learned.mean(-1)[passed], true.mean(-1)[passed]),
        0.8,
        ">=",
        "1",
        SOURCE,
    )
    result.check(
        "learned against true friction over places and directions, correlation",
        correlation(learned[passed], true[passed]),
        0.8,
        ">=",
        "1",
        SOURCE,
    )
    result.detail(
        "correlation by least number of passes",
        [
            [n, int((passes >= n).sum()), correlation(learned.mean(-1)[passes >= n], true.mean(-1)[passes >= n])]
            for n in (2, 4, 6, 10)
        ],
    )


def footprint(truth) -> np.ndarray:
    """Places (m, 2) of the object's contact points in all frames (..., 3)."""
    grid = np.stack(np.meshgrid(*[(np.arange(5) - 2) * 0.02] * 2), -1).reshape(-1, 2)
    c, s = np.cos(truth[..., 2:]), np.sin(truth[..., 2:])
    return np.stack(
        [truth[..., :1] + c * grid[:, 0] - s * grid[:, 1], truth[..., 1:2] + s * grid[:, 0] + c * grid[:, 1]], -1
    ).reshape(-1, 2)


def correlation(a, b) -> float:
    return float(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1])


# -- the page ----------------------------------------------------------------------------------


def report(result: Result) -> Report:
    page = Report("Planar pushing over a hidden friction field", result.size)
    page.checks(result)
    details = result.details
    page.section("Held-out pushes", "Last pose against the truth, or against the recorded one; every point is a push.")
    errors = {name: np.asarray(value) for name, value in details["errors"].items()}
    fig, axes = figure(1, 2, size=(8.4, 3.4))
    for k, (axis, name, factor) in enumerate(
        zip(axes, ("position error [mm]", "yaw error [deg]"), (1e3, np.rad2deg(1.0)))
    ):
        a, b = errors["analytical"][:, k] * factor, errors["hybrid"][:, k] * factor
        axis.scatter(a, b, color=PALETTE[0], s=12)
        axis.plot([0, a.max()], [0, a.max()], color=PALETTE[1], linewidth=1)
        axis.set_xlabel(f"tuned constants, {name}")
        axis.set_ylabel("with the network")
    page.figure(fig, "Below the line the network helps.")
    names = ("position error [mm]", "yaw error [deg]")
    page.table(
        ["", *(f"{name}, {kind}" for name in names for kind in ("mean", "median"))],
        [[label, *(f"{value:.2f}" for name in names for value in details[name][label])] for label in details[names[0]]],
    )
    page.section("The friction field", "Mean over eight directions of slip, where the object passed in training.")
    f = details["field"]
    maps = [name for name in ("true", "learned") if name in f]
    x, (low, high) = np.asarray(f["x"]), np.nanquantile(np.asarray(f[maps[0]]), (0, 1))
    fig, axes = figure(1, len(maps), size=(4.2 * len(maps), 3.6), sharey=True)
    axes = np.atleast_1d(axes)
    for axis, name in zip(axes, maps):
        image = axis.pcolormesh(x, x, np.asarray(f[name]).T, vmin=low, vmax=high, cmap="viridis", shading="nearest")
        axis.set_title(name)
        axis.set_xlabel("x [m]")
        axis.set_aspect("equal")
    axes[0].set_ylabel("y [m]")
    fig.colorbar(image, ax=list(axes), label="friction coefficient")
    page.figure(
        fig, "Colours share one scale. Slow pushes tell relative friction; its level only shows where things speed up."
    )
    if "true" in f:
        page.table(
            ["pushes that came by, at least", "places", "correlation"], details["correlation by least number of passes"]
        )
    fig, axis = figure(size=(8.4, 2.6))
    axis.semilogy([row["loss"] for row in details["history"]], color=PALETTE[0])
    axis.set_xlabel("evaluation")
    axis.set_ylabel("mean squared error / noise")
    page.figure(fig, "Training on 0.25 s, 0.5 s and all of the pushes.")
    return page
