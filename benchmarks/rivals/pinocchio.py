"""Our models in Pinocchio, for rivals that compute with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sim_core.multibody import RobotModel

if TYPE_CHECKING:
    import pinocchio

__all__ = ["pinocchio_model"]


def pinocchio_model(model: RobotModel, p: np.ndarray, frame: str | None = None) -> pinocchio.Model:
    """The same arm in Pinocchio: hinges about z, bodies' inertias and armature from p (np_,), gravity of the model file.

    Args:
        frame: name of a site that the model gets as an operational frame; None for none.

    Raises:
        ImportError: Pinocchio is not installed.
        ValueError: the model has a joint that is no hinge about z.
    """
    import pinocchio as pin

    mj, robot = model.mj_model, pin.Model()
    robot.gravity.linear = mj.opt.gravity.copy()
    mounts = {0: (0, pin.SE3.Identity())}  # body -> joint, pose in it
    for body in range(1, mj.nbody):
        joint, X = mounts[mj.body_parentid[body]]
        quat = mj.body_quat[body]
        X = X * pin.SE3(pin.Quaternion(*quat).matrix(), mj.body_pos[body].copy())
        name = mj.body(body).name
        if mj.body_jntnum[body]:
            j = mj.body_jntadr[body]
            if not np.allclose(mj.jnt_axis[j], [0, 0, 1]) or mj.jnt_type[j] != mujoco.mjtJoint.mjJNT_HINGE:
                raise ValueError(f"{mj.joint(j).name}: this comparison knows hinges about z only")
            joint, X = robot.addJoint(joint, pin.JointModelRZ(), X, mj.joint(j).name), pin.SE3.Identity()
        if joint:
            m, hx, hy, hz, xx, yy, zz, xy, xz, yz = p[model.parameters.inertia_slice(name)]
            c = np.array([hx, hy, hz]) / m
            about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            about_com = about_origin - m * (c @ c * np.eye(3) - np.outer(c, c))
            robot.appendBodyToJoint(joint, pin.Inertia(m, c, about_com), X)
        mounts[body] = (joint, X)
    if frame is not None:
        site = mj.site(frame)
        joint, X = mounts[int(site.bodyid[0])]
        robot.addFrame(pin.Frame(frame, joint, X * pin.SE3(np.eye(3), site.pos.copy()), pin.FrameType.OP_FRAME))
    robot.armature = np.array([p[model.parameters.index(f"{j}.armature")] for j in model.joint_names])
    return robot
