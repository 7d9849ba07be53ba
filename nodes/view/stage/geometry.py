"""One geometry of a MuJoCo model as a node of the scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

if TYPE_CHECKING:
    import viser

__all__ = ["add_geom", "is_drawn"]

_PLANE, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
    for name in ("PLANE", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "MESH")
)
#: MuJoCo's own pictures leave the groups from here on out: what collides and is not to be seen
_HIDDEN_GROUP = 3


def is_drawn(model: mujoco.MjModel, geom: int, fixed: bool = True) -> bool:
    """Whether a geometry is to be seen. The floor is not: the page has a grid.

    Args:
        fixed: also what is fixed to the world, which a ghost of the robot leaves out.
    """
    seen = int(model.geom_group[geom]) < _HIDDEN_GROUP and int(model.geom_type[geom]) != _PLANE
    return seen and _rgba(model, geom)[3] > 0 and (fixed or int(model.body_weldid[model.geom_bodyid[geom]]) > 0)


def _rgba(model: mujoco.MjModel, geom: int) -> np.ndarray:
    material = int(model.geom_matid[geom])
    return model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]


def add_geom(
    scene: viser.SceneApi,
    name: str,
    model: mujoco.MjModel,
    geom: int,
    colour: tuple[int, int, int] | None = None,
    opacity: float | None = None,
) -> None:
    """Draw a geometry at its place in its body.

    Args:
        name: of the node, below that of its body. colour: RGB (3,) of 0 to 255; None: the model's. opacity: None: the model's.
    """
    rgba, size, kind = _rgba(model, geom), model.geom_size[geom], int(model.geom_type[geom])
    solid = opacity is None
    alpha = opacity if opacity is not None else (float(rgba[3]) if rgba[3] < 1 else None)
    look = dict(
        color=colour or tuple(int(255 * c) for c in rgba[:3]),
        opacity=alpha,
        position=tuple(model.geom_pos[geom]),
        wxyz=tuple(model.geom_quat[geom]),
        cast_shadow=solid,
        receive_shadow=solid,
    )
    if kind == _BOX:
        scene.add_box(name, dimensions=tuple(2 * size), **look)
    elif kind == _SPHERE:
        scene.add_icosphere(name, radius=float(size[0]), **look)
    elif kind == _ELLIPSOID:
        scene.add_icosphere(name, radius=1.0, scale=tuple(size), **look)
    elif kind == _CYLINDER:
        scene.add_cylinder(name, radius=float(size[0]), height=float(2 * size[1]), **look)
    elif kind == _CAPSULE:
        from trimesh import creation

        capsule = creation.capsule(height=float(2 * size[1]), radius=float(size[0]), count=(24, 24))
        # Its centre in its middle, whatever the library's habit.
        vertices = capsule.vertices - capsule.bounds.mean(axis=0)
        scene.add_mesh_simple(name, vertices, capsule.faces, **look)
    elif kind == _MESH:
        vertices, faces = _mesh(model, int(model.geom_dataid[geom]))
        scene.add_mesh_simple(name, vertices, faces, flat_shading=True, **look)


def _mesh(model: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    return model.mesh_vert[first : first + count], model.mesh_face[face : face + faces]
