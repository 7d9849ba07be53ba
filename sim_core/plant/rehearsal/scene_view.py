"""What a judge sees of a simulated world: where bodies are, how joints stand, and what touches what."""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.plant.errors import PlantError

__all__ = ["SceneView"]


class SceneView:
    """The world as MuJoCo has it, after its last step.

    Args:
        model, data: MuJoCo's.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.model, self.data = model, data
        self._geoms: dict[str, frozenset[int]] = {}

    def position(self, body: str) -> np.ndarray:
        """Of a body's origin in the world (3,) [m]."""
        return self.data.xpos[self._id(body)].copy()

    def rotation(self, body: str) -> np.ndarray:
        """Of a body in the world (3, 3)."""
        return self.data.xmat[self._id(body)].reshape(3, 3).copy()

    def speed(self, body: str) -> float:
        """Of a body's origin [m/s]."""
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, self._id(body), velocity, 0)
        return float(np.linalg.norm(velocity[3:]))

    def tilt(self, body: str) -> float:
        """Between a body's z axis and the vertical [rad]."""
        return float(np.arccos(np.clip(self.rotation(body)[2, 2], -1.0, 1.0)))

    def joint(self, name: str) -> float:
        """Position of a hinge or slide [rad or m]."""
        return float(self.data.qpos[self.model.joint(name).qposadr[0]])

    def touch(self, first: str, second: str) -> bool:
        """Whether something that hangs on one body touches something that hangs on the other."""
        ours, theirs = self._hanging(first), self._hanging(second)
        pairs = self.data.contact.geom[: self.data.ncon]
        return any((a in ours and b in theirs) or (a in theirs and b in ours) for a, b in pairs.tolist())

    def _hanging(self, body: str) -> frozenset[int]:
        """Geoms of a body and of all below it."""
        if body not in self._geoms:
            root, parent = self._id(body), self.model.body_parentid
            below = {root}
            for b in range(root + 1, self.model.nbody):
                if int(parent[b]) in below:
                    below.add(b)
            self._geoms[body] = frozenset(g for g in range(self.model.ngeom) if int(self.model.geom_bodyid[g]) in below)
        return self._geoms[body]

    def _id(self, body: str) -> int:
        """Raises:
        PlantError: the world has no such body.
        """
        number = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, body)
        if number < 0:
            raise PlantError(f"The task needs a body '{body}', which this robot's world does not have.")
        return number
