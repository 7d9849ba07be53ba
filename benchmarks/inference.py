"""How long does an iteration of CSVGD take, beside the same iteration in JAX (vmap, scan, one jit)?

    ./refit bench inference

Two problems, each one trajectory of states cut into 10 windows, multipliers on limits and defects, float64:
a double pendulum with 11 parameters, 100 particles, windows of 40 steps; a Panda with a box that hangs from its hand by a
universal joint, 11 parameters of the box, 50 particles, windows of 40 steps. An iteration is everything: roll-outs,
gradients, kernel matrix, Adam, multipliers. Both must hold the same particles after three iterations, to 1e-6 of the
limits. They take turns and the shortest iteration counts. Ours runs on the threads stated, JAX on whatever XLA takes,
which is every core; of JAX's two ways (storing or recomputing a step's intermediates) the faster counts.

Then the cost of ours against the number of particles, each in a process of its own, with the memory it takes; and the
likelihood with all its gradients for 100 particles against that for one: 10 windows of 40 and of 400 steps, on one thread,
on all cores, and on the GPU where there is one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from experiments.problems.ibm_pendulum import limited
from experiments.problems.panda_box import BOX_LIMITS, box_model, controls, motion
from reporting import Report, Result, SilentProgress
from reporting.figures import figure
from sim_core.codegen import cuda
from sim_core.host.executors import open_executor, spread
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.samplers import sample
from sim_core.inference.samplers.sampler import sobol
from sim_core.inference.shooting.likelihood import MultipleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

SOURCE = "own target"
WINDOWS, STEPS = 10, 40
PARTICLES = {"double pendulum": 100, "Panda and box": 50}
COUNTS = {"quick": (16, 64, 256), "full": (16, 64, 256, 1024, 4096)}
ITERATIONS = 20  # of a run that is timed
ALONE = {"CPU": 10.0, "GPU": 3.0}  # own target: 100 particles take less than so many times as long as one
SAME = 3  # iterations after which ours and JAX's are compared


def pendulum(threads: int = 1, steps: int = STEPS, device: str = "cpu") -> MultipleShooting:
    """Some seconds of the double pendulum swinging, its mass, COM, inertia, damping and length free."""
    model = load_model("double_pendulum")
    dynamics, parameters = Dynamics(model, threads=threads), limited(model)
    theta = (
        parameters.lower + np.array([0.4, 0.05, 0.52, 0.3, 0.01, 0.4, 0.03, 0.5, 0.35, 0.01, 0.2]) * parameters.width
    )
    x0, U = np.array([1.0, 0.5, 0.0, 0.0]), np.zeros((WINDOWS * steps, 0))
    X = dynamics.rollout(x0, U, parameters.to_physical(theta))
    return MultipleShooting(dynamics, parameters, Trajectories(dynamics.dt, X[None], U[None]), WINDOWS, device=device)


def panda_box(threads: int = 1) -> MultipleShooting:
    """Panda and box shaken, the box's inertia, COM and joint damping free."""
    model = box_model()
    dynamics, parameters = Dynamics(model, threads=threads), LimitedParameters(model, BOX_LIMITS)
    q, v = motion()
    U = controls(q, v, 0.92)[75 : 75 + WINDOWS * STEPS]
    x0 = np.r_[q[75], 0, 0, v[75], 0, 0]
    theta = parameters.lower + 0.6 * parameters.width
    X = dynamics.rollout(x0, U, parameters.to_physical(theta))
    scale = np.repeat([0.05, 0.3], dynamics.nx // 2)
    data = Trajectories(dynamics.dt, X[None], U[None])
    return MultipleShooting(dynamics, parameters, data, WINDOWS, scale=scale, state_scale=scale, device="cpu")


PROBLEMS = {"double pendulum": pendulum, "Panda and box": panda_box}


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Compare, time, check."""
    result = Result("bench_inference", seed=seed, size=size)
    rows = []
    for name in PROBLEMS:
        rows += compare(result, name, size, seed, progress)
    result.detail("milliseconds per iteration", rows)
    result.detail(
        "cost against particles",
        [cost(name, count, seed) for name in PROBLEMS for count in progress.track(COUNTS[size], f"{name}: particles")],
    )
    result.detail("100 particles against one", against_one(result, size, progress))
    return result


def compare(result: Result, name: str, size: str, seed: int, progress) -> list[dict]:
    """Ours on one and two threads, and JAX in both ways, on one problem."""
    try:
        from benchmarks.rivals.csvgd import JaxCsvgd
    except ImportError as error:
        progress.say(f"JAX is left out: {error}.")
        JaxCsvgd = None
    particles, rounds = PARTICLES[name], 3 if size == "quick" else 6
    threads = [1, 2] if (os.cpu_count() or 1) > 1 else [1]
    ours = {f"refit, {t} thread{'s' * (t > 1)}": PROBLEMS[name](t) for t in threads}
    any_of_them = next(iter(ours.values()))
    rivals = {}
    if JaxCsvgd:
        for text, remat in (("JAX", False), ("JAX, steps recomputed", True)):
            rivals[text] = JaxCsvgd(any_of_them, particles, SAME, remat=remat)
    start = sobol(particles, any_of_them.n, seed)
    mine = sample("csvgd", any_of_them, particles, SAME, seed, metric="adam").z
    for text, rival in rivals.items():
        state = rival.start(start)
        for i in range(SAME):
            state = rival.iterate(state, i)
        error = float(np.abs(np.clip(np.asarray(state[0]), 0, 1) - mine).max())
        result.check(
            f"{name}: particles after {SAME} iterations, {text} against ours", error, 1e-6, "<=", "limits", "same work"
        )
    shortest = {text: np.inf for text in (*ours, *rivals)}
    for _ in progress.track(range(rounds), f"{name}: timing"):
        for text, shooting in ours.items():
            shortest[text] = min(shortest[text], shortest_iteration(shooting, particles, seed))
        for text, rival in rivals.items():
            state = rival.start(start)
            for i in range(SAME):
                begin = time.perf_counter()
                state = rival.iterate(state, i)
                shortest[text] = min(shortest[text], time.perf_counter() - begin)
    if rivals:
        jax = min(shortest[text] for text in rivals)
        result.check(
            f"{name}, {particles} particles: times faster than JAX",
            jax / shortest["refit, 1 thread"],
            10.0,
            ">=",
            "1",
            SOURCE,
        )
    return [{"problem": name, "engine": text, "ms per iteration": 1e3 * t} for text, t in shortest.items()]


def shortest_iteration(shooting: MultipleShooting, particles: int, seed: int) -> float:
    """Seconds of the shortest of ITERATIONS iterations."""
    times = []
    sample(
        "csvgd",
        shooting,
        particles,
        ITERATIONS,
        seed,
        metric="adam",
        callback=lambda *_: times.append(time.perf_counter()) and False,
    )
    return float(np.diff(times).min())


def against_one(result: Result, size: str, progress) -> list[dict]:
    """Wall time of the likelihood with all gradients, for 1, 16 and 100 particles of the pendulum."""
    cores, rows = os.cpu_count() or 1, []
    settings = [
        ("1 thread", 1, "cpu"),
        *([(f"{cores} threads", cores, "cpu")] if cores > 1 else []),
        *([("GPU", 1, "cuda")] if cuda.usable() else []),
    ]
    for steps in (STEPS, 10 * STEPS):
        calls = {
            (text, count): evaluation(pendulum(threads, steps, device), count)
            for text, threads, device in settings
            for count in (1, 16, 100)
        }
        shortest = dict.fromkeys(calls, np.inf)
        for _ in progress.track(
            range(max(10, (20 if size == "quick" else 200) * STEPS // steps)), f"windows of {steps} steps"
        ):
            for key, call in calls.items():
                for _ in range(5):  # the first finds its data gone from the cache
                    begin = time.perf_counter()
                    call()
                    shortest[key] = min(shortest[key], time.perf_counter() - begin)
        for text, *_ in settings:
            one, some, many = (shortest[text, count] for count in (1, 16, 100))
            rows.append(
                {
                    "steps of a window": steps,
                    "on": text,
                    "1 [ms]": 1e3 * one,
                    "16 [ms]": 1e3 * some,
                    "100 [ms]": 1e3 * many,
                    "100 against 1": many / one,
                }
            )
            bound = ALONE["GPU" if text == "GPU" else "CPU"]
            result.check(
                f"10 windows of {steps} steps, {text}: 100 particles against one",
                many / one,
                bound,
                "<",
                "1",
                SOURCE,
            )
    return rows


def evaluation(shooting: MultipleShooting, count: int):
    """A call without arguments: the likelihood of `count` particles, its gradients and its constraints'."""
    z = sobol(count, shooting.n, 0)
    starts = np.zeros((count, *shooting.starts_shape))
    return lambda: shooting.evaluate(z, starts, starts)


def cost(name: str, count: int, seed: int) -> dict:
    """Time and memory of an iteration with `count` particles, in a process of its own."""
    with open_executor("processes:1") as executor:
        ((seconds, megabytes),) = spread(_cost, [(name, count, seed)], executor)
    return {
        "problem": name,
        "particles": count,
        "ms per iteration": 1e3 * seconds,
        "us per particle": 1e6 * seconds / count,
        "MB": megabytes,
    }


def _cost(job: tuple[str, int, int]) -> tuple[float, float]:
    name, count, seed = job
    shooting = PROBLEMS[name]()
    shortest_iteration(shooting, 2, seed)
    before = peak_megabytes()
    seconds = shortest_iteration(shooting, count, seed)
    return seconds, peak_megabytes() - before


def peak_megabytes() -> float:
    """Most resident memory of this process so far; getrusage would count what its parent had when it started."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def report(result: Result) -> Report:
    """Targets, times, cost against particles."""
    page = Report("Inference: an iteration of CSVGD", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    rows = result.details["milliseconds per iteration"]
    page.section("Shortest iteration").table(list(rows[0]), [list(row.values()) for row in rows])
    rows = result.details["cost against particles"]
    page.section("Cost against the number of particles").table(list(rows[0]), [list(row.values()) for row in rows])
    against = result.details["100 particles against one"]
    page.section("Likelihood with gradients: 100 particles against one").table(
        list(against[0]), [list(row.values()) for row in against]
    )
    fig, axes = figure(1, 2, size=(8.4, 3.2))
    for name in PROBLEMS:
        mine = [row for row in rows if row["problem"] == name]
        counts = [row["particles"] for row in mine]
        axes[0].loglog(counts, [row["ms per iteration"] for row in mine], marker="o", label=name)
        axes[1].loglog(counts, [max(row["MB"], 0.1) for row in mine], marker="o", label=name)
    for axis, text in zip(axes, ("ms per iteration", "memory [MB]")):
        axis.set_xlabel("particles")
        axis.set_ylabel(text)
        axis.legend()
    page.figure(fig, "One thread; memory beyond that of the loaded problem.")
    return page
