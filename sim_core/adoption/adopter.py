"""From a model file and its side file to the files of a robot's folder, with every number that had to be derived."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import yaml

from config.description import TrackingWeights
from sim_core.adoption.derivation import (
    Anatomy,
    Demonstration,
    DerivationError,
    anatomy_of,
    armature_of,
    demonstration_of,
    home_of,
)
from sim_core.adoption.document import Document, DocumentError, read_document
from sim_core.adoption.errors import AdoptionError
from sim_core.adoption.side_file import SideFile, SideFileError
from sim_core.adoption.visuals import draw
from sim_core.multibody.model.compile_model import ModelError, compile_source

__all__ = ["Adoption", "adopt"]

TOOL = "tool"
#: deviations that cost as much as each other: of the tool over the reach [1], of its rotation [rad], of joints from home
#: [rad]; of joint speeds and efforts over their limits, and of efforts between two periods likewise [1]
POSITION, ROTATION, POSTURE, SPEED, EFFORT, CHANGE = 0.014, 0.15, 4.5, 0.8, 4.5, 1.4
#: of a simulated encoder [rad or m] and of the speed made of it [rad/s or m/s]
NOISE = 1.0e-5, 1.0e-3
WHITE, GREY = "0.95 0.95 0.94 1", "0.3 0.31 0.33 1"
DEFAULT_SPEED = np.pi  # [rad/s or m/s] of joints for which nobody says how fast they are


@dataclass(frozen=True)
class Adoption:
    """A robot as it was understood.

    Attributes:
        name, title: of the robot.
        files: {name: text} of its folder.
        model: compiled from the folder's model.
        arm, demonstration: what was derived, or said in the side file.
        home: positions (nq,).
        velocity, effort: limits by joint id, (njnt,); infinite where nothing limits.
        armature: by joint id, (njnt,); derived: ids of the joints whose armature was derived.
        notes: what was added to the file, left out of it or assumed, in full sentences.
        said: the side file.
    """

    name: str
    title: str
    files: dict[str, str]
    model: mujoco.MjModel
    arm: Anatomy
    demonstration: Demonstration
    home: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    armature: np.ndarray
    derived: tuple[int, ...]
    notes: tuple[str, ...]
    said: SideFile


def adopt(path: Path, name: str, said: SideFile = SideFile()) -> Adoption:
    """Understand a robot's model file.

    Args:
        path: .urdf, .xacro or .xml. name: that the robot gets. said: what its owner says.

    Raises:
        AdoptionError: see there.
    """
    try:
        document = read_document(path)
        return _Adopter(document, name, said).adopted(path)
    except (DocumentError, SideFileError) as error:
        raise AdoptionError(str(error)) from None
    except (DerivationError, ModelError) as error:
        raise AdoptionError(f"{path}: {error}") from None


class _Adopter:
    def __init__(self, document: Document, name: str, said: SideFile) -> None:
        self.root, self.name, self.said, self.notes = document.root, name, said, list(document.notes)
        self.visuals = document.visuals
        self.root.set("model", name)
        for key in ("home", "velocity", "effort", "armature", "damping"):
            self._known(key, getattr(said, key))

    def adopted(self, path: Path) -> Adoption:
        said, bare = self.said, self._compiled()
        velocity, effort = self._velocities(bare), self._efforts(bare)
        unlimited = [
            bare.joint(j).name for j in {int(k) for k in bare.actuator_trnid[:, 0]} if not np.isfinite(effort[j])
        ]
        if unlimited:
            raise DerivationError(
                f"expected an effort limit of every driven joint, found none of {', '.join(unlimited)}; give them as effort"
            )
        tool, position = (said.tool.body, said.tool.position) if said.tool else ("", (0.0, 0.0, 0.0))
        arm = anatomy_of(bare, tool, position, said.payload_body)
        if not bare.body_mass[arm.payload_body] > 0.0:
            raise DerivationError(
                f"expected a payload body with mass, '{bare.body(arm.payload_body).name}' has none; name another as payload_body"
            )
        moments = bare.body_inertia[arm.payload_body]
        if not (0.5 * moments.sum() - moments > 0.0).all():  # second moments of its mass
            raise DerivationError(
                f"expected a payload body with extent in three directions, found principal moments of "
                f"{', '.join(f'{x:.3g}' for x in moments)} kg m² of '{bare.body(arm.payload_body).name}'; correct them in the "
                "file, or name another as payload_body"
            )
        armature = armature_of(bare, velocity, effort)
        for j in range(bare.njnt):
            armature[j] = said.armature.get(bare.joint(j).name, armature[j])
        derived = tuple(
            j
            for j in range(bare.njnt)
            if armature[j] > bare.dof_armature[bare.jnt_dofadr[j]] and bare.joint(j).name not in said.armature
        )
        self._write_joints(bare, velocity, effort, armature)
        self._add_site(bare, arm)
        self._draw(bare)
        model = self._compiled()
        home = self._home(model, arm, effort)
        shown = demonstration_of(model, arm, home, velocity, effort)
        self._add_home(home)
        model = self._compiled()
        title = said.title or path.name.split(".")[0]
        files = {
            f"{self.name}.xml": self._text(),
            "robot.yaml": self._robot_yaml(model, arm, shown, velocity, effort, title),
            "nodes.yaml": self._nodes_yaml(shown, path),
        }
        return Adoption(
            self.name,
            title,
            files,
            model,
            arm,
            shown,
            home,
            velocity,
            effort,
            armature,
            derived,
            tuple(self.notes),
            said,
        )

    # -- the model ---------------------------------------------------------------------------------------------------
    def _text(self) -> str:
        ElementTree.indent(self.root)
        return ElementTree.tostring(self.root, encoding="unicode")

    def _compiled(self) -> mujoco.MjModel:
        return compile_source(self._text()).mj_model

    def _known(self, key: str, values: dict[str, float]) -> None:
        joints = [joint.get("name", "") for world in self.root.iter("worldbody") for joint in world.iter("joint")]
        for joint in values:
            if joint not in joints:
                raise DerivationError(f"{key}: expected joints out of {', '.join(joints)}, found '{joint}'")

    def _section(self, tag: str) -> ElementTree.Element:
        found = self.root.find(tag)
        return ElementTree.SubElement(self.root, tag) if found is None else found

    def _velocities(self, m: mujoco.MjModel) -> np.ndarray:
        """Of the side file, else of the file, else DEFAULT_SPEED where a motor drives."""
        limits = np.full(m.nv, np.inf)
        for k in range(m.nnumeric):
            if m.numeric(k).name == "velocity_limits" and m.numeric(k).data.size == m.nv:
                limits = m.numeric(k).data.copy()
        driven = {int(j) for j in m.actuator_trnid[:, 0]}
        velocity, assumed = np.full(m.njnt, np.inf), []
        for j in range(m.njnt):
            name, dof = m.joint(j).name, int(m.jnt_dofadr[j])
            velocity[j] = self.said.velocity.get(name, limits[dof] if limits[dof] > 0.0 else np.inf)
            if j in driven and not np.isfinite(velocity[j]):
                velocity[j] = DEFAULT_SPEED
                assumed.append(name)
        if assumed:
            self.notes.append(
                f"No velocity limits of {', '.join(assumed)}: {DEFAULT_SPEED:.3g} rad/s were assumed; give them as velocity."
            )
        return velocity

    def _efforts(self, m: mujoco.MjModel) -> np.ndarray:
        """Of the side file, else the tightest of the file, by joint."""
        effort = np.full(m.njnt, np.inf)
        for a in range(m.nu):
            j = int(m.actuator_trnid[a, 0])
            gear = abs(float(m.actuator_gear[a, 0] * m.actuator_gainprm[a, 0]))
            if m.actuator_ctrllimited[a]:
                effort[j] = min(effort[j], gear * float(np.abs(m.actuator_ctrlrange[a]).max()))
            if m.actuator_forcelimited[a]:
                effort[j] = min(effort[j], abs(m.actuator_gear[a, 0]) * float(np.abs(m.actuator_forcerange[a]).max()))
            if m.jnt_actfrclimited[j]:
                effort[j] = min(effort[j], float(np.abs(m.jnt_actfrcrange[j]).max()))
        for j in range(m.njnt):
            effort[j] = self.said.effort.get(m.joint(j).name, effort[j])
        return effort

    def _write_joints(self, m: mujoco.MjModel, velocity: np.ndarray, effort: np.ndarray, armature: np.ndarray) -> None:
        limits = np.full(m.nv, np.inf)
        for element in self.root.iter("joint"):
            j = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_JOINT, element.get("name", ""))
            if j < 0 or element.get("joint1"):  # a coupling in <equality> has the same tag
                continue
            name = m.joint(j).name
            if armature[j] > 0.0:
                element.set("armature", repr(float(armature[j])))
            if name in self.said.damping:
                element.set("damping", repr(self.said.damping[name]))
            if np.isfinite(effort[j]):
                element.set("actuatorfrcrange", _numbers([-effort[j], effort[j]]))
                element.set("actuatorfrclimited", "true")
        for j in range(m.njnt):
            limits[m.jnt_dofadr[j]] = velocity[j]
        custom = self._section("custom")
        for numeric in custom.findall("numeric"):
            if numeric.get("name") == "velocity_limits":
                custom.remove(numeric)
        if np.isfinite(limits).any():
            ElementTree.SubElement(custom, "numeric", name="velocity_limits", data=_numbers(limits))

    def _bodies(self) -> dict[str, ElementTree.Element]:
        return {body.get("name", ""): body for body in self.root.iter("body")}

    def _add_site(self, m: mujoco.MjModel, arm: Anatomy) -> None:
        if any(site.get("name") == TOOL for site in self.root.iter("site")):
            raise DerivationError(f"the model has a site '{TOOL}' of its own; rename it")
        body = self._bodies()[m.body(arm.tool_body).name]
        ElementTree.SubElement(body, "site", name=TOOL, pos=_numbers(arm.position))

    def _draw(self, m: mujoco.MjModel) -> None:
        """A URDF's shapes in a light room; where it shows none, or none that is here, rods from joint to joint."""
        if m.ngeom:
            return
        data = mujoco.MjData(m)
        mujoco.mj_forward(m, data)
        bodies = self._bodies()
        size = float(np.linalg.norm(np.ptp(data.xpos[1:], axis=0))) or 1.0
        self._furnish(min(0.0, float(data.xpos[1:, 2].min())), size)
        if self.visuals:
            draw(self.root, self.visuals)
            return
        for b in range(1, m.nbody):
            offset, parent = m.body_pos[b], bodies.get(m.body(int(m.body_parentid[b])).name)
            for j in range(m.body_jntadr[b], m.body_jntadr[b] + m.body_jntnum[b]):
                half = 0.035 * size * m.jnt_axis[j]
                ends = _numbers([*(m.jnt_pos[j] - half), *(m.jnt_pos[j] + half)])
                _geom(bodies[m.body(b).name], type="cylinder", size=f"{0.032 * size:.4g}", fromto=ends, rgba=GREY)
            if parent is not None and np.linalg.norm(offset) > 0.01 * size:
                ends = _numbers([0.0, 0.0, 0.0, *offset])
                _geom(parent, type="capsule", size=f"{0.026 * size:.4g}", fromto=ends, rgba=WHITE)

    def _furnish(self, ground: float, size: float) -> None:
        """Light, sky and a floor at height `ground` [m] about a robot of this size [m]."""
        visual, asset, world = (self._section(tag) for tag in ("visual", "asset", "worldbody"))
        ElementTree.SubElement(visual, "headlight", ambient="0.35 0.35 0.35", diffuse="0.4 0.4 0.4")
        ElementTree.SubElement(visual, "quality", shadowsize="4096")
        ElementTree.SubElement(visual, "map", shadowclip="3")
        self._section("statistic").set("extent", f"{1.2 * size:.4g}")
        for words in (
            {"name": "sky", "type": "skybox", "builtin": "gradient", "rgb1": "0.72 0.8 0.88", "rgb2": "0.96 0.97 1"},
            {"name": "grid", "type": "2d", "builtin": "checker", "rgb1": "0.78 0.8 0.82", "rgb2": "0.72 0.74 0.77"},
        ):
            ElementTree.SubElement(asset, "texture", words, width="256", height="256")
        ElementTree.SubElement(asset, "material", name="grid", texture="grid", texrepeat="5 5", texuniform="true")
        ElementTree.SubElement(world, "light", pos="1 -1.5 3", dir="-0.4 0.6 -1", directional="true")
        floor = {"name": "floor", "type": "plane", "size": "4 4 0.05", "material": "grid", "pos": f"0 0 {ground!r}"}
        ElementTree.SubElement(world, "geom", floor, contype="0", conaffinity="0")

    def _home(self, m: mujoco.MjModel, arm: Anatomy, effort: np.ndarray) -> np.ndarray:
        if not self.said.home and m.nkey:
            return m.key_qpos[0].copy()
        if not self.said.home:
            return home_of(m, arm, effort)
        home = m.key_qpos[0].copy() if m.nkey else m.qpos0.copy()
        for name, position in self.said.home.items():
            home[m.jnt_qposadr[m.joint(name).id]] = position
        return home

    def _add_home(self, home: np.ndarray) -> None:
        keys = self._section("keyframe")
        for key in keys.findall("key"):
            keys.remove(key)
        ElementTree.SubElement(keys, "key", name="home", qpos=_numbers(home))

    # -- the other files -----------------------------------------------------------------------------------------------
    def _robot_yaml(
        self,
        m: mujoco.MjModel,
        arm: Anatomy,
        shown: Demonstration,
        velocity: np.ndarray,
        effort: np.ndarray,
        title: str,
    ) -> str:
        body, mass = m.body(arm.payload_body).name, self.said.payload or shown.mass
        weights = self.said.weights or _weights(shown.reach, velocity[arm.joints], effort[arm.joints])
        description: dict[str, Any] = {
            "title": title,
            "controller": "adaptive_mpc",
            "task": {
                "kind": "track",
                "frame": TOOL,
                "payload_body": body,
                "weights": {name: _short(value) for name, value in vars(weights).items()},
            },
            "refit": {
                "resolution": [0.1 * NOISE[0], 0.01 * NOISE[1]],
                "bridge": 1.9,
                "change_factor": 3.0,
                "segment_length": 25,
                "initial_state": "free",
            },
            "identify": {"free": [f"{body}.inertia", "*.damping", "sensor.delay"]},
            "demo": {
                "kind": "payload",
                "mass": mass,
                "mass_range": [_short(0.05 * mass), _short(2.0 * mass)],
                "com": [float(x) for x in shown.com],
                "ball": _short(min(max(0.05 * shown.reach, 1e-3), 1.0)),
                "view": {"azimuth": 145.0, "elevation": -15.0},
            },
        }
        if self.said.devices:
            description["devices"] = [_plain(vars(device)) for device in self.said.devices]
        return yaml.safe_dump(description, sort_keys=False)

    def _nodes_yaml(self, shown: Demonstration, path: Path) -> str:
        tick, period = 0.002, 0.016
        settings: dict[str, dict[str, Any]] = {
            "sim_plant": {
                "tick": tick, "control_period": period, "stop_state": "hold",
                "position_noise": NOISE[0], "velocity_noise": NOISE[1],
            },
            "adaptive_mpc": {
                "mode": "track", "command_mode": "feedback", "control_period": period, "horizon": 24, "refit": "periodic",
                "path_width": _short(self.said.path_width or shown.width),
                "path_height": _short(self.said.path_height or shown.height),
                "path_period": _short(shown.period),
            },
            "refit_worker": {"schedule": "periodic", "sample_period": tick, "max_evaluations": 40},
            "supervisor": {"command_age_limit": 0.5},
        }  # fmt: skip
        document = {f"/**/{node}": {"ros__parameters": values} for node, values in settings.items()}
        if self.said.nodes:
            own = path.with_name(self.said.nodes)
            try:
                given = yaml.safe_load(own.read_text(encoding="utf-8")) or {}
            except (OSError, yaml.YAMLError) as error:
                raise SideFileError(f"{own}, named as nodes, cannot be read: {' '.join(str(error).split())}") from None
            for node, section in given.items():
                values = document.setdefault(node, {"ros__parameters": {}})["ros__parameters"]
                values.update((section or {}).get("ros__parameters", {}))
        return yaml.safe_dump(document, sort_keys=False)


def _geom(body: ElementTree.Element, **looks: str) -> None:
    """A shape to be seen, without mass or contact."""
    ElementTree.SubElement(body, "geom", {"contype": "0", "conaffinity": "0", "group": "2", "mass": "0", **looks})


def _weights(reach: float, velocity: np.ndarray, effort: np.ndarray) -> TrackingWeights:
    """One over the square of each deviation that costs as much as the others."""
    speed, strength = (float(np.sqrt(np.mean(limit**2))) for limit in (velocity, effort))
    return TrackingWeights(
        position=(POSITION * reach) ** -2,
        rotation=ROTATION**-2,
        posture=POSTURE**-2,
        rate=(SPEED * speed) ** -2,
        control=(EFFORT * strength) ** -2,
        smoothness=(CHANGE * strength) ** -2,
    )


def _plain(value: Any) -> Any:
    """Tuples as lists, for YAML."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value


def _short(x: float) -> float:
    return float(f"{x:.3g}")


def _numbers(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)
