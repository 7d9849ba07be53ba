"""A rigid body by its name or its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sim_core.elastic.rigid_body import RigidBody, cylinder_probe, line_probe, point_probe, sample_mesh, sphere

__all__ = ["BODIES", "load_body"]

#: bodies that need no file
BODIES: dict[str, Callable[[], RigidBody]] = {
    "point": point_probe,
    "line": line_probe,
    "cylinder": cylinder_probe,
    "sphere": sphere,
}


def load_body(name: str) -> RigidBody:
    """One of BODIES, or a mesh file in metres, sampled as published.

    Raises:
        ValueError: there is no such body and no such file, or it holds no triangles.
    """
    if name in BODIES:
        return BODIES[name]()
    file = Path(name).expanduser()
    if not name or not file.is_file():
        raise ValueError(f"there is no body '{name}'; there are {', '.join(BODIES)}, or name a mesh file")
    import trimesh

    try:
        mesh = trimesh.load_mesh(file, process=False)
    except Exception as error:  # its readers raise whatever they come across
        raise ValueError(f"{file} cannot be read as a mesh: {error}") from None
    if not isinstance(mesh, trimesh.Trimesh) or not len(mesh.faces):
        raise ValueError(f"{file} holds no triangles; a body is a mesh of them, in metres")
    return sample_mesh(mesh, name=file.stem)
