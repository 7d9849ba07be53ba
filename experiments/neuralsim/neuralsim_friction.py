"""Joint friction learned inside the simulator from swings alone: damping by two weights, Stribeck friction by small networks.

Recordings are MuJoCo's, the engine knows a pendulum without friction. First the source's damping test: one weight per joint,
torque from velocity. Then a law with a peak at low speed, as dry joints have it, which no coefficient of the model
describes: coefficients fitted alone (damping) against networks of velocity trained on roll-outs. No force is ever measured.

Sources: damping test of the public code of NeuralSim (frictions 0.2 and 0.1, 1/500 s, 5 s); Heiden et al., NeuralSim, ICRA 2021.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.problems.friction_pendulum import JOINTS, STEP, frictionless, recorded
from reporting import PALETTE, Report, Result, SilentProgress, figure
from sim_core.augmentation import (
    Blueprint,
    Network,
    Stage,
    TrajectoryError,
    attached,
    augment,
    fit,
    save_blueprints,
    weight_slice,
)
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics

SOURCE = "own target"
DAMPING = np.array([0.2, 0.1])  # [N m s/rad]
START = np.array([[1.5, 0.5, 0.0, 0.0]])
# Stribeck: what the joint resists with while it slides slowly, quickly, and how both fade in; and what grows with speed.
COULOMB, BREAKAWAY, STRIBECK, VISCOUS, ONSET = 0.3, 0.6, 0.5, 0.05, 0.1
SIZES = {"quick": (4, 40), "full": (8, 150)}  # trajectories, iterations on the longer horizons
STEPS, TESTS = 500, 4


def stribeck(v):
    """Friction torque [N m] at joint velocities v [rad/s]."""
    level = COULOMB + (BREAKAWAY - COULOMB) * np.exp(-((v / STRIBECK) ** 2))
    return -level * np.tanh(v / ONSET) - VISCOUS * v


def run(size: str = "full", seed: int = 0, progress=SilentProgress(), run_directory=None) -> Result:
    """Both studies."""
    result = Result("neuralsim_friction", seed=seed, size=size)
    weights = damping_test()
    for joint, weight, true in zip(JOINTS, weights, -DAMPING):
        result.check(
            f"damping test, {joint}: relative error of the weight", abs(weight / true - 1), 0.02, "<=", "1", SOURCE
        )
    result.detail("damping test", {"weights": weights, "true": -DAMPING})
    judge_stribeck(result, size, seed, progress, run_directory)
    if run_directory is not None:
        report(result).write(Path(run_directory) / "report.html")
    return result


def damping_test():
    """Weights (2,) of linear networks tau_i <- qd_i after one swing of 5 s."""
    swing = recorded(START, 2500, lambda v: -DAMPING * v, every=1)
    nets = [
        Blueprint(f"friction_{j}", f"{j}.passive_torque", f"{j}.velocity", Network((), biases=False)) for j in JOINTS
    ]
    stages = (Stage(1, 50, "lbfgs"), Stage(250, 50, "lbfgs"), Stage(None, 50, "lbfgs"))
    return np.array([b.weights[0] for b in attached(fit(augment(frictionless(), nets), swing, stages=stages).model)])


def judge_stribeck(result, size, seed, progress, run_directory):
    """Train on swings with Stribeck friction; compare forces and held-out roll-outs with the best damping."""
    count, iterations = SIZES[size]
    rng, model = np.random.default_rng(seed), frictionless()
    train, test = (
        recorded(rng.uniform(-1, 1, (n, 4)) * [np.pi, np.pi, 4, 4], STEPS, stribeck, every=1) for n in (count, TESTS)
    )
    physics = LimitedParameters(model, {f"{joint}.damping": (0.0, 1.0) for joint in JOINTS})
    # Small inputs matter as much as large ones here: the law bends within 0.1 rad/s.
    nets = [
        Blueprint(
            f"friction_{j}", f"{j}.passive_torque", f"{j}.velocity", Network((8, 8), "tanh"), input_scale=0.5
        ).initialised(seed + i, 0.1)
        for i, j in enumerate(JOINTS)
    ]
    stages = (Stage(1, 400, "lbfgs"), Stage(50, iterations, "lbfgs"), Stage(STEPS, iterations, "adam", 1e-3))
    with progress.stage("training") as stage:

        def say(row):
            if row["evaluation"] % 20 == 0:
                stage.say(f"{row['stage']}, windows of {row['horizon'] or STEPS} steps: error {row['loss']:.2e}")

        found = fit(augment(model, nets), train, physics, stages, ridge=1e-8, callback=say)
    hybrid, base = Dynamics(found.model, dt=STEP), Dynamics(model, dt=STEP)
    damped = found.p[: weight_slice(found.model).start]
    errors = {
        "no friction": TrajectoryError(base, test).value(model.parameters.nominal),
        "best damping": TrajectoryError(base, test).value(damped),
        "damping and network": TrajectoryError(hybrid, test).value(found.p),
    }
    v = np.linspace(-4, 4, 401)
    learned = np.column_stack([b(v[:, None])[:, 0] for b in attached(found.model, found.p)])
    rubs = damped[[model.parameters.index(f"{j}.damping") for j in JOINTS]]
    total = learned - rubs * v[:, None]
    true = stribeck(v)
    result.check(
        "Stribeck friction: test MSE over that of the best damping",
        errors["damping and network"] / errors["best damping"],
        0.1,
        "<=",
        "1",
        "ours",
    )
    result.check(
        "Stribeck friction: RMS error of the learned torque up to 4 rad/s, over the true torque's RMS",
        float(np.sqrt(np.mean((total - true[:, None]) ** 2) / np.mean(true**2))),
        0.1,
        "<=",
        "1",
        "ours",
    )
    # Work done by friction must not be positive: nothing in the training forbids it.
    result.check(
        "Stribeck friction: largest learned power fed into a joint",
        float((total * v[:, None]).max()),
        0.05,
        "<=",
        "W",
        "ours",
    )
    result.detail("test MSE of 1 s roll-outs [states' variance]", errors)
    result.detail(
        "training",
        {
            "evaluations": len(found.history),
            "diverged": found.diverged,
            "weights": weight_count(found.model),
            "damping [N m s/rad]": rubs,
        },
    )
    result.detail(
        "law",
        {"velocity [rad/s]": v, "true [N m]": true, "learned [N m]": total, "damping alone [N m]": -rubs * v[:, None]},
    )
    result.detail("history", found.history)
    if run_directory is not None:
        save_blueprints(Path(run_directory) / "friction.yaml", attached(found.model, found.p))


def weight_count(model):
    where = weight_slice(model)
    return where.stop - where.start


def report(result: Result) -> Report:
    """Learned friction against true, and the training's course."""
    page = Report("Friction learned inside the simulator", result.size)
    page.checks(result)
    law, history = result.details["law"], result.details["history"]
    fig, axes = figure(1, 3, size=(13, 4))
    v = law["velocity [rad/s]"]
    for i, joint in enumerate(JOINTS):
        axes[i].plot(v, law["true [N m]"], color="black", label="true")
        axes[i].plot(v, np.asarray(law["learned [N m]"])[:, i], color=PALETTE[0], label="damping and network")
        axes[i].plot(
            v, np.asarray(law["damping alone [N m]"])[:, i], color=PALETTE[1], linestyle="--", label="best damping"
        )
        axes[i].set(title=joint, xlabel="velocity [rad/s]", ylabel="friction torque [N m]")
        axes[i].legend()
    at = 0
    for k, (stage, horizon) in enumerate(dict.fromkeys((row["stage"], row["horizon"]) for row in history)):
        loss = [row["loss"] for row in history if (row["stage"], row["horizon"]) == (stage, horizon)]
        axes[2].plot(
            range(at, at + len(loss)),
            loss,
            color=PALETTE[k % len(PALETTE)],
            label=f"{stage}, {horizon or 'all'} step{'s' * (horizon != 1)}",
        )
        at += len(loss)
    axes[2].set(yscale="log", xlabel="evaluation", ylabel="trajectory error [states' variance]")
    axes[2].legend()
    page.section("Learned and true", "The engine starts without friction; forces are never measured, only motion.")
    page.figure(fig, "Friction of both joints, and the training error over its stages.")
    return page
