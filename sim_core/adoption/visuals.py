"""What the links of a URDF look like: its `<visual>` elements as shapes of MJCF that neither weigh nor touch anything.

Meshes (STL, OBJ, COLLADA and whatever else trimesh reads) become coarser where they have more triangles than a picture
shows, and are written into the MJCF itself: so the model stays one text, which travels on topics and in bags.

Source: https://wiki.ros.org/urdf/XML/link (elements, units, and meshes taken as they are, whatever axis they call up).
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.host.resource_path import resource_path

if TYPE_CHECKING:
    import trimesh

__all__ = ["Piece", "Visual", "coarser", "draw", "mesh_files", "visuals_of"]

#: triangles of a mesh at most
MOST = 4000
#: what a link without a material looks like
PLAIN = (0.8, 0.8, 0.8, 1.0)


@dataclass(frozen=True)
class Piece:
    """A mesh of one colour: vertices (n, 3) [m], faces (m, 3) into them, colour (4,) in 0 to 1, None where it has none."""

    vertices: np.ndarray
    faces: np.ndarray
    rgba: tuple[float, ...] | None


@dataclass(frozen=True)
class Visual:
    """One `<visual>`.

    Attributes:
        link: that it belongs to.
        attributes: of the MJCF geom: its kind, size and rgba (not of meshes), pos [m] and quat (wxyz).
        pieces: of a mesh.
    """

    link: str
    attributes: dict[str, str]
    pieces: tuple[Piece, ...] = ()


def mesh_files(robot: ElementTree.Element, folder: Path) -> list[Path]:
    """The mesh files of a URDF in this folder that are on this machine, each once."""
    found = (resource_path(mesh.get("filename", ""), folder) for mesh in robot.iterfind("link/visual/geometry/mesh"))
    return list(dict.fromkeys(file for file in found if file is not None))


def visuals_of(robot: ElementTree.Element, folder: Path) -> tuple[list[Visual], list[str]]:
    """What a URDF in this folder shows, and what of it cannot be shown, in sentences."""
    colours = {
        material.get("name", ""): colour for material in robot.iterfind("material") if (colour := _colour(material))
    }
    visuals, absent, unread = [], [], []
    pieces_of = cache(_pieces)  # legs and fingers share their meshes
    for link in robot.iterfind("link"):
        for element in link.iterfind("visual"):
            material = element.find("material")
            named = None if material is None else _colour(material) or colours.get(material.get("name", ""))
            geometry = element.find("geometry")
            shape = None if geometry is None else next(iter(geometry), None)
            if shape is None:
                continue
            attributes = _pose(element.find("origin"))
            if shape.tag != "mesh":
                try:
                    attributes |= _simple(shape)
                except (KeyError, ValueError):
                    unread.append(f"<{shape.tag}> of {link.get('name')}")
                    continue
                visuals.append(Visual(link.get("name", ""), attributes | {"rgba": _text(named or PLAIN)}))
                continue
            uri = shape.get("filename", "")
            file = resource_path(uri, folder)
            if file is None:
                absent.append(uri)
                continue
            try:
                pieces = pieces_of(file, tuple(_numbers(shape.get("scale", "1 1 1"), 3)), named)
            except Exception as error:  # whatever a reader of foreign formats trips over
                unread.append(f"{file.name} ({' '.join(str(error).split()) or type(error).__name__})")
                continue
            visuals.append(Visual(link.get("name", ""), attributes, pieces))
    return visuals, [*_told("Meshes are not on this machine:", absent), *_told("Shapes cannot be read:", unread)]


def draw(mjcf: ElementTree.Element, visuals: Iterable[Visual]) -> None:
    """Add what is seen to a document made of the same URDF. Links that are no bodies there are left out."""
    bodies = {body.get("name", ""): body for body in mjcf.iter("body")}
    world = mjcf.find("worldbody")
    assert world is not None
    assets = mjcf.find("asset")
    if assets is None:
        assets = ElementTree.SubElement(mjcf, "asset")
    count = 0
    for visual in visuals:
        body = bodies.get(visual.link, world if visual.link == "world" else None)
        if body is None:
            continue
        unseen = {"contype": "0", "conaffinity": "0", "group": "2", "mass": "0"}
        if not visual.pieces:
            ElementTree.SubElement(body, "geom", unseen | visual.attributes)
        for piece in visual.pieces:
            name = f"visual{count}"
            count += 1
            ElementTree.SubElement(
                assets,
                "mesh",
                name=name,
                inertia="shell",  # a volume is not asked of what weighs nothing: published meshes have holes
                vertex=" ".join(f"{x:.6g}" for x in piece.vertices.ravel()),
                face=" ".join(map(str, piece.faces.ravel())),
            )
            look = {"type": "mesh", "mesh": name, "rgba": _text(piece.rgba or PLAIN)}
            ElementTree.SubElement(body, "geom", unseen | visual.attributes | look)


def coarser(vertices: np.ndarray, faces: np.ndarray, most: int = MOST) -> tuple[np.ndarray, np.ndarray]:
    """A mesh of at most so many triangles: vertices that share a cell of a grid become their mean.

    Source: Rossignac and Borrel, Multi-resolution 3D approximations for rendering complex scenes (1993).

    Args:
        vertices: (n, 3). faces: (m, 3) into them.

    Returns:
        Both anew, without vertices that no triangle has.
    """
    cells, low = 256.0, vertices.min(axis=0)
    extent = float((vertices.max(axis=0) - low).max())
    few, kept = vertices, faces
    while len(kept) > most:
        x, y, z = np.rint((vertices - low) * (cells / extent)).astype(np.int64).T
        _, cluster = np.unique((x * 1000 + y) * 1000 + z, return_inverse=True)
        weight = np.bincount(cluster)
        few = np.stack([np.bincount(cluster, vertices[:, k]) / weight for k in range(3)], axis=1)
        kept = cluster[faces]
        a, b, c = np.sort(kept, axis=1).T
        flat = (a == b) | (b == c)
        _, first = np.unique((a * len(few) + b) * len(few) + c, return_index=True)
        first = np.sort(first)
        kept = kept[first[~flat[first]]]
        cells *= 0.97 * min(1.0, float(np.sqrt(most / max(len(kept), 1))))  # as many triangles as cells of a surface
    used, renumbered = np.unique(kept, return_inverse=True)
    return few[used], renumbered.reshape(-1, 3)


# ---- reading ----------------------------------------------------------------------------------------------------


def _pieces(file: Path, scale: tuple[float, ...], named: tuple[float, ...] | None) -> tuple[Piece, ...]:
    """The meshes of a file in the axes of the link's visual; the colour that the URDF names goes before the file's own.

    Raises:
        Exception: of trimesh or of what reads for it; or ValueError, nothing is in the file.
    """
    import trimesh

    scene = trimesh.load_scene(file, process=False)
    groups: dict[tuple[float, ...] | None, list[trimesh.Trimesh]] = {}
    for mesh in scene.dump():
        if isinstance(mesh, trimesh.Trimesh) and len(mesh.faces) and np.isfinite(mesh.vertices).all():
            groups.setdefault(named or _own_colour(mesh), []).append(mesh)
    pieces = []
    for rgba, meshes in groups.items():
        whole: Any = trimesh.util.concatenate(meshes)
        unit = trimesh.units.unit_conversion(meshes[0].units, "meters") if meshes[0].units else 1.0
        whole.merge_vertices(merge_tex=True, merge_norm=True)
        vertices, faces = coarser(np.asarray(whole.vertices) * (unit * np.array(scale)), np.asarray(whole.faces))
        if len(vertices) >= 4 and len(faces):  # MuJoCo takes no smaller mesh
            pieces.append(Piece(vertices, faces, rgba))
    if not pieces:
        raise ValueError("no triangles are in it")
    return tuple(pieces)


def _own_colour(mesh: trimesh.Trimesh) -> tuple[float, ...] | None:
    """The colour that a mesh brings, None where it brings none."""
    look: Any = mesh.visual
    if not look.defined:
        return None
    material = getattr(look, "material", None)
    colour = look.main_color if material is None else material.main_color
    return tuple(float(value) for value in np.round(np.asarray(colour) / 255.0, 3))


def _colour(material: ElementTree.Element) -> tuple[float, ...] | None:
    colour = material.find("color")
    if colour is None:
        return None
    try:
        return tuple(float(value) for value in np.clip(_numbers(colour.get("rgba", ""), 4), 0.0, 1.0))
    except ValueError:
        return None


def _simple(shape: ElementTree.Element) -> dict[str, str]:
    """A box, cylinder, sphere or capsule, whose sizes MJCF halves.

    Raises:
        KeyError: another shape. ValueError: its sizes are none.
    """
    if shape.tag == "box":
        size = 0.5 * _numbers(shape.get("size", ""), 3)
    elif shape.tag == "sphere":
        size = _numbers(shape.get("radius", ""), 1)
    else:
        size = np.r_[_numbers(shape.get("radius", ""), 1), 0.5 * _numbers(shape.get("length", ""), 1)]
    if not (size > 0.0).all():
        raise ValueError("sizes are positive")
    kinds = {"box": "box", "sphere": "sphere", "cylinder": "cylinder", "capsule": "capsule"}
    return {"type": kinds[shape.tag], "size": _text(size)}


def _pose(origin: ElementTree.Element | None) -> dict[str, str]:
    """Place and turn of a shape in its link; nothing where that is unreadable."""
    if origin is None:
        return {}
    try:
        xyz, rpy = _numbers(origin.get("xyz", "0 0 0"), 3), _numbers(origin.get("rpy", "0 0 0"), 3)
    except ValueError:
        return {}
    quat = Rotation.from_euler("xyz", rpy).as_quat(scalar_first=True)  # about fixed axes
    return {"pos": _text(xyz), "quat": _text(quat)}


def _numbers(text: str, count: int) -> np.ndarray:
    """Raises: ValueError: not so many finite numbers."""
    values = np.array([float(word) for word in text.split()])
    if values.shape != (count,) or not np.isfinite(values).all():
        raise ValueError(f"expected {count} finite numbers, found '{text}'")
    return values


def _text(values: Iterable[float]) -> str:
    return " ".join(f"{float(value):.9g}" for value in values)


def _told(what: str, names: list[str], most: int = 6) -> Iterator[str]:
    names = list(dict.fromkeys(names))
    if names:
        more = f" and {len(names) - most} more" if len(names) > most else ""
        yield f"{what} {', '.join(names[:most])}{more}."
