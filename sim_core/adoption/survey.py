"""What was understood of a robot, as rows for people and as a side file that its owner corrects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import yaml

from sim_core.adoption.adopter import Adoption
from sim_core.multibody import load_model
from sim_core.multibody.model.as_written import objection
from sim_core.multibody.model.identifiability import Identifiability, identifiability
from sim_core.multibody.model.parameter_blocks import BodyInertia
from sim_core.multibody.model.parameters import FreeParameters

__all__ = ["BODIES", "JOINTS", "Survey", "side_file_text", "survey", "told"]

SAMPLES = 400  # random states over which it is asked what the data would tell


@dataclass(frozen=True)
class Survey:
    """Rows of tables; units are in the headers.

    Attributes:
        tree: lines, indented.
        joints: name, kind, lower, upper, velocity limit, effort limit, armature, where the armature comes from.
        bodies: name, mass, centre of mass, principal moments, what no rigid body has ("" where nothing).
        told: by Identifiability, what joint motion tells of the payload body.
    """

    tree: list[str]
    joints: list[list[Any]]
    bodies: list[list[Any]]
    told: Identifiability


JOINTS = ["joint", "kind", "from", "to", "speed, 1/s", "effort", "rotor", "rotor is"]
BODIES = ["link", "mass, kg", "centre of mass, m", "principal moments, kg m²", "objection"]


def survey(adoption: Adoption, seed: int = 0) -> Survey:
    """Everything that a person should look at before a robot moves."""
    m = adoption.model
    return Survey(_tree(m, adoption), _joints(m, adoption), _bodies(m), _told(adoption, seed))


def _tree(m: mujoco.MjModel, adoption: Adoption) -> list[str]:
    lines, depth = [], {0: -1}
    for b in range(1, m.nbody):
        depth[b] = depth[int(m.body_parentid[b])] + 1
        joints = [m.joint(j).name for j in range(m.body_jntadr[b], m.body_jntadr[b] + m.body_jntnum[b])]
        roles = [("tool", adoption.arm.tool_body), ("payload body", adoption.arm.payload_body)]
        found = ", ".join(what for what, body in roles if body == b)
        role = f"   [{found}]" if found else ""
        moved = f"  <- {', '.join(joints)}" if joints else ""
        lines.append(f"{'  ' * depth[b]}{m.body(b).name}{moved}{role}")
    return lines


def told(found: Identifiability, body: str) -> str:
    """What joint motion tells, in a sentence."""
    n = len(found.names)
    if found.rank == n:
        return f"Joint motion tells all {n} inertial parameters of {body} (condition {found.condition:.2g})."
    lost = f"; without influence: {', '.join(found.inert)}" if found.inert else ""
    return f"Joint motion tells {found.rank} combinations of the {n} inertial parameters of {body}{lost}."


def _joints(m: mujoco.MjModel, adoption: Adoption) -> list[list[Any]]:
    rows = []
    for j in range(m.njnt):
        kind = mujoco.mjtJoint(int(m.jnt_type[j])).name.removeprefix("mjJNT_").lower()
        low, high = map(float, m.jnt_range[j]) if m.jnt_limited[j] else ("none", "none")
        said = m.joint(j).name in adoption.said.armature
        rows.append(
            [
                m.joint(j).name, kind, low, high, _limit(adoption.velocity[j]), _limit(adoption.effort[j]),
                float(adoption.armature[j]), "said" if said else "derived" if j in adoption.derived else "the file's",
            ]
        )  # fmt: skip
    return rows


def _limit(value: float) -> float | str:
    return float(value) if np.isfinite(value) else "none"


def _bodies(m: mujoco.MjModel) -> list[list[Any]]:
    rows = []
    for b in range(1, m.nbody):
        mass, moments = float(m.body_mass[b]), m.body_inertia[b]
        why = objection(mass, moments) if mass or moments.any() else ""
        rows.append([m.body(b).name, mass, _triple(m.body_ipos[b]), _triple(moments), why])
    return rows


def _triple(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _told(adoption: Adoption, seed: int) -> Identifiability:
    """Over random states about home: what a refit could learn of what the robot holds."""
    model = load_model(adoption.files[f"{adoption.name}.xml"])
    rng, nv = np.random.default_rng(seed), model.nv
    v_limit = np.where(np.isfinite(model.v_limit), model.v_limit, 1.0)
    X = np.hstack(
        [
            model.q_home + rng.uniform(-0.3, 0.3, (SAMPLES, model.nq)),
            rng.uniform(-0.5, 0.5, (SAMPLES, nv)) * v_limit,
        ]
    )
    U = rng.uniform(model.u_lower, model.u_upper, (SAMPLES, model.nu))
    body = adoption.model.body(adoption.arm.payload_body).name
    return identifiability(model, FreeParameters(model, [BodyInertia(body)]), X, U)


def side_file_text(adoption: Adoption) -> str:
    """A side file with everything that was derived or said, for its owner to correct."""
    m, arm, shown = adoption.model, adoption.arm, adoption.demonstration
    described = yaml.safe_load(adoption.files["robot.yaml"])
    names = {j: m.joint(j).name for j in range(m.njnt)}

    def by_joint(values: np.ndarray, wanted: Any = range(m.njnt)) -> dict[str, float]:
        return {names[j]: float(f"{values[j]:.6g}") for j in wanted if np.isfinite(values[j])}

    home = {names[j]: float(f"{adoption.home[m.jnt_qposadr[j]]:.6g}") for j in arm.joints.tolist()}
    document = {
        "title": adoption.title,
        "tool": {"body": m.body(arm.tool_body).name, "position": [float(f"{x:.6g}") for x in arm.position]},
        "payload_body": m.body(arm.payload_body).name,
        "home": home,
        "velocity": by_joint(adoption.velocity),
        "effort": by_joint(adoption.effort),
        "armature": by_joint(adoption.armature, adoption.derived),
        "payload": described["demo"]["mass"],
        "path_width": float(f"{adoption.said.path_width or shown.width:.3g}"),
        "path_height": float(f"{adoption.said.path_height or shown.height:.3g}"),
        "weights": described["task"]["weights"],
    }
    lines = ["# What refit understood of this robot, and what it derived where the model file says nothing.", "#"]
    lines += ["# Correct what is wrong; a key that is left out is derived again. Keys and units: docs/robots.md.", ""]
    return "\n".join(lines) + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
