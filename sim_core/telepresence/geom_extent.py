"""How far the shapes of a MuJoCo model reach in a direction, exactly: the support function of each shape.

low, high = extents(model, data, geoms, (0.0, 1.0, 0.0))      # along y [m]
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

__all__ = ["extents"]

#: in the order in which their reach is written down below
_SHAPES = (
    mujoco.mjtGeom.mjGEOM_SPHERE,
    mujoco.mjtGeom.mjGEOM_CAPSULE,
    mujoco.mjtGeom.mjGEOM_CYLINDER,
    mujoco.mjtGeom.mjGEOM_ELLIPSOID,
    mujoco.mjtGeom.mjGEOM_BOX,
)


def extents(
    model: mujoco.MjModel, data: mujoco.MjData, geoms: Sequence[int], direction: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Where each shape begins and ends along a direction (G,), (G,) [m], as `data` has posed it.

    A shape is convex and symmetric about its own centre, so that it reaches equally far both ways; a mesh is not, and its
    vertices are looked at.

    Args:
        geoms: numbers of G spheres, capsules, cylinders, ellipsoids, boxes or meshes.
        direction: (3,), of any length but zero.

    Raises:
        ValueError: another kind of shape (a plane has no end), or the direction is zero.
    """
    way = np.asarray(direction, float)
    length = float(np.linalg.norm(way))
    if not length > 0.0:
        raise ValueError("expected a direction, found the vector zero")
    index = np.asarray(geoms, int)
    u = np.einsum("gij,i->gj", data.geom_xmat[index].reshape(-1, 3, 3), way / length)
    middle, kind, size = data.geom_xpos[index] @ (way / length), model.geom_type[index], model.geom_size[index]
    along = np.abs(u)
    reach = np.select(
        [kind == shape for shape in _SHAPES],
        [
            size[:, 0],
            size[:, 0] + size[:, 1] * along[:, 2],
            size[:, 0] * np.hypot(u[:, 0], u[:, 1]) + size[:, 1] * along[:, 2],
            np.sqrt(np.einsum("gj,gj->g", size * u, size * u)),
            np.einsum("gj,gj->g", size, along),
        ],
        np.nan,
    )
    low, high = middle - reach, middle + reach
    for row in np.flatnonzero(np.isnan(reach)):
        if kind[row] != mujoco.mjtGeom.mjGEOM_MESH:
            raise ValueError(
                f"expected a sphere, capsule, cylinder, ellipsoid, box or mesh, found a geom of type {kind[row]}"
            )
        vertices = _vertices(model, int(index[row])) @ u[row]
        low[row], high[row] = middle[row] + vertices.min(), middle[row] + vertices.max()
    return low, high


def _vertices(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """Of a mesh in its geom's axes (V, 3) [m]."""
    mesh = model.geom_dataid[geom]
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    return model.mesh_vert[first : first + count]
