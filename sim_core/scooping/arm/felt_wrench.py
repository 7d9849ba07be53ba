"""What grains do to a scoop, from the force-torque sensor behind it: the scoop's own weight taken away, about its blade.

felt = FeltWrench(load_model("ur5e_scoop"), "wrist", "blade")
felt.feel(wrench, blade_rotation, stamp)
felt.at(now)                                        # (6,) in the world's axes; NaN where nothing was heard for too long
"""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.multibody import RobotModel

__all__ = ["FeltWrench"]


class FeltWrench:
    """See the module's docstring.

    Args:
        model: of the robot. wrist, blade: sites of one rigid piece; all beyond the wrist's body, that body included, hangs on the sensor.
        cutoff: of the low pass [Hz]. patience: [s] after the last wrench for which it is known.

    Raises:
        KeyError: there is no such site. ValueError: something moves between them.
    """

    def __init__(self, model: RobotModel, wrist: str, blade: str, cutoff: float = 20.0, patience: float = 0.05) -> None:
        mj = model.mj_model
        sensor, edge = mj.site(wrist), mj.site(blade)
        body = int(sensor.bodyid[0])
        if mj.body_weldid[body] != mj.body_weldid[int(edge.bodyid[0])]:
            raise ValueError(f"a joint moves the site '{blade}' against the site '{wrist}': expected one rigid piece")
        data = mujoco.MjData(mj)
        mujoco.mj_kinematics(mj, data)
        mujoco.mj_comPos(mj, data)
        R = data.site_xmat[edge.id].reshape(3, 3)
        self._turn = R.T @ data.site_xmat[sensor.id].reshape(3, 3)  # of the sensor's axes in the blade's
        self._lever = R.T @ (data.site_xpos[sensor.id] - data.site_xpos[edge.id])  # from the blade to the sensor
        self._centre = R.T @ (data.subtree_com[body] - data.site_xpos[edge.id])
        self._weight = mj.body_subtreemass[body] * np.array(mj.opt.gravity)
        self._cutoff, self._patience = cutoff, patience
        self.forget()

    def forget(self) -> None:
        """Nothing is known any more."""
        self._felt, self._stamp = np.zeros(6), -np.inf

    def external(self, wrench: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        """Of one reading, unfiltered: force and torque about the edge in the world's axes (6,) [N], [N m].

        Args:
            wrench: that all beyond the sensor exerts on it, in its axes, force first (6,). rotation: of the blade in the world (3, 3).
        """
        R = rotation @ self._turn
        force, torque = R @ wrench[:3], R @ wrench[3:]
        torque = torque + np.cross(rotation @ self._lever, force) - np.cross(rotation @ self._centre, self._weight)
        return np.r_[force - self._weight, torque]

    def feel(self, wrench: np.ndarray, rotation: np.ndarray, stamp: float) -> None:
        """One more reading, see `external`, at a time [s]; one that is not finite, or not newer than the last, says nothing.

        One that is older than the last by more than the patience is of a time that went back, and is the first of it.
        """
        wrench, since = np.asarray(wrench, float), stamp - self._stamp
        if since < -self._patience:
            since = np.inf
        if not (np.isfinite(wrench).all() and np.isfinite(stamp) and since > 0.0):
            return
        gain = 1.0 - np.exp(-2.0 * np.pi * self._cutoff * since)
        self._felt = self._felt + gain * (self.external(wrench, rotation) - self._felt)
        self._stamp = stamp

    def at(self, now: float) -> np.ndarray:
        """Force and torque about the edge in the world's axes (6,) [N], [N m]; NaN where they are not known at a time [s].

        After time went back, what was felt is as unknown as what was felt too long ago.
        """
        return self._felt if abs(now - self._stamp) <= self._patience else np.full(6, np.nan)
