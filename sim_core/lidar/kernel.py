"""A scene as the compiled kernel sees it: trees over triangles, tables, and the calls.

Every body's tree is built once, in its own frame, so that a scan from elsewhere or with bodies elsewhere costs no rebuilding. The
derivatives of LIDAR_P parameters come with a scan (runtime/dual.h); a library is compiled for each of WIDTHS.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim_core.codegen.library import Library, check, compile_library, pointer
from sim_core.lidar.parameters import Inputs
from sim_core.lidar.scene import Scene, outline
from sim_core.lidar.settings import LidarSettings, sample_times

__all__ = ["BEAM", "RETURN", "RUNTIME", "WIDTHS", "Tracer", "WorldData", "kernels"]

RUNTIME = Path(__file__).parent / "runtime"
#: derivatives that a library carries
WIDTHS = (0, 3, 6, 12)
#: `lidar_beam`, `lidar_return` and `lidar_node` of the C text
BEAM = np.dtype([
    ("range", "f8"), ("phase", "f8", 2), ("amplitude", "f8"), ("offset", "f8"), ("apart", "f8"), ("integer", "i4", 2), ("valid", "i4"), ("unused", "i4"),
])  # fmt: skip
RETURN = np.dtype([
    ("path", "f8"), ("radiance", "f8"),
    ("beam", "i4"), ("ray", "i4"), ("depth", "i4"), ("material", "i4"), ("body", "i4"), ("face", "i4"),
])  # fmt: skip
NODE = np.dtype(
    [("low", "f8", 3), ("high", "f8", 3), ("right", "i4"), ("first", "i4"), ("count", "i4"), ("axis", "i4")]
)
_P, _I32, _I64, _F = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double


class WorldData(ctypes.Structure):
    """`lidar_world` of runtime/lidar.h."""

    POINTERS = (
        *("nodes", "root", "sphere", "triangle", "normal", "material", "thin", "edge", "edges"),
        *("direction", "weight", "time"),
    )
    _fields_ = [
        *((name, _P) for name in POINTERS),
        *((name, _I32) for name in ("bodies", "materials", "beams", "rays", "depth", "inputs")),
        *((name, _I32) for name in ("per_return", "sampled", "mean", "optical")),
        ("frequency", _F * 2),
        *((name, _F) for name in ("gain", "glint", "glint_epsilon", "softness", "lowest", "nearest", "farthest")),
    ]


@functools.cache
def kernels(width: int = 0) -> Library:
    """The compiled kernel with derivatives by `width` parameters. Raises RuntimeError: there is no C compiler."""
    library = compile_library(
        "refit_lidar", {}, [RUNTIME / "lidar.c"], lanes=1, defines={"LIDAR_P": width}, flags=["-O3", "-ftree-vectorize"]
    )
    library.symbol("tree", [_P, _P, _P, _P, _I32], _I32)
    library.symbol("scans", [_P, _P, _P, _P, _P, _I64, ctypes.c_int])
    library.symbol("returns", [_P, _P, _P, _P, _I64], _I64)
    library.symbol("cast", [*[_P] * 7, _I64, ctypes.c_int])
    return library


class Tracer:
    """A scene and a sensor's settings, ready to be scanned.

    Raises:
        RuntimeError: there is no C compiler.
    """

    def __init__(self, scene: Scene, settings: LidarSettings) -> None:
        self.scene, self.settings, self.inputs = scene, settings, Inputs(scene)
        self._arrays = _tables(scene, settings)
        names = {name: pointer(self._arrays[name]) for name in WorldData.POINTERS}
        self.data = WorldData(
            **names,
            bodies=len(scene.bodies),
            materials=len(scene.materials),
            inputs=self.inputs.size,
            frequency=(_F * 2)(*settings.frequencies),
            glint_epsilon=1.0 - np.cos(settings.glint_angle),
            **{
                name: getattr(settings, name)
                for name in ("beams", "rays", "depth", "per_return", "sampled", "mean", "optical")
            },
            **{
                name: getattr(settings, name) for name in ("gain", "glint", "softness", "lowest", "nearest", "farthest")
            },
        )
        #: (triangles,) face of the body's mesh that the kernel's triangle is
        self.faces = self._arrays["face"]

    def scans(self, values: np.ndarray, names: Sequence[str] = (), threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Scans at values of all parameters (n, parameters): BEAM (n, beams), and derivatives of ranges by named parameters
        (n, beams, names)."""
        rows = self.inputs.rows(values)
        beams = np.zeros((len(rows), self.settings.beams), BEAM)
        found = np.zeros((len(rows), self.settings.beams, len(names)))
        chunks = [names[k : k + WIDTHS[-1]] for k in range(0, len(names), WIDTHS[-1])] or [()]
        for k, chunk in enumerate(chunks):
            width = next(w for w in WIDTHS if w >= len(chunk))
            slopes = self.inputs.slopes(values, chunk, width)
            out = np.zeros((len(rows), self.settings.beams, width))
            self._run(width, rows, slopes, beams, out, threads)
            found[..., WIDTHS[-1] * k : WIDTHS[-1] * k + len(chunk)] = out[..., : len(chunk)]
        return beams, found

    def _run(
        self, width: int, rows: np.ndarray, slopes: np.ndarray, beams: np.ndarray, out: np.ndarray, threads: int
    ) -> None:
        call = kernels(width).symbol("scans")
        check(call(ctypes.addressof(self.data), *map(pointer, (rows, slopes, beams, out)), len(rows), threads))

    def returns(self, values: np.ndarray) -> np.ndarray:
        """All returns of one scan at values (parameters,), RETURN (r,); `face` counts in the body's mesh."""
        rows = self.inputs.rows(values[None])
        room = self.settings.beams * self.settings.rays * 4
        while True:
            found = np.zeros(room, RETURN)
            count = kernels().symbol("returns")(ctypes.addressof(self.data), *map(pointer, (rows, rows, found)), room)
            if count < room:
                found = found[:count]
                found["face"] = self.faces[found["face"]]
                return found
            room *= 2

    def cast(
        self, values: np.ndarray, origin: np.ndarray, direction: np.ndarray, threads: int = 1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What rays (n, 3) [m] of unit directions (n, 3) in the world meet first: distance (n,) [m], inf where nothing; body and face
        (n,), -1 likewise."""
        rows = self.inputs.rows(values[None])
        o, d = np.ascontiguousarray(origin, float), np.ascontiguousarray(direction, float)
        distance, body, face = np.zeros(len(o)), np.zeros(len(o), np.int32), np.zeros(len(o), np.int32)
        arrays = map(pointer, (rows, o, d, distance, body, face))
        check(kernels().symbol("cast")(ctypes.addressof(self.data), *arrays, len(o), threads))
        return np.where(body < 0, np.inf, distance), body, np.where(body < 0, -1, self.faces[face])


def _tables(scene: Scene, settings: LidarSettings) -> dict[str, np.ndarray]:
    order = {name: k for k, name in enumerate(scene.materials)}
    corners, normals, kinds, faces, nodes, edges = ([np.zeros(0)] * 0 for _ in range(6))
    roots, balls, spans = [], [], []
    triangles = count = 0
    for body in scene.bodies:
        corner = np.ascontiguousarray(body.mesh.corners.reshape(-1, 9))
        tree, permuted = _tree(corner)
        roots.append(count)
        leaf = tree["count"] > 0
        tree["first"][leaf] += triangles
        tree["right"][~leaf] += count
        nodes.append(tree)
        corners.append(corner[permuted])
        faces.append(permuted)
        normals.append(body.mesh.normals[permuted])
        kinds.append(np.array([order[name] for name in body.mesh.material], np.int32)[permuted])
        points = corner.reshape(-1, 3)
        middle = 0.5 * (points.min(0) + points.max(0))
        balls.append([*middle, np.linalg.norm(points - middle, axis=1).max()])
        rim = outline(body.mesh) if body.soft else np.zeros((0, 19))
        spans.append([sum(len(e) for e in edges), len(rim)])
        edges.append(rim)
        triangles, count = triangles + len(corner), count + len(tree)
    found = {
        "nodes": np.concatenate(nodes),
        "root": np.array(roots, np.int32),
        "sphere": np.array(balls),
        "triangle": np.concatenate(corners),
        "normal": np.concatenate(normals),
        "material": np.concatenate(kinds),
        "thin": np.array([m.thin for m in scene.materials.values()], np.int32),
        "edge": np.concatenate(edges),
        "edges": np.array(spans, np.int32),
        "direction": settings.directions,
        "weight": np.full(settings.rays, 1.0 / settings.rays),
        "time": sample_times(),
        "face": np.concatenate(faces),
    }
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _tree(corner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """NODE (m,) over triangles (n, 9), and the order of their leaves (n,)."""
    order = np.arange(len(corner), dtype=np.int32)
    middle = np.ascontiguousarray(corner.reshape(-1, 3, 3).mean(1))
    nodes = np.zeros(2 * len(corner), NODE)
    count = kernels().symbol("tree")(*map(pointer, (corner, middle, order, nodes)), len(corner))
    return nodes[:count].copy(), order
