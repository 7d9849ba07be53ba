"""How many rays, scans and gradients a second does the LIDAR give, beside MuJoCo's and Embree's rays and the same scan in torch?

    ./refit bench lidar

Rays: the nearest triangle alone, from one place, in a room with things, and in one with balls of many triangles; MuJoCo by
`mj_multiRay`, Embree through embreex in single precision. Both see the same triangles, and the comparison is void unless they
meet the same.

Scans: 682 beams of three rays to a depth of five among mirrors and glass, with and without derivatives by the sensor's pose; the rival
is the same scan as one would write it first in torch (benchmarks/rivals/torch_lidar.py), whose ranges and gradients agree. Its gradient
is that of the squared error, by one backward pass; ours is the whole Jacobian.

Then how long it takes to find the sensor in the published box. All on one thread, by the processor's time, the least of several rounds in
which all take turns.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable

import numpy as np

from config.tiers import require
from experiments.problems.lidar_scenes import BOX, FREE, MIRRORS, SOURCE, measured, noise
from reporting import Result, SilentProgress
from sim_core.lidar.fit import FitOptions, fit
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene, joined
from sim_core.lidar.shapes import ball, room

OWN = "own target"
ROUNDS = {"quick": 3, "full": 9}
RAYS = {"quick": 20_000, "full": 200_000}
#: rings of the balls in the scene of many triangles
RINGS = {"quick": 48, "full": 96}
PLACE = (0.02, -0.03, 0.1)


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Rays, scans, gradients and a localisation."""
    result = Result("bench_lidar", seed=seed, size=size)
    crowd = Scene(
        (
            Body("walls", room((1.85, 0.92, 0.28), "wall", ends=True)),
            *(
                Body(f"ball {k}", ball(0.08, "wall", RINGS[size]), (0.6 * math.cos(k), 0.3 * math.sin(k), 0, 0, 0, 0))
                for k in range(6)
            ),
        ),
        BOX.materials,
    )
    for name, scene in {"things": MIRRORS, "balls": crowd}.items():
        _rays(result, name, scene, size, seed, progress)
    _scans(result, size, progress)
    _localisation(result, size, seed)
    return result


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


def _rays(result: Result, name: str, scene: Scene, size: str, seed: int, progress) -> None:
    aim = np.random.default_rng(seed).normal(size=(RAYS[size], 3))
    aim /= np.linalg.norm(aim, axis=1)[:, None]
    origin = np.zeros_like(aim)
    lidar = Lidar(scene)
    values = np.array(list(lidar.values.values()))
    calls: dict[str, Callable[[], np.ndarray]] = {"refit": lambda: lidar.tracer.cast(values, origin, aim)[0]}
    calls["MuJoCo"] = _mujoco(scene, aim)
    if importlib.util.find_spec("embreex"):
        calls["Embree"] = _embree(scene, origin, aim)
    result.check("Embree in the same run", "Embree" in calls, True, "==", "", f"{OWN}: embreex==4.4.0.post1")
    ours = calls["refit"]()
    for rival in calls.keys() - {"refit"}:
        theirs = calls[rival]()
        same = np.isclose(ours, theirs, atol=2e-4, rtol=0.0) | (np.isinf(ours) & np.isinf(theirs))
        result.check(f"{name}: rays that agree with {rival}'s", float(same.mean()), 0.999, ">=", "1", "same task")
    with progress.stage(f"rays, {name}"):
        took = _turns(calls, ROUNDS[size])
    triangles = sum(len(b.mesh.faces) for b in scene.bodies)
    result.detail(f"rays among {name}", [
        {"engine": e, "triangles": triangles, "million rays/s": len(aim) / s / 1e6} for e, s in took.items()
    ])  # fmt: skip
    for rival in took.keys() - {"refit"}:
        target = 1.0 if rival == "MuJoCo" else 0.5
        said = OWN if rival == "MuJoCo" else f"{OWN}: half of a kernel in single precision"
        result.check(f"{name}: rays a second over {rival}'s", took[rival] / took["refit"], target, ">=", "1", said)


def _mujoco(scene: Scene, aim: np.ndarray) -> Callable[[], np.ndarray]:
    import mujoco

    spec = mujoco.MjSpec()
    meshes = [b.mesh.moved(b.pose) for b in scene.bodies]
    if any(np.linalg.matrix_rank(m.vertices - m.vertices[0], tol=1e-9) < 3 for m in meshes):
        meshes = [joined(meshes)]  # it takes no flat mesh
    for k, mesh in enumerate(meshes):
        shell = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        spec.add_mesh(name=f"m{k}", uservert=mesh.vertices.ravel(), userface=mesh.faces.ravel(), inertia=shell)
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"m{k}")
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    flat = aim.ravel()

    def call() -> np.ndarray:
        distance, geom = np.empty(len(aim)), np.empty(len(aim), np.int32)
        mujoco.mj_multiRay(model, data, np.zeros(3), flat, None, True, -1, geom, distance, None, len(aim), 1e3)
        return np.where(geom < 0, np.inf, distance)

    return call


def _embree(scene: Scene, origin: np.ndarray, aim: np.ndarray) -> Callable[[], np.ndarray]:
    from embreex.mesh_construction import TriangleMesh
    from embreex.rtcore_scene import EmbreeScene

    world = EmbreeScene()
    corners = np.concatenate([b.mesh.moved(b.pose).corners for b in scene.bodies]).astype(np.float32)
    mesh = TriangleMesh(world, corners)
    o, d = origin.astype(np.float32), aim.astype(np.float32)

    def call() -> np.ndarray:
        assert mesh is not None  # it lives as long as the scene
        found = world.run(o, d, query="DISTANCE")
        return np.where(found > 1e30, np.inf, found)

    return call


def _scans(result: Result, size: str, progress) -> None:
    require("learning", "the rival of the scans")
    import torch

    from benchmarks.rivals.torch_lidar import TorchLidar

    torch.set_num_threads(1)
    lidar, rival = Lidar(MIRRORS), TorchLidar(MIRRORS, Lidar(MIRRORS).settings)
    at = dict(zip(FREE, PLACE))
    data = torch.tensor(lidar.scan().range)

    def backward() -> np.ndarray:
        pose = torch.tensor(PLACE, dtype=torch.float64, requires_grad=True)
        off = rival.ranges(pose) - data
        torch.where(torch.isfinite(off), off, 0.0).square().sum().mul(0.5).backward()
        assert pose.grad is not None
        return pose.grad.numpy()

    def forward() -> np.ndarray:
        with torch.no_grad():
            return rival.ranges(torch.tensor(PLACE, dtype=torch.float64)).numpy()

    scan = lidar.scan(at, by=FREE)
    result.check(
        "ranges apart from torch's, largest",
        float(np.nanmax(np.abs(forward() - scan.range))),
        1e-9,
        "<=",
        "m",
        "same task",
    )
    gradient = np.nan_to_num(scan.range - data.numpy()) @ scan.jacobian
    apart = float(np.abs(backward() / gradient - 1.0).max())
    result.check("gradient apart from torch's", apart, 1e-6, "<=", "1", "same task")
    rows = np.tile(PLACE, (100, 1)) + 0.01 * np.random.default_rng(0).normal(size=(100, 3))
    with progress.stage("scans"):
        took = _turns(
            {
                "refit": lambda: lidar.scan(at),
                "refit, Jacobian": lambda: lidar.scan(at, by=FREE),
                "refit, 100 scans": lambda: lidar.scans(FREE, rows),
                "refit, 100 scans, Jacobian": lambda: lidar.scans(FREE, rows, derivatives=True),
                "torch": forward,
                "torch, gradient": backward,
            },
            ROUNDS[size],
        )
    took["refit, 100 scans"] /= 100.0
    took["refit, 100 scans, Jacobian"] /= 100.0
    rays = lidar.settings.beams * lidar.settings.rays
    result.detail("scans among mirrors and glass", [
        {"what": k, "ms a scan": 1e3 * v, "million beams' rays/s": rays / v / 1e6} for k, v in took.items()
    ])  # fmt: skip
    result.check("a scan, times as fast as torch", took["torch"] / took["refit"], 10.0, ">=", "1", OWN)
    ratio = took["torch, gradient"] / took["refit, Jacobian"]
    result.check("a scan with derivatives, times as fast as torch", ratio, 10.0, ">=", "1", OWN)
    result.check(
        "a scan with its Jacobian over one without", took["refit, Jacobian"] / took["refit"], 3.0, "<=", "1", OWN
    )


def _localisation(result: Result, size: str, seed: int) -> None:
    scan = measured(BOX, (0.0, 0.0, 0.0), noise(), seed)
    lidar, start = Lidar(BOX), dict(zip(FREE, (0.0, 0.0, math.radians(60.0))))
    took = _turns(
        {name: lambda m=name: fit(lidar, scan, start, options=FitOptions(method=m)) for name in ("lm", "lbfgs")},
        ROUNDS[size],
    )
    result.detail("localisation from 60 degrees off", [{"method": k, "ms": 1e3 * v} for k, v in took.items()])
    result.check("localisation", took["lbfgs"], 1.6, "<=", "s", f"{SOURCE}: one thread of an i7-8700K")
