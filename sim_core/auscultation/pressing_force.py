"""With what a membrane presses, from a force-torque sensor behind it.

    force = PressingForce(wrist_load(model, "wrist", "membrane"))
    force.feel(wrench, wrist_rotation, stamp)
    force.at(now)                                     # [N], NaN where nothing was heard for too long

A sensor in the wrist bears the stethoscope, so it tells its weight besides what presses on the membrane. The weight turns with the
hand, and the model knows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.multibody import RobotModel

__all__ = ["PressingForce", "WristLoad", "wrist_load"]


@dataclass(frozen=True, eq=False)
class WristLoad:
    """What a sensor in a wrist bears.

    Attributes:
        weight: in the world's axes (3,) [N]; nothing where the sensor's driver has taken it away.
        outward: the membrane's z axis, which points out of it, in the wrist's axes (3,).
        wrist: the wrist's axes in those of the membrane (3, 3).
    """

    weight: np.ndarray
    outward: np.ndarray
    wrist: np.ndarray


def wrist_load(model: RobotModel, wrist: str, membrane: str, compensated: bool = False) -> WristLoad:
    """Of a robot with a sensor at a site; all beyond the site's body, that body included, hangs on it.

    Args:
        wrist, membrane: sites of one rigid piece. compensated: the sensor's driver takes the weight away.

    Raises:
        KeyError: there is no such site. ValueError: something moves between them.
    """
    mj = model.mj_model
    sensor, tip = mj.site(wrist), mj.site(membrane)
    body = int(sensor.bodyid[0])
    if mj.body_weldid[body] != mj.body_weldid[int(tip.bodyid[0])]:
        raise ValueError(f"a joint moves the site '{membrane}' against the site '{wrist}': expected one rigid piece")
    data = mujoco.MjData(mj)
    mujoco.mj_kinematics(mj, data)
    R_wrist, R_tip = (data.site_xmat[site.id].reshape(3, 3) for site in (sensor, tip))
    weight = np.zeros(3) if compensated else mj.body_subtreemass[body] * mj.opt.gravity
    return WristLoad(np.array(weight), R_wrist.T @ R_tip[:, 2], R_tip.T @ R_wrist)


class PressingForce:
    """See the module's docstring.

    Args:
        load: of the sensor. cutoff: of the low pass [Hz]. patience: [s] after the last wrench for which the force is known.
    """

    def __init__(self, load: WristLoad, cutoff: float = 25.0, patience: float = 0.05) -> None:
        self._load, self._cutoff, self._patience = load, cutoff, patience
        self.forget()

    def forget(self) -> None:
        """Nothing is known any more."""
        self._force, self._stamp = 0.0, -np.inf

    def feel(self, wrench: np.ndarray, membrane: np.ndarray, stamp: float) -> None:
        """One more reading; one that is not finite, or not newer than the last, says nothing.

        Args:
            wrench: that all beyond the sensor exerts on it, in its axes, force first (6,) [N, N m].
            membrane: rotation of the membrane in the world (3, 3).
            stamp: when [s].
        """
        force, since = np.asarray(wrench, float)[:3], stamp - self._stamp
        if not (np.isfinite(force).all() and np.isfinite(stamp) and since > 0.0):
            return
        pressed = force - (membrane @ self._load.wrist).T @ self._load.weight
        gain = 1.0 - np.exp(-2.0 * np.pi * self._cutoff * since)
        # What presses on the membrane pushes it into the stethoscope, against its z axis.
        self._force += gain * (-float(pressed @ self._load.outward) - self._force)
        self._stamp = stamp

    def at(self, now: float) -> float:
        """The force along the membrane's z axis [N], pressing is positive; NaN where it is not known at a time [s]."""
        return self._force if now - self._stamp <= self._patience else float("nan")
