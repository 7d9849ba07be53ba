"""The tray that grains lie in: where it stands before an arm, and what of a scoop has room in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.multibody import RobotModel
from sim_core.telepresence.clutch import Pose

__all__ = ["SITE", "SIZE", "Tray"]

#: site of a robot's model that is the middle of the tray's floor, x along its long side, z up
SITE = "tray"
#: of its inside: long side, short side, height of its walls [m]
SIZE = (0.9, 0.6, 0.2)


@dataclass(frozen=True, eq=False)
class Tray:
    """Attributes:
    pose: of the middle of its floor in the world. size: of its inside (3,) [m].

    Source of the size: Zhu, PhD thesis (University of Illinois 2023), section 6.4.
    """

    pose: Pose
    size: tuple[float, float, float] = SIZE

    @classmethod
    def of(cls, model: RobotModel) -> Tray:
        """That of a robot's model, which does not move.

        Raises:
            ValueError: the model has none, or it is not level.
        """
        import mujoco

        mj = model.mj_model
        index = mujoco.mj_name2id(mj, mujoco.mjtObj.mjOBJ_SITE, SITE)
        if index < 0:
            raise ValueError(f"expected a site '{SITE}' of the robot '{model.name}' for the tray before it, found none")
        data = mujoco.MjData(mj)
        mujoco.mj_kinematics(mj, data)
        pose = Pose(data.site_xpos[index].copy(), data.site_xmat[index].reshape(3, 3).copy())
        if pose.rotation[2, 2] < 1.0 - 1e-9:
            raise ValueError(f"expected a level tray, found its z axis along {pose.rotation[:, 2].tolist()}")
        return cls(pose)

    def to_world(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 3) [m] of the tray's frame in the world."""
        there: np.ndarray = np.asarray(points, float) @ self.pose.rotation.T + self.pose.position
        return there

    def to_tray(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 3) [m] of the world in the tray's frame."""
        here: np.ndarray = (np.asarray(points, float) - self.pose.position) @ self.pose.rotation
        return here

    @property
    def yaw(self) -> float:
        """Of its long side in the world [rad]."""
        return float(np.arctan2(self.pose.rotation[1, 0], self.pose.rotation[0, 0]))
