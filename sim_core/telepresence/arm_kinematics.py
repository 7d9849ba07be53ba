"""Where an arm's frame is, how its joints move it, and how far it is from a singularity."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.multibody import RobotModel
from sim_core.multibody.equations.kinematics import frame_pose, frame_velocity
from sim_core.telepresence.clutch import Pose

__all__ = ["ArmKinematics", "Posture", "pose_error"]


@dataclass(frozen=True, eq=False)
class Posture:
    """An arm at one set of joint positions.

    Attributes:
        pose: of the frame in the world.
        J: (6, n), linear [m/rad] over angular velocity [rad/rad] of the frame in world axes.
        manipulability: sqrt(det(L^-1 J J' L^-1)), lengths measured in L [m], so that metres and radians weigh alike.
        gradient: of the manipulability over joint positions (n,) [1/rad].
    """

    pose: Pose
    J: np.ndarray
    manipulability: float
    gradient: np.ndarray


class ArmKinematics:
    """Kinematics of a site or body of a robot.

    Args:
        model: the robot; its hinges alone move.
        frame: site or body.
        length: [m] that counts as much as a radian in the manipulability.

    Source: Yoshikawa, Manipulability of Robotic Mechanisms (1985); its gradient is M tr(dJ/dq_i J^+).
    """

    def __init__(self, model: RobotModel, frame: str, length: float = 0.3) -> None:
        self.model, self.length = model, length
        q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
        p = ca.SX(ca.DM(model.parameters.nominal))
        position, R = frame_pose(model, frame, q, p)
        angular, linear = frame_velocity(model, frame, q, v, p)
        J = ca.jacobian(ca.vertcat(linear, angular), v)
        dJ = ca.jacobian(ca.vec(J), q)
        self._evaluate = ca.Function("arm", [q], [position, R, J, dJ])

    def at(self, q: np.ndarray) -> Posture:
        """The arm at joint positions q (n,) [rad]."""
        position, R, J, dJ = (np.asarray(part) for part in self._evaluate(q))
        n = J.shape[1]
        scale = np.r_[np.full(3, 1.0 / self.length), np.ones(3)][:, None]
        S = scale * J
        manipulability = float(np.sqrt(max(np.linalg.det(S @ S.T), 0.0)))
        dS = scale[None] * dJ.T.reshape(n, n, 6).transpose(0, 2, 1)  # of joint i: (6, n)
        gradient = manipulability * np.einsum("iab,ba->i", dS, np.linalg.pinv(S))
        return Posture(Pose(position.ravel(), R), J, manipulability, gradient)


def pose_error(target: Pose, pose: Pose) -> np.ndarray:
    """What takes a pose to its target: (6,) [m, rad], the rotation as a vector in world axes."""
    turn = Rotation.from_matrix(target.rotation @ pose.rotation.T).as_rotvec()
    return np.r_[target.position - pose.position, turn]
