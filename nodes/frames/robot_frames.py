"""The frames of a robot's model as TF messages: every named body and site, and `base_link`, from joint positions."""

from __future__ import annotations

import mujoco
import numpy as np
from geometry_msgs.msg import TransformStamped
from tf2_msgs.msg import TFMessage

from sim_core.plant.robot_urdf import BASE, base_body

__all__ = ["RobotFrames"]


class RobotFrames:
    """Messages that are filled anew, moving frames and fixed ones apart.

    Args:
        model: MuJoCo model of the robot.
        frame_prefix: put before every frame name, so that two robots can share /tf.

    Attributes:
        tf, tf_static: frames below a joint, and those that never move in their parent.
    """

    def __init__(self, model: mujoco.MjModel, frame_prefix: str = "") -> None:
        self._model = model
        self._frames = _frames(model)
        self.tf, self.tf_static = TFMessage(), TFMessage()
        for parent, child, _, _, moving in self._frames:
            transform = TransformStamped(child_frame_id=frame_prefix + child)
            transform.header.frame_id = parent if parent == "world" else frame_prefix + parent
            (self.tf if moving else self.tf_static).transforms.append(transform)

    def fill(self, data: mujoco.MjData, stamp) -> tuple[TFMessage, TFMessage]:
        """(moving, static) transforms of a posed model; `data` needs mj_kinematics. Static ones keep the stamp zero."""
        moving, static = iter(self.tf.transforms), iter(self.tf_static.transforms)
        for parent, _, kind, index, moves in self._frames:
            transform = next(moving if moves else static)
            if moves:
                transform.header.stamp = stamp
            parent_body = 0 if parent == "world" else self._model.body(parent).id
            if kind != "base":
                p, q = _relative(data, parent_body, kind, index)
            elif parent_body:
                p, q = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
            else:
                p, q = self._model.body_pos[index], self._model.body_quat[index]
            t, r = transform.transform.translation, transform.transform.rotation
            t.x, t.y, t.z = (float(x) for x in p)
            r.w, r.x, r.y, r.z = (float(x) for x in q)
        return self.tf, self.tf_static


def _frames(model) -> list[tuple[str, str, str, int, bool]]:
    """(parent, child, "body"|"site"|"base", index, moving) of every named body and site of the robot, and of base_link."""
    frames, taken = [], set()
    for b in range(1, model.nbody):
        name, parent = model.body(b).name, model.body(int(model.body_parentid[b])).name
        if name and parent:
            frames.append((parent, name, "body", b, bool(model.body_jntnum[b])))
            taken.add(name)
    for s in range(model.nsite):
        name, parent = model.site(s).name, model.body(int(model.site_bodyid[s])).name
        # One MJCF name may serve a body and a site; TF needs each frame once.
        if name and parent and not name.startswith("refit/") and name not in taken:
            taken.add(name)
            frames.append((parent, name, "site", s, False))
    if base := base_body(model):
        free = model.jnt_type[model.body_jntadr[base]] == mujoco.mjtJoint.mjJNT_FREE and model.body_jntnum[base]
        frames.append((model.body(base).name if free else "world", BASE, "base", base, False))
    return frames


def _relative(data, parent: int, kind: str, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Pose of a body or site in a body: position and quaternion wxyz, from world poses.

    By MuJoCo's functions, which take a microsecond each: this runs for every frame and every joint state.
    """
    if kind == "body":
        p_W, q_W = data.xpos[index], data.xquat[index]
    else:
        p_W, q_W = data.site_xpos[index], np.zeros(4)
        mujoco.mju_mat2Quat(q_W, data.site_xmat[index])
    inverse, p, q = np.zeros(4), np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(inverse, data.xquat[parent])
    mujoco.mju_rotVecQuat(p, p_W - data.xpos[parent], inverse)
    mujoco.mju_mulQuat(q, inverse, q_W)
    return p, q
