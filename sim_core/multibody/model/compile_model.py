"""From a file, a string or a name to a compiled mujoco.MjModel."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import mujoco

from config.robot import robot_file

__all__ = ["CompiledSource", "ModelError", "compile_source"]


class ModelError(ValueError):
    """A model that cannot be loaded, or contains what the engine does not support."""


class CompiledSource(NamedTuple):
    """A model file as MuJoCo's compiler understands it.

    Attributes:
        mj_model: the compiled model.
        name: of the model.
        xml: its text; None where a compiled model was given.
        notes: what was added to the file or left out of it.
        velocity_limits: of joints by name [rad/s or m/s], as far as a URDF gives them.
    """

    mj_model: mujoco.MjModel
    name: str
    xml: str | None
    notes: list[str]
    velocity_limits: dict[str, float]


def compile_source(source: str | os.PathLike[str] | mujoco.MjModel) -> CompiledSource:
    """Compile a robot name, a path to MJCF or URDF, an XML string or an MjModel.

    Raises:
        ModelError: not found, or MuJoCo's compiler refuses it; its message is passed on.
    """
    if isinstance(source, mujoco.MjModel):
        return CompiledSource(source, model_name(source), None, [], {})
    source = os.fspath(source)
    if source.lstrip().startswith("<"):
        return _compile_text(source, None)
    path = Path(source)
    if path.suffix == "" and not path.is_file():
        try:
            path = robot_file(source)
        except FileNotFoundError as error:
            raise ModelError(str(error)) from error
    if not path.is_file():
        raise ModelError(f"No model file at {path}. Check the path.")
    return _compile_text(path.read_text(), path)


def model_name(mj_model: mujoco.MjModel) -> str:
    """The model's own name, "model" where it has none."""
    return mj_model.names[: mj_model.names.find(b"\0")].decode() or "model"


def _compile_text(text: str, path: Path | None) -> CompiledSource:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ModelError(f"{path or 'The model text'} is not well-formed XML: {error}.") from None
    if root.tag == "robot":
        return _compile_urdf(text, root)
    if root.tag != "mujoco":
        raise ModelError(f"{path or 'The model text'}: expected <mujoco> or <robot> at the top, found <{root.tag}>.")
    try:
        # From the path where there is one: includes and meshes are relative to it.
        spec = mujoco.MjSpec.from_file(str(path)) if path else mujoco.MjSpec.from_string(text)
        mj_model = spec.compile()
    except ValueError as error:
        raise ModelError(f"MuJoCo's compiler refuses {path or 'the model text'}: {error}") from None
    return CompiledSource(mj_model, model_name(mj_model), text, [], {})


def _compile_urdf(text: str, root: ElementTree.Element) -> CompiledSource:
    """URDF: meshes dropped, inertias from <inertial> alone, one torque motor per joint with its effort limit."""
    for joint in root.findall("joint"):
        if joint.find("mimic") is not None:
            raise ModelError(
                f"Joint '{joint.get('name')}' mimics another one, which is an equality constraint and not supported. "
                "Remove the <mimic> element, or make the joint fixed."
            )
    notes: list[str] = []
    velocity: dict[str, float] = {}
    for joint in root.findall("joint"):
        limit = joint.find("limit")
        bound = None if limit is None else limit.get("velocity")
        if bound:
            velocity[joint.get("name", "")] = float(bound)
    # Visual and collision shapes go: meshes need not be installed to know the dynamics, and MuJoCo would compute
    # inertias from shapes for links that have none, where URDF says the link is massless.
    for link in root.findall("link"):
        for tag in ("visual", "collision"):
            for shape in link.findall(tag):
                link.remove(shape)
    try:
        spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
        # Fixed links stay bodies of their own, so that they can be named and estimated.
        spec.compiler.fusestatic = False
        driven = {actuator.target for actuator in spec.actuators}
        for joint in spec.joints:
            if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE) and joint.name not in driven:
                motor = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
                motor.set_to_motor()
        mj_model = spec.compile()
    except ValueError as error:
        raise ModelError(f"MuJoCo's compiler refuses the URDF '{root.get('name')}': {error}") from None
    if not driven:
        notes.append("URDF names no actuators: one torque motor per joint was added, with the joint's effort limit.")
    return CompiledSource(mj_model, root.get("name") or "model", spec.to_xml(), notes, velocity)
