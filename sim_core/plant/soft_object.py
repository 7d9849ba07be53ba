"""A soft object before a robot with a probe: it yields to the probe as its finite elements say, and pushes back on the wrist.

    poked = PokedObject(solid, point_probe(), "lamb")       # with `MujocoPlant("panda_poker", poked=poked)`
    poked.pressed.force                                     # after each physics step

The object stands on the table and is fixed there; the plant's own scene does not hold it. Before each physics step the probe's points are
where the robot has them, the solid says what they feel, and that is applied to the link that carries the probe, where a force-torque
sensor feels it. The rest of the arm meets nothing. The solid has neither mass nor damping, and nothing rubs.
"""

from __future__ import annotations

from typing import Protocol

import mujoco
import numpy as np

from sim_core.elastic.rigid_body import RigidBody
from sim_core.plant.errors import PlantError

__all__ = ["POSITION", "TIP", "PokedObject", "Pressed", "Solid"]

#: site of a robot's model that is the probe's tip, its z axis back to the wrist
TIP = "probe_tip"
#: where the axes of an object begin, in the world [m]
POSITION = (0.5, 0.0, 0.1)
#: [m] around an object's surface within which it is asked
NEAR = 0.02


class Pressed(Protocol):
    """What a probe feels: force (3,) on it [N], torque (3,) about the origin [N m], in the solid's axes."""

    @property
    def force(self) -> np.ndarray: ...

    @property
    def torque(self) -> np.ndarray: ...


class Solid(Protocol):
    """What yields: points of a rigid body where they are (m, 3) [m], in its axes, and what they feel."""

    def press(self, points: np.ndarray) -> Pressed: ...


class PokedObject:
    """See the module's docstring.

    Args:
        solid: that yields. surface: points of it (n, 3) [m], in its axes, which say where it is. probe: that the robot holds, in the frame of its tip.
        name: of the object. position: of the solid's origin in the world, whose axes it has [m].

    Attributes:
        force, torque: on the probe about the world's origin, in the last physics step (3,) [N], [N m]. calls: of the solid, so far.
    """

    def __init__(
        self,
        solid: Solid,
        surface: np.ndarray,
        probe: RigidBody,
        name: str,
        position: tuple[float, ...] = POSITION,
    ) -> None:
        self.solid, self.probe, self.name = solid, probe, name
        self.position = np.asarray(position, float)
        surface = np.asarray(surface, float) + self.position
        self._low, self._high = surface.min(axis=0) - NEAR, surface.max(axis=0) + NEAR
        self._model: mujoco.MjModel | None = None
        self.calls = 0
        self.reset()

    def reset(self) -> None:
        """Nothing presses; it has no memory."""
        self.force, self.torque = np.zeros(3), np.zeros(3)

    def meet(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Like `press`, with a robot that is new or was put elsewhere, so that where its links are has not been computed.

        Raises:
            PlantError: the robot has no probe.
        """
        self._model = None
        self.press(model, data, t)

    def press(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Let it push on the probe until it is called again.

        Raises:
            PlantError: the robot has no probe.
        """
        if model is not self._model:
            self._attend(model, data)
        tip, applied = data.site_xpos[self._site], data.xfrc_applied[self._body]
        points = self.probe.points @ data.site_xmat[self._site].reshape(3, 3).T + tip
        if not ((points > self._low) & (points < self._high)).all(axis=1).any():
            if self.force.any():
                self.reset()
            applied[:] = 0.0
            return
        pressed = self.solid.press(points - self.position)
        self.calls += 1
        self.force = np.asarray(pressed.force, float)
        self.torque = np.asarray(pressed.torque, float) + np.cross(self.position, self.force)
        applied[:3] = self.force
        applied[3:] = self.torque - np.cross(data.xipos[self._body], self.force)

    def _attend(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """To a model that is new, in which nothing has been computed yet."""
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, TIP)
        if site < 0:
            raise PlantError(f"A soft object stands before a robot with a probe, whose model has a site '{TIP}'.")
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        self._model, self._site, self._body = model, site, int(model.site_bodyid[site])
