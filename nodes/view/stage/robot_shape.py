"""The robot as it is drawn: bodies and their shapes from the model that the plant has, posed by joint positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from nodes.view.stage.geometry import add_geom, is_drawn
from sim_core.plant.scene import robot_mjcf

if TYPE_CHECKING:
    import viser

__all__ = ["RobotDrawing", "RobotShape"]

_SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
#: [m or 1] below which a change is not sent
_STILL = 1e-5


class RobotShape:
    """Kinematics of one robot in one posture.

    Args:
        robot: name in config/robots, path of an MJCF or URDF file, or the text of one.
        tool: site of the model that follows a path; "": none.

    Attributes:
        name: of the model. frames: names of its bodies and sites.
        floating: name of the body that floats; "": the base is fixed.

    Raises:
        PlantError: no such robot, or it cannot be read.
    """

    def __init__(self, robot: str, tool: str = "") -> None:
        self.name, text = robot_mjcf(robot)
        self.model = mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.model)
        if self.model.nkey:
            mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        model = self.model
        self.tool = tool
        self._address = {
            model.joint(j).name: int(model.jnt_qposadr[j])
            for j in range(model.njnt)
            if int(model.jnt_type[j]) in _SCALAR
        }
        free = [j for j in range(model.njnt) if int(model.jnt_type[j]) == int(mujoco.mjtJoint.mjJNT_FREE)]
        self.floating = model.body(int(model.jnt_bodyid[free[0]])).name if free else ""
        self._bodies = {model.body(b).name: b for b in range(1, model.nbody) if model.body(b).name}
        self._sites = {model.site(s).name: s for s in range(model.nsite) if model.site(s).name}
        self.frames = frozenset(self._bodies) | frozenset(self._sites)
        self.posed = 0  # how often it was given a posture
        mujoco.mj_kinematics(self.model, self.data)

    def copy(self) -> RobotShape:
        """Another posture of the same model."""
        other = object.__new__(RobotShape)
        other.__dict__.update(self.__dict__)
        other.data = mujoco.MjData(self.model)
        other.data.qpos[:] = self.data.qpos
        mujoco.mj_kinematics(self.model, other.data)
        return other

    def put(self, names: Sequence[str], positions: Sequence[float]) -> bool:
        """Pose it by joint positions; joints of other names are left out. False: a value is not finite, nothing changes."""
        q = np.asarray(positions, float)
        if len(q) != len(names) or not np.isfinite(q).all():
            return False
        for name, value in zip(names, q, strict=True):
            address = self._address.get(name)
            if address is not None:
                self.data.qpos[address] = value
        mujoco.mj_kinematics(self.model, self.data)
        self.posed += 1
        return True

    def put_base(self, position: Sequence[float], wxyz: Sequence[float]) -> None:
        """Place a floating base (3,) [m], (4,); counts from the next `put` on."""
        if self.floating:
            address = int(self.model.jnt_qposadr[self.model.body(self.floating).jntadr[0]])
            self.data.qpos[address : address + 7] = (*position, *wxyz)

    def pose(self, frame: str) -> np.ndarray | None:
        """X_WF (4, 4) of a body or site; None: it has none of this name."""
        data, X = self.data, np.eye(4)
        if frame in self._sites:
            X[:3, 3], X[:3, :3] = data.site_xpos[self._sites[frame]], data.site_xmat[self._sites[frame]].reshape(3, 3)
        elif frame in self._bodies:
            X[:3, 3], X[:3, :3] = data.xpos[self._bodies[frame]], data.xmat[self._bodies[frame]].reshape(3, 3)
        else:
            return None
        return X

    @property
    def tool_position(self) -> np.ndarray | None:
        """Of the tool in the world (3,) [m]; None: it has none."""
        X = self.pose(self.tool) if self.tool else None
        return None if X is None else X[:3, 3].copy()

    @property
    def centre(self) -> tuple[np.ndarray, float]:
        """What a camera should look at (3,) [m], and the robot's extent [m]."""
        drawn = [b for b in range(1, self.model.nbody)]
        points = self.data.xpos[drawn] if drawn else np.zeros((1, 3))
        low, high = points.min(axis=0), points.max(axis=0)
        return (low + high) / 2, float(max(np.linalg.norm(high - low), 0.3))


class RobotDrawing:
    """The shapes of a robot in the scene, body below body, so that only joints that move are sent.

    Args:
        scene: viser's. root: node below which it is drawn, as "/robot".
        shape: whose postures are shown.
        colour: RGB (3,) of 0 to 255 in place of the model's own. opacity: None: solid.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        root: str,
        shape: RobotShape,
        colour: tuple[int, int, int] | None = None,
        opacity: float | None = None,
    ) -> None:
        self.shape = shape
        self._nodes: list[tuple[int, int, viser.FrameHandle]] = []  # body, its parent, node
        self._sent: dict[int, np.ndarray] = {}
        model = shape.model
        path = {0: root}
        for body in range(1, model.nbody):
            path[body] = f"{path[int(model.body_parentid[body])]}/{model.body(body).name or f'body{body}'}"
            node = scene.add_frame(path[body], show_axes=False)
            self._nodes.append((body, int(model.body_parentid[body]), node))
        for geom in range(model.ngeom):
            if is_drawn(model, geom, fixed=colour is None):
                add_geom(scene, f"{path[int(model.geom_bodyid[geom])]}/geom{geom}", model, geom, colour, opacity)
        self.update()

    def update(self) -> int:
        """Move the nodes to the shape's posture; returns how many values were sent."""
        data, sent = self.shape.data, 0
        inverse, p, q = np.zeros(4), np.zeros(3), np.zeros(4)
        for body, parent, node in self._nodes:
            mujoco.mju_negQuat(inverse, data.xquat[parent])
            mujoco.mju_rotVecQuat(p, data.xpos[body] - data.xpos[parent], inverse)
            mujoco.mju_mulQuat(q, inverse, data.xquat[body])
            before = self._sent.get(body)
            if before is None or np.abs(before[:3] - p).max() > _STILL:
                node.position = tuple(p)
                sent += 1
            if before is None or np.abs(before[3:] - q).max() > _STILL:
                node.wxyz = tuple(q)
                sent += 1
            self._sent[body] = np.concatenate([p, q])
        return sent
