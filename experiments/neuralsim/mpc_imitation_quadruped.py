"""A network imitates the quadratic programme of a quadruped's stance controller: ten times faster, and it keeps walking?

An A1-like robot trots in MuJoCo under convex MPC (OSQP, horizon 10). Its answers under random linear and angular targets
train a network of 41 inputs and two hidden layers of 192, which then takes its place: at several speeds, sideways, turning and in
place, on the robot it was trained with and on one whose trunk is 15 % heavier, whose torques come 4 ms late and whose sensors are noisier.
Both solvers are timed in one process on the same observations. The controllers see IMU, joints and contact switches only.

Source: Heiden, NeuralSim (2021), MPC imitation (Fig. 4.6): OSQP 2 ms and 160 Hz, network 0.2 ms and 300 Hz; on the real robot
a slightly lower torso.
"""

from __future__ import annotations

import gc
import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from reporting import PALETTE, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.motion.quadruped.controller import TrotConfig, TrotController
from sim_core.motion.quadruped.imitation import collect, train
from sim_core.motion.quadruped.observation import Observation
from sim_core.motion.quadruped.robot import LEGS, QuadrupedRobot, rotation_rpy
from sim_core.motion.quadruped.stance import GuardedNetStance, QpStance, Stance
from sim_core.motion.quadruped.stance_net import StanceNet
from sim_core.motion.quadruped.walking import Target, Walk, walk
from sim_core.plant import MujocoPlant

TIERS = ("learning",)
SOURCE, DEFAULT = "Heiden et al., NeuralSim, ICRA 2021 (MPC imitation)", "own target"
ASKED = "the robot does what it is asked to (project default)"
SIZES = {"quick": (4000, 80), "full": (10_000, 200)}  # transitions, epochs
SECONDS, SETTLE = 12.0, 2.0  # of a walk [s], and its beginning that does not count
PERIODS = {"160 Hz": 1 / 160, "300 Hz": 1 / 300}
GOALS = {
    "0.3 m/s": Target((0.3, 0.0)),
    "0.3 m/s, turning": Target((0.3, 0.0), 0.4),
    "in place": Target(),
    "0.1 m/s": Target((0.1, 0.0)),
    "0.2 m/s": Target((0.2, 0.0)),
    "0.4 m/s": Target((0.4, 0.0)),
    "0.1 m/s sideways": Target((0.0, 0.1)),
}
NOISE = dict(position_noise=5e-4, velocity_noise=0.02, orientation_noise=2e-3, gyro_noise=0.01, accelerometer_noise=0.1)
# 15 % of the trunk's mass is 7 % of the robot's; thighs and calves 20 % is 7 % more.
REAL = dict(
    command_delay=0.004,
    **{name: 2 * value for name, value in NOISE.items()},
    scenario=[
        dict(action="scale", target="trunk.mass", factor=1.15),
        dict(action="scale", target="*_thigh.mass", factor=1.2),
        dict(action="scale", target="*_calf.mass", factor=1.2),
    ],
)
PLANTS = {"nominal": NOISE, "real": REAL}
FRICTION = 0.45


@dataclass(frozen=True)
class Job:
    """One walk: on which robot, towards which goal, at which control rate; by the network, or by the programme."""

    where: str
    goal: str
    rate: str
    net: StanceNet | None
    seed: int


def walked(job: Job) -> tuple[Walk, int]:
    """The walk, and how many cycles the programme answered in the network's place."""
    robot = QuadrupedRobot.load("quadruped")
    solver = QpStance(robot) if job.net is None else GuardedNetStance(robot, job.net)
    trace = walk(
        plant(job.seed, **PLANTS[job.where]),
        TrotController(robot, solver),
        lambda t: GOALS[job.goal],
        SECONDS,
        PERIODS[job.rate],
    )
    return trace, solver.fallbacks if isinstance(solver, GuardedNetStance) else 0


def run(
    size: str = "full",
    seed: int = 0,
    progress=SilentProgress(),
    run_directory=None,
    executor: Executor | None = None,
) -> Result:
    """Collect, train, walk, time and disturb. An executor computes the walks.

    Returns:
        Result; details hold the walks' measures, traces and timings. The network goes to `run_directory`.
    """
    import torch

    torch.set_num_threads(1)
    transitions, epochs = SIZES[size]
    result = Result("mpc_imitation_quadruped", seed=seed, size=size)
    robot = QuadrupedRobot.load("quadruped")
    with progress.stage("collecting transitions", total=transitions) as stage:
        data = collect(plant(seed + 1, **NOISE), robot, transitions, seed=seed, advance=stage.advance)
    nets = {}
    shapes = {"41-192-192-12": (192, 192), **({"41-192-192-192-12": (192, 192, 192)} if size == "full" else {})}
    with progress.stage("training", total=epochs * len(shapes)) as stage:
        for name, hidden in shapes.items():
            nets[name] = train(data, hidden, seed, epochs, advance=lambda loss: stage.advance())
    published = nets["41-192-192-12"]
    if run_directory is not None:
        published.save(Path(run_directory) / "stance_net.safetensors")
    solvers: dict[str, StanceNet | None] = {"OSQP": None, **nets}
    cases = [(p, g, "160 Hz") for p in PLANTS for g in GOALS] + [("nominal", "0.3 m/s", "300 Hz")]
    if size == "quick":
        cases = [case for case in cases if case[1:] == ("0.3 m/s", "160 Hz")]
    keys = [(*case, name) for case in cases for name in solvers]
    jobs = [Job(where, goal, rate, solvers[name], seed) for where, goal, rate, name in keys]
    with progress.stage("walking", total=len(jobs)) as stage:
        walks = dict(zip(keys, spread(walked, jobs, executor, lambda count: stage.advance())))
    judge_walks(result, walks, robot)
    nominal = plant(seed, **NOISE)
    time_solvers(result, robot, nominal, nets, 3.0 if size == "quick" else 10.0)
    judge_faults(result, robot, nominal, published)
    result.detail("networks", {name: {"parameters": net.parameters, **net.meta} for name, net in nets.items()})
    return result


def plant(seed: int, **options) -> MujocoPlant:
    """The robot in MuJoCo, 1 ms physics and servos."""
    return MujocoPlant("quadruped", seed=seed, stop_state="hold", **options)


# -- walking ---------------------------------------------------------------------------------------


def judge_walks(result: Result, walks: dict[tuple, tuple[Walk, int]], robot: QuadrupedRobot) -> None:
    """Seconds on its feet, errors against the programme's, height; one row per walk in the details."""
    rows, traces = [], {}
    for (where, goal, rate, name), (trace, fallbacks) in walks.items():
        after, asked = trace.after(SETTLE), GOALS[goal]
        velocity = trace.array("velocity")[after, :2].mean(0) if after.any() else np.full(2, np.nan)
        speed = np.hypot(*asked.velocity)
        rows.append(
            {
                "robot": where,
                "target": goal,
                "rate": rate,
                "solver": name,
                "seconds": trace.t[-1] + PERIODS[rate],
                "forward [m/s]": velocity[0],
                "sideways [m/s]": velocity[1],
                "speed over asked - 1": velocity @ asked.velocity / speed**2 - 1 if speed else np.nan,
                "turning [rad/s]": trace.array("yaw_rate")[after].mean() if after.any() else np.nan,
                "RMS velocity error [m/s]": trace.velocity_error(SETTLE),
                "mean velocity error [m/s]": trace.mean_velocity_error(SETTLE),
                "height [m]": trace.mean_height(SETTLE),
                "height over asked [m]": trace.mean_height(SETTLE) - (TrotConfig().height - robot.com[2]),
                "largest tilt [rad]": np.abs(trace.array("tilt")[after]).max(initial=0.0),
                "outside the friction cone": outside_cone(robot, trace),
                "cycles by the programme": fallbacks if name != "OSQP" else "",
            }
        )
        if goal == "0.3 m/s" and rate == "160 Hz":
            columns = ("t", "velocity", "height", "standing", "touching")
            traces[f"{where}, {name}"] = {c: trace.array(c) for c in columns}
    result.detail("walks", rows)
    result.detail("traces", traces)

    def measure(where, goal, solver, rate="160 Hz"):
        return next(r for r in rows if (r["robot"], r["target"], r["rate"], r["solver"]) == (where, goal, rate, solver))

    names = list(dict.fromkeys(row["solver"] for row in rows))
    for where in ("nominal", "real"):
        for name in names:
            judge_tracking(result, where, name, [r for r in rows if (r["robot"], r["solver"]) == (where, name)])
        qp = measure(where, "0.3 m/s", "OSQP")
        result.check(f"{where} robot, OSQP: walks at 0.3 m/s", qp["seconds"], 10.0, ">=", "s", DEFAULT)
        for name in names[1:]:
            net = measure(where, "0.3 m/s", name)
            result.check(f"{where} robot, {name}: walks at 0.3 m/s", net["seconds"], 10.0, ">=", "s", DEFAULT)
            for error in ("RMS", "mean"):
                key = f"{error} velocity error [m/s]"
                result.check(
                    f"{where} robot, {name}: {error} velocity error / OSQP's",
                    net[key] / qp[key],
                    1.5,
                    "<=",
                    "1",
                    DEFAULT,
                )
            result.check(
                f"{where} robot, {name}: height lost", qp["height [m]"] - net["height [m]"], 0.03, "<=", "m", DEFAULT
            )
            share = net["cycles by the programme"] / (net["seconds"] / PERIODS["160 Hz"])
            result.check(
                f"{where} robot, {name}: cycles answered by the programme",
                share,
                0.01,
                "<=",
                "1",
                "the network walks, not the programme",
            )


def judge_tracking(result: Result, where: str, name: str, rows: list[dict]) -> None:
    """Does the robot do what it is asked? The worst of all walks counts."""
    label = f"{where} robot, {name}: "
    worst = lambda key: float(np.max([abs(r[key]) for r in rows if GOALS[r["target"]] != Target() or "height" in key]))
    result.check(
        label + "mean speed over the one asked for, worst", worst("speed over asked - 1"), 0.03, "<=", "1", ASKED
    )
    turns = [r["turning [rad/s]"] / GOALS[r["target"]].yaw_rate - 1 for r in rows if GOALS[r["target"]].yaw_rate]
    if turns:
        result.check(label + "turning over the one asked for", float(np.max(np.abs(turns))), 0.05, "<=", "1", ASKED)
    result.check(
        label + "height over the one asked for, worst", worst("height over asked [m]"), 0.005, "<=", "m", ASKED
    )


def outside_cone(robot: QuadrupedRobot, trace: Walk) -> float:
    """Share of standing feet whose asked force leaves the friction pyramid by more than 5 %: a network knows no constraint."""
    bad = total = 0
    for x, torques in zip(trace.observation, trace.torques):
        o = Observation(x)
        J = robot.jacobians(robot.joint_angles(o.feet))
        f_B = -np.linalg.solve(J.transpose(0, 2, 1), torques.reshape(4, 3, 1))[..., 0]
        f = (f_B @ rotation_rpy(o.orientation[0], o.orientation[1]).T)[o.contacts > 0.5]
        bad += int((np.abs(f[:, :2]).max(1) > 1.05 * FRICTION * f[:, 2] + 1.0).sum())  # 1 N: what OSQP may be off
        total += len(f)
    return bad / max(total, 1)


# -- time ------------------------------------------------------------------------------------------


class Recording:
    """A controller that keeps what it was given, to be replayed."""

    def __init__(self, controller: TrotController):
        self._controller, self.inputs = controller, []

    def reset(self) -> None:
        self._controller.reset()

    def command(self, *inputs):
        self.inputs.append(inputs)
        return self._controller.command(*inputs)


def clocked(times: list[float], function, *arguments):
    """The function's result; this thread's CPU time [s] goes to `times`, so that what else the machine does is not counted."""
    start = time.thread_time()
    value = function(*arguments)
    times.append(time.thread_time() - start)
    return value


def time_solvers(result: Result, robot: QuadrupedRobot, plant: MujocoPlant, nets: dict, seconds: float) -> None:
    """Programme and networks in turns on the same inputs of a walk, in this process, one thread: caches are as cold as in use."""
    recording = Recording(TrotController(robot, QpStance(robot)))
    walk(plant, recording, lambda t: GOALS["0.3 m/s"], seconds, PERIODS["160 Hz"])
    make = {
        "OSQP": lambda: QpStance(robot),
        **{name: lambda net=net: GuardedNetStance(robot, net) for name, net in nets.items()},
    }
    controllers = {name: TrotController(robot, new()) for name, new in make.items()}
    solvers, mpc = {name: new() for name, new in make.items()}, QpStance(robot).mpc
    solve, cycle, inner = {name: [] for name in make}, {name: [] for name in make}, []
    gc.collect()
    gc.disable()
    try:
        for inputs in recording.inputs:
            for name, controller in controllers.items():
                observation = clocked(cycle[name], controller.command, *inputs).observation
                clocked(solve[name], solvers[name].solve, observation)
            inner.append(mpc.solve(observation).osqp_time)
    finally:
        gc.enable()
    table = []
    for name in make:
        s, c = 1e3 * np.array(solve[name]), 1e3 * np.array(cycle[name])
        table.append(
            {
                "solver": name,
                "solve p50 [ms]": np.median(s),
                "p95 [ms]": np.percentile(s, 95),
                "p99 [ms]": np.percentile(s, 99),
                "cycle p50 [ms]": np.median(c),
                "loop rate [Hz]": 1e3 / np.median(c),
            }
        )
    result.detail("timing", table)
    result.detail("solve_times_ms", {name: 1e3 * np.array(values) for name, values in solve.items()})
    result.detail("osqp_own_time_ms", float(1e3 * np.median(inner[1:])))
    for row in table[1:]:
        name, its = row["solver"], row["solve p50 [ms]"]
        result.check(f"{name}: solve time, OSQP's / its", table[0]["solve p50 [ms]"] / its, 10.0, ">=", "1", SOURCE)
        result.check(
            f"{name}: the same against OSQP's own clock",
            result.details["osqp_own_time_ms"] / its,
            10.0,
            ">=",
            "1",
            "without assembling the programme and without Python",
        )
        result.check(
            f"{name}: rate of the control loop, its / OSQP's",
            row["loop rate [Hz]"] / table[0]["loop rate [Hz]"],
            1.8,
            ">=",
            "1",
            SOURCE,
        )


# -- faults ----------------------------------------------------------------------------------------


class Faulty:
    """A guarded network whose inputs or outputs are spoilt every `every` cycles."""

    def __init__(self, solver: GuardedNetStance, every: int = 20):
        self._solver, self._every, self._count = solver, every, 0
        self._sick = replace(solver.net, biases=(*solver.net.biases[:-1], np.full(12, np.nan, np.float32)))
        self._well = solver.net
        self.injected, self.answered, self.reasons = 0, 0, {}

    def reset(self) -> None:
        self._solver.reset()

    def solve(self, observation: Observation) -> Stance:
        self._count += 1
        if self._count % self._every or self._count < 10:
            return self._solver.solve(observation)
        kind = self.injected % 3
        spoilt = Observation(observation.vector.copy())
        if kind == 0:
            spoilt.velocity[0] = np.nan
        elif kind == 1:
            spoilt.friction[:] = 0.9
        else:
            self._solver.net = self._sick
        stance = self._solver.solve(spoilt)
        self._solver.net = self._well
        self.injected += 1
        self.answered += stance.solver == "osqp" and bool(stance.reason) and bool(np.isfinite(stance.torques).all())
        self.reasons[stance.reason] = self.reasons.get(stance.reason, 0) + 1
        return stance


def judge_faults(result: Result, robot: QuadrupedRobot, plant: MujocoPlant, net) -> None:
    """Every spoilt cycle must be answered by the programme in that cycle, and the robot walk on."""
    solver = Faulty(GuardedNetStance(robot, net))
    trace = walk(plant, TrotController(robot, solver), lambda t: GOALS["0.3 m/s"], 6.0, PERIODS["160 Hz"])
    answered = solver.answered / max(solver.injected, 1)
    result.check("spoilt cycles answered by the programme within the cycle", answered, 1.0, "==", "1", DEFAULT)
    result.check("walks on with a spoilt cycle in twenty", trace.t[-1], 5.9, ">=", "s", DEFAULT)
    result.detail("faults", {"injected": solver.injected, "reasons": solver.reasons})


# -- the page --------------------------------------------------------------------------------------


def report(result: Result) -> Report:
    """Published numbers beside ours, times, traces, gait."""
    page = Report("A network in place of a quadruped's quadratic programme", result.size)
    page.checks(result)
    timing = result.details["timing"]
    page.section(
        "Published and measured", "The published CPU is a desktop Ryzen; ours is this report's machine, one thread."
    )
    published = {"OSQP": ("2", "160"), "41-192-192-12": ("0.2", "300")}
    page.table(
        [
            "solver",
            "published solve [ms]",
            "solve p50 [ms]",
            "p95 [ms]",
            "p99 [ms]",
            "published rate [Hz]",
            "whole cycle p50 [ms]",
            "loop rate [Hz]",
        ],
        [
            [
                r["solver"],
                published.get(r["solver"], ("", ""))[0],
                r["solve p50 [ms]"],
                r["p95 [ms]"],
                r["p99 [ms]"],
                published.get(r["solver"], ("", ""))[1],
                r["cycle p50 [ms]"],
                r["loop rate [Hz]"],
            ]
            for r in timing
        ],
        f"OSQP's own clock says {result.details['osqp_own_time_ms']:.2f} ms; the rest assembles the programme.",
    )
    fig, axis = figure(size=(8.4, 3.0))
    bins = np.geomspace(0.01, 10, 80)
    for colour, (name, values) in zip(PALETTE, result.details["solve_times_ms"].items()):
        axis.hist(np.clip(values, 0.01, 10), bins=bins, color=colour, alpha=0.6, label=name)
    axis.set(xscale="log", xlabel="solve time [ms]", ylabel="cycles")
    axis.legend()
    page.figure(fig, "From 41 observations to twelve torques, in turns on the same observations.")
    walks = result.details["walks"]
    page.section(
        "Walks",
        "Truth from MuJoCo, from 2 s on. The real robot has a trunk 15 % heavier, thighs and calves 20 %, "
        "4 ms of delay and twice the noise.",
    )
    page.table(list(walks[0]), [list(row.values()) for row in walks])
    traces = result.details["traces"]
    for where in ("nominal", "real"):
        fig, (top, bottom) = figure(2, sharex=True)
        for colour, (name, trace) in zip(PALETTE, ((n, t) for n, t in traces.items() if n.startswith(where))):
            t, label = np.array(trace["t"]), name.partition(", ")[2]
            top.plot(t, np.array(trace["velocity"])[:, 0], color=colour, label=label, lw=1)
            bottom.plot(t, np.array(trace["height"]), color=colour, lw=1)
        top.axhline(0.3, color="black", lw=0.8, ls=":")
        top.set(ylabel="forward velocity [m/s]")
        bottom.set(ylabel="trunk height [m]", xlabel="t [s]")
        top.legend(loc="lower right")
        page.figure(fig, f"The {where} robot at 0.3 m/s.")
    fig, axes = figure(2, sharex=True)
    chosen = [name for name in traces if name.startswith("nominal")][:2]
    for axis, name in zip(axes, chosen):
        trace = traces[name]
        t = np.array(trace["t"])
        window = (t > 4.0) & (t < 6.0)
        for leg in range(len(LEGS)):
            for level, key, colour in ((0.0, "standing", PALETTE[0]), (0.25, "touching", PALETTE[1])):
                on = np.array(trace[key])[window, leg].astype(bool)
                axis.fill_between(t[window], leg + level, leg + level + 0.22, where=on, color=colour, step="post", lw=0)
        axis.set(yticks=np.arange(4) + 0.25, yticklabels=LEGS, title=name.partition(", ")[2])
    axes[-1].set(xlabel="t [s]")
    page.figure(fig, "Gait: legs that carry by the clock (lower bars) and feet that feel the ground (upper bars).")
    page.section("Faults", "Why the programme answered for the network when every twentieth cycle was spoilt.")
    page.table(["reason", "cycles"], list(result.details["faults"]["reasons"].items()))
    page.section("Networks")
    networks = result.details["networks"]
    keys = list(next(iter(networks.values())))
    page.table(
        ["network", *keys],
        [
            [name, *(str(net.get(k, "")) if isinstance(net.get(k), list) else net.get(k, "") for k in keys)]
            for name, net in networks.items()
        ],
    )
    return page
