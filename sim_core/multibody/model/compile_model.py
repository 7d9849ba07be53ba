"""From a file, a string or a name to a compiled mujoco.MjModel."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import mujoco

from config.robot import robot_file
from sim_core.multibody.model import as_written
from sim_core.multibody.model.urdf import FLOATING_BASE, mjcf_of_urdf
from sim_core.multibody.model.xacro_file import expanded

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
    """

    mj_model: mujoco.MjModel
    name: str
    xml: str | None
    notes: list[str]


def compile_source(
    source: str | os.PathLike[str] | mujoco.MjModel, inertia: str = "written", floating_base: bool = False
) -> CompiledSource:
    """Compile a robot name, a path to MJCF, URDF or xacro, an XML string or an MjModel.

    Args:
        inertia, floating_base: see ModelOptions.

    Raises:
        ModelError: not found, or MuJoCo's compiler refuses it; its message is passed on.
    """
    if isinstance(source, mujoco.MjModel):
        if floating_base:
            raise ModelError("floating_base needs a file or its text, found a compiled model, whose joints are fixed.")
        return CompiledSource(source, model_name(source), None, [])
    source = os.fspath(source)
    if source.lstrip().startswith("<"):
        return _compile_text(source, None, inertia, floating_base)
    path = Path(source)
    if path.suffix == "" and not path.is_file():
        try:
            path = robot_file(source)
        except FileNotFoundError as error:
            raise ModelError(str(error)) from error
    if not path.is_file():
        raise ModelError(f"No model file at {path}. Check the path.")
    return _compile_text(_read(path), path, inertia, floating_base)


def _read(path: Path) -> str:
    try:
        return expanded(path) if path.suffix == ".xacro" else path.read_text()
    except ValueError as error:
        raise ModelError(f"{error}.") from None


def model_name(mj_model: mujoco.MjModel) -> str:
    """The model's own name, "model" where it has none."""
    return mj_model.names[: mj_model.names.find(b"\0")].decode() or "model"


def _compile_text(text: str, path: Path | None, inertia: str, floating_base: bool) -> CompiledSource:
    where, notes = path or "The model text", list[str]()
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ModelError(f"{where} is not well-formed XML: {error}.") from None
    if root.tag == "robot":
        try:
            text, notes = mjcf_of_urdf(root, floating_base)
        except ValueError as error:
            raise ModelError(f"The URDF '{root.get('name')}' cannot be loaded: {error}.") from None
        path = None
    elif root.tag != "mujoco":
        raise ModelError(f"{where}: expected <mujoco> or <robot> at the top, found <{root.tag}>.")
    try:
        # From the path where there is one: includes and meshes are relative to it.
        spec = mujoco.MjSpec.from_file(str(path)) if path else mujoco.MjSpec.from_string(text)
        if floating_base:
            _free(spec)
        mj_model = spec.compile()
    except ValueError as error:
        raise ModelError(f"MuJoCo's compiler refuses {path or 'the model text'}: {error}") from None
    if inertia == "written":
        as_written.restore(mj_model)
    return CompiledSource(mj_model, model_name(mj_model), text, notes)


def _free(spec: mujoco.MjSpec) -> None:
    """Give the one root body a free joint, unless it has one.

    Raises:
        ModelError: there are several, or it moves by other joints.
    """
    roots = spec.worldbody.bodies
    if len(roots) != 1:
        raise ModelError(
            f"floating_base needs one root body, found {len(roots)}. Add <freejoint/> to those that are free."
        )
    kinds = [joint.type for joint in roots[0].joints]
    if kinds == [mujoco.mjtJoint.mjJNT_FREE]:
        return
    if kinds:
        raise ModelError(f"floating_base needs a root body without joints, '{roots[0].name}' has {len(kinds)}.")
    roots[0].add_freejoint(name=FLOATING_BASE)
