"""What a LIDAR looks at: triangle meshes in rigid bodies, and the materials of their faces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from sim_core.lidar.material import Material

__all__ = ["ORIGIN", "POSE", "Body", "Mesh", "Pose", "Scene", "joined", "outline", "rotation", "turns"]

#: a pose: place [m], and turns about the fixed axes x, y, z, one after the other [rad]
POSE = ("x", "y", "z", "roll", "pitch", "yaw")
Pose = tuple[float, float, float, float, float, float]
ORIGIN: Pose = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles.

    Attributes:
        vertices: (v, 3) [m]. faces: (f, 3) rows of vertices, counter-clockwise from outside.
        material: (f,) name of each face's.

    Raises:
        ValueError: no faces, a value that is not finite, a face of a vertex that is not there.
    """

    vertices: np.ndarray
    faces: np.ndarray
    material: tuple[str, ...]

    @staticmethod
    def of(vertices: ArrayLike, faces: ArrayLike, material: str | Sequence[str]) -> Mesh:
        """From anything like arrays; one material for all faces or one for each."""
        f = np.array(faces, np.int64).reshape(-1, 3)
        names = (material,) * len(f) if isinstance(material, str) else tuple(material)
        return Mesh(np.array(vertices, float).reshape(-1, 3), f, names)

    def __post_init__(self) -> None:
        if not len(self.faces):
            raise ValueError("a mesh has at least one face, found none")
        if not np.isfinite(self.vertices).all():
            bad = int(np.flatnonzero(~np.isfinite(self.vertices).all(1))[0])
            raise ValueError(f"vertices are finite, but vertex {bad} is {self.vertices[bad]}")
        if self.faces.min() < 0 or self.faces.max() >= len(self.vertices):
            raise ValueError(f"faces name vertices 0 to {len(self.vertices) - 1}, found {self.faces.max()}")
        if len(self.material) != len(self.faces):
            raise ValueError(f"one material for each of {len(self.faces)} faces is needed, found {len(self.material)}")

    @property
    def corners(self) -> np.ndarray:
        """(f, 3, 3) [m]."""
        return self.vertices[self.faces]

    @property
    def normals(self) -> np.ndarray:
        """(f, 3) unit, outward; 0 of a face without an area."""
        a, b, c = np.moveaxis(self.corners, 1, 0)
        normal = np.cross(b - a, c - a)
        length = np.linalg.norm(normal, axis=1, keepdims=True)
        return np.divide(normal, length, out=np.zeros_like(normal), where=length > 0.0)

    def volume(self, among: Sequence[bool] | None = None) -> float:
        """Enclosed by all faces, or those `among`, which are a closed surface [m^3]; negative where it is inside out."""
        a, b, c = np.moveaxis(self.corners if among is None else self.corners[np.asarray(among)], 1, 0)
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0)

    def moved(self, pose: Sequence[float]) -> Mesh:
        """The same elsewhere; pose (6,) as POSE says."""
        return replace(self, vertices=self.vertices @ rotation(pose[3:]).T + np.asarray(pose[:3], float))

    def open_edges(self, among: Sequence[bool] | None = None) -> int:
        """How many edges of the faces (of all, or those `among`) are not crossed once each way, as a closed surface's are."""
        place = _places(self.vertices)[self.faces if among is None else self.faces[np.asarray(among)]]
        way = np.concatenate([place[:, [0, 1]], place[:, [1, 2]], place[:, [2, 0]]])
        forth, count = np.unique(way, axis=0, return_counts=True)
        there = set(map(tuple, forth.tolist()))
        return sum(n != 1 or (b, a) not in there for (a, b), n in zip(forth.tolist(), count))


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """Several as one, which move together. Raises ValueError: none."""
    if not meshes:
        raise ValueError("meshes to join are needed, found none")
    start = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    return Mesh(
        np.concatenate([m.vertices for m in meshes]),
        np.concatenate([m.faces + k for m, k in zip(meshes, start)]),
        tuple(name for m in meshes for name in m.material),
    )


@dataclass(frozen=True, eq=False)
class Body:
    """A mesh that moves as one. name: unique in a scene. pose: in the world, as POSE says. soft: whether its outline is softened
    where the sensor's settings ask for it."""

    name: str
    mesh: Mesh
    pose: Pose = ORIGIN
    soft: bool = False


@dataclass(frozen=True, eq=False)
class Scene:
    """Bodies and the materials that their faces name.

    Raises:
        ValueError: no body, two of one name, a pose that is not finite, a material that is unknown, faces by which light is refracted
            and which are no closed surface with its outside out.
    """

    bodies: tuple[Body, ...]
    materials: Mapping[str, Material] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.bodies:
            raise ValueError("a scene has at least one body, found none")
        names = [body.name for body in self.bodies]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"bodies have different names, but {', '.join(twice)} is there more than once")
        for body in self.bodies:
            if body.name in ("sensor", "diode") or "." in body.name:
                raise ValueError(f"a body's name is without dots and not sensor or diode, found {body.name!r}")
            if len(body.pose) != len(POSE) or not np.isfinite(body.pose).all():
                raise ValueError(f"the pose of {body.name} is six finite numbers ({', '.join(POSE)}), not {body.pose}")
            if unknown := sorted(set(body.mesh.material) - set(self.materials)):
                raise ValueError(
                    f"{body.name} is made of {unknown[0]!r}, which is none of the scene's materials: "
                    f"{', '.join(sorted(self.materials)) or 'it has none'}"
                )
            clear = [self.materials[name].refracts for name in body.mesh.material]
            if any(clear) and (count := body.mesh.open_edges(clear)):
                raise ValueError(
                    f"faces of {body.name} that refract light enclose a volume, but {count} of their edges are open; close the mesh, "
                    "or make the material thin"
                )
            if any(clear) and body.mesh.volume(clear) < 0.0:
                raise ValueError(
                    f"faces of {body.name} that refract light are counter-clockwise from outside, but they are inside out; turn them round"
                )

    def body(self, name: str) -> Body:
        """By its name. Raises KeyError: there is none."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise KeyError(f"the scene has no body {name!r}, only {', '.join(b.name for b in self.bodies)}")

    def at(self, poses: Mapping[str, Pose]) -> Scene:
        """With bodies elsewhere. Raises KeyError: a body is not there."""
        for name in poses:
            self.body(name)
        return replace(self, bodies=tuple(replace(b, pose=poses.get(b.name, b.pose)) for b in self.bodies))

    def made_of(self, materials: Mapping[str, Material]) -> Scene:
        """With other materials of the same or of more names."""
        return replace(self, materials={**self.materials, **materials})


def rotation(turns: ArrayLike) -> np.ndarray:
    """R = Rz(yaw) Ry(pitch) Rx(roll) of roll, pitch, yaw (..., 3) [rad]: (..., 3, 3)."""
    roll, pitch, yaw = np.moveaxis(np.asarray(turns, float), -1, 0)
    (sr, cr), (sp, cp), (sy, cy) = ((np.sin(a), np.cos(a)) for a in (roll, pitch, yaw))
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def turns(matrix: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch, yaw of a rotation matrix (3, 3) [rad]."""
    pitch = math.asin(float(np.clip(-matrix[2, 0], -1.0, 1.0)))
    if abs(matrix[2, 0]) > 1.0 - 1e-12:  # straight up or down: all the rest is yaw
        return 0.0, pitch, math.atan2(-matrix[0, 1], matrix[1, 1])
    return math.atan2(matrix[2, 1], matrix[2, 2]), pitch, math.atan2(matrix[1, 0], matrix[0, 0])


def outline(mesh: Mesh) -> np.ndarray:
    """Edges that may be a body's outline, (e, 19): both ends, then of either face a corner off the edge and the normal, then 1 where
    there are two faces and 0 at a rim (where the one face stands twice). Edges within a plane are left out."""
    place = _places(mesh.vertices)[mesh.faces]
    sides: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for face, corners in enumerate(place.tolist()):
        for k in range(3):
            a, b = sorted((corners[k], corners[(k + 1) % 3]))
            sides.setdefault((a, b), []).append((face, (k + 2) % 3))
    corner, normal, rows = mesh.corners, mesh.normals, []
    for owners in sides.values():
        (first, apex), (last, other) = owners[0], owners[-1]
        two = len(owners) > 1
        if two and normal[first] @ normal[last] > 1.0 - 1e-9:
            continue
        ends = corner[first][[(apex + 1) % 3, (apex + 2) % 3]].ravel()
        rows.append(
            np.concatenate(
                [ends, corner[first][apex], normal[first], corner[last][other], normal[last], [1.0 if two else 0.0]]
            )
        )
    return np.array(rows).reshape(-1, 19)


def _places(vertices: np.ndarray) -> np.ndarray:
    """Number of each vertex's place, as vertices may stand several times at one (v,)."""
    return np.unique(np.round(vertices, 9) + 0.0, axis=0, return_inverse=True)[1].reshape(-1)
