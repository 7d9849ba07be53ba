"""How near an arm comes to a table while it works there: the metric that the published design study lacked.

    distance = table_clearance(model, postures, geoms, table)        # (N,) [m], negative where something is in the table
    share = float((distance < 0.0).mean())                           # the metric: share of frames in collision

What is looked at are the arm's links and the palm with all that is rigid on it. The fingers are left out, as an end effector's
fingers are there to touch what is on a table, and the hand that leads them keeps them above it.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.4, says that high gripper mounts hit the table and that no
metric showed it; this metric is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

__all__ = ["FAR", "table_clearance", "without_fingers"]

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
    postures = np.asarray(postures, float)
    if postures.ndim != 2 or postures.shape[1] != model.nq or not len(geoms):
        raise ValueError(
            f"expected postures (N, {model.nq}) and at least one geom, found {postures.shape} and {len(geoms)}"
        )
    data, points = mujoco.MjData(model), np.zeros(6)
    found = np.full(len(postures), FAR)
    for k, posture in enumerate(postures):
        data.qpos[:] = posture
        mujoco.mj_kinematics(model, data)
        for geom in geoms:
            found[k] = min(found[k], mujoco.mj_geomDistance(model, data, int(geom), table, found[k], points))
    return found


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
