"""From a file, a string or a name to a compiled mujoco.MjModel."""

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import mujoco

from config.robot import robot_file

__all__ = ["ModelError", "compile_source"]


class ModelError(ValueError):
    """A model that cannot be loaded, or contains what the engine does not support."""


def compile_source(source):
    """Compile a robot name, a path to MJCF or URDF, an XML string or an MjModel.

    Returns:
        (mujoco.MjModel, name, text of the model or None, list of notes, dict of joint velocity limits).

    Raises:
        ModelError: not found, or MuJoCo's compiler refuses it; its message is passed on.
    """
    if isinstance(source, mujoco.MjModel):
        return source, model_name(source), None, [], {}
    source = os.fspath(source)
    if source.lstrip().startswith("<"):
        return _compile_text(source, None)
    path = Path(source)
    if path.suffix == "" and not path.exists():
        try:
            path = robot_file(source)
        except FileNotFoundError as error:
            raise ModelError(str(error)) from error
    if not path.is_file():
        raise ModelError(f"No model file at {path}. Check the path.")
    return _compile_text(path.read_text(), path)


def model_name(mj_model):
    return mj_model.names[: mj_model.names.find(b"\0")].decode() or "model"


def _compile_text(text, path):
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
    return mj_model, model_name(mj_model), text, [], {}


def _compile_urdf(text, root):
    """URDF: meshes dropped, inertias from <inertial> alone, one torque motor per joint with its effort limit."""
    for joint in root.findall("joint"):
        if joint.find("mimic") is not None:
            raise ModelError(
                f"Joint '{joint.get('name')}' mimics another one, which is an equality constraint and not supported. "
                "Remove the <mimic> element, or make the joint fixed."
            )
    notes, velocity = [], {}
    for joint in root.findall("joint"):
        limit = joint.find("limit")
        if limit is not None and limit.get("velocity"):
            velocity[joint.get("name")] = float(limit.get("velocity"))
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
    return mj_model, root.get("name") or "model", spec.to_xml(), notes, velocity
