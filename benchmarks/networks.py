"""From how many weights on is a network inside the simulator cheaper as loops than written out?

    ./refit bench networks

A double pendulum whose joint torques a network of growing size corrects from q and v. "inlined": every weight is a
product in straight-line C; "dense": one call of loops over the weights, with an adjoint of its own. Each is compiled into
an empty cache (compile time: roll-out and reverse sweep, for one robot and for batches), then takes turns with the other.

A second table: what it brings that a batch shares the weights, in time and memory, beside a copy for each robot.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import tracemalloc

import numpy as np

from experiments.problems.friction_pendulum import frictionless
from reporting.checks import Result
from reporting.progress import SilentProgress
from sim_core.augmentation import Blueprint, Network, augment
from sim_core.augmentation.network import INLINED
from sim_core.multibody import Dynamics

LAYERS = {"full": [(), (5,), (5, 5), (8, 8), (16, 16), (32, 32), (64, 64)], "quick": [(5, 5), (16, 16)]}
BATCHES, STEPS, ROUNDS = (1, 128), 100, 15
AGREE = 1e-9
SHARING = {"full": ([(8, 8), (16, 16), (32, 32), (64, 64)], (16, 128, 1024, 4096)), "quick": ([(32, 32)], (16, 128))}


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Agreement, compile time, run time and advantage of batches of both forms at each size."""
    result = Result("bench_networks", seed=seed, size=size)
    base = frictionless()
    rows, worst, right = [], 0.0, []
    for hidden in progress.track(LAYERS[size], "networks"):
        hybrids = {kind: hybrid(base, hidden, kind, seed) for kind in ("inlined", "dense")}
        weights = hybrids["dense"].np_ - base.np_
        values, measured = measure(hybrids, seed)
        named = {"hidden layers": "x".join(map(str, hidden)) or "none", "weights": weights}
        rows += [{**named, "form": kind, **row} for kind, row in measured.items()]
        worst = max(worst, *(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(*values.values())))
        cost = {kind: row["128 robots: roll-out + reverse [us/robot]"] for kind, row in measured.items()}
        chosen = "inlined" if weights <= INLINED else "dense"
        right.append(cost[chosen] <= 1.25 * min(cost.values()))
    result.check(
        "largest relative difference between the two forms, states and gradients",
        worst,
        AGREE,
        "<=",
        "1",
        "docs/kernels.md",
    )
    result.check(
        "sizes at which the automatic choice costs at most a quarter more than the better one",
        np.mean(right),
        1.0,
        ">=",
        "1",
        "docs/kernels.md",
    )
    result.detail("cost", rows)
    rows = [
        sharing(base, hidden, B, seed)
        for hidden in SHARING[size][0]
        for B in progress.track(SHARING[size][1], f"shared weights {hidden}")
    ]
    result.check(
        "largest relative difference between shared weights and a copy for each",
        max(row["difference"] for row in rows),
        AGREE,
        "<=",
        "1",
        "docs/kernels.md",
    )
    quicker = [
        row["own: reverse [us/robot]"] / row["shared: reverse [us/robot]"] for row in rows if row["weights"] > INLINED
    ]
    result.check(
        "shared weights as blocks: least gain of the reverse sweep", min(quicker), 1.0, ">", "1", "docs/kernels.md"
    )
    result.detail("shared weights", rows)
    return result


def sharing(base, hidden, B, seed):
    """A row of times and of memory that arrays take at most, weights of each robot's own and shared by all."""
    model = hybrid(base, hidden, "auto", seed)
    rng, dynamics, p = np.random.default_rng(seed), Dynamics(model), model.parameters.nominal
    x0, U = rng.normal(size=(B, model.nx)), np.zeros((STEPS, model.nu))
    own = np.tile(p, (B, 1))
    own[1:, -1] += 1e-15  # equal rows would be recognised
    row = {"hidden layers": "x".join(map(str, hidden)), "weights": model.np_ - base.np_, "robots": B}
    ways, gradient = {}, {}
    for name, P in (("own", own), ("shared", p)):
        X = dynamics.rollout(x0, U, P)
        ways |= rolled(dynamics, x0, U, P, X, summed=name == "shared", prefix=f"{name}: ")
        gradient[name] = ways[f"{name}: reverse"]()[2]
        row[f"{name}: memory of the reverse sweep [MB]"] = largest(ways[f"{name}: reverse"]) / 1e6
    row |= {f"{way} [us/robot]": 1e6 / B * t for way, t in shortest(ways, ROUNDS if B < 1000 else 3).items()}
    total = gradient["own"].sum(axis=0)
    return row | {"difference": np.abs(gradient["shared"] - total).max() / np.abs(total).max()}


def largest(call) -> int:
    """Bytes that arrays made in a call take at most."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def hybrid(base, hidden, kind, seed):
    """The pendulum with one network from all of q and v to both torques."""
    inputs = tuple(f"{joint}.{what}" for joint in base.joint_names for what in ("position", "velocity"))
    outputs = tuple(f"{joint}.passive_torque" for joint in base.joint_names)
    return augment(
        base, Blueprint("net", outputs, inputs, Network(hidden, "tanh", evaluation=kind)).initialised(seed, 0.1)
    )


def measure(models, seed):
    """States and gradients of a roll-out, and a row of times, of each model by its name."""
    rows, values, ways = {}, {}, {}
    for kind, model in models.items():
        rng, dynamics, p = np.random.default_rng(seed), Dynamics(model), model.parameters.nominal
        x0, U = rng.normal(size=(max(BATCHES), model.nx)), np.zeros((STEPS, model.nu))
        starts = {B: x0[:B] if B > 1 else x0[0] for B in BATCHES}
        with empty_cache():
            begin = time.process_time() + children()
            X = {B: dynamics.rollout(x, U, p) for B, x in starts.items()}
            for B, x in starts.items():
                values[kind] = X[B], dynamics.rollout_vjp(x, U, p, X[B], X[B])[2]
                dynamics.rollout_vjp(x, U, p, X[B], X[B], summed=True)
            rows[kind] = {"compile [s]": time.process_time() + children() - begin}
        for B, x in starts.items():
            made = rolled(dynamics, x, U, p, X[B], summed=True)
            ways |= {(kind, B, way): call for way, call in made.items()}
    times = shortest(ways, ROUNDS)
    for kind, row in rows.items():
        for B in BATCHES:
            own = {way: 1e6 / B * times[kind, B, way] for way in ("roll-out", "reverse")}
            own["roll-out + reverse"] = sum(own.values())
            row |= {f"{B} robot{'s' * (B > 1)}: {way} [us/robot]": t for way, t in own.items()}
        one, many = (row[f"{B} robot{'s' * (B > 1)}: roll-out + reverse [us/robot]"] for B in BATCHES)
        row["advantage of the batch"] = one / many
    return values, rows


def rolled(dynamics, x, U, p, X, summed, prefix=""):
    """The calls that are timed, by name: a roll-out, and the reverse sweep along its states X."""
    return {
        f"{prefix}roll-out": lambda: dynamics.rollout(x, U, p),
        f"{prefix}reverse": lambda: dynamics.rollout_vjp(x, U, p, X, X, summed=summed),
    }


def shortest(ways, rounds) -> dict:
    """The shortest time of each call [s]. They take turns, so that what a machine is busy with falls on all of them."""
    times = [{name: timed(call) for name, call in ways.items()} for _ in range(rounds)]
    return {name: min(one[name] for one in times) for name in ways}


def timed(call) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def children() -> float:
    """CPU time of finished child processes, the compiler's [s]."""
    t = os.times()
    return t.children_user + t.children_system


@contextlib.contextmanager
def empty_cache():
    """Kernels are compiled, whatever was compiled before."""
    before = os.environ.get("REFIT_CACHE")
    with tempfile.TemporaryDirectory(prefix="refit-kernels-") as folder:
        os.environ["REFIT_CACHE"] = folder
        try:
            yield
        finally:
            os.environ.pop("REFIT_CACHE")
            if before is not None:
                os.environ["REFIT_CACHE"] = before
