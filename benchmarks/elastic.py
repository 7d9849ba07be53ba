"""How long does it take to say what a ball feels in a soft object, beside the same in numpy and beside Drake's hydroelastic contact?

    ./refit bench elastic

The packing query: a ball of 150 points in a cloud of 20 thousand, at places where the object pushes back with about 2 N, with a point
model of extra trees that was fitted to ten pokes. The rival does the same as one would write it first in numpy and scipy
(benchmarks/rivals/plain_contact.py: a tree of neighbours, LAPACK, scikit-learn), and has to give the same wrench. Then the parts by
themselves: 10,000 questions to the point model, and complementarity problems by their size.

Drake presses the same ball and a paddle into a block: what is alike is the question (the wrench on a rigid body at a pose, quasi-static and
without friction) and how finely the ball is divided. What is not alike: a block of one modulus in place of a scanned surface of uneven
stiffness; pressure in place of springs that drag their neighbours; and it needs a volume, but no pokes. So its row says how
long such an answer takes there, not that one could replace the other.

All on one thread, by the processor's time, the least of several rounds in which all take turns.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.rivals.plain_contact import PlainContact, coupling_matrix, solve_pruned
from config.tiers import require
from reporting import Result, SilentProgress
from sim_core.elastic import kernel
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.extrapolation import Extrapolated
from sim_core.elastic.forest import Forest
from sim_core.elastic.packing import Box, HeightMap, height_map
from sim_core.elastic.point_model import PointModel, fit_regressor
from sim_core.elastic.poke import Poke
from sim_core.elastic.rigid_body import line_probe, sphere
from sim_core.elastic.surface import Surface

OWN = "own target: ten times the published"
SOURCE = "Zhu 2023, section 4.5: Python on an i7 at 3.8 GHz"
ROUNDS = {"quick": 3, "full": 9}
POINTS, LIMIT, COUPLING, ASKED = 20_000, 2.0, 0.01, 10_000
#: of the packing map's grid [m]
SPACING = {"quick": 0.02, "full": 0.0075}
COUNTS = {"quick": (30, 75, 150, 300, 600), "full": (30, 75, 150, 300, 600, 1000)}
DOWN = np.array([0.0, 0.0, -1.0])
BOX = Box((-0.1, -0.075, 0.0), (0.2, 0.15, 0.14))


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Queries, their parts, a whole height map, and Drake."""
    require("learning", "the point model")
    result = Result("bench_elastic", seed=seed, size=size)
    rng = np.random.default_rng(seed)
    surface = lump(rng)
    plain_model, model = _models(surface, rng)
    simulator = ContactSimulator(surface, model, COUPLING)
    with progress.stage("height map"):
        began = time.process_time()
        found = height_map(simulator, sphere(), BOX, SPACING[size], LIMIT)
        took = time.process_time() - began
    places = _touching(found)
    result.detail("height map", [
        {"cells": found.heights.size, "queries": found.queries, "s": took, "ms a query": 1e3 * took / found.queries}
    ])  # fmt: skip
    _queries(result, simulator, plain_model, places, size, progress)
    _points(result, model, plain_model, surface, size, rng, progress)
    _problems(result, simulator, places, size, rng, progress)
    _drake(result, rng, size, progress)
    return result


def lump(rng: np.random.Generator) -> Surface:
    """20 thousand points of a rounded object of 140 mm x 100 mm x 50 mm with bumps, stiffer where it is red."""
    xy = rng.uniform(-1.0, 1.0, (2 * POINTS, 2)) * [0.07, 0.05]
    inside = ((xy / [0.07, 0.05]) ** 2).sum(1) < 0.97
    x, y = xy[inside][:POINTS].T
    square = (x / 0.07) ** 2 + (y / 0.05) ** 2
    z = 0.05 * np.sqrt(1.0 - square) + 0.002 * np.sin(150.0 * x) * np.cos(150.0 * y)
    root = 0.05 / np.sqrt(1.0 - square)
    slope_x = -root * x / 0.07**2 + 0.3 * np.cos(150.0 * x) * np.cos(150.0 * y)
    slope_y = -root * y / 0.05**2 - 0.3 * np.sin(150.0 * x) * np.sin(150.0 * y)
    normals = np.stack([-slope_x, -slope_y, np.ones_like(x)], 1)
    red = 0.5 + 0.5 * np.tanh(x / 0.01)
    return Surface(
        np.stack([x, y, z], 1),
        np.stack([red, 0.3 + 0.0 * red, 1.0 - red], 1),
        normals / np.linalg.norm(normals, axis=1, keepdims=True),
    )


def _models(surface: Surface, rng: np.random.Generator) -> tuple[PointModel, PointModel]:
    """Extra trees of ten pokes: as scikit-learn answers, and as the compiled forest does."""
    from sklearn.ensemble import ExtraTreesRegressor

    d = np.linspace(-0.004, 0.008, 48)
    pokes = []
    for k in rng.choice(len(surface), 10, replace=False):
        stiffness = 200.0 + 500.0 * surface.colours[k, 0]
        force = stiffness * np.maximum(d, 0.0) + 2e6 * np.maximum(d, 0.0) ** 3 + rng.normal(0.0, 0.05, len(d))
        pokes.append(Poke(surface.features[k], d, force))
    fitted = fit_regressor(ExtraTreesRegressor(random_state=0), pokes)
    return fitted, replace(fitted, estimator=Forest.of(fitted.estimator))


def _touching(found: HeightMap) -> np.ndarray:
    """Poses (b, 4, 4) at which the object carries the ball."""
    y, x = np.meshgrid(found.y, found.x, indexing="ij")
    held = found.forces > 0.5 * LIMIT
    poses = np.tile(np.eye(4), (int(held.sum()), 1, 1))
    poses[:, :3, 3] = np.stack([x[held], y[held], found.heights[held]], 1)
    return poses


def _turns(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least processor time of each call [s]."""
    least = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.process_time()
            call()
            least[name] = min(least[name], time.process_time() - began)
    return least


def _queries(
    result: Result, simulator: ContactSimulator, plain_model: PointModel, poses: np.ndarray, size: str, progress
) -> None:
    ball, few = sphere(), poses[:: max(1, len(poses) // 20)]
    many = np.tile(poses, (-(-1000 // len(poses)), 1, 1))[:1000]
    # the rival's pruning is the published; wrenches are compared like with like
    pruned = ContactSimulator(simulator.surface, plain_model, COUPLING, solver="pruned")
    plain = PlainContact(simulator.surface, Extrapolated(plain_model).predict, COUPLING, DOWN, simulator.reach)
    theirs = np.array([plain.query(ball.placed(pose), pose[:3, 3])[0] for pose in few])
    apart = np.abs(pruned.queries(ball, few, DOWN).force - theirs).max()
    result.check("forces apart from numpy's, largest", float(apart), 1e-6, "<=", "N", "same task")
    with progress.stage("queries"):
        took = _turns(
            {
                "refit, one by one": lambda: [simulator.query(ball, pose, DOWN) for pose in few],
                "refit, 1000 at once": lambda: simulator.queries(ball, many, DOWN),
                "refit, pairs and LCP alone": lambda: kernel.touch(
                    simulator.sight(DOWN).data, ball.points, many, COUPLING, 0.0, "exact", 1
                ),
                "numpy and scikit-learn": lambda: [plain.query(ball.placed(pose), pose[:3, 3]) for pose in few],
            },
            ROUNDS[size],
        )
    each = {name: s / (len(few) if name.endswith(("one by one", "learn")) else len(many)) for name, s in took.items()}
    result.detail("packing query", [{"what": k, "ms": 1e3 * s, "queries/s": 1.0 / s} for k, s in each.items()])
    result.check("packing query, one by one", each["refit, one by one"], 0.086, "<=", "s", SOURCE)
    result.check("packing query, one by one, own", each["refit, one by one"], 0.0086, "<=", "s", OWN)
    result.check("packing query, 1000 at once", each["refit, 1000 at once"], 0.0086, "<=", "s", OWN)
    ratio = each["numpy and scikit-learn"] / each["refit, 1000 at once"]
    result.check("packing query, times as fast as numpy", ratio, 10.0, ">=", "1", "own target")


def _points(
    result: Result,
    model: PointModel,
    plain: PointModel,
    surface: Surface,
    size: str,
    rng: np.random.Generator,
    progress,
) -> None:
    features = surface.features[rng.integers(0, len(surface), ASKED)]
    d = rng.uniform(0.0, 0.02, ASKED)
    apart = float(np.abs(model.predict(features, d) - plain.predict(features, d)).max())
    result.check("point forces apart from scikit-learn's, largest", apart, 1e-9, "<=", "N", "same task")
    with progress.stage("point model"):
        took = _turns(
            {
                "refit": lambda: model.predict(features, d),
                "scikit-learn": lambda: plain.predict(features, d),
                "refit, one": lambda: model.predict(features[:1], d[:1]),
                "scikit-learn, one": lambda: plain.predict(features[:1], d[:1]),
            },
            ROUNDS[size],
        )
    result.detail("questions to the point model", [{"what": k, "ms": 1e3 * s} for k, s in took.items()])
    result.check("10,000 questions to the point model", took["refit"], 0.15, "<=", "s", SOURCE)
    result.check("10,000 questions to the point model, own", took["refit"], 0.015, "<=", "s", OWN)


def _problems(
    result: Result, simulator: ContactSimulator, poses: np.ndarray, size: str, rng: np.random.Generator, progress
) -> None:
    contacts = simulator.queries(sphere(), poses, DOWN)
    largest = contacts[int(np.argmax(contacts.count))]
    real = coupling_matrix(largest.points, COUPLING), largest.nominal
    rows = [_sizes(f"packing, {len(largest.nominal)}", *real, size)]
    packing = rows[0]["exact, ms"]
    with progress.stage("complementarity"):
        for count in COUNTS[size]:
            place = rng.uniform(-0.02, 0.02, (count, 3)) * [1.0, 1.0, 0.05]
            d = np.maximum(0.006 - 8.0 * (place[:, :2] ** 2).sum(1), 1e-4)
            rows.append(_sizes(str(count), coupling_matrix(place, COUPLING), d, size))
    result.detail("complementarity problems by the number of points", rows)
    result.check("LCP at the largest contact of the packing", 1e-3 * packing, 2e-3, "<=", "s", SOURCE)
    result.check("LCP at the largest contact of the packing, own", 1e-3 * packing, 2e-4, "<=", "s", OWN)
    x, y = (g.ravel() for g in np.meshgrid(*[np.linspace(0.0, 0.084, 15)] * 2))
    even = coupling_matrix(np.stack([x, y, 0.0 * x], 1), COUPLING), np.full(len(x), 0.003)
    rows.append(_sizes("225, an even patch", *even, size))
    result.check("an even patch: active points", rows[-1]["active"], 200, ">=", "", "own target")
    result.check("LCP of an even patch", 1e-3 * rows[-1]["exact, ms"], 0.01, "<=", "s", "own target")
    some = [(float(r["points"]), r["exact, ms"]) for r in rows[1:-1] if float(r["points"]) >= 150]
    power = float(np.polyfit(*np.log(np.array(some)).T, 1)[0])
    result.check("LCP: power of the number of points by which time grows, 150 and more", power, 3.5, "<=", "1", "cubic")


def _sizes(name: str, matrix: np.ndarray, nominal: np.ndarray, size: str) -> dict:
    took = _turns(
        {
            "exact, ms": lambda: kernel.solve(matrix, nominal),
            "pruned, ms": lambda: kernel.solve(matrix, nominal, "pruned"),
            "numpy, pruned, ms": lambda: solve_pruned(matrix, nominal),
        },
        ROUNDS[size],
    )
    active = int((kernel.solve(matrix, nominal)[0] > 0.0).sum())
    return {"points": name, "active": active, **{k: 1e3 * s for k, s in took.items()}}


def _drake(result: Result, rng: np.random.Generator, size: str, progress) -> None:
    there = bool(importlib.util.find_spec("pydrake"))
    result.check("Drake in the same run", there, True, "==", "", "own target: drake==1.51.1")
    if not there:
        return
    from benchmarks.rivals.drake_hydroelastic import Hydroelastic

    n = int(np.sqrt(POINTS))
    x, y = (g.ravel() for g in np.meshgrid(*[np.linspace(-0.1, 0.1, n)] * 2))
    points = np.stack([x, y, 0.0 * x], 1) + rng.uniform(-3e-4, 3e-4, (n * n, 3)) * [1.0, 1.0, 0.0]
    block = Surface(points, np.full(points.shape, 0.5), np.tile(-DOWN, (len(points), 1)))

    class Even:
        """One stiffness, as the block has."""

        deepest = 0.02

        def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
            return 300.0 * np.maximum(displacement, 0.0)

    simulator = ContactSimulator(block, Even(), COUPLING)
    rows, ratio = [], {}
    places = rng.uniform(-0.05, 0.05, (20, 2))
    with progress.stage("Drake"):
        for body, low in ((sphere(), 0.02), (line_probe(), 0.0)):
            drake = Hydroelastic(body.name, (0.2, 0.2, 0.04))
            for depth in (0.002, 0.004, 0.008):
                poses = np.tile(np.eye(4), (len(places), 1, 1))
                poses[:, :2, 3], poses[:, 2, 3] = places, low - depth
                took = _turns(
                    {
                        "refit": lambda b=body, p=poses: [simulator.query(b, pose, DOWN) for pose in p],
                        "refit, at once": lambda b=body, p=poses: simulator.queries(b, p, DOWN),
                        "Drake": lambda d=drake, z=depth: [d.query(x, y, z) for x, y in places],
                    },
                    ROUNDS[size],
                )
                force, faces = drake.query(*places[0], depth)
                ours = simulator.query(body, poses[0], DOWN)
                rows.append({
                    "body": body.name, "depth, mm": 1e3 * depth, "force, N": float(ours.force[2]), "points": len(ours.nominal),
                    "Drake's force, N": float(force[2]), "Drake's faces": faces,
                } | {f"{k}, ms": 1e3 * s / len(places) for k, s in took.items()})  # fmt: skip
                ratio[body.name] = {k: took["Drake"] / took[k] for k in ("refit", "refit, at once")}
                result.check(
                    f"{body.name} at {1e3 * depth:.0f} mm: both push back",
                    min(force[2], ours.force[2]),
                    0.0,
                    ">",
                    "N",
                    "same task",
                )
    result.detail("a body in an even block, ours and Drake's", rows)
    for body, times in ratio.items():
        result.check(
            f"{body} at 8 mm, one by one, times as fast as Drake", times["refit"], 1.0, ">=", "1", "own target"
        )
        result.check(f"{body} at 8 mm, at once, times as fast", times["refit, at once"], 1.0, ">=", "1", "own target")
