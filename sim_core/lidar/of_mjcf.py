"""Scenes from MJCF: the geometry of a model, each of its bodies one here, made of what is given by name or of what it looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim_core.lidar.material import MIRROR, Material
from sim_core.lidar.scene import Body, Mesh, Pose, Scene, joined, turns
from sim_core.lidar.shapes import ball, box, capsule, cylinder

__all__ = ["looks", "pose_of", "scene_of_mjcf", "scene_of_model"]

#: reflectance of an MJCF material above which it is a mirror; darkest and brightest albedo of a colour
SHINY, DARKEST, BRIGHTEST = 0.8, 0.02, 0.95
#: rings of a ball's triangles from pole to pole
ROUND = 20


def scene_of_mjcf(
    path: str | Path, materials: Mapping[str, Material], default: str | None = None, soft: bool = False
) -> Scene:
    """The geometry of an MJCF model in its first configuration.

    Args:
        materials: by the names of the model's materials. default: the name of what geoms are made of whose material is not among them.
        soft: whether bodies' outlines may be softened.

    Raises:
        ValueError: a geom's material is unknown and there is no default; else as `scene_of_model`.
    """
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    made_of = []
    for geom in range(model.ngeom):
        name = _material(model, geom)
        chosen = name if name in materials else default
        if chosen is None:
            called = model.geom(geom).name or f"number {geom}"
            raise ValueError(
                f"the geom {called} is made of {name or 'no material'}, which is none of {', '.join(materials) or 'the materials given'}; "
                "add it, or name a default"
            )
        made_of.append(chosen)
    return scene_of_model(model, data, made_of, materials, soft)[0]


def scene_of_model(
    model: Any,
    data: Any,
    made_of: Sequence[str],
    materials: Mapping[str, Material],
    soft: bool = False,
    without: int = -1,
) -> tuple[Scene, dict[str, int]]:
    """The geometry of a loaded model where its data have it (mj_kinematics), and each body's number in the model by its name here.

    Args:
        made_of: of each geom, one of `materials`. soft: whether bodies' outlines may be softened. without: number of a body that is
            left out, -1: none.

    Raises:
        ValueError: there is no geom; a geom's kind has no surface (height fields, signed distance fields).
    """
    import mujoco

    parts: dict[int, list[Mesh]] = {}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        if body == without:
            continue
        mesh, turn = _geom(model, geom, made_of[geom]), np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        placed = mesh.vertices @ turn.reshape(3, 3).T + model.geom_pos[geom]
        parts.setdefault(body, []).append(Mesh(placed, mesh.faces, mesh.material))
    names = {k: model.body(k).name.replace(".", "_") or f"body {k}" for k in parts}
    bodies = (Body(names[k], joined(meshes), pose_of(data.xpos[k], data.xmat[k]), soft) for k, meshes in parts.items())
    return Scene(tuple(bodies), materials), {name: k for k, name in names.items()}


def pose_of(place: np.ndarray, turn: np.ndarray) -> Pose:
    """As POSE says, of a place (3,) [m] and a rotation matrix (9,)."""
    x, y, z = map(float, place)
    return x, y, z, *turns(np.asarray(turn).reshape(3, 3))


def looks(model: Any, materials: Mapping[str, Material] = {}) -> tuple[list[str], dict[str, Material]]:
    """What each geom of a model is made of, and those materials by name: one of `materials` where the geom's is among them, a mirror
    where it reflects more than 0.8, else of the albedo that its colour has.

    Raises:
        ValueError: one of `materials` is none of the model's.
    """
    there = [model.mat(k).name for k in range(model.nmat)]
    if unknown := [name for name in materials if name not in there]:
        raise ValueError(f"the world has no material {unknown[0]!r}; it has {', '.join(there) or 'none'}")
    made_of, found = [], dict(materials)
    for geom in range(model.ngeom):
        name, number = _material(model, geom), int(model.geom_matid[geom])
        if name is None or name not in materials:
            grey = float((model.geom_rgba[geom] if number < 0 else model.mat_rgba[number])[:3].mean())
            if number >= 0 and model.mat_reflectance[number] > SHINY:
                name, material = "mirror of the model", MIRROR
            else:
                albedo = round(min(max(grey, DARKEST), BRIGHTEST), 2)
                name, material = f"grey of {100 * albedo:.0f} %", Material(albedo=albedo)
            found[name] = material
        made_of.append(name)
    return made_of, found


def _material(model: Any, geom: int) -> str | None:
    number = int(model.geom_matid[geom])
    return model.mat(number).name if number >= 0 else None


def _geom(model: Any, geom: int, material: str) -> Mesh:
    """A geom's surface in its own frame."""
    import mujoco

    kind, size = mujoco.mjtGeom(model.geom_type[geom]), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        m = int(model.geom_dataid[geom])
        first, count = int(model.mesh_vertadr[m]), int(model.mesh_vertnum[m])
        start, faces = int(model.mesh_faceadr[m]), int(model.mesh_facenum[m])
        return Mesh.of(model.mesh_vert[first : first + count], model.mesh_face[start : start + faces], material)
    if kind == mujoco.mjtGeom.mjGEOM_PLANE:
        x, y = (float(s) or 100.0 for s in size[:2])
        return Mesh.of([[-x, -y, 0], [x, -y, 0], [x, y, 0], [-x, y, 0]], [[0, 1, 2], [0, 2, 3]], material)
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        x, y, z = map(float, 2.0 * size)
        return box((x, y, z), material)
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return ball(float(size[0]), material, ROUND)
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        whole = ball(1.0, material, ROUND)
        return Mesh.of(whole.vertices * size, whole.faces, material)
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return cylinder(float(size[0]), float(2.0 * size[1]), material)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return capsule(float(size[0]), float(2.0 * size[1]), material)
    raise ValueError(
        f"a scene is made of planes, boxes, round bodies and meshes, not of {kind.name}; leave that geom out"
    )
