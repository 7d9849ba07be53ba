"""How long does one iLQR iteration take, and how long a refit?

    ./refit bench mpc

Rival: Crocoddyl's FDDP and BoxFDDP (compiled C++ on Pinocchio) on the same problem in the same
run: Panda with our inertias and armature, 50 knots of 20 ms, semi-implicit Euler, cost on state,
control and hand position, the same start. The solvers take turns, the shortest time of each
counts. The costs that both report for the start and for the optimum must agree, or the
comparison is void.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.rivals.pinocchio import pinocchio_model
from reporting.checks import Result
from reporting.progress import SilentProgress
from sim_core.control.cost import ControlTerm, Cost, FramePosition, StateTerm
from sim_core.control.ilqr import BoxIlqr
from sim_core.control.plan import IlqrConfig
from sim_core.multibody import load_model

KNOTS, DT, FRAME = 50, 0.02, "hand_site"
TARGET = np.array([0.45, 0.25, 0.40])  # of the hand [m]
STATE = np.r_[np.full(7, 0.1), np.full(7, 0.02)]
CONTROL, HAND, TERMINAL = 1e-4, 1e3, 10.0  # TERMINAL multiplies state and hand at the last knot
ITERATIONS, ROUNDS = 10, 40
SOURCE = "own target"


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Time both solvers and the refit; one check against Crocoddyl."""
    result = Result("bench_mpc", seed=seed, size=size)
    _solvers(result, progress, ROUNDS if size == "full" else 10)
    _refit(result, progress, seed, (0.5, 1.0, 2.0, 4.0) if size == "full" else (0.5, 2.0))
    return result


# -- one iteration ---------------------------------------------------------------------------------


def _solvers(result: Result, progress, rounds: int) -> None:
    """Without control bounds against FDDP, with them against BoxFDDP."""
    model = load_model("panda")
    p = undamped(model)
    x0, U0 = np.r_[model.q_home, np.zeros(model.nv)], np.tile(holding(model, p), (KNOTS, 1))
    pairs = {"FDDP": ours(model, bounded=False), "BoxFDDP": ours(model, bounded=True)}
    reference = pairs["FDDP"].cost.reference(KNOTS, position=TARGET)
    try:
        rivals = {name: crocoddyl_problem(model, p, x0, name) for name in pairs}
    except ImportError as error:
        progress.say(f"There is no rival to compare with ({error}); pip install crocoddyl==3.2.1 pin==4.0.0")
        rivals = {}
    result.check("rival in the same run", bool(rivals), True, "==", "", f"{SOURCE}: Crocoddyl FDDP")

    for name, solver in pairs.items():
        times, theirs = [], []
        for _ in progress.track(range(rounds), f"iLQR against Crocoddyl {name}"):
            found = solver.solve(x0, U0, p=p, reference=reference, iterations=ITERATIONS)
            times.append(1e3 * found.solve_time / found.iterations)
            if rivals:
                theirs.append(1e3 * solve_rival(rivals[name], U0))
        result.detail(f"ms per iteration beside {name}", _spread(times))
        if rivals:
            result.detail(f"ms per iteration of {name}", _spread(theirs))
            _agreement(result, name, solver, rivals[name], reference, p, x0, U0)
            result.check(
                f"iLQR iteration, Panda, {KNOTS} knots, against Crocoddyl {name}",
                min(times),
                min(theirs),
                "<=",
                "ms",
                f"{SOURCE}: no slower",
            )
    realtime = [1e3 * pairs["BoxFDDP"].solve(x0, iterations=1).solve_time for _ in range(50)]
    result.detail("ms of a real-time iteration (warm start, one iteration)", _spread(realtime))


def _spread(times) -> dict:
    return {"min": min(times), "median": float(np.median(times)), "max": max(times)}


def _agreement(result, name, solver, rival, reference, p, x0, U0) -> None:
    """Both must mean the same problem: equal cost of the start, equal optimum."""
    states = list(rival.problem.rollout(list(U0)))
    their_start = rival.problem.calc(states, list(U0))
    our_start = horizon_cost(solver, reference, p, x0, U0)
    best = solver.solve(x0, U0, p=p, reference=reference, iterations=200)
    rival.solve(states, list(U0), 200, True)
    result.check(
        f"cost of the starting controls, ours against {name}'s",
        abs(our_start / their_start - 1),
        1e-9,
        "<=",
        "1",
        "same problem",
    )
    result.check(
        f"cost of the optimum, ours against {name}'s", abs(best.cost / rival.cost - 1), 1e-3, "<=", "1", "same problem"
    )
    result.detail(
        f"optimum beside {name}", {"ours": best.cost, "crocoddyl": rival.cost, "iterations ours": best.iterations}
    )


def undamped(model) -> np.ndarray:
    """Our parameters without joint damping, which Crocoddyl's dynamics do not have."""
    p = model.parameters.nominal.copy()
    for joint in model.joint_names:
        p[model.parameters.index(f"{joint}.damping")] = 0.0
    return p


def ours(model, bounded: bool) -> BoxIlqr:
    cost = Cost(
        model, [StateTerm(STATE, TERMINAL * STATE), ControlTerm(CONTROL), FramePosition(FRAME, HAND, TERMINAL * HAND)]
    )
    config = IlqrConfig(KNOTS, DT, "semi_implicit_euler", max_iterations=ITERATIONS, tolerance=0.0)
    wide = np.full(model.nu, 1e9)  # a box, so that it is the same code, but out of reach
    return BoxIlqr(model, cost, config, u_lower=None if bounded else -wide, u_upper=None if bounded else wide)


def holding(model, p) -> np.ndarray:
    """Controls (nu,) against gravity at home."""
    from sim_core.multibody.model import build

    rest = np.zeros(model.nv)
    return np.asarray(build.inverse_dynamics(model)(model.q_home, rest, rest, p)).ravel()


def horizon_cost(solver, reference, p, x0, U) -> float:
    functions = solver.cost.functions()
    x, total = x0, 0.0
    for k, u in enumerate(U):
        total += float(functions["stage"](x, u, p, reference[k], solver.cost.stage_weights))
        x = solver.predict(x, u, p)
    return total + float(functions["final"](x, p, reference[-1], solver.cost.final_weights))


# -- the rival -------------------------------------------------------------------------------------


def crocoddyl_problem(model, p, x0, solver: str):
    """The same optimal control problem; Crocoddyl weighs residuals by 1/2 and running costs by dt."""
    import crocoddyl

    robot = pinocchio_model(model, p, FRAME)
    state = crocoddyl.StateMultibody(robot)
    actuation = crocoddyl.ActuationModelFull(state)

    def weighted(residual, weights):
        return crocoddyl.CostModelResidual(
            state, crocoddyl.ActivationModelWeightedQuad(np.asarray(weights, float)), residual
        )

    def action(scale, with_control):
        costs = crocoddyl.CostModelSum(state)
        costs.addCost("state", weighted(crocoddyl.ResidualModelState(state, x0), STATE), scale)
        costs.addCost(
            "hand",
            weighted(crocoddyl.ResidualModelFrameTranslation(state, robot.getFrameId(FRAME), TARGET), np.full(3, HAND)),
            scale,
        )
        if with_control:
            costs.addCost("control", weighted(crocoddyl.ResidualModelControl(state), np.full(7, CONTROL)), scale)
        return crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)

    _require_matching_pinocchio(robot, action(1.0, True), x0)
    running = crocoddyl.IntegratedActionModelEuler(action(2.0 / DT, True), DT)
    running.u_lb, running.u_ub = model.u_lower, model.u_upper
    terminal = crocoddyl.IntegratedActionModelEuler(action(2.0 * TERMINAL, False), 0.0)
    problem = crocoddyl.ShootingProblem(x0, [running] * KNOTS, terminal)
    problem.nthreads = 1  # ours uses one thread too
    made = getattr(crocoddyl, f"Solver{solver}")(problem)
    made.th_stop = 1e-300  # never converged: every iteration is made
    return made


def _require_matching_pinocchio(robot, dynamics, x0) -> None:
    """Crocoddyl's wheel does not say for which Pinocchio it was compiled; with another it returns
    numbers from the wrong addresses, or crashes. One acceleration, without armature, tells."""
    import crocoddyl
    import pinocchio as pin

    data, zero = dynamics.createData(), np.zeros(robot.nv)
    dynamics.calc(data, x0, zero)
    if not np.allclose(data.xout, pin.aba(robot, robot.createData(), x0[: robot.nq], zero, zero)):
        raise ImportError(
            f"Crocoddyl {crocoddyl.__version__} was not compiled for Pinocchio "
            f"{pin.__version__}; version 3.2.1 needs pin==4.0.0."
        )


def solve_rival(solver, U0) -> float:
    """Seconds per iteration from the same start (its roll-out included, as in ours)."""
    begin = time.perf_counter()
    X0 = solver.problem.rollout(list(U0))
    solver.solve(X0, list(U0), ITERATIONS, True)
    return (time.perf_counter() - begin) / max(solver.iter, 1)


# -- the refit -------------------------------------------------------------------------------------


def _refit(result: Result, progress, seed: int, windows) -> None:
    """Time of one refit of a payload (4 parameters) against the length of its window at 500 Hz."""
    from sim_core.control.refit import Refit, RefitConfig
    from sim_core.multibody import Dynamics
    from sim_core.multibody.model.parameter_blocks import BodyInertia
    from sim_core.multibody.model.parameters import FreeParameters

    model = load_model("panda")
    spec = FreeParameters(model, [BodyInertia("hand", kind="payload")])
    dynamics = Dynamics(model)
    truth = spec.prior_mean + np.array([2.0, 0.03, 0.0, 0.06])
    recording = swaying(model, dynamics, spec.to_physical(truth), max(windows), seed)
    refit = Refit(model, spec, RefitConfig(time_budget=np.inf), dynamics=dynamics)
    refit.fit(recording.slice(0, 100))  # builds the kernels
    rows = []
    for seconds in progress.track(windows, "refit against window length"):
        window = recording.slice(0, round(seconds / model.timestep))
        fits = [refit.fit(window) for _ in range(3)]
        rows.append(
            {
                "window s": seconds,
                "samples": window.transitions,
                "refit ms": 1e3 * min(f.fit_time for f in fits),
                "evaluations": fits[0].iterations,
                "payload mass kg": float(fits[0].xi[0]),
            }
        )
    result.detail("refit time against window length, Panda with 2 kg payload, 500 Hz", rows)


def swaying(model, dynamics, p, seconds: float, seed: int):
    """A window of the arm swaying about home under servos with noisy sensors."""
    from sim_core.inference.data.window import Window

    rng = np.random.default_rng(seed)
    gravity, gain = holding(model, model.parameters.nominal), np.array([300.0] * 4 + [100.0] * 3)
    t = model.timestep * np.arange(round(seconds / model.timestep) + 1)
    phase, rate = rng.uniform(0, 2 * np.pi, model.nq), rng.uniform(2, 5, model.nq)
    X, U = [np.r_[model.q_home, np.zeros(model.nv)]], []
    for now in t[:-1]:
        goal = model.q_home + 0.3 * (np.sin(rate * now + phase) - np.sin(phase))
        q, v = np.split(X[-1], 2)
        U.append(np.clip(gravity + gain * (goal - q) - 0.1 * gain * v, model.u_lower, model.u_upper))
        X.append(dynamics.step(X[-1], U[-1], p))
    X = np.array(X) + rng.standard_normal((len(t), model.nx)) * np.repeat([1e-4, 1e-3], model.nq)
    return Window(t, X[:, : model.nq], X[:, model.nq :], np.array(U))
