"""Identified physical parameters written into a MuJoCo model.

Names are those of the multibody model's physical vector: "link3.mass", "link3.h.x" (first moment m c), "link3.I.xx"
(rotational inertia about the body frame's origin), "link3.pos.x" of a body or site, "joint1.damping",
"joint1.armature", "joint1.frictionloss", "joint1.stiffness", "joint1.gear" (an actuator's), and "gravity.z".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np

from sim_core.plant.errors import PlantError

__all__ = ["Inertial", "apply_scalars", "body_inertials", "read_parameter_file", "site_positions"]

_DOF = {"damping": "dof_damping", "armature": "dof_armature", "frictionloss": "dof_frictionloss"}
_JOINT = {*_DOF, "stiffness"}
_AXES = ("x", "y", "z")
_POSITION = tuple(f"pos.{axis}" for axis in _AXES)
_PAIRS = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}


def read_parameter_file(path: str | Path, robot: str) -> tuple[dict[str, float], float]:
    """Parameter values by name and the sensor delay [s] (0 if not given) of an identification's YAML.

    Args:
        robot: what the plant loads; the file must belong to the same robot and model version.

    Raises:
        PlantError: unreadable, another robot or version, unknown names, not physical.
    """
    # Only a plant with a parameter file needs the multibody model, and CasADi with it.
    from sim_core.multibody.model.parameter_file import ParameterFile

    try:
        file = ParameterFile.load(Path(path).expanduser())
        # Networks that the values were found beside stay out: the plant is MuJoCo's physics alone.
        file.open(robot, attach=lambda model: model)
    except ValueError as error:
        raise PlantError(str(error)) from error
    delay = file.sensor.get("delay")
    return ({name: entry.value for name, entry in file.parameters.items()}, delay.value if delay else 0.0)


@dataclasses.dataclass(frozen=True)
class Inertial:
    """A body's inertial properties: mass [kg], centre c [m], inertia about it I_C [kg m^2] in
    the body frame, and the body frame's position in its parent [m]."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray
    position: np.ndarray


def apply_scalars(model: mujoco.MjModel, values: Mapping[str, float]) -> None:
    """Write gravity and joint parameters into `model` in place.

    Raises:
        PlantError: unknown joint.
    """
    for name, value in values.items():
        owner, _, field = name.partition(".")
        if owner == "gravity" and field in _AXES:
            model.opt.gravity[_AXES.index(field)] = value
        elif field == "gear":
            actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, owner)
            if actuator < 0:
                raise PlantError(f"Parameter '{name}': the robot has no actuator '{owner}'.")
            model.actuator_gear[actuator, 0] = value
        elif field in _JOINT:
            joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, owner)
            if joint < 0:
                raise PlantError(f"Parameter '{name}': the robot has no joint '{owner}'.")
            if field == "stiffness":
                model.jnt_stiffness[joint] = value
            else:
                getattr(model, _DOF[field])[model.jnt_dofadr[joint]] = value


def site_positions(model: mujoco.MjModel, values: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Position in its body [m] of every site that `values` moves."""
    moved: dict[str, np.ndarray] = {}
    for name, value in values.items():
        owner, _, field = name.partition(".")
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, owner)
        if site >= 0 and field in _POSITION:
            moved.setdefault(owner, model.site_pos[site].copy())[_POSITION.index(field)] = value
    return moved


def body_inertials(model: mujoco.MjModel, values: Mapping[str, float]) -> dict[str, Inertial]:
    """Inertial properties of every body that `values` changes.

    Entries not given keep the model's value. They go into the scene before it is compiled,
    because MuJoCo's compiler derives structure (diagonal inertia blocks) from them.

    Raises:
        PlantError: unknown body or field, or an inertia that no rigid body has.
    """
    fields_of: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        owner, _, field = name.partition(".")
        if owner == "gravity" or field in _JOINT or field == "gear":
            continue
        if field != "mass" and field.partition(".")[0] not in ("h", "I", "pos"):
            raise PlantError(f"Parameter '{name}' is unknown to the plant.")
        if (
            field in _POSITION
            and mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, owner) < 0
            and mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, owner) >= 0
        ):
            continue
        fields_of.setdefault(owner, {})[field] = value
    inertials = {}
    for owner, fields in fields_of.items():
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, owner)
        if body < 0:
            raise PlantError(f"Parameter '{owner}.{next(iter(fields))}': the robot has no body '{owner}'.")
        inertials[owner] = _inertial(model, body, owner, fields)
    return inertials


def _inertial(model: mujoco.MjModel, body: int, owner: str, fields: dict[str, float]) -> Inertial:
    m, h, I_O = _moments(model, body)
    position = model.body_pos[body].copy()
    for field, value in fields.items():
        kind, _, component = field.partition(".")
        if kind == "mass":
            m = value
        elif kind == "h" and component in _AXES:
            h[_AXES.index(component)] = value
        elif kind == "pos" and component in _AXES:
            position[_AXES.index(component)] = value
        elif kind == "I" and component in _PAIRS:
            i, j = _PAIRS[component]
            I_O[i, j] = I_O[j, i] = value
        else:
            raise PlantError(f"Parameter '{owner}.{field}' is unknown to the plant.")
    if not m > 0.0:
        raise PlantError(f"Body '{owner}': mass {m:g} kg is not positive.")
    c = h / m
    I_C = I_O - m * (c @ c * np.eye(3) - np.outer(c, c))  # parallel axis theorem
    principal = np.linalg.eigvalsh(I_C)
    # A point mass has no inertia about its centre, and rounding may leave less than none; MuJoCo
    # wants some. A radius of gyration of 30 um is far below what any joint feels.
    slack = 1e-9 * m
    if principal[0] < -slack or principal[0] + principal[1] < principal[2] - slack:
        raise PlantError(
            f"Body '{owner}': principal inertias {principal} kg m^2 break the triangle "
            "inequality; no rigid body has them."
        )
    return Inertial(m, c, I_C + max(0.0, slack - principal[0]) * np.eye(3), position)


def _moments(model: mujoco.MjModel, body: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, first moment and inertia about the body frame origin of a body of the model."""
    m, c = float(model.body_mass[body]), model.body_ipos[body].copy()
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.body_iquat[body])
    R = turn.reshape(3, 3)
    I_C = R @ np.diag(model.body_inertia[body]) @ R.T
    return m, m * c, I_C + m * (c @ c * np.eye(3) - np.outer(c, c))
