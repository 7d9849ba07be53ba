"""What a walking controller knows of its robot: the trunk as one rigid body, and four legs.

    robot = QuadrupedRobot.load("quadruped")
    foot = robot.feet(q)                    # in the trunk's frame, (4, 3)
    q = robot.joint_angles(foot)            # knees bent backwards
    J = robot.jacobians(q)                  # d foot_i / d q_i, (4, 3, 3)

Legs are FL, FR, RL, RR; each has a hip (abduction, about x), a thigh and a calf joint (about y), and at zero hangs
straight down.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from config.robot import robot_file

__all__ = ["LEGS", "QuadrupedRobot", "rotation_from_quaternion", "rotation_rpy", "skew", "times"]

LEGS = ("FL", "FR", "RL", "RR")
_JOINTS = ("hip", "thigh", "calf")


@dataclass(frozen=True)
class QuadrupedRobot:
    """Constants of a robot, in its trunk's frame (x forward, y left, z up, origin between the hips).

    Attributes:
        joints: names, leg by leg, 12.
        mass: of the whole robot [kg].
        com: its centre of mass at the home posture, (3,) [m].
        inertia: of the whole robot at the home posture about that point, (3, 3) [kg m^2].
        gravity: magnitude [m/s^2].
        hips: hip joints, (4, 3) [m].
        abduction: from the hip's axis to the leg's plane, along y, (4,) [m].
        thigh, calf: lengths [m].
        foot_radius: the point that the kinematics follow lies this high above the ground [m].
        home: joint angles of the home posture, (4, 3) [rad].
        effort_limit: (12,) [N m].
        link_mass: of hips, thighs and calves, (4, 3) [kg]. link_com: their centres in their own frames, (4, 3, 3) [m].
        link_inertia: about those centres in those frames, (4, 3, 3, 3) [kg m^2]. armature: of the rotors, (4, 3) [kg m^2].
    """

    joints: tuple[str, ...]
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    gravity: float
    hips: np.ndarray
    abduction: np.ndarray
    thigh: float
    calf: float
    foot_radius: float
    home: np.ndarray
    effort_limit: np.ndarray
    link_mass: np.ndarray
    link_com: np.ndarray
    link_inertia: np.ndarray
    armature: np.ndarray

    @classmethod
    def load(cls, robot: str = "quadruped") -> QuadrupedRobot:
        """The constants of a robot in config/robots, or of the MJCF file at a path.

        Raises:
            ValueError: it is no quadruped with these legs; the text names what is missing.
        """
        path = robot if robot.endswith(".xml") else str(robot_file(robot))
        model = mujoco.MjModel.from_xml_path(path)
        names = [f"{leg}_{joint}" for leg in LEGS for joint in _JOINTS]
        missing = [
            name
            for name in names
            if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) < 0
            or mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name) < 0
        ]
        if missing or not model.nkey:
            raise ValueError(
                f"'{robot}' is no quadruped: expected a home keyframe and actuated joints {names[0]}, {names[1]}, "
                f"..., found no {', '.join(missing) or 'keyframe'}."
            )
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        mujoco.mj_forward(model, data)
        joint = [model.joint(name) for name in names]
        trunk = int(model.body_parentid[model.jnt_bodyid[joint[0].id]])
        mass, com, inertia = _composite(model, data, trunk)
        feet = [model.geom(f"{leg}_foot") for leg in LEGS]
        links = model.jnt_bodyid[[j.id for j in joint]]
        body = model.body_pos[links].reshape(4, 3, 3)
        axes = [rotation_from_quaternion(quat) for quat in model.body_iquat[links]]  # principal ones
        return cls(
            joints=tuple(names),
            mass=mass,
            com=com,
            inertia=inertia,
            gravity=-float(model.opt.gravity[2]),
            hips=body[:, 0],
            abduction=body[:, 1, 1],
            thigh=-float(body[0, 2, 2]),
            calf=-float(feet[0].pos[2]),
            foot_radius=float(feet[0].size[0]),
            home=data.qpos[[j.qposadr[0] for j in joint]].reshape(4, 3),
            effort_limit=np.array([model.actuator(name).ctrlrange[1] for name in names]),
            link_mass=model.body_mass[links].reshape(4, 3),
            link_com=model.body_ipos[links].reshape(4, 3, 3),
            link_inertia=np.array([R @ np.diag(model.body_inertia[b]) @ R.T for R, b in zip(axes, links)]).reshape(
                4, 3, 3, 3
            ),
            armature=model.dof_armature[[j.dofadr[0] for j in joint]].reshape(4, 3),
        )

    def feet(self, q: np.ndarray) -> np.ndarray:
        """Feet in the trunk's frame, (4, 3) [m], from joint angles (4, 3) [rad]."""
        a, b, c = q.T
        x = -self.thigh * np.sin(b) - self.calf * np.sin(b + c)
        down = self.thigh * np.cos(b) + self.calf * np.cos(b + c)  # within the leg's plane
        sin, cos, y = np.sin(a), np.cos(a), self.abduction
        return self.hips + np.stack([x, cos * y + sin * down, sin * y - cos * down], 1)

    def jacobians(self, q: np.ndarray) -> np.ndarray:
        """d foot / d q of each leg in the trunk's frame, (4, 3, 3), from joint angles (4, 3)."""
        a, b, c = q.T
        sin, cos, y = np.sin(a), np.cos(a), self.abduction
        down = self.thigh * np.cos(b) + self.calf * np.cos(b + c)
        x_b, x_c = -down, -self.calf * np.cos(b + c)
        down_c = -self.calf * np.sin(b + c)
        down_b = -self.thigh * np.sin(b) + down_c
        J = np.zeros((4, 3, 3))
        J[:, 1, 0], J[:, 2, 0] = cos * down - sin * y, sin * down + cos * y
        for k, (x_k, down_k) in enumerate(((x_b, down_b), (x_c, down_c)), 1):
            J[:, 0, k], J[:, 1, k], J[:, 2, k] = x_k, sin * down_k, -cos * down_k
        return J

    def rolling(self, q: np.ndarray, up: np.ndarray) -> np.ndarray:
        """How fast the feet's centres go over the ground per joint rate while the feet roll on it, (4, 3, 3) [m/rad].

        A sphere that rolls about w without slipping moves by w x (radius up). `up`: vertical in the trunk's frame,
        (3,).
        """
        axes = self._axes(q)
        return np.cross(axes, self.foot_radius * up).transpose(0, 2, 1)

    def leg_torques(self, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, up: np.ndarray) -> np.ndarray:
        """Joint torques (4, 3) [N m] under which the legs move so, (4, 3) each, on a trunk that goes straight ahead.

        Newton and Euler link by link, in the trunk's frame, rotors included; at rest it is what holds the legs' own
        weight. `up` as in `rolling`.
        """
        R_x, R_y = _rotations_x(q[:, 0]), _rotations_y(np.stack([0.0 * q[:, 0], q[:, 1], q[:, 1] + q[:, 2]], 1))
        R = R_x[:, None] @ R_y  # of hip, thigh and calf, (4, 3, 3, 3)
        axes = self._axes(q)
        offset = np.zeros((4, 3, 3))  # to the next link's origin
        offset[:, 0] = self.abduction[:, None] * R_x[:, :, 1]
        offset[:, 1] = -self.thigh * R[:, 1, :, 2]
        origin = self.hips[:, None] + np.cumsum(offset, 1) - offset
        arm = times(R, self.link_com)
        inertia = R @ self.link_inertia @ R.swapaxes(-1, -2)
        w = np.cumsum(axes * qd[..., None], 1)
        # The joints before turn an axis: joint 0's is fixed, the other two are parallel, so only joint 0 turns them.
        turned = axes * qdd[..., None]
        turned[:, 1:] += _cross(w[:, :1], axes[:, 1:] * qd[:, 1:, None])
        dw = np.cumsum(turned, 1)
        w_x = skew(w)
        accelerated = skew(dw) + w_x @ w_x  # times r: dw x r + w x (w x r)
        step = times(accelerated, offset)
        f = self.link_mass[..., None] * (self.gravity * up + np.cumsum(step, 1) - step + times(accelerated, arm))
        n = times(inertia, dw) + times(w_x @ inertia, w) + _cross(origin + arm, f)
        f, n = (x[:, ::-1].cumsum(1)[:, ::-1] for x in (f, n))  # of the link and all after it
        return ((n - _cross(origin, f)) * axes).sum(-1) + self.armature * qdd

    def _axes(self, q: np.ndarray) -> np.ndarray:
        """Joint axes in the trunk's frame, (4, 3, 3), one row per joint."""
        axes = np.zeros((4, 3, 3))
        axes[:, 0, 0] = 1.0
        axes[:, 1:, 1], axes[:, 1:, 2] = np.cos(q[:, :1]), np.sin(q[:, :1])
        return axes

    def joint_angles(self, feet: np.ndarray) -> np.ndarray:
        """Joint angles (4, 3) [rad] that put the feet there (4, 3) [m, trunk's frame], legs hanging, knees bent backwards.

        Where a foot is out of reach, its leg stretches (or folds) towards it.
        """
        x, y, z = (feet - self.hips).T
        # About the hip's axis: the foot's distance from it, less the offset, is how far the leg's plane reaches down.
        down = np.sqrt(np.maximum(y * y + z * z - self.abduction**2, 1e-12))
        a = np.arctan2(z, y) - np.arctan2(-down, self.abduction)
        a = (a + np.pi) % (2 * np.pi) - np.pi
        reach2 = x * x + down * down
        c = -np.arccos(np.clip((reach2 - self.thigh**2 - self.calf**2) / (2 * self.thigh * self.calf), -1.0, 1.0))
        b = np.arctan2(-x, down) - np.arctan2(self.calf * np.sin(c), self.thigh + self.calf * np.cos(c))
        return np.stack([a, b, c], 1)


def _composite(model: mujoco.MjModel, data: mujoco.MjData, root: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre and inertia about it of all bodies from `root` on as one rigid body, in its frame."""
    bodies = [b for b in range(model.nbody) if model.body_rootid[b] == root]
    mass = model.body_mass[bodies]
    com_W = mass @ data.xipos[bodies] / mass.sum()
    inertia_W = np.zeros((3, 3))
    for b in bodies:
        R, r = data.ximat[b].reshape(3, 3), data.xipos[b] - com_W
        inertia_W += R @ np.diag(model.body_inertia[b]) @ R.T + model.body_mass[b] * (
            r @ r * np.eye(3) - np.outer(r, r)
        )
    R_WB = data.xmat[root].reshape(3, 3)
    return float(mass.sum()), R_WB.T @ (com_W - data.xpos[root]), R_WB.T @ inertia_W @ R_WB


def _rotations_x(angle: np.ndarray) -> np.ndarray:
    """R_x of each angle, (..., 3, 3)."""
    R = np.zeros((*angle.shape, 3, 3))
    R[..., 0, 0], R[..., 1, 1], R[..., 2, 1] = 1.0, np.cos(angle), np.sin(angle)
    R[..., 1, 2], R[..., 2, 2] = -R[..., 2, 1], R[..., 1, 1]
    return R


def _rotations_y(angle: np.ndarray) -> np.ndarray:
    """R_y of each angle, (..., 3, 3)."""
    R = np.zeros((*angle.shape, 3, 3))
    R[..., 1, 1], R[..., 0, 0], R[..., 0, 2] = 1.0, np.cos(angle), np.sin(angle)
    R[..., 2, 0], R[..., 2, 2] = -R[..., 0, 2], R[..., 0, 0]
    return R


def times(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A x for each of the leading axes: (..., 3, 3) times (..., 3)."""
    return (A @ x[..., None])[..., 0]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x b along the last axis; np.cross takes three times as long on arrays of this size."""
    return a[..., [1, 2, 0]] * b[..., [2, 0, 1]] - a[..., [2, 0, 1]] * b[..., [1, 2, 0]]


def skew(r: np.ndarray) -> np.ndarray:
    """[r]x, (..., 3, 3), so that [r]x f = r x f; r is (..., 3)."""
    S = np.zeros((*r.shape, 3))
    S[..., 0, 1], S[..., 0, 2], S[..., 1, 2] = -r[..., 2], r[..., 1], -r[..., 0]
    S[..., 1, 0], S[..., 2, 0], S[..., 2, 1] = r[..., 2], -r[..., 1], r[..., 0]
    return S


def rotation_rpy(roll: float, pitch: float, yaw: float = 0.0) -> np.ndarray:
    """R_z(yaw) R_y(pitch) R_x(roll), (3, 3)."""
    (sr, sp, sy), (cr, cp, cy) = np.sin((roll, pitch, yaw)), np.cos((roll, pitch, yaw))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def rotation_from_quaternion(q: np.ndarray) -> np.ndarray:
    """Rotation matrix (3, 3) of a quaternion wxyz (4,), normalised here.

    This one and `rotation_rpy` are written out because the control loop calls them several times a cycle: 15 and 23 us
    here, 67 and 74 us by scipy's Rotation.
    """
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
