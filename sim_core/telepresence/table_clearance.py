"""How near an arm comes to a table while it works there: the metric that the published design study lacked.

    distance = table_clearance(model, postures, links, table)           # (N,) [m], negative where something is in the table
    landing = landing_clearance(model, postures, wrist, fingers, table) # (N,) [m], negative where the wrist strikes it first
    share = float(((distance < 0.0) | (landing < 0.0)).mean())          # the metric

An arm collides with a table in two ways. Its links or the palm are in the table while the hand is followed above it. Or the hand
cannot come down to the table to take something from it, as something else strikes it first: a hand that is lowered as it is
turned takes along the arm's last link, which it is fixed to, and that is in the table when the lowest finger touches its top.
The fingers are left out of both: they are there to touch what is on a table.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.4, says that high gripper mounts hit the table and that no
metric showed it; this metric is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from sim_core.telepresence.geom_extent import extents

__all__ = ["FAR", "landing_clearance", "table_clearance", "without_fingers"]

#: [m] beyond which it does not matter how far away a table is
FAR = 0.25


def table_clearance(model: mujoco.MjModel, postures: np.ndarray, geoms: Sequence[int], table: int) -> np.ndarray:
    """Least distance of any of the shapes from the table in each posture (N,) [m], at most `FAR`.

    Args:
        model: with the table in it.
        postures: (N, nq) [rad or m].
        geoms: numbers of the shapes. table: number of the table's geom.

    Raises:
        ValueError: the postures are not those of the model, or there is no shape.
    """
    data, found = mujoco.MjData(model), []
    for posture in _checked(model, postures, geoms):
        data.qpos[:] = posture
        mujoco.mj_kinematics(model, data)
        found.append(_least(model, data, geoms, table))
    return np.array(found)


def landing_clearance(
    model: mujoco.MjModel, postures: np.ndarray, wrist: Sequence[int], fingers: Sequence[int], table: int
) -> np.ndarray:
    """Least distance of the wrist from the table once the hand is lowered to it, in each posture (N,) [m], at most `FAR`.

    The hand is lowered as it is turned, until its lowest finger is as low as the table's top.

    Args:
        model: with a table whose top is level.
        postures: (N, nq) [rad or m].
        wrist: numbers of the shapes that the hand is fixed to. fingers: of those of the fingers.
        table: number of the table's geom, a box.

    Raises:
        ValueError: the postures are not those of the model, or there is neither wrist nor finger.
    """
    data, found = mujoco.MjData(model), []
    for posture in _checked(model, postures, [*wrist, *fingers] if wrist and fingers else ()):
        data.qpos[:] = posture
        mujoco.mj_kinematics(model, data)
        lowest = extents(model, data, fingers, (0.0, 0.0, 1.0))[0].min()
        # It is the same whether the hand goes down or the table comes up.
        data.geom_xpos[table, 2] = lowest - model.geom_size[table, 2]
        found.append(_least(model, data, wrist, table))
    return np.array(found)


def _checked(model: mujoco.MjModel, postures: np.ndarray, geoms: Sequence[int]) -> np.ndarray:
    postures = np.asarray(postures, float)
    if postures.ndim != 2 or postures.shape[1] != model.nq or not len(geoms):
        raise ValueError(
            f"expected postures (N, {model.nq}) and at least one geom, found {postures.shape} and {len(geoms)}"
        )
    return postures


def _least(model: mujoco.MjModel, data: mujoco.MjData, geoms: Sequence[int], table: int) -> float:
    points, least = np.zeros(6), FAR
    for geom in geoms:
        least = min(least, mujoco.mj_geomDistance(model, data, int(geom), table, least, points))
    return least


def without_fingers(model: mujoco.MjModel, first_link: str, palm: str) -> list[int]:
    """Numbers of the geoms of an arm from its link `first_link` on to the palm, that of the palm included.

    Bodies that hang on the palm are its fingers and count for nothing; neither do links before `first_link`, which stand where
    they were mounted.

    Raises:
        KeyError: there is no such body.
        ValueError: the palm does not hang on the link.
    """
    body, last = model.body(palm).id, model.body(first_link).id
    chain = [body]
    while body != last:
        body = model.body_parentid[body]
        if body == 0:
            raise ValueError(f"the body '{palm}' does not hang on '{first_link}'")
        chain.append(body)
    return [g for g in range(model.ngeom) if model.geom_bodyid[g] in chain]
