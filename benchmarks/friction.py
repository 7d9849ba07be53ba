"""What does MuJoCo's own friction law cost, and what does a controller gain by it?

    ./refit bench friction

Rivals in the same run: the smoothed law and a model without friction. Panda, 0.1 to 0.6 N m of friction loss in every
joint of the MuJoCo plant, and five times as much. Costs are operations and CPU time of compiled kernels; the gain is
the tracking error of a hand that follows a figure eight under MPC, the friction known to the controller.
"""

from __future__ import annotations

import copy
import time

import mujoco
import numpy as np

from reporting.checks import Result
from reporting.progress import SilentProgress
from sim_core.codegen import count_operations
from sim_core.control.ampc import AdaptiveMpc
from sim_core.control.tasks import figure_eight, frame_tracking
from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.model import build
from sim_core.multibody.rollout import derivatives, linearization
from sim_core.plant import MujocoPlant

LAWS = {
    "none": {},
    "smooth": {"friction": True, "friction_law": "smooth"},
    "constraint": {"friction": True, "friction_law": "constraint"},
}
ROBOTS, STEPS, ROUNDS = 128, 100, 10
PERIOD, SECONDS, SETTLING = 0.02, 6.0, 1.0  # of control and of a run [s]
SOURCE = "docs/gradients.md"


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Agreement with MuJoCo, cost and gain of each law."""
    result = Result("bench_friction", seed=seed, size=size)
    rng = np.random.default_rng(seed)
    eta = rng.uniform(0.1, 0.6, 7)
    models = {law: load_model("panda", **options) for law, options in LAWS.items()}
    result.check(
        "200 steps against mj_step, largest difference",
        disagreement(models["constraint"], eta, rng),
        1e-9,
        "<=",
        "rad, rad/s",
        SOURCE,
    )
    result.detail("operations", [{"law": law, **operations(model)} for law, model in models.items()])
    result.detail(
        f"CPU time, {ROBOTS} robots, {STEPS} steps [ms]",
        [{"law": law, **cpu_times(model, eta, rng)} for law, model in progress.track(models.items(), "kernels")],
    )
    cases = [(factor, period) for factor in (1.0, 5.0) for period in (4.0, 12.0)][:: 1 if size == "full" else 3]
    rows = []
    for factor, period in progress.track(cases, "tracking"):
        for law, model in models.items():
            rows.append(
                {"friction": f"x {factor:g}", "period [s]": period, "law": law, **tracking(model, factor * eta, period)}
            )
        error = {row["law"]: row["RMSE [mm]"] for row in rows[-len(models) :]}
        for rival in ("smooth", "none"):
            result.check(
                f"tracking error, friction x {factor:g}, period {period:g} s: constraint over {rival}",
                error["constraint"] / error[rival],
                1.0,
                "<",
                "1",
                SOURCE,
            )
    result.detail("tracking under MPC", rows)
    return result


def parameters(model, eta) -> np.ndarray:
    """p with the friction loss eta (7,) where the model has it."""
    named = {f"{joint}.frictionloss": f for joint, f in zip(model.joint_names, eta)}
    return model.parameters.values({name: f for name, f in named.items() if name in model.parameters})


def disagreement(model, eta, rng) -> float:
    """Of 200 steps of to and fro from rest; MuJoCo's solver runs to the end, limits are off."""
    m = copy.copy(model.mj_model)
    m.opt.tolerance = 0.0
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    m.dof_frictionloss[:] = eta
    data, p, step = mujoco.MjData(m), parameters(model, eta), build.step(model, model.timestep)
    data.qpos = model.q_home
    x, worst = np.r_[model.q_home, np.zeros(model.nv)], 0.0
    amplitude = rng.uniform(1, 5, model.nu)
    for k in range(200):
        data.ctrl = amplitude * np.sin(2 * np.pi * k / 50)
        x = step(x, data.ctrl, p).full()[:, 0]
        mujoco.mj_step(m, data)
        worst = max(worst, np.abs(x - np.r_[data.qpos, data.qvel]).max())
    return float(worst)


def operations(model) -> dict:
    """Of a step, of its reverse, and of a step with its Jacobians by state and control."""
    h = model.timestep
    step = build.step(model, h)
    return {
        "step": count_operations(step),
        "reverse step": count_operations(derivatives.step_vjp(step)),
        "step with dx'/d(x, u)": count_operations(linearization.step_jacobian(model, step, h, None, "xu")),
    }


def cpu_times(model, eta, rng) -> dict:
    """Shortest CPU time of each kernel [ms]; sensitivities by the hand's inertia and all dampings."""
    dynamics, p = Dynamics(model), parameters(model, eta)
    x0 = np.r_[model.q_home, np.zeros(model.nv)] + 0.1 * rng.normal(size=(ROBOTS, model.nx))
    U = rng.normal(size=(ROBOTS, STEPS, model.nu))
    X = dynamics.rollout(x0, U, p)
    free = [i for i, name in enumerate(model.parameters.names) if name.startswith("hand.") or name.endswith(".damping")]
    return {
        "roll-out": shortest(lambda: dynamics.rollout(x0, U, p)),
        "reverse sweep": shortest(lambda: dynamics.rollout_vjp(x0, U, p, X, X)),
        f"sensitivities by {len(free)} parameters": shortest(
            lambda: dynamics.rollout_sensitivity(x0, U, p, np.eye(model.np_)[:, free])
        ),
    }


def shortest(call) -> float:
    """CPU time of the fastest of several calls [ms], after one that builds the kernel."""
    call()
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return 1e3 * min(times)


def tracking(model, eta, period: float) -> dict:
    """RMSE of the hand [mm] after the first second, and median time of a solve [ms]; plant and controller in lock-step."""
    task = frame_tracking(model, figure_eight(period=period))
    mpc = AdaptiveMpc(task, p=parameters(model, eta))
    plant = MujocoPlant("panda", parameters={f"{joint}.frictionloss": f for joint, f in zip(model.joint_names, eta)})
    errors, times = [], []
    for _ in range(round(SECONDS / PERIOD)):
        x = np.r_[plant.true_q, plant.true_v]
        command = mpc.command(x, plant.t)
        errors.append(task.error(x, plant.t))
        times.append(command.solve_time)
        for _ in range(round(PERIOD / plant.tick_period)):
            x = np.r_[plant.true_q, plant.true_v]
            plant.step(np.clip(command.u + command.K @ (x - command.x_ref), model.u_lower, model.u_upper))
    settled = np.array(errors[round(SETTLING / PERIOD) :])
    return {"RMSE [mm]": 1e3 * float(np.sqrt(np.mean(settled**2))), "solve [ms]": 1e3 * float(np.median(times))}
