"""How long do roll-outs, their gradients and Jacobians take, beside MuJoCo, JAX, torch and Pinocchio?

    ./refit bench dynamics

Work, the same for all: Panda (7 joints), 100 steps of 2 ms with MuJoCo's Euler (implicit joint damping), float64.
A = forward roll-out; B = value and gradient of sum |x|^2 / 2 with respect to the initial state and all physical
parameters of every robot of the batch; C = 50 Jacobian pairs (dx'/dx, dx'/du). MuJoCo runs with contacts and
constraints off, as the equations have none. All engines must agree to 1e-9 before anything is timed. Engines take
turns and the shortest wall time of each counts; arrays are converted to each engine's layout beforehand. Ours and
MuJoCo use the threads stated; JAX takes whatever XLA takes, which is every core.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import numpy as np

from benchmarks.rivals import engines
from reporting import Report, Result, SilentProgress
from reporting.figures import figure
from sim_core.multibody import Dynamics, load_model

STEPS, PAIRS = 100, 50
SOURCE = "own target"
SIZES = {"quick": (1, 128), "full": (1, 8, 32, 128, 512, 4096)}
#: seconds after which a call that takes long is not repeated in further rounds
ENOUGH = 5.0
#: largest batch each slow engine is given, and the batches JAX is compiled for (every shape takes it up to a minute)
TORCH_MOST, PINOCCHIO_MOST, JAX_BATCHES = 512, 128, (1, 128, 4096)


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Compare, time, check."""
    result = Result("bench_dynamics", seed=seed, size=size)
    bench = _Bench(result, progress, seed, SIZES[size], rounds=3 if size == "quick" else 5)
    bench.agree()
    bench.time_rollouts()
    bench.time_jacobians()
    bench.cold_compilation()
    bench.tables()
    bench.targets()
    return result


class _Bench:
    """Engines, the times measured so far, and what is made of them.

    times: (row of the table, "A" | "B" | "C", batch) -> seconds.
    """

    def __init__(self, result, progress, seed, batches, rounds):
        self.result, self.progress, self.batches, self.rounds = result, progress, batches, rounds
        self.model, self.rng = load_model("panda"), np.random.default_rng(seed)
        self.times: dict[tuple[str, str, int], float] = {}
        self.compilation: dict[str, float] = {}
        threads = [1, 2] if (os.cpu_count() or 1) > 1 else [1]
        self.ours = {f"refit, {t} thread{'s' * (t > 1)}": engines.Ours(self.model, threads=t) for t in threads}
        self.ours["refit, one lane"] = engines.Ours(self.model, lanes=1)
        self.ours["refit, float32"] = engines.Ours(self.model, dtype="float32")
        self.lanes = self.ours["refit, 1 thread"].dynamics._get_library("rollout", False).lanes
        self.rivals: dict[str, object] = {}
        for t in threads:
            self._try(f"MuJoCo rollout, {t} thread{'s' * (t > 1)}", lambda t=t: engines.Mujoco(self.model, t))
        self._try("JAX", lambda: engines.Jax(self.model))
        self._try("JAX, steps recomputed", lambda: engines.Jax(self.model, remat=True))
        self._try("torch eager", lambda: engines.Torch(self.model))
        self._try("Pinocchio", lambda: engines.Pinocchio(self.model))

    def _try(self, name, make):
        try:
            self.rivals[name] = make()
        except ImportError as error:
            self.progress.say(f"{name} is left out: {error}. ./refit setup bench installs it.")

    def problem(self, batch):
        """x0, U inside the motors' limits (MuJoCo clips, the equations do not), P = the nominal parameters."""
        m, rng = self.model, self.rng
        x0 = np.concatenate([m.q_home + 0.3 * rng.normal(size=(batch, 7)), rng.normal(size=(batch, 7))], axis=1)
        U = rng.uniform(-1, 1, (batch, STEPS, 7)) * np.minimum(m.u_upper, 10.0)
        return x0, U, np.tile(m.parameters.nominal, (batch, 1))

    # ---- the same numbers ------------------------------------------------------------------------------------------

    def agree(self):
        """Every engine's states and gradients against ours."""
        x0, U, P = self.problem(128)  # a batch that JAX is compiled for anyway
        ours = self.ours["refit, 1 thread"]
        X = ours.numpy_forward(ours.forward(ours.arguments(x0, U, P)))
        gradient = ours.numpy_gradient(ours.gradient(ours.arguments(x0, U, P)))
        others = {**self.ours, **self.rivals}
        for name in self.progress.track(others, "engines agree"):
            engine = others[name]
            if engine is ours:
                continue
            bound = 1e-4 if "float32" in name else 1e-9
            arguments, error = engine.arguments(x0, U, P), 0.0
            if name != "JAX, steps recomputed":
                error = _difference(engine.numpy_forward(engine.forward(arguments)), X)
            if hasattr(engine, "gradient"):
                found = engine.numpy_gradient(engine.gradient(arguments))
                error = max([error, *(_difference(a, b) for a, b in zip(found, gradient))])
            self.result.check(f"agreement with {name}", error, bound, "<=", "1", "same work")
        if "Pinocchio" in self.rivals:
            pairs = zip(self.rivals["Pinocchio"].jacobian_pairs(x0, U[:, 0]), ours.dynamics.linearize(x0, U[:, 0], P))
            error = max(_difference(a, b) for a, b in pairs)
            self.result.check("agreement of Jacobians with Pinocchio", error, 1e-9, "<=", "1", "same work")

    # ---- times -----------------------------------------------------------------------------------------------------

    def time_rollouts(self):
        for batch in self.batches:
            problem = self.problem(batch)
            calls = {}
            for name, engine in {**self.ours, **self.rivals}.items():
                if self._is_asked(name, batch):
                    arguments = engine.arguments(*problem)
                    if name != "JAX, steps recomputed" or batch > 512:  # forward, the two are the same
                        calls[name, "A", batch] = lambda e=engine, a=arguments: e.forward(a)
                    if hasattr(engine, "gradient"):
                        calls[name, "B", batch] = lambda e=engine, a=arguments: e.gradient(a)
            self._take_turns(calls, f"{batch} robot{'s' * (batch > 1)}")

    def _is_asked(self, name, batch):
        if name.startswith("JAX"):
            # Without recomputation, a large batch needs gigabytes for intermediate values.
            return batch in JAX_BATCHES and (batch <= 512 or "recomputed" in name)
        return batch <= {"torch eager": TORCH_MOST, "Pinocchio": PINOCCHIO_MOST}.get(name, 1 << 30)

    def time_jacobians(self):
        x0, U, P = self.problem(PAIRS)
        u, p = np.ascontiguousarray(U[:, 0]), self.model.parameters.nominal
        calls = {
            (name, "C", PAIRS): lambda d=engine.dynamics, a=engine.arguments(x0, u, p): d.linearize(*a)
            for name, engine in self.ours.items()
        }
        if "Pinocchio" in self.rivals:
            pinocchio = self.rivals["Pinocchio"]
            calls["Pinocchio", "C", PAIRS] = lambda: pinocchio.derivatives(x0[:, :7], x0[:, 7:], u)
            calls["Pinocchio, with chain rule", "C", PAIRS] = lambda: pinocchio.jacobian_pairs(x0, u)
        calls["MuJoCo, differences", "C", PAIRS] = _mujoco_differences(self.model, x0, u)
        self._take_turns(calls, f"{PAIRS} Jacobian pairs")

    def _take_turns(self, calls: dict[tuple, Callable], text: str):
        """Shortest time of each call; engines alternate, so that a busy moment hits all of them."""
        with self.progress.stage(text, total=len(calls) * (self.rounds + 1)) as stage:
            for key, call in calls.items():
                stage.say(key[0])
                begin = time.perf_counter()
                call()  # compiles
                if key[0].startswith("JAX"):
                    self.compilation[f"{key[0]}, {key[1]}, batch {key[2]}"] = time.perf_counter() - begin
                stage.advance()
            spent = dict.fromkeys(calls, 0.0)
            for _ in range(self.rounds):
                for key, call in calls.items():
                    begin = time.perf_counter()
                    if spent[key] < ENOUGH:
                        self.times[key] = min(self.times.get(key, np.inf), _shortest(call))
                    spent[key] += time.perf_counter() - begin
                    stage.advance()

    def cold_compilation(self):
        """Seconds to make each kernel library of ours from nothing, graph included."""
        before = os.environ.get("REFIT_CACHE")
        with tempfile.TemporaryDirectory() as folder, self.progress.stage("cold compilation", total=6) as stage:
            try:
                for kind in ("rollout", "reverse", "step_jac_xu"):
                    for single in (True, False):
                        os.environ["REFIT_CACHE"] = f"{folder}/{kind}-{single}"  # not even a text is there
                        begin = time.perf_counter()
                        Dynamics(self.model)._get_library(kind, single)
                        name = f"refit {kind}, {'one lane' if single else f'{self.lanes} lanes'}"
                        self.compilation[name] = time.perf_counter() - begin
                        stage.advance()
            finally:
                if before is None:
                    del os.environ["REFIT_CACHE"]
                else:
                    os.environ["REFIT_CACHE"] = before

    # ---- results ---------------------------------------------------------------------------------------------------

    def ms(self, name, what, batch):
        seconds = self.times.get((name, what, batch))
        return None if seconds is None else 1e3 * seconds

    def tables(self):
        names = list(dict.fromkeys(name for name, _, _ in self.times))
        rows = [
            {
                "engine": name,
                "A, 1 robot": self.ms(name, "A", 1),
                "A, 128": self.ms(name, "A", 128),
                "B, 1 robot": self.ms(name, "B", 1),
                "B, 128": self.ms(name, "B", 128),
                "C": self.ms(name, "C", PAIRS),
            }
            for name in names
        ]
        self.result.detail("milliseconds", rows)
        for what, text in (("A", "roll-out"), ("B", "value and gradient")):
            self.result.detail(
                f"milliseconds of a {text} by batch",
                [
                    {"engine": name, **{str(b): self.ms(name, what, b) for b in self.batches}}
                    for name in names
                    if any((name, what, b) in self.times for b in self.batches)
                ],
            )
        self.result.detail("compilation seconds", self.compilation)
        self.result.detail("lanes", self.lanes)

    def targets(self):
        ours = "refit, 1 thread"
        for threads in ("1 thread", "2 threads"):
            if f"refit, {threads}" in self.ours:
                self._speed_up(
                    f"roll-out of 128 robots, {threads} each: times faster than mujoco.rollout",
                    f"refit, {threads}",
                    [f"MuJoCo rollout, {threads}"],
                    "A",
                    128,
                    15.0,
                )
        jax = ["JAX", "JAX, steps recomputed"]  # whichever is faster
        self._speed_up("value and gradient of 128 robots: times faster than JAX", ours, jax, "B", 128, 20.0)
        self._speed_up("value and gradient of one robot: times faster than JAX", ours, jax, "B", 1, 8.0)
        mine, theirs = self.ms(ours, "C", PAIRS), self.ms("Pinocchio", "C", PAIRS)
        self.result.check(
            f"{PAIRS} Jacobian pairs: time over Pinocchio's derivatives",
            mine / theirs if theirs else None,
            2.0,
            "<=",
            "1",
            SOURCE,
        )

    def _speed_up(self, text, ours, rivals, what, batch, target):
        mine = self.ms(ours, what, batch)
        theirs = min((t for name in rivals if (t := self.ms(name, what, batch)) is not None), default=None)
        self.result.check(text, theirs / mine if theirs else None, target, ">=", "1", SOURCE)


def _difference(a, b) -> float:
    return float(np.max(np.abs(np.asarray(a) - b)) / np.max(np.abs(b)))


def _shortest(call, budget=0.15, most=40) -> float:
    """Shortest of several calls, as many as fit the budget [s], one at least."""
    shortest, begin, count = np.inf, time.perf_counter(), 0
    while count < 1 or (count < most and time.perf_counter() - begin < budget):
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
        count += 1
    return shortest


def _mujoco_differences(model, x0, U):
    """mjd_transitionFD at every state, centred differences."""
    import mujoco

    mj = engines.copy_without_constraints(model.mj_model)
    data, n = mujoco.MjData(mj), mj.nv
    A, B = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, mj.nu))

    def call():
        for x, u in zip(x0, U):
            data.qpos, data.qvel, data.ctrl = x[:n], x[n:], u
            mujoco.mjd_transitionFD(mj, data, 1e-6, 1, A, B, None, None)

    return call


def report(result: Result) -> Report:
    """The table of the design, times against batch size, targets."""
    page = Report(
        "Dynamics: roll-outs, gradients, Jacobians", f"Panda, {STEPS} steps, {result.size}, seed {result.seed}"
    )
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)

    def add_table(title, rows):
        page.section(title).table(list(rows[0]), [["–" if v is None else v for v in row.values()] for row in rows])

    add_table("Shortest wall time [ms]", result.details["milliseconds"])
    for what in ("roll-out", "value and gradient"):
        rows = result.details[f"milliseconds of a {what} by batch"]
        add_table(f"Time of a {what} by batch [ms]", rows)
        fig, axes = figure(1, 1, size=(8.4, 3.6))
        for row in rows:
            points = [(int(b), ms / int(b) / STEPS * 1e6) for b, ms in row.items() if b != "engine" and ms is not None]
            axes.loglog(*zip(*points), marker="o", label=row["engine"])
        axes.set_xlabel("robots in the batch")
        axes.set_ylabel("ns per robot and step")
        axes.legend(ncols=2)
        page.figure(fig, f"Time of a {what}, per robot and step.")
    seconds = result.details["compilation seconds"]
    page.section("Cold compilation").table(["", "s"], list(seconds.items()))
    return page
