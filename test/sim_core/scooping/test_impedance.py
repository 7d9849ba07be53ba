"""Cartesian impedance in MuJoCo: its stiffness by static deflection, its damping by letting go, its law at the cycle."""

import mujoco
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.scooping.arm.impedance import IMPEDANCE, CartesianImpedance, Impedance
from sim_core.scooping.arm.primitive import blade_rotation
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_joints import greatest_torques
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

PERIOD = 0.008
STILL = np.zeros(6)
PLACES = [
    Pose(np.array([0.55, 0.1, 0.15]), blade_rotation(np.pi / 2, np.deg2rad(135.0))),
    Pose(np.array([0.62, -0.15, 0.20]), blade_rotation(-np.pi, np.deg2rad(190.0))),
]


class Arm:
    """The robot in MuJoCo, led to a target by the law 125 times a second, and pushed at its blade."""

    def __init__(self):
        self.model = load_model("ur5e_scoop")
        self.kinematics = ArmKinematics(self.model, "blade")
        self.control = CartesianImpedance(self.model, self.kinematics, greatest_torques(self.model))
        self.mj = self.model.mj_model
        self.data = mujoco.MjData(self.mj)
        self.site, self.body = self.mj.site("blade").id, self.mj.body("scoop").id

    def put(self, target):
        ik, q = (
            QpIk(self.kinematics, pull=0.0, damping=1e-3, period=np.inf),
            np.array([0.0, -1.4, 1.6, -1.6, -1.6, 0.0]),
        )
        for _ in range(300):
            q = ik.step(target, q, q)
        assert np.abs(pose_error(target, self.kinematics.at(q).pose)).max() < 1e-6
        self.data.qpos[:], self.data.qvel[:] = q, 0.0

    def follow(self, target, impedance, duration, wrench=STILL):
        """Off the target (cycles, 6), pushed by a force and a torque on the blade in the world's axes, until it is still."""
        off = []
        for _ in range(round(duration / PERIOD)):
            if len(off) > 50 and np.ptp(off[-25:], axis=0).max() < 5e-5:
                break
            motion = self.control.motion(target, self.data.qpos.copy(), self.data.qvel.copy(), impedance)
            begin = self.data.time
            for _ in range(round(PERIOD / self.mj.opt.timestep)):
                mujoco.mj_kinematics(self.mj, self.data)
                mujoco.mj_comPos(self.mj, self.data)
                arm = self.data.site_xpos[self.site] - self.data.xipos[self.body]
                self.data.xfrc_applied[self.body] = [*wrench[:3], *(wrench[3:] + np.cross(arm, wrench[:3]))]
                q = self.data.qpos - motion.velocity * (self.data.time - begin)
                self.data.ctrl[:] = motion.torque(q, self.data.qvel)
                mujoco.mj_step(self.mj, self.data)
            off.append(-pose_error(target, self.kinematics.at(self.data.qpos).pose))
        return np.array(off)


@pytest.fixture(scope="module")
def arm():
    return Arm()


@pytest.mark.parametrize(
    "kind, linear, angular, place, directions",
    [
        ("soft", 250.0, 6.0, PLACES[0], range(6)),
        ("hard", 750.0, 20.0, PLACES[0], range(6)),
        ("hard", 750.0, 20.0, PLACES[1], (2, 3)),
    ],
    ids=["soft", "hard", "far, turned"],
)
def test_a_static_force_deflects_it_by_its_stiffness(arm, kind, linear, angular, place, directions):
    """Within 5 %, in each direction, and nothing across; a force of 5 N and a torque of 0.3 N m."""
    for k in directions:
        wrench = np.zeros(6)
        wrench[k] = 5.0 if k < 3 else 0.3
        arm.put(place)
        off = arm.follow(place, IMPEDANCE[kind], 10.0, wrench)
        stiffness = linear if k < 3 else angular
        assert wrench[k] / off[-1][k] == pytest.approx(stiffness, rel=0.05)
        across = np.delete(off[-1] * np.r_[np.full(3, linear), np.full(3, angular * 5.0)], k)
        assert np.abs(across).max() < 0.05 * 5.0


def test_without_a_force_it_stays_where_it_was_told_to(arm):
    """Gravity, its scoop's too, is borne by the model and not by the spring."""
    arm.put(PLACES[0])
    assert np.abs(arm.follow(PLACES[0], IMPEDANCE["soft"], 1.0)).max() < 1e-6


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_let_go_it_comes_back_and_hardly_passes_its_target(arm, kind):
    """Along, and about the blade's left, from 3 cm or 0.2 rad away: overshoot of a damping ratio of 0.7 is 5 %, of 0.4 it is 25 %."""
    for k in (0, 4):
        away = np.zeros(6)
        away[k] = 0.03 if k < 3 else 0.2
        axis = np.eye(3)[k % 3]
        R = PLACES[0].rotation
        c, s = np.cos(away[k]), np.sin(away[k])
        cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        turn = np.eye(3) + s * cross + (1 - c) * cross @ cross if k >= 3 else np.eye(3)
        arm.put(Pose(PLACES[0].position + away[:3], turn @ R))
        off = arm.follow(PLACES[0], IMPEDANCE[kind], 6.0) / away[k]
        assert off[0, k] > 0.8 and abs(off[-1, k]) < 0.01 and np.abs(off[-1]).max() < 0.05
        assert off[:, k].min() > -0.15


def test_its_damping_is_the_ratio_of_every_direction(arm):
    """With a root B of K and the inertia L: where both commute, D is 2 zeta sqrt(L K), and it is always positive."""
    control, q = arm.control, np.array([0.1, -1.2, 1.9, -2.2, -1.7, 0.3])
    D = control.damping(q, Impedance(100.0, 100.0, ratio=0.5))
    J = arm.kinematics.at(q).J
    mobility = J @ np.linalg.solve(control.inertia(q), J.T) + np.diag(np.r_[np.full(3, 1 / 500), np.full(3, 1 / 20)])
    assert np.allclose(D @ mobility @ D, 100.0 * np.eye(6), atol=1e-6)  # K isotropic: D = sqrt(L K)
    assert np.linalg.eigvalsh(control.damping(q, IMPEDANCE["hard"])).min() > 0.0


def test_the_joint_inertia_is_mujocos(arm):
    q = np.array([0.4, -1.0, 1.5, -2.0, -1.4, 0.9])
    data, full = mujoco.MjData(arm.mj), np.zeros((6, 6))
    data.qpos[:] = q
    mujoco.mj_forward(arm.mj, data)
    mujoco.mj_fullM(arm.mj, full, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(arm.mj, data, full)
    assert np.allclose(arm.control.inertia(q), full, atol=1e-8)


def test_no_joint_is_asked_for_more_than_it_has(arm):
    q = np.array([0.1, -1.2, 1.9, -2.2, -1.7, 0.3])
    far = Pose(arm.kinematics.at(q).position + [0.0, 0.0, 3.0], arm.kinematics.at(q).rotation)
    motion = arm.control.motion(far, q, STILL, IMPEDANCE["hard"])
    effort = greatest_torques(arm.model)
    assert (np.abs(motion.effort) <= effort).all() and (np.abs(motion.effort) == effort).any()


@pytest.mark.parametrize("wrong", [dict(linear=0.0), dict(angular=-1.0), dict(ratio=np.nan)])
def test_what_is_no_spring_is_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected a positive number"):
        Impedance(**{"linear": 250.0, "angular": 6.0, **wrong})
