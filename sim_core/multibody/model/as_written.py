"""Inertias of a model file that MuJoCo's compiler refuses, taken as they are written.

Published robots contain links whose inertia no rigid body has: masses of zero with an inertia, principal moments that
are negative or break the triangle inequality, rods without an inertia about their axis. The equations of motion are
defined for all of them, and other libraries take them. MuJoCo's compiler refuses them, its simulation does not look. So
the MJCF holds the nearest inertia that a body can have, and beside it, as <numeric name="inertia_as_written/BODY">, the
mass and the principal moments of the file, which `restore` writes over the compiled ones.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Collection

import mujoco
import numpy as np

__all__ = ["PREFIX", "add_inertial", "objection", "restore"]

PREFIX = "inertia_as_written/"
LEAST_MASS, LEAST_MOMENT = 1e-9, 1e-13  # kg, kg m^2: what MuJoCo's compiler is given in place of nothing
SLACK = 1e-6  # relative: files have few digits, and a plate's or rod's moments meet the inequality exactly


def objection(mass: float, moments: np.ndarray) -> str:
    """Why no rigid body has this mass [kg] and these ascending principal moments (3,) [kg m^2], or ""."""
    low, middle, high = moments
    slack = max(SLACK * max(abs(low), abs(high)), LEAST_MOMENT)
    if mass < 0.0:
        return f"a mass of {mass:.3g} kg"
    if mass == 0.0 and np.any(moments):
        return "an inertia without mass"
    if low < -slack:
        return f"a principal moment of {low:.3g} kg m^2"
    if low + middle < high - slack:
        return f"principal moments of {low:.3g}, {middle:.3g} and {high:.3g} kg m^2, the last more than the sum of the others"
    return ""


def _nearest(mass: float, moments: np.ndarray) -> tuple[float, np.ndarray]:
    """The mass and moments that a body can have: second moments of its mass, tr(I)/2 - I_k, are not negative."""
    second = np.maximum(np.sum(moments) / 2 - moments, LEAST_MOMENT)
    return max(mass, LEAST_MASS), np.sum(second) - second


def add_inertial(
    body: ElementTree.Element, custom: ElementTree.Element, mass: float, com: np.ndarray, inertia: np.ndarray
) -> str:
    """Add <inertial> to an MJCF body and, where MuJoCo would refuse what the file says, that as a <numeric>.

    Args:
        mass [kg], com (3,) [m], inertia (3, 3) [kg m^2] about the COM, in the body's axes.

    Returns:
        `objection` to it.
    """
    moments, axes = np.linalg.eigh(inertia)
    place = {"mass": repr(float(mass)), "pos": _text(com)}
    high = moments[2]
    if (
        mass > LEAST_MASS
        and moments[0] > max(LEAST_MOMENT, 1e-9 * high)
        and moments[0] + moments[1] > high * (1 + 1e-9)
    ):
        entries = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        ElementTree.SubElement(body, "inertial", place | {"fullinertia": _text(entries)})
        return ""
    axes[:, 2] *= np.linalg.det(axes)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.ravel())
    near_mass, near = _nearest(mass, moments)
    place |= {"mass": repr(near_mass), "quat": _text(quat), "diaginertia": _text(near)}
    ElementTree.SubElement(body, "inertial", place)
    written = {"name": PREFIX + body.attrib["name"], "data": _text([mass, *moments])}
    ElementTree.SubElement(custom, "numeric", written)
    return objection(mass, moments)


def restore(m: mujoco.MjModel, but: Collection[str] = ()) -> bool:
    """Write the inertias of the file over those that the compiler was given, in place; True if there were any.

    Args:
        but: names of bodies to leave alone, as something else decides what they weigh.
    """
    found = False
    for i in range(m.nnumeric):
        name = m.numeric(i).name
        if name.startswith(PREFIX) and (owner := name.removeprefix(PREFIX)) not in but:
            body = m.body(owner).id
            mass, *moments = m.numeric_data[m.numeric_adr[i] : m.numeric_adr[i] + 4]
            m.body_mass[body], m.body_inertia[body] = mass, moments
            found = True
    if found:
        mujoco.mj_setConst(m, mujoco.MjData(m))
    return found


def _text(values: np.ndarray | list[float]) -> str:
    return " ".join(repr(float(x)) for x in values)
