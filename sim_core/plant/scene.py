"""The robot's MJCF text, and the entities added to it, compiled into one MuJoCo model.

The compiled model is a pure function of (MJCF text, entities in order): nothing is ever edited
in place, so spawning, deleting and resetting cannot leave traces.
"""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict

import mujoco
import numpy as np

from config.robot import robot_file
from sim_core.host.resource_path import resource_path
from sim_core.plant.errors import EntityError, PlantError
from sim_core.plant.physical_parameters import Inertial

__all__ = [
    "SPAWNABLES",
    "Entity",
    "ShapeContent",
    "WrenchSensor",
    "build_model",
    "entity_content",
    "robot_mjcf",
    "scene_mjcf",
    "shape_content",
    "wrench_sensor",
]

_GEOM = {
    "box": (mujoco.mjtGeom.mjGEOM_BOX, 3),
    "sphere": (mujoco.mjtGeom.mjGEOM_SPHERE, 1),
    "capsule": (mujoco.mjtGeom.mjGEOM_CAPSULE, 2),
    "cylinder": (mujoco.mjtGeom.mjGEOM_CYLINDER, 2),
}
_SIZE_WORDS = {
    "box": "half edges x,y,z",
    "sphere": "radius",
    "capsule": "radius,half length",
    "cylinder": "radius,half length",
}
_DEFAULT_SIZE = {"box": (0.05, 0.05, 0.05), "sphere": (0.05,), "capsule": (0.03, 0.05), "cylinder": (0.04, 0.05)}

# uri -> description: the simple objects every plant can spawn.
SPAWNABLES = {
    f"refit:{shape}": f"{shape}; refine with ?mass=1.0&size={','.join(map(str, _DEFAULT_SIZE[shape]))}"
    f"&com=0,0,0 (mass [kg], {_SIZE_WORDS[shape]} [m], centre in its frame [m])"
    for shape in _GEOM
}


def robot_mjcf(robot: str) -> tuple[str, str]:
    """Name and MJCF text of a robot.

    Args:
        robot: name of a file in config/robots, path of an MJCF or URDF file, or the text of one.

    Raises:
        PlantError: no such robot; the text lists those there are.
    """
    if "<mujoco" in robot:
        named = re.search(r"<mujoco[^>]*\bmodel\s*=\s*[\"']([^\"']+)[\"']", robot)
        return (named.group(1) if named else "robot"), robot
    if "<robot" in robot:
        return _from_urdf(robot)
    try:
        path = Path(robot) if Path(robot).suffix else robot_file(robot)
        return _from_urdf(path.read_text()) if path.suffix == ".urdf" else (path.stem, path.read_text())
    except OSError as error:
        # A missing name explains itself; a path that cannot be read has the system's reason.
        raise PlantError(f"Cannot read '{robot}': {error.strerror}." if error.strerror else str(error)) from error


def _from_urdf(text: str) -> tuple[str, str]:
    # Only a plant of a URDF needs the multibody model, and CasADi with it.
    from sim_core.multibody.model.compile_model import ModelError, compile_source

    try:
        compiled = compile_source(text)
    except ModelError as error:
        raise PlantError(str(error)) from error
    return compiled.name, compiled.xml or ""


class ShapeContent(TypedDict):
    """A simple shape: its kind, mass [kg], sizes as MuJoCo has them [m], and centre in its frame (3,) [m]."""

    shape: str
    mass: float
    size: tuple[float, ...]
    com: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Entity:
    """Something added to the scene.

    Attributes:
        name: unique name; also the name of its body.
        content: a simple shape (see `shape_content`), or MJCF text.
        parent: body or site it is welded to; "" for a free body in the world.
        position, quaternion: pose in the parent's frame (world if none), [m], wxyz.
        spawned: removed by a reset of the spawned entities; False: part of the scenario.
    """

    name: str
    content: ShapeContent | str
    parent: str = ""
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    spawned: bool = True

    @property
    def joint(self) -> str:
        """Name of the free joint; there is none when welded."""
        return f"{self.name}/free"


def shape_content(
    shape: str = "box", mass: float = 1.0, size: Iterable[float] | None = None, com: Iterable[float] = (0.0, 0.0, 0.0)
) -> ShapeContent:
    """A checked simple shape: {shape, mass [kg], size [m], com [m]}.

    Raises:
        EntityError: unknown shape, wrong number of sizes, or a value that is not physical.
    """
    if shape not in _GEOM:
        raise EntityError("format", f"Unknown shape '{shape}'; known: {', '.join(_GEOM)}.")
    size = tuple(float(s) for s in (_DEFAULT_SIZE[shape] if size is None else size))
    com = tuple(float(c) for c in com)
    count = _GEOM[shape][1]
    if len(size) != count or not all(np.isfinite(s) and s > 0 for s in size):
        raise EntityError(
            "parse", f"A {shape} has {count} positive sizes ({_SIZE_WORDS[shape]} [m]), found {list(size)}."
        )
    mass = float(mass)
    if not (np.isfinite(mass) and mass > 0):
        raise EntityError("parse", f"Mass must be positive [kg], found {mass}.")
    if len(com) != 3 or not np.all(np.isfinite(com)):
        raise EntityError("parse", f"com must be three numbers [m], found {list(com)}.")
    return {"shape": shape, "mass": mass, "size": size, "com": com}


def entity_content(uri: str, text: str) -> ShapeContent | str:
    """Content of an `Entity` from a resource's URI or its text.

    Accepted: URI "refit:box?mass=2&size=0.05,0.05,0.05&com=0,0,0.1" (also sphere, capsule,
    cylinder), URI "file:///path.xml" or an absolute path, or text that is an MJCF document or fragment
    (`<mujoco>`, `<body>` or `<geom>`) or a URDF document (`<robot>`). Meshes are found relative to a file, those
    of packages from anywhere (`resource_path`).

    Raises:
        EntityError: none of these, or a mesh is not there.
    """
    if text:
        return _fragment(text, None)
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme == "refit":
        try:
            query = dict(urllib.parse.parse_qsl(parts.query, strict_parsing=bool(parts.query)))
            numbers = {key: [float(v) for v in value.split(",")] for key, value in query.items()}
        except ValueError as error:
            raise EntityError("parse", f"Cannot read '{uri}': {error}.") from error
        unknown = set(numbers) - {"mass", "size", "com"}
        if unknown:
            raise EntityError("parse", f"Unknown option {sorted(unknown)} in '{uri}'; known: mass, size, com.")
        mass = numbers["mass"][0] if "mass" in numbers else 1.0
        return shape_content(parts.path, mass, numbers.get("size"), numbers.get("com", (0.0, 0.0, 0.0)))
    if parts.scheme == "file" or uri.startswith("/"):
        try:
            path = Path(urllib.parse.unquote(parts.path) if parts.scheme else uri)
            return _fragment(path.read_text(), path.parent.resolve())
        except OSError as error:
            raise EntityError("not_found", f"Cannot read '{uri}': {error.strerror}.") from error
    raise EntityError(
        "format",
        f"Cannot spawn from '{uri}'; use one of {', '.join(SPAWNABLES)}, file:///path.xml, /path.xml, or MJCF or URDF as resource_string.",
    )


def _fragment(text: str, folder: Path | None) -> str:
    stripped = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", text, flags=re.S).strip()
    if stripped.startswith("<mujoco"):
        return text if folder is None else _with_files(stripped, folder)
    if stripped.startswith("<robot"):
        return _whole_urdf(stripped, folder)
    if stripped.startswith(("<body", "<geom")):
        return f"<mujoco><worldbody>{stripped}</worldbody></mujoco>"
    raise EntityError(
        "format",
        f"The resource is neither a <mujoco>, <robot>, <body> nor <geom> element but begins with {stripped[:40]!r}.",
    )


def _parsed(text: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise EntityError("parse", f"The resource is not well-formed XML: {error}.") from error


def _child(element: ElementTree.Element, tag: str) -> ElementTree.Element:
    """The first child of this kind, made if there is none."""
    found = element.find(tag)
    return ElementTree.SubElement(element, tag) if found is None else found


def _with_files(text: str, folder: Path) -> str:
    """An MJCF document whose meshes and textures are found from anywhere."""
    document = _parsed(text)
    compiler = _child(document, "compiler")
    both = compiler.attrib.pop("assetdir", "")
    for key in ("meshdir", "texturedir"):
        compiler.set(key, str(folder / compiler.get(key, both)))
    return ElementTree.tostring(document, encoding="unicode")


def _whole_urdf(text: str, folder: Path | None) -> str:
    """A URDF that MuJoCo reads with its shapes and its root link's inertia, which it drops unless it is told otherwise."""
    robot = _parsed(text)
    compiler = _child(_child(robot, "mujoco"), "compiler")
    compiler.attrib.update(fusestatic="false", discardvisual="false", strippath="false")
    compiler.attrib.pop("meshdir", None)
    for mesh in robot.iter("mesh"):
        uri = mesh.get("filename", "")
        file = resource_path(uri, folder or Path("/"))
        if file is None:
            raise EntityError("not_found", f"The mesh '{uri}' of the resource is not on the machine of the plant.")
        mesh.set("filename", str(file))
    return ElementTree.tostring(robot, encoding="unicode")


def _contents(text: str) -> mujoco.MjSpec:
    """A document as something to spawn: what belongs to a scene is left out, and a free body is as free as the entity is.

    Raises:
        ValueError: it cannot be read.
        EntityError: several of its bodies are free.
    """
    spec = mujoco.MjSpec.from_string(text)
    world = spec.worldbody
    planes = [geom for geom in world.geoms if geom.type == mujoco.mjtGeom.mjGEOM_PLANE]
    for element in (*planes, *world.lights, *world.cameras, *spec.keys):
        spec.delete(element)
    free = [joint for body in world.bodies for joint in body.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    if len(free) > 1:
        raise EntityError("format", f"{len(free)} bodies of the resource are free; spawn them one by one.")
    for joint in free:
        spec.delete(joint)
    return spec


@dataclasses.dataclass(frozen=True)
class WrenchSensor:
    """A force-torque sensor between a body and its parent: its pose in the body [m], wxyz."""

    body: str
    position: np.ndarray
    quaternion: np.ndarray


def wrench_sensor(model: mujoco.MjModel, site: str) -> WrenchSensor:
    """The sensor a site stands for: between its body and what is welded on that (flange and hand), or
    between the body and its parent if nothing is (a tool's own site).

    Raises:
        PlantError: no such site.
    """
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, site)
    if index < 0:
        names = [model.site(i).name for i in range(model.nsite)]
        raise PlantError(f"No site '{site}' to sense a wrench at; sites: {', '.join(filter(None, names)) or 'none'}.")
    body = int(model.site_bodyid[index])
    p, q = model.site_pos[index].copy(), model.site_quat[index].copy()
    welded = [
        b
        for b in range(1, model.nbody)
        if model.body_parentid[b] == body and not model.body_jntnum[b] and model.body(b).name
    ]
    if not welded:
        return WrenchSensor(model.body(body).name, p, q)
    inverse, position, quaternion = np.zeros(4), np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(inverse, model.body_quat[welded[0]])
    mujoco.mju_rotVecQuat(position, p - model.body_pos[welded[0]], inverse)
    mujoco.mju_mulQuat(quaternion, inverse, q)
    return WrenchSensor(model.body(welded[0]).name, position, quaternion)


def build_model(
    mjcf: str,
    entities: Iterable[Entity] = (),
    wrench: WrenchSensor | None = None,
    inertials: Mapping[str, Inertial] | None = None,
    site_positions: Mapping[str, np.ndarray] | None = None,
) -> mujoco.MjModel:
    """Compile the robot and everything added to it.

    Args:
        mjcf: the robot's MJCF text.
        entities: added in order.
        inertials: inertial properties of bodies of the robot that differ from its MJCF.
        site_positions: positions of its sites that differ, in their bodies [m].
        wrench: senses "refit/force" and "refit/torque" at its site "refit/wrench".

    Raises:
        PlantError, EntityError: the text or an entity does not compile.
    """
    spec = _spec_of(mjcf)
    if wrench is not None:
        spec.body(wrench.body).add_site(name="refit/wrench", pos=wrench.position, quat=wrench.quaternion)
        for name, kind in (
            ("refit/force", mujoco.mjtSensor.mjSENS_FORCE),
            ("refit/torque", mujoco.mjtSensor.mjSENS_TORQUE),
        ):
            spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="refit/wrench")
    for name, inertial in (inertials or {}).items():
        body, I = spec.body(name), inertial.inertia
        body.explicitinertial = True
        body.mass, body.ipos, body.pos = inertial.mass, inertial.com, inertial.position
        body.fullinertia = [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
    for name, position in (site_positions or {}).items():
        spec.site(name).pos = position
    for entity in entities:
        _add(spec, entity)
    try:
        model = spec.compile()
    except ValueError as error:
        if entities:
            raise EntityError("parse", f"The scene does not compile: {_line(error)}") from error
        raise PlantError(f"The robot's MJCF does not compile: {_line(error)}") from error
    if model.nnumeric:
        from sim_core.multibody.model import as_written

        as_written.restore(model, but=inertials or ())
    return model


def scene_mjcf(mjcf: str, entities: Iterable[Entity]) -> str:
    """The robot and everything added to it as one MJCF text, for who draws it elsewhere.

    Raises:
        PlantError, EntityError: the text or an entity does not compile.
    """
    spec = _spec_of(mjcf)
    for entity in entities:
        _add(spec, entity)
    try:
        spec.compile()
    except ValueError as error:
        raise EntityError("parse", f"The scene does not compile: {_line(error)}") from error
    return str(spec.to_xml())


def _spec_of(mjcf: str) -> mujoco.MjSpec:
    try:
        return mujoco.MjSpec.from_string(mjcf)
    except ValueError as error:
        raise PlantError(f"The robot's MJCF cannot be read: {_line(error)}") from error


def _line(error: Exception) -> str:
    """MuJoCo's message of several lines as one sentence."""
    return ", ".join(line.strip() for line in str(error).splitlines() if line.strip()) + "."


def _add(spec: mujoco.MjSpec, entity: Entity) -> None:
    """Add one entity: a body of its name, welded to its parent or free in the world."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", entity.name):
        raise EntityError(
            "invalid_name",
            f"'{entity.name}' is no entity name; use letters, digits and underscores, not starting with a digit.",
        )
    if spec.body(entity.name) is not None or spec.site(entity.name) is not None:
        raise EntityError("not_unique", f"There is already a body or site '{entity.name}'.")
    pose = dict(pos=list(entity.position), quat=list(entity.quaternion))
    if not entity.parent:
        body = spec.worldbody.add_body(name=entity.name, **pose)
        body.add_freejoint(name=entity.joint)
    elif (site := spec.site(entity.parent)) is not None:
        # A frame carries the site's pose, so the entity's own pose is relative to the site.
        frame = site.parent.add_frame(pos=site.pos, quat=site.quat)
        body = site.parent.add_body(name=entity.name, **pose)
        body.set_frame(frame)
    elif (parent := spec.body(entity.parent)) is not None:
        body = parent.add_body(name=entity.name, **pose)
    else:
        raise EntityError("pose", f"No body or site '{entity.parent}' to attach '{entity.name}' to.")
    if isinstance(entity.content, dict):
        shape = entity.content
        kind, count = _GEOM[shape["shape"]]
        # A welded object is part of the link it is held by; its own contacts with that robot
        # would fight the weld. A free object collides with everything.
        contact = dict(contype=0, conaffinity=0) if entity.parent else {}
        body.add_geom(
            name=f"{entity.name}/geom",
            type=kind,
            mass=shape["mass"],
            size=[*shape["size"], 0.0, 0.0][:3],
            pos=list(shape["com"]),
            **contact,
        )
        return
    try:
        child = _contents(entity.content)
        child.option = spec.option  # the plant's time step and gravity hold
        spec.attach(child, frame=body.add_frame(), prefix=f"{entity.name}/")
    except ValueError as error:
        raise EntityError("parse", f"'{entity.name}' cannot be read: {_line(error)}") from error
