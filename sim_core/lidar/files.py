"""Scenes from files: a YAML file that says what is there, where and what of, meshes beside it; or an MJCF model (of_mjcf.py).

    materials:
      plaster: {albedo: 0.6, roughness: 0.2}
      glass: {index: 1.5, transmission: 1.0}
    bodies:
      - {name: walls, mesh: walls.obj, material: plaster}
      - {name: vase, mesh: vase.stl, scale: 0.001, material: glass, pose: [0.4, 0.1, 0.0, 0.0, 0.0, 1.2], soft: true}
      - {name: mirror, panel: [0.4, 0.28], material: mirror, pose: [0.5, 0.0, 0.0, 0.0, 0.0, 0.3], soft: true}
    values: {sensor.x: -0.3, diode.c: 0.01}

A body is of one mesh (OBJ, STL or PLY), or of one of the shapes of shapes.py with the numbers that its function takes; `stripes` has a
list of materials. Paths are relative to the file; lengths are in metres after `scale`; a pose is as scene.py has it. `values` are those of
parameters (parameters.py) beyond what bodies and materials say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sim_core.lidar.material import PAPER, Material
from sim_core.lidar.of_mjcf import scene_of_mjcf
from sim_core.lidar.parameters import Inputs
from sim_core.lidar.scene import ORIGIN, Body, Mesh, Scene
from sim_core.lidar.shapes import ball, box, pane, panel, room, stripes

__all__ = ["materials_of_file", "mesh_of_file", "scene_of_file", "scene_of_yaml"]

#: shape -> how many numbers tell it, and its mesh of them and of its material
SHAPES: dict[str, tuple[int, Callable[[list[float], Any], Mesh]]] = {
    "room": (3, lambda n, material: room((n[0], n[1], n[2]), material)),
    "box": (3, lambda n, material: box((n[0], n[1], n[2]), material)),
    "panel": (2, lambda n, material: panel(n[0], n[1], material)),
    "pane": (3, lambda n, material: pane(n[0], n[1], n[2], material)),
    "ball": (1, lambda n, material: ball(n[0], material)),
    "stripes": (3, lambda n, material: stripes(n[0], int(n[1]), n[2], tuple(np.atleast_1d(material).tolist()))),
}


def mesh_of_file(path: str | Path, material: str, scale: float = 1.0) -> Mesh:
    """One mesh of all that a file of triangles holds.

    Raises:
        FileNotFoundError: it is not there. ValueError: it holds no triangles.
    """
    import trimesh  # half a second, for those who read meshes

    where = Path(path)
    if not where.is_file():
        raise FileNotFoundError(f"a mesh is expected at {where}, and nothing is there")
    try:
        found = trimesh.load_mesh(where, process=False)
        return Mesh.of(np.asarray(found.vertices) * scale, np.asarray(found.faces), material)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{where} holds no triangles that can be used: {error}") from error


def scene_of_file(path: str | Path) -> tuple[Scene, dict[str, float]]:
    """The scene of a YAML file and the values of parameters that it names; or that of an MJCF model (.xml), all of paper.

    Raises:
        FileNotFoundError: the file, or a mesh. ValueError: it cannot be read, describes no scene, or a value's parameter is not there.
    """
    where = Path(path).expanduser()
    if not where.is_file():
        raise FileNotFoundError(f"a scene is expected in the file {where}, and nothing is there")
    if where.suffix == ".xml":
        return scene_of_mjcf(where, {"paper": PAPER}, "paper"), {}
    scene = scene_of_yaml(where)
    given = _read(where).get("values") or {}
    try:
        values = {str(name): float(value) for name, value in given.items()}
        Inputs(scene).full(values)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: 'values' are numbers by the names of parameters, found {given} ({error})"
        ) from error
    except KeyError as error:
        raise ValueError(f"{where}: values: {error.args[0]}") from None
    return scene, values


def scene_of_yaml(path: str | Path) -> Scene:
    """The scene that a file describes.

    Raises:
        FileNotFoundError: the file, or a mesh. ValueError: it is not as above, or no scene (see `Scene`).
    """
    where = Path(path)
    about = _read(where)
    return Scene(tuple(_body(where, k, given) for k, given in enumerate(about["bodies"])), _materials(where, about))


def materials_of_file(path: str | Path) -> dict[str, Material]:
    """By their names, of a file with `materials` as above.

    Raises:
        FileNotFoundError: the file. ValueError: it has no materials, or one of them is none.
    """
    where = Path(path).expanduser()
    if not where.is_file():
        raise FileNotFoundError(f"materials are expected in the file {where}, and nothing is there")
    return _materials(where, _read(where, "materials", Mapping))


def _read(where: Path, key: str = "bodies", kind: type = list) -> Mapping[str, Any]:
    try:
        about = yaml.safe_load(where.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{where} is no YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(about, Mapping) or not isinstance(about.get(key), kind):
        what = "a scene by 'materials' and a list of 'bodies'" if key == "bodies" else "'materials' by their names"
        raise ValueError(f"{where} describes {what}, which it does not have")
    return about


def _materials(where: Path, about: Mapping[str, Any]) -> dict[str, Material]:
    return {str(name): _material(where, name, given) for name, given in (about.get("materials") or {}).items()}


def _body(where: Path, k: int, given: Any) -> Body:
    known = {"name", "mesh", "material", "scale", "pose", "soft", *SHAPES}
    of = [key for key in ("mesh", *SHAPES) if isinstance(given, Mapping) and key in given]
    if not isinstance(given, Mapping) or not {"name", "material"} <= set(given) <= known or len(of) != 1:
        raise ValueError(
            f"{where}: body {k} has name, material and one of mesh, {', '.join(SHAPES)}, and may have scale, pose and soft; "
            f"found {given}"
        )
    name, (kind,) = str(given["name"]), of
    try:
        if kind == "mesh":
            mesh = mesh_of_file(where.parent / given["mesh"], given["material"], float(given.get("scale", 1.0)))
        else:
            count, made = SHAPES[kind]
            numbers = list(map(float, np.atleast_1d(given[kind])))
            if len(numbers) != count:
                raise ValueError(f"a {kind} is told by {count} numbers, found {len(numbers)}")
            mesh = made(numbers, given["material"])
        pose: Any = tuple(map(float, given.get("pose", ORIGIN)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: the body {name}: {error}") from error
    return Body(name, mesh, pose, bool(given.get("soft", False)))


def _material(where: Path, name: str, given: Any) -> Material:
    try:
        return Material(**given)
    except TypeError as error:
        names = ", ".join(Material.__dataclass_fields__)
        raise ValueError(f"{where}: the material {name} is given by some of {names}; {error}") from error
    except ValueError as error:
        raise ValueError(f"{where}: {name}: {error}") from error
