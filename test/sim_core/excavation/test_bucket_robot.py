"""The robot that digs: its bucket is the bucket, its places are where its task says, and it reaches the paths as docs/robots.md says."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from config.robot import load_robot
from sim_core.excavation.arm_spring import SEVEN_JOINTS, ArmSpring
from sim_core.excavation.bucket import Bucket
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path
from sim_core.multibody import load_model
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

ROBOT = "panda_bucket"
TASK = load_robot(ROBOT).task


@pytest.fixture(scope="module")
def model():
    return load_model(ROBOT)


@pytest.fixture(scope="module")
def arm(model):
    return ArmKinematics(model, TASK.frame)


def put(arm, pose, q, rest):
    """Joint positions that bring the bucket to a pose (4,) of the pile's frame, near those of rest in the direction that is free."""
    target = Pose(np.array(TASK.pile) + pose[:3], Rotation.from_rotvec([0.0, pose[3], 0.0]).as_matrix())
    ik = QpIk(arm, damping=1e-4, pull=1e-5, period=np.inf)
    for _ in range(8):
        q = ik.step(target, q, rest)
    assert np.linalg.norm(pose_error(target, arm.at(q).pose)) < 1e-3
    return q


@pytest.fixture(scope="module")
def working(arm):
    """0.08 m below the surface."""
    rest = np.array([0.0, 0.24, 0.0, -2.14, 0.0, 2.18, 0.785])
    return put(arm, np.array([0.52, 0.0, -0.08, 0.0]), rest, rest)


def test_its_places_are_those_of_its_task(model):
    mj = model.mj_model
    data = mujoco.MjData(mj)
    mujoco.mj_forward(mj, data)
    assert np.allclose(data.site("pile").xpos, TASK.pile) and np.allclose(data.site("pile").xmat, np.eye(3).ravel())
    over = np.array(TASK.bin) - data.site("bin").xpos
    assert np.allclose(over[:2], 0.0) and over[2] > 0.3


def test_its_bucket_is_the_bucket(model):
    """Points of the one lie in or on the boxes of the other; its mass is that of its boxes in aluminium, and so is its centre."""
    mj, shape = model.mj_model, Bucket()
    site = mj.site("bucket")
    to_site = Rotation.from_quat(np.roll(site.quat, -1)).as_matrix()
    body = mj.body("bucket_link").id
    geoms = [g for g in range(mj.ngeom) if mj.geom_bodyid[g] == body]
    points = shape.surface(0.01) @ to_site.T + site.pos
    out = np.full(len(points), np.inf)
    mass, centre = 0.0, np.zeros(3)
    for g in geoms:
        turn = Rotation.from_quat(np.roll(mj.geom_quat[g], -1)).as_matrix()
        local = (points - mj.geom_pos[g]) @ turn
        out = np.minimum(out, (np.abs(local) - mj.geom_size[g]).max(axis=1))
        own = 2700.0 * 8.0 * np.prod(mj.geom_size[g])
        mass, centre = mass + own, centre + own * mj.geom_pos[g]
    assert out.max() < 1e-5
    assert mj.body_mass[body] == pytest.approx(mass, rel=1e-3)
    assert np.allclose(mj.body_ipos[body], centre / mass, atol=1e-4)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("aside", [0.0, 0.05])
def test_it_reaches_the_path_and_what_is_over_it_away_from_its_limits(arm, working, depth, aside):
    q, least = working, np.inf
    for pose in make_reference_path(PathSettings(depth=DEPTHS[depth])).poses[::8]:
        for up in (0.0, 0.15):
            there = put(arm, pose + [0.0, aside, up, 0.0], q, working)
            least = min(least, (there - arm.lower).min(), (arm.upper - there).min())
            q = there if up == 0.0 else q
    assert least > 0.2


def test_it_holds_the_bucket_nearly_as_the_arm_that_the_networks_learnt_with(arm, model, working):
    mj = model.mj_model
    data = mujoco.MjData(mj)
    data.qpos[:] = working
    mujoco.mj_forward(mj, data)
    M = np.zeros((7, 7))
    mujoco.mj_fullM(mj, data, M)
    stiffness = np.diag(ArmSpring.of(arm.at(working).J, M).K)
    assert np.allclose(stiffness, [2203.0, 170.0, 837.0, 305.0], rtol=0.01)
    assert np.allclose(stiffness, np.diag(SEVEN_JOINTS.K), rtol=0.25)
