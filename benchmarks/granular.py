"""How many grain-steps a second does the granular kernel take, and how fast does a pile's time go, beside Warp and MuJoCo?

    ./refit bench granular

Spheres of 1 cm are poured into a box, fall and come to rest: all engines from the same places, under the same law. Warp has exactly
ours (benchmarks/rivals/warp_grains.py), and the same step; MuJoCo has constraints in place of springs, which allow it a step nine
times as long, and is set to penetrate as much as our springs do (benchmarks/rivals/mujoco_grains.py). The comparison is void unless
piles come to rest at the same height, overlap as much, and weigh on the box what their grains weigh.

Then piles at rest, of a thousand grains up to a million. The large ones are tiles of a pile that has settled, without the walls
between them; the largest are timed while grains close the gaps that walls have left. MuJoCo takes part up to ten thousand, in a
quick run up to a thousand.

An engine's figure is the least of all rounds, in which engines take turns: on one thread the time of the processor, on two that of
the wall, which other work on the machine lengthens. Grains never sleep, in no engine. Warp has one thread on a CPU.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial import cKDTree

from reporting import Result, SilentProgress
from sim_core.codegen import cuda
from sim_core.granular.grains import ball
from sim_core.granular.law import Material, longest_step, pair_law
from sim_core.granular.population import Grains, pour
from sim_core.granular.tools import container
from sim_core.granular.world import GranularWorld

SOURCE = "own target"
WANTED = 13e6  # [1/s], on one thread
RADIUS, DENSITY, SIDE = 0.005, 2500.0, 0.1  # of a grain [m], [kg/m^3]; of a tile [m]
MATERIAL = Material(friction=0.5, restitution=0.3, stiffness=5e5)
GRAIN = ball(RADIUS, DENSITY)
LAW, STEP = pair_law(MATERIAL, MATERIAL), longest_step([MATERIAL], np.array([RADIUS]), np.array([GRAIN.mass]))
TILE, FALL, WEIGHED = 1000, 0.7, 0.1  # grains; [s], [s]
#: tiles along x and y of the piles at rest
TILES = {"quick": [(1, 1), (2, 5)], "full": [(1, 1), (2, 5), (10, 10), (20, 50)]}
ROUNDS = {"quick": 2, "full": 4}
#: grain-steps of a round and of what goes before, by engine
WORK = {"refit": 3e6, "Warp": 3e6, "MuJoCo": 3e4, "GPU": 1e8}
#: MuJoCo needs half a minute to compile ten thousand grains
MOST_GRAINS = {"quick": {"MuJoCo": 1000}, "full": {"MuJoCo": 10_000}}
PACKAGES = {"Warp": ("warp", "warp-lang==1.19.0"), "MuJoCo": ("mujoco", "mujoco==4.0.0")}


class Engine(Protocol):
    """What is timed: `run` returns the mean force on the box along z [N]; position (n, 3) [m]; speed, the mean [m/s]."""

    step: float

    @property
    def position(self) -> np.ndarray: ...
    @property
    def speed(self) -> float: ...
    def run(self, steps: int) -> float: ...


class Ours:
    """A granular world, asked as the rivals are."""

    def __init__(self, position: np.ndarray, area: tuple[float, float], threads: int = 1, device: str = "cpu") -> None:
        grains = Grains.of([GRAIN], "grain", np.zeros(len(position), int), position)
        tools = [container((*area, 1.0), material="grain")]
        self.world = GranularWorld(grains, tools, {"grain": MATERIAL}, step=STEP, threads=threads, device=device)
        self.step = self.world.step

    def run(self, steps: int) -> float:
        return float(self.world.run(steps)["world"][2])

    @property
    def position(self) -> np.ndarray:
        return self.world.position

    @property
    def speed(self) -> float:
        return float(np.linalg.norm(self.world.velocity, axis=1).mean())


@dataclass(frozen=True)
class Entrant:
    """An engine in one of its forms: how it is made of places and an area, by which clock it is timed, whose work it is given."""

    make: Callable[[np.ndarray, tuple[float, float]], Engine]
    clock: Callable[[], float]
    kind: str


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Time all engines on the same piles."""
    result = Result("bench_granular", seed=seed, size=size)
    for name, (module, wanted) in PACKAGES.items():
        is_here = importlib.util.find_spec(module) is not None
        result.check(f"{name} in the same run", is_here, True, "==", "", f"{SOURCE}: {wanted}")
    entrants = _entrants()
    tile = _fall(result, entrants, seed, progress)
    rows: list[dict[str, Any]] = []
    for across in TILES[size]:
        grains = TILE * across[0] * across[1]
        area = (across[0] * SIDE, across[1] * SIDE)
        here = {name: e for name, e in entrants.items() if grains <= MOST_GRAINS[size].get(e.kind, grains)}
        took = _timed(here, _tiled(tile, across), area, ROUNDS[size], progress)
        rows += [
            {"grains": grains, "engine": name, "grain-steps/s": grains / seconds, "simulated s/s": step / seconds}
            for name, (step, seconds) in took.items()
        ]
        _judge(result, rows, grains)
    result.detail("piles at rest", rows)
    return result


def _entrants() -> dict[str, Entrant]:
    processor, wall = time.process_time, time.perf_counter
    found = {
        "refit": Entrant(Ours, processor, "refit"),
        "refit, 2 threads": Entrant(lambda x, area: Ours(x, area, 2), wall, "refit"),
    }
    if cuda.usable():
        found["refit, GPU"] = Entrant(lambda x, area: Ours(x, area, device="cuda"), wall, "GPU")
    if importlib.util.find_spec("warp"):
        import warp as wp

        from benchmarks.rivals.warp_grains import WarpGrains

        found["Warp"] = Entrant(lambda x, area: WarpGrains(x, area, RADIUS, GRAIN.mass, LAW, STEP), processor, "Warp")
        if wp.get_cuda_device_count():
            found["Warp, GPU"] = Entrant(
                lambda x, area: WarpGrains(x, area, RADIUS, GRAIN.mass, LAW, STEP, "cuda:0"), wall, "GPU"
            )
    if importlib.util.find_spec("mujoco"):
        from benchmarks.rivals.mujoco_grains import MujocoGrains

        def grains(threads: int) -> Callable:
            return lambda x, area: MujocoGrains(x, area, RADIUS, GRAIN.mass, MATERIAL.friction, threads)

        found["MuJoCo"] = Entrant(grains(1), processor, "MuJoCo")
        found["MuJoCo, 2 threads"] = Entrant(grains(2), wall, "MuJoCo")
    return found


def _fall(result: Result, entrants: dict[str, Entrant], seed: int, progress) -> np.ndarray:
    """Every engine on one thread, and on a GPU, lets the same grains fall and weighs them; returns where ours have come to rest (n, 3) [m]."""
    grains = Grains.of([GRAIN], "grain", np.zeros(TILE, int))
    start = pour(grains, (SIDE, SIDE), seed=seed).position
    weight, rows, rest = TILE * GRAIN.mass * 9.81, {}, start
    alone = {name: e for name, e in entrants.items() if e.kind in (name, "GPU")}
    for name, entrant in progress.track(list(alone.items()), "fall"):
        engine = entrant.make(start, (SIDE, SIDE))
        engine.run(1)
        began, steps = entrant.clock(), round(FALL / engine.step)
        engine.run(steps)
        took = entrant.clock() - began
        borne = -engine.run(round(WEIGHED / engine.step)) / weight
        rows[name] = {
            "grain-steps/s": TILE * steps / took,
            "simulated s/s": FALL / took,
            "height of the middle [m]": float(engine.position[:, 2].mean()),
            "overlap/radius": _overlap(engine.position),
            "weight": borne,
            "speed [m/s]": engine.speed,
        }
        if name == "refit":
            rest = engine.position.copy()
    result.detail("fall of a thousand", [{"engine": name, **row} for name, row in rows.items()])
    ours = rows["refit"]
    for name, row in rows.items():
        result.check(f"{name}: weight on the box over the grains'", row["weight"], (0.98, 1.02), "in", "1", "same task")
        if name == "refit":
            continue
        height = row["height of the middle [m]"] / ours["height of the middle [m]"]
        result.check(f"{name}: height of the pile over ours", height, (0.96, 1.04), "in", "1", "same task")
        overlap = row["overlap/radius"] / ours["overlap/radius"]
        result.check(f"{name}: overlap over ours", overlap, (0.8, 1.6), "in", "1", "same task")
        if alone[name].kind == "GPU":
            continue  # beside ours on a GPU, below
        faster = ours["simulated s/s"] / row["simulated s/s"]
        result.check(f"fall: simulated time a second, ours over {name}'s", faster, 1.0, ">=", "1", SOURCE)
    return rest


def _overlap(position: np.ndarray) -> float:
    """Mean overlap of grains that touch, over their radius."""
    pairs = cKDTree(position).query_pairs(2.0 * RADIUS, output_type="ndarray")
    apart = np.linalg.norm(position[pairs[:, 0]] - position[pairs[:, 1]], axis=1)
    return float((2.0 * RADIUS - apart).mean() / RADIUS)


def _tiled(tile: np.ndarray, across: tuple[int, int]) -> np.ndarray:
    """The pile side by side (n, 3) [m]."""
    x, y = ((np.arange(count) - 0.5 * (count - 1)) * SIDE for count in across)
    corners = np.stack(np.meshgrid(x, y, [0.0], indexing="ij"), -1).reshape(-1, 1, 3)
    return (corners + tile).reshape(-1, 3)


def _timed(
    entrants: dict[str, Entrant], start: np.ndarray, area: tuple[float, float], rounds: int, progress
) -> dict[str, tuple[float, float]]:
    """Step [s] and least time that one takes [s], by engine."""
    engines = {name: entrant.make(start, area) for name, entrant in entrants.items()}
    steps = {name: max(5, round(WORK[entrant.kind] / len(start))) for name, entrant in entrants.items()}
    least = dict.fromkeys(engines, np.inf)
    for name, engine in engines.items():
        engine.run(steps[name])
    for _ in progress.track(range(rounds), f"{len(start)} grains"):
        for name, engine in engines.items():
            began = entrants[name].clock()
            engine.run(steps[name])
            least[name] = min(least[name], (entrants[name].clock() - began) / steps[name])
    return {name: (engine.step, float(least[name])) for name, engine in engines.items()}


def _judge(result: Result, rows: list[dict[str, Any]], grains: int) -> None:
    """Ours on one thread beside each rival on one, on two beside two, and on a GPU beside Warp on it."""
    of = {row["engine"]: row for row in rows if row["grains"] == grains}
    pairs = (
        ("refit", "Warp"),
        ("refit", "MuJoCo"),
        ("refit, 2 threads", "MuJoCo, 2 threads"),
        ("refit, GPU", "Warp, GPU"),
    )
    for ours, rival in pairs:
        if rival not in of or ours not in of:
            continue
        for unit in ("grain-steps/s", "simulated s/s"):
            if rival.startswith("Warp") and unit == "simulated s/s":
                continue  # the same step
            ratio = of[ours][unit] / of[rival][unit]
            result.check(f"{grains} grains: {unit}, {ours} over {rival}", ratio, 1.0, ">=", "1", SOURCE)
    if grains == 10_000:
        result.check(
            f"{grains} grains: grain-steps on one thread", of["refit"]["grain-steps/s"], WANTED, ">=", "1/s", SOURCE
        )
