"""Inverse kinematics of the Panda: derivatives, limits, singularities, and that targets are followed."""

import casadi as ca
import mujoco
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from config.description import Track
from config.robot import load_robot
from sim_core.multibody import load_model
from sim_core.telepresence.arm_equations import OneCall, pose_difference, pose_symbols
from sim_core.telepresence.arm_ik import PERIOD, QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose

FRAME = load_robot("panda").task_as(Track).frame


@pytest.fixture(scope="module")
def arm():
    return ArmKinematics(load_model("panda"), FRAME)


def postures(arm, count, seed=0):
    m, rng = arm.model, np.random.default_rng(seed)
    return rng.uniform(m.q_lower, m.q_upper, (count, m.nq))


def test_pose_and_jacobian_are_mujocos(arm):
    m = arm.model.mj_model
    data, site = mujoco.MjData(m), m.site(FRAME).id
    for q in postures(arm, 20):
        data.qpos[:] = q
        mujoco.mj_kinematics(m, data)
        mujoco.mj_comPos(m, data)
        linear, angular = np.zeros((3, m.nv)), np.zeros((3, m.nv))
        mujoco.mj_jacSite(m, data, linear, angular, site)
        now = arm.at(q)
        np.testing.assert_allclose(now.pose.position, data.site_xpos[site], atol=1e-10)
        np.testing.assert_allclose(now.pose.rotation, data.site_xmat[site].reshape(3, 3), atol=1e-10)
        np.testing.assert_allclose(now.J, np.vstack([linear, angular]), atol=1e-10)


def test_the_gradient_of_the_manipulability_is_that_of_central_differences(arm):
    for q in postures(arm, 20, seed=1):
        now, h = arm.at(q), 1e-6
        numeric = [
            (arm.at(q + h * e).manipulability - arm.at(q - h * e).manipulability) / (2 * h) for e in np.eye(len(q))
        ]
        np.testing.assert_allclose(now.gradient, numeric, atol=1e-5)
        S = np.vstack([now.J[:3] / arm.length, now.J[3:]])
        assert now.manipulability == pytest.approx(np.prod(np.linalg.svd(S, compute_uv=False)), rel=1e-9)


def test_the_error_takes_a_pose_to_its_target():
    rng = np.random.default_rng(2)
    a, b = (Pose(rng.normal(size=3), Rotation.random(rng=rng).as_matrix()) for _ in range(2))
    e = pose_error(b, a)
    np.testing.assert_allclose(a.position + e[:3], b.position)
    np.testing.assert_allclose(Rotation.from_rotvec(e[3:]).as_matrix() @ a.rotation, b.rotation, atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 1.0, 3.0, np.pi - 1e-4, np.pi - 1e-9, np.pi])
def test_the_symbolic_error_is_that_of_rotation_vectors(angle):
    numbers, (target, now) = zip(*(pose_symbols(name) for name in ("target", "now")))
    error = OneCall(
        "refit_pose_difference", ca.Function("error", [ca.vertcat(*numbers)], [pose_difference(target, now)])
    )
    rng = np.random.default_rng(7)
    for k in range(12):
        axis = rng.normal(size=3) if k else np.array([0.0, 0.0, 1.0])
        axis /= np.linalg.norm(axis)
        b = Pose(rng.normal(size=3), Rotation.random(rng=rng).as_matrix())
        a = Pose(rng.normal(size=3), Rotation.from_rotvec(angle * axis).as_matrix() @ b.rotation)
        found = error(np.concatenate([a.position, a.rotation.ravel(), b.position, b.rotation.ravel()]))
        np.testing.assert_allclose(found[:3], a.position - b.position, atol=1e-14)
        # of a half turn both signs are right
        turned = found[3:] if angle < 3.1 else found[3:] * np.sign(found[3:] @ axis)
        np.testing.assert_allclose(turned, angle * axis, atol=1e-7)


def test_a_mounted_arm_with_a_tool_is_the_arm_in_other_axes(arm):
    rng = np.random.default_rng(8)
    base, tool = (Pose(rng.normal(size=3), Rotation.random(rng=rng).as_matrix()) for _ in range(2))
    mounted = ArmKinematics(arm.model, FRAME, base=base, tool=tool)
    for q in postures(arm, 5, seed=8):
        inner, outer, h = arm.at(q), mounted.at(q), 1e-6
        rotation = base.rotation @ inner.rotation
        position = base.position + base.rotation @ (inner.position + inner.rotation @ tool.position)
        np.testing.assert_allclose(outer.position, position, atol=1e-12)
        np.testing.assert_allclose(outer.rotation, rotation @ tool.rotation, atol=1e-12)
        for k, e in enumerate(h * np.eye(len(q))):
            rise = pose_error(mounted.at(q + e).pose, mounted.at(q - e).pose) / (2 * h)
            np.testing.assert_allclose(outer.J[:, k], rise, atol=1e-7)
        # neither where an arm stands nor what it holds brings it nearer to a singularity
        assert outer.manipulability == pytest.approx(inner.manipulability, rel=1e-9)
        assert mounted.manipulability(q) == pytest.approx(outer.manipulability, rel=1e-12)


def test_joints_that_are_not_the_arms_stay_at_home(arm):
    few = ArmKinematics(arm.model, FRAME, joints=arm.joints[2:])
    assert few.lower.tolist() == arm.lower[2:].tolist() and few.speed.tolist() == arm.speed[2:].tolist()
    for q in postures(arm, 3, seed=9):
        whole = np.r_[arm.home[:2], q[2:]]
        np.testing.assert_allclose(few.at(q[2:]).position, arm.at(whole).position, atol=1e-12)
        np.testing.assert_allclose(few.at(q[2:]).J, arm.at(whole).J[:, 2:], atol=1e-12)


def test_a_joint_or_a_length_that_cannot_be_is_refused(arm):
    with pytest.raises(ValueError, match="found 'elbow'; its joints are joint1"):
        ArmKinematics(arm.model, FRAME, joints=("joint1", "elbow"))
    with pytest.raises(ValueError, match="length"):
        ArmKinematics(arm.model, FRAME, length=0.0)


def test_a_step_of_qp_is_the_minimum(arm):
    rng = np.random.default_rng(3)
    ik = QpIk(arm, reach=(np.inf, np.inf), period=np.inf)
    for q in postures(arm, 8, seed=3):
        now = arm.at(q)
        target = Pose(
            now.pose.position + rng.normal(0, 0.05, 3),
            Rotation.from_rotvec(rng.normal(0, 0.2, 3)).as_matrix() @ now.pose.rotation,
        )
        error = pose_error(target, now.pose)

        def cost(d, J=now.J, error=error, q=q):
            return np.sum((error - J @ d) ** 2) + 0.02 * d @ d + 0.0005 * np.sum((q + d - ik.neutral) ** 2)

        known = minimize(cost, np.zeros(len(q)), bounds=list(zip(ik.lower - q, ik.upper - q)), tol=1e-14)
        mine = ik.step(target, q) - q
        assert cost(mine) <= known.fun + 1e-9


def test_a_target_within_reach_is_come_to(arm):
    rng, home = np.random.default_rng(4), arm.model.q_home
    start, ik = arm.at(home), QpIk(arm)
    for _ in range(5):
        target = Pose(
            start.pose.position + rng.uniform(-0.12, 0.12, 3),
            Rotation.from_rotvec(rng.uniform(-0.3, 0.3, 3)).as_matrix() @ start.pose.rotation,
        )
        q = home
        for _ in range(250):  # two seconds
            q = ik.step(target, q, home)
        error = pose_error(target, arm.at(q).pose)
        assert np.linalg.norm(error[:3]) < 0.005 and np.linalg.norm(error[3:]) < 0.02


def test_no_limit_is_passed_wherever_targets_jump(arm):
    rng, q, ik = np.random.default_rng(5), arm.model.q_home, QpIk(arm)
    for k in range(4000):
        if k % 40 == 0:
            target = Pose(rng.uniform(-1.2, 1.2, 3), Rotation.random(rng=rng).as_matrix())
        q = ik.step(target, q)
        assert (q >= ik.lower).all() and (q <= ik.upper).all() and np.isfinite(q).all()


def test_no_joint_is_told_to_be_faster_than_it_can(arm):
    rng, q, ik = np.random.default_rng(6), arm.home, QpIk(arm)
    fastest = 0.0
    for k in range(1000):
        if k % 40 == 0:
            target = Pose(rng.uniform(-0.8, 0.8, 3), Rotation.random(rng=rng).as_matrix())
        before, q = q, ik.step(target, q)
        fastest = max(fastest, float((np.abs(q - before) / (arm.speed * PERIOD)).max()))
    assert fastest == pytest.approx(1.0)


def test_joints_that_are_beyond_a_limit_come_back(arm):
    q = arm.home.copy()
    q[1] = arm.upper[1] + 0.5
    found = QpIk(arm).step(arm.at(arm.home).pose, q)
    assert (found <= arm.upper).all() and (found >= arm.lower).all()
