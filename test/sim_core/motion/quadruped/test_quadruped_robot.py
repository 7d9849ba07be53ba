"""Legs against MuJoCo, and the whole robot against the maker's description in Pinocchio."""

import mujoco
import numpy as np
import pytest

from config.robot import robot_file
from sim_core.motion.quadruped.robot import LEGS, QuadrupedRobot, rotation_from_quaternion, rotation_rpy, skew


@pytest.fixture(scope="module")
def robot():
    return QuadrupedRobot.load("quadruped")


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_path(str(robot_file("quadruped")))


def postures(robot, model, count=20):
    """Random joint angles and trunk orientations; MuJoCo's data at each."""
    rng, data = np.random.default_rng(3), mujoco.MjData(model)
    for _ in range(count):
        q = robot.home + rng.uniform(-0.5, 0.5, (4, 3))
        data.qpos[:3], data.qpos[3:7] = rng.normal(size=3), rng.normal(size=4)
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        data.qpos[7:], data.qvel[:] = q.ravel(), 0
        mujoco.mj_forward(model, data)
        yield q, rotation_from_quaternion(data.qpos[3:7]), data


def test_feet_jacobians_rolling_and_weight_equal_mujocos(robot, model):
    for q, R, data in postures(robot, model):
        np.testing.assert_allclose(R, data.body("trunk").xmat.reshape(3, 3), atol=1e-12)
        feet, J = robot.feet(q), robot.jacobians(q)
        contact = J - robot.rolling(q, R[2])  # of the material point that touches the ground
        for i, leg in enumerate(LEGS):
            foot, columns = data.geom(f"{leg}_foot"), slice(6 + 3 * i, 9 + 3 * i)
            np.testing.assert_allclose(R @ feet[i], foot.xpos - data.qpos[:3], atol=1e-12)
            jac = np.zeros((3, model.nv))
            body = int(model.geom(f"{leg}_foot").bodyid[0])
            mujoco.mj_jac(model, data, jac, None, foot.xpos, body)
            np.testing.assert_allclose(R @ J[i], jac[:, columns], atol=1e-12)
            mujoco.mj_jac(model, data, jac, None, foot.xpos - [0, 0, robot.foot_radius], body)
            np.testing.assert_allclose(R @ contact[i], jac[:, columns], atol=1e-12)
        rest = np.zeros((4, 3))
        np.testing.assert_allclose(robot.leg_torques(q, rest, rest, R[2]).ravel(), data.qfrc_bias[6:], atol=1e-10)


def test_torques_of_moving_legs_equal_mujocos_inverse_dynamics(robot, model):
    rng = np.random.default_rng(8)
    for q, R, data in postures(robot, model):
        rate, change = rng.normal(0, 5, (4, 3)), rng.normal(0, 60, (4, 3))
        data.qpos[2], data.qvel[:], data.qacc[:] = 5.0, 0, 0  # in the air, the trunk held
        data.qvel[6:], data.qacc[6:] = rate.ravel(), change.ravel()
        mujoco.mj_inverse(model, data)
        expected = (data.qfrc_inverse + data.qfrc_passive + data.qfrc_constraint)[6:]  # without friction in the joints
        np.testing.assert_allclose(robot.leg_torques(q, rate, change, R[2]).ravel(), expected, atol=1e-10)


def test_joint_angles_invert_the_feet_and_stretch_towards_what_is_out_of_reach(robot, model):
    for q, _, _ in postures(robot, model):
        np.testing.assert_allclose(robot.joint_angles(robot.feet(q)), q, atol=1e-9)
    far = robot.hips + np.stack([np.zeros(4), robot.abduction, np.full(4, -0.7)], 1)
    q = robot.joint_angles(far)
    np.testing.assert_allclose(q, 0, atol=1e-9)  # straight down
    assert np.isfinite(robot.joint_angles(robot.hips + 1e-9)).all()


def test_composite_body_has_mujocos_mass_centre_and_inertia(robot, model):
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert robot.mass == pytest.approx(mujoco.mj_getTotalmass(model), rel=1e-12)
    np.testing.assert_allclose(robot.com, data.subtree_com[1] - data.qpos[:3], atol=1e-12)
    # MuJoCo's joint-space inertia of the free joint, less armature, about the trunk's origin and moved to the centre.
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    S = skew(robot.com)
    np.testing.assert_allclose(robot.inertia, M[3:6, 3:6] + robot.mass * S @ S, atol=1e-10)


def test_it_is_the_published_robot():
    """Feet, masses and inertia as in the maker's description of the A1 (joints in another order there)."""
    pin = pytest.importorskip("pinocchio")
    from test.sim_core.multibody.articulated_models import example_urdf

    path = example_urdf("a1")
    if path is None:
        pytest.skip("example-robot-data is not installed: pip install example-robot-data")
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    data = model.createData()
    robot = QuadrupedRobot.load("quadruped")
    rng = np.random.default_rng(5)
    q = robot.home + rng.uniform(-0.4, 0.4, (4, 3))
    full = pin.neutral(model)
    for i, leg in enumerate(LEGS):
        for k, joint in enumerate(("hip", "thigh", "calf")):
            full[model.joints[model.getJointId(f"{leg}_{joint}_joint")].idx_q] = q[i, k]
    pin.framesForwardKinematics(model, data, full)
    feet = [data.oMf[model.getFrameId(f"{leg}_foot")].translation for leg in LEGS]
    np.testing.assert_allclose(robot.feet(q), feet, atol=1e-9)
    assert robot.mass == pytest.approx(pin.computeTotalMass(model), rel=1e-6)
    pin.computeGeneralizedGravity(model, data, full)
    ids = [model.getJointId(f"{leg}_{joint}_joint") for leg in LEGS for joint in ("hip", "thigh", "calf")]
    g = data.g[[model.joints[i].idx_v for i in ids]]
    np.testing.assert_allclose(
        robot.leg_torques(q, *np.zeros((2, 4, 3)), np.array([0.0, 0.0, 1.0])).ravel(), g, atol=2e-4
    )
    assert (robot.effort_limit == 33.5).all()


def test_rotations():
    R = rotation_rpy(0.1, -0.2, 0.3)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(rotation_rpy(0, 0, np.pi / 2) @ [1, 0, 0], [0, 1, 0], atol=1e-15)
    q = np.array([0.9, 0.1, -0.2, 0.3])
    expected = np.zeros(9)
    mujoco.mju_quat2Mat(expected, q / np.linalg.norm(q))
    np.testing.assert_allclose(rotation_from_quaternion(q).ravel(), expected, atol=1e-15)


def test_what_is_no_quadruped_says_so():
    with pytest.raises(ValueError, match="'panda' is no quadruped.*FL_hip"):
        QuadrupedRobot.load("panda")
