"""Where an arm's frame is, how its joints move it, and how far it is from a singularity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from sim_core.multibody import RobotModel
from sim_core.telepresence.arm_equations import OneCall, arm_equations
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.turns import rotation_vector

__all__ = ["ArmKinematics", "Posture", "pose_error"]

HERE = Pose(np.zeros(3), np.eye(3))


@dataclass(frozen=True, eq=False)
class Posture:
    """An arm at one set of joint positions.

    Attributes:
        position, rotation: of the frame (3,) [m], (3, 3).
        J: (6, n), linear [m/rad] over angular velocity [rad/rad] of the frame.
        manipulability: sqrt(det(L^-1 J J' L^-1)), lengths measured in L [m], so that metres and radians weigh alike.
        gradient: of the manipulability over joint positions (n,) [1/rad].
    """

    position: np.ndarray
    rotation: np.ndarray
    J: np.ndarray
    manipulability: float
    gradient: np.ndarray

    @property
    def pose(self) -> Pose:
        """Of the frame."""
        return Pose(self.position, self.rotation)


class ArmKinematics:
    """Kinematics of a site or body of a robot, in the axes of the model's world or of what carries it.

    Args:
        model: the robot.
        frame: site or body.
        joints: names of the joints that move it; the robot's other joints stay where they are at home. None: all joints.
        length: [m] that counts as much as a radian in the manipulability. Another length multiplies the manipulability of
            every posture by the same number.
        base: of the model's world in the axes in which poses are told, for an arm that is mounted somewhere; None: the same.
        tool: of what is moved in the frame; None: the frame itself.

    Attributes:
        model, frame, length, base, tool: as given.
        joints: names (n).
        lower, upper: limits of the joints (n,) [rad]; infinite where a joint has none.
        speed: at most (n,) [rad/s]; infinite where a joint has no limit.
        home: (n,) [rad].
        neutral: the middle of every joint's range (n,) [rad], 0 of a joint that turns for ever.
        equations: the same as symbols.

    Raises:
        ValueError: a joint is not there, or is neither hinge nor slide, or the length is not positive.
        KeyError: the frame is not there.

    Source: Yoshikawa, Manipulability of Robotic Mechanisms (1985); its gradient is M tr(dJ/dq_i J^+).
    """

    def __init__(
        self,
        model: RobotModel,
        frame: str,
        joints: Sequence[str] | None = None,
        length: float = 0.3,
        base: Pose | None = None,
        tool: Pose | None = None,
    ) -> None:
        if not (np.isfinite(length) and length > 0.0):
            raise ValueError(f"length is a positive distance [m], found {length}")
        self.model, self.frame, self.length = model, frame, length
        self.joints = tuple(model.joint_names if joints is None else joints)
        self.base, self.tool = base or HERE, tool or HERE
        arm = arm_equations(model, frame, self.joints, length, self.base, self.tool)
        links = {link.joint: link for link in model.links if not link.follows}
        places = [links[name].q_index for name in self.joints]
        self.lower, self.upper = np.asarray(model.q_lower, float)[places], np.asarray(model.q_upper, float)[places]
        self.speed = np.asarray(model.v_limit, float)[[links[name].v_index for name in self.joints]]
        self.home = np.asarray(model.q_home, float)[places]
        middle = 0.5 * (self.lower + self.upper)
        self.neutral = np.where(np.isfinite(middle), middle, 0.0)
        self.equations = arm
        numbers = ca.vertcat(arm.manipulability, arm.gradient, arm.position, ca.vec(arm.rotation.T), ca.vec(arm.J.T))
        self._posture = OneCall("refit_arm_posture", ca.Function("posture", [arm.q], [numbers]))
        self._measure = OneCall("refit_arm_measure", ca.Function("measure", [arm.q], [arm.manipulability]))

    def at(self, q: np.ndarray) -> Posture:
        """The arm at joint positions q (n,) [rad]."""
        n, numbers = len(self.joints), self._posture(np.ascontiguousarray(q, float))
        pose, J = numbers[1 + n : 13 + n], numbers[13 + n :].reshape(6, n)
        return Posture(pose[:3], pose[3:].reshape(3, 3), J, float(numbers[0]), numbers[1 : 1 + n])

    def manipulability(self, q: np.ndarray) -> float:
        """That of joint positions q (n,) [rad] alone."""
        return float(self._measure(np.ascontiguousarray(q, float))[0])


def pose_error(target: Pose, pose: Pose) -> np.ndarray:
    """What takes a pose to its target: (6,) [m, rad], the rotation as a vector in the axes in which both are told."""
    turn = rotation_vector(target.rotation @ pose.rotation.T)
    return np.r_[target.position - pose.position, turn]
