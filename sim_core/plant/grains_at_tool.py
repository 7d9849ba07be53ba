"""Grains that a robot's tool meets: what they do to it, what it does to them, and what a camera sees of them.

    grains = GranularTray(...)                                     # or GranularPile(...), with `MujocoPlant(robot, tray=grains)`
    camera.render(joints, grains=grains.seen())

The grains are a discrete-element simulation of their own (`sim_core/granular`); the plant's scene does not hold them. Before each physics
step the tool of that simulation is led to where the robot's will be, the grains go on for as long as the step, and the mean of what
they did to the tool meanwhile is applied to the link that carries it, where a force-torque sensor feels it: both times
are the same, and action is reaction. Where no grain moves and the tool is far, nothing is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.granular.world import GrainsTooFast, GranularWorld
from sim_core.plant.errors import PlantError
from sim_core.telepresence.clutch import Pose

__all__ = ["REST", "GrainsAtTool", "Led"]

#: half side of the ground [m]: what rolls away without resistance shall not come to its edge
WIDE = 50.0
#: [m/s] root mean square of grains that are at rest
REST = 0.004
#: physics steps between two looks whether anything is near
LOOK = 5


@dataclass(frozen=True)
class Led:
    """What leads the grains' tool.

    Attributes:
        what: the tool in words. tool: its name in the grains' world. site: of the robot's model, whose frame is the tool's.
        middle: of the tool in that frame [m]. near: distance of a grain from it at which the grains are computed [m].
    """

    what: str
    tool: str
    site: str
    middle: tuple[float, float, float]
    near: float


class GrainsAtTool:
    """See the module's docstring.

    Args:
        world: of grains at rest, in the robot's world. colours: of them (n, 3), 0 to 255. led: see there. step: of the plant's physics [s].
        substeps: of the grains in that.

    Attributes:
        world: the grains. wrench: of the grains on the tool about its origin, in the world's axes, in the last step (6,) [N], [N m].
        awake: whether the grains are being computed.
    """

    def __init__(self, world: GranularWorld, colours: np.ndarray, led: Led, step: float, substeps: int) -> None:
        self.world, self._colours, self._led, self._dt, self._substeps = world, colours, led, step, substeps
        self._model: mujoco.MjModel | None = None
        self._velocity = np.zeros(6)
        self._start = world.state()
        self.reset()

    # -- what of it is seen ------------------------------------------------------------------------

    @property
    def tool(self) -> Pose:
        """Where the grains meet it."""
        position, quaternion = self.world.where(self._led.tool)
        return Pose(position, Rotation.from_quat(np.roll(quaternion, -1)).as_matrix())

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Spheres in the world, places and radii (m, 4) [m], and their colours (m, 3) of 0 to 255."""
        spheres = self.world.spheres
        return spheres.center, self._colours[spheres.body]

    # -- the plant's side --------------------------------------------------------------------------

    def reset(self) -> None:
        """Back to the grains as they had settled at first."""
        self.world.restore(self._start)
        self.wrench = np.zeros(6)
        self.awake, self._look, self._placed = False, 0, False

    def meet(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Like `press`, with a robot that is new or was put elsewhere: the tool is there, without having moved through the grains.

        Raises:
            PlantError: the robot has no such tool, or another physics step.
        """
        self._attend(model)
        self._placed, self._look = False, 0
        self._locate(model, data)
        data.xfrc_applied[self._body] = 0.0

    def press(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Let the grains go on for one physics step from time t [s] on, and press on the tool.

        Raises:
            PlantError: the robot has no such tool, or another physics step, or grains fly apart.
        """
        if model is not self._model:
            self._attend(model)
            self._placed = False
        self._locate(model, data)
        position, rotation = data.site_xpos[self._site], data.site_xmat[self._site]
        if self._look == 0:
            self.awake = self._is_near(position, rotation.reshape(3, 3)) or self._moving()
        self._look = (self._look + 1) % LOOK
        applied = data.xfrc_applied[self._body]
        if not self.awake:
            self._placed, self.wrench = False, np.zeros(6)
            applied[:] = 0.0
            return
        self._lead(position, rotation)
        try:
            self.wrench = wrench = self.world.run(self._substeps)[self._led.tool]
        except GrainsTooFast as error:
            raise PlantError(f"The grains before the robot fly apart: {error}; reset the simulation.") from error
        applied[:3] = wrench[:3]
        # numpy's takes ten times as long
        mujoco.mju_cross(applied[3:], position - data.xipos[self._body], wrench[:3])
        applied[3:] += wrench[3:]

    def _attend(self, model: mujoco.MjModel) -> None:
        led = self._led
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, led.site)
        if site < 0:
            raise PlantError(f"These grains lie before a robot with a {led.what}, whose model has a site '{led.site}'.")
        if not np.isclose(model.opt.timestep, self._dt):
            raise PlantError(
                f"The grains go on by {self._dt:g} s at a time and the robot by {model.opt.timestep:g} s; make them with the "
                "robot's step."
            )
        self._model, self._site, self._body = model, site, int(model.site_bodyid[site])

    def _locate(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Where the robot's tool is now, not one step ago, and how it moves."""
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, self._site, self._velocity, 0)

    def _lead(self, position: np.ndarray, rotation: np.ndarray) -> None:
        """Give the grains' tool the twist that takes it to where the robot's will be after the step."""
        tool, turn, behind, spin = self._led.tool, np.zeros(4), np.zeros(3), np.zeros(3)
        mujoco.mju_mat2Quat(turn, rotation)
        if not self._placed:
            self.world.move(tool, position.tolist(), turn.tolist())
            self._placed = True
        place, turned = self.world.where(tool)
        mujoco.mju_subQuat(behind, turn, turned)  # in the axes of the grains' tool
        mujoco.mju_rotVecQuat(spin, behind, turned)
        velocity = self._velocity[3:] + (position - place) / self._dt
        spin = self._velocity[:3] + spin / self._dt
        self.world.move(tool, velocity=velocity.tolist(), spin=spin.tolist())

    def _is_near(self, position: np.ndarray, rotation: np.ndarray) -> bool:
        middle = position + rotation @ self._led.middle
        away = self.world.position - middle.astype(np.float32)
        return bool(((away**2).sum(axis=1) < self._led.near**2).any())

    def _moving(self) -> bool:
        return bool(np.sqrt((self.world.velocity**2).sum(axis=1).mean()) > REST)
