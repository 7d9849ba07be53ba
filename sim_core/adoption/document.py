"""A robot's model file as one MJCF document: URDF and xacro by the project's own reader, MJCF with its motors made torque motors."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from sim_core.adoption.visuals import Visual, visuals_of
from sim_core.multibody.model.urdf import mjcf_of_urdf
from sim_core.multibody.model.xacro_file import expanded

__all__ = ["Document", "DocumentError", "read_document"]

_FIXED, _NO_BIAS = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_NONE


class DocumentError(ValueError):
    """A model file that cannot be read; one sentence names the file, what was expected and what was found."""


@dataclass(frozen=True)
class Document:
    """A model file, read.

    Attributes:
        root: <mujoco>, without includes.
        notes: what was added to the file or left out of it.
        visuals: what a URDF shows; MJCF has it in its root.
    """

    root: ElementTree.Element
    notes: tuple[str, ...]
    visuals: tuple[Visual, ...] = ()


def read_document(path: Path) -> Document:
    """Read a .urdf, .xacro or .xml file.

    Raises:
        DocumentError: it cannot be read, or holds no robot that can be driven.
    """
    try:
        text = expanded(path) if path.suffix == ".xacro" else path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except ElementTree.ParseError as error:
        raise DocumentError(f"{path} is not well-formed XML: {error}") from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    if root.tag == "mujoco":
        return _driven(path)
    if root.tag != "robot":
        raise DocumentError(f"{path}: expected <robot> (URDF) or <mujoco> (MJCF) at the top, found <{root.tag}>")
    try:
        mjcf, notes = mjcf_of_urdf(root)
    except ValueError as error:
        raise DocumentError(f"{path}: {error}") from None
    visuals, unseen = visuals_of(root, path.parent)
    return Document(ElementTree.fromstring(mjcf), (*notes, *unseen), tuple(visuals))


def _driven(path: Path) -> Document:
    """An MJCF file whose actuators on joints are torque motors with the limits they had."""
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        for folder in ("meshdir", "texturedir"):
            setattr(spec, folder, str((path.parent / getattr(spec, folder)).resolve()))
        model = spec.compile()
        notes = []
        for actuator in list(spec.actuators):
            if actuator.trntype != mujoco.mjtTrn.mjTRN_JOINT:
                raise DocumentError(
                    f"{path}: the actuator '{actuator.name}' drives no joint; expected one on each driven joint"
                )
            if actuator.gaintype != _FIXED or actuator.biastype != _NO_BIAS:
                notes.append(_made_motor(spec, model, actuator))
        text = spec.to_xml()
    except ValueError as error:
        raise DocumentError(f"{path}: MuJoCo's compiler refuses it: {' '.join(str(error).split())}") from None
    return Document(ElementTree.fromstring(text), tuple(notes))


def _made_motor(spec: mujoco.MjSpec, model: mujoco.MjModel, servo: mujoco.MjsActuator) -> str:
    """A torque motor in a servo's place; says so."""
    a, name, joint = model.actuator(servo.name).id, servo.name, servo.target
    limit = np.inf
    if model.actuator_forcelimited[a]:
        limit = float(np.abs(model.actuator_forcerange[a]).max())
    spec.delete(servo)
    motor = spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint)
    if np.isfinite(limit):
        motor.forcelimited, motor.forcerange = True, [-limit, limit]
    return f"The servo actuator '{name}' was made a torque motor: the plant's servos do the rest."
