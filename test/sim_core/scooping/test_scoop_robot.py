"""The robot that scoops: its kinematics and dynamics are the published ones, and its scoop, tray and camera fit together."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.multibody import load_model
from sim_core.plant.rendered_camera import OPTICAL
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.telepresence.arm_kinematics import ArmKinematics

pytestmark = pytest.mark.pure

ROBOT = "ur5e_scoop"
#: d [m], a [m], alpha [rad]; mass [kg] and centre of mass in these axes [m], as the maker publishes them
DH = np.array(
    [
        [0.1625, 0.0, np.pi / 2],
        [0.0, -0.425, 0.0],
        [0.0, -0.3922, 0.0],
        [0.1333, 0.0, np.pi / 2],
        [0.0997, 0.0, -np.pi / 2],
        [0.0996, 0.0, 0.0],
    ]
)
MASS = [3.761, 8.058, 2.846, 1.37, 1.3, 0.365]
CENTRE = np.array(
    [
        [0.0, -0.02561, 0.00193],
        [0.2125, 0.0, 0.11336],
        [0.15, 0.0, 0.0265],
        [0.0, -0.0018, 0.01634],
        [0.0, 0.0018, 0.01634],
        [0.0, 0.0, -0.001159],
    ]
)


def frames(q):
    """Poses (6, 4, 4) of the frames of Denavit and Hartenberg over the base."""
    T, found = np.eye(4), []
    for angle, (d, a, alpha) in zip(q, DH):
        about_z, about_x = Rotation.from_euler("z", angle).as_matrix(), Rotation.from_euler("x", alpha).as_matrix()
        step = np.eye(4)
        step[:3, :3], step[:3, 3] = about_z @ about_x, about_z @ [a, 0.0, 0.0] + [0.0, 0.0, d]
        T = T @ step
        found.append(T)
    return np.array(found)


@pytest.fixture(scope="module")
def robot():
    return load_model(ROBOT)


def base(model):
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = np.diag([-1.0, -1.0, 1.0]), model.mj_model.body("base").pos
    return T


@pytest.mark.parametrize("seed", range(4))
def test_its_flange_is_where_denavit_and_hartenberg_put_it(robot, seed):
    q = np.random.default_rng(seed).uniform(-np.pi, np.pi, 6)
    pose, T = ArmKinematics(robot, "flange").at(q), base(robot) @ frames(q)[-1]
    assert np.allclose(pose.position, T[:3, 3]) and np.allclose(pose.rotation, T[:3, :3])


@pytest.mark.parametrize("seed", range(4))
def test_gravity_in_its_joints_is_that_of_the_published_masses(robot, seed):
    """Torques that hold it still, from the potential energy of the published points of mass by central differences."""
    mj = robot.mj_model
    q = np.random.default_rng(10 + seed).uniform(-np.pi, np.pi, 6)
    mass, own = mj.body("scoop").mass[0], np.append(mj.body("scoop").ipos, 1.0)

    def energy(q):
        T = base(robot) @ frames(q)
        heights = [(T[k] @ np.append(CENTRE[k], 1.0))[2] for k in range(6)]
        return 9.81 * (np.dot(MASS, heights) + mass * (T[-1] @ own)[2])

    data = mujoco.MjData(mj)
    data.qpos[:] = q
    mujoco.mj_forward(mj, data)
    step = 1e-5 * np.eye(6)
    wanted = [(energy(q + row) - energy(q - row)) / 2e-5 for row in step]
    assert np.allclose(data.qfrc_bias, wanted, atol=1e-6)


def test_its_limits_are_the_published_ones(robot):
    assert np.allclose(robot.u_upper, [150, 150, 150, 28, 28, 28]) and np.allclose(robot.u_lower, -robot.u_upper)
    assert np.allclose(robot.v_limit, np.pi)
    assert np.allclose(robot.q_upper, [2 * np.pi, 2 * np.pi, np.pi, 2 * np.pi, 2 * np.pi, 2 * np.pi])


def test_its_scoop_is_the_scoop(robot):
    """Part by part, with mass and inertia, and the blade where the shape has it."""
    mj, shape = robot.mj_model, ScoopShape()
    drawn = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body name="scoop"><freejoint/>{shape.geoms("scoop")}</body></worldbody></mujoco>'
    )
    for box in shape.boxes:
        mine, same = mj.geom(f"scoop_{box.name}"), drawn.geom(f"scoop_{box.name}")
        assert np.allclose(mine.size, same.size) and np.allclose(mine.pos, same.pos, atol=1e-7)
        assert abs(mine.quat @ same.quat) == pytest.approx(1.0)
    mass, centre, inertia = shape.inertial
    mount, body = shape.mount, mj.body("scoop")
    assert body.mass[0] == pytest.approx(mass, rel=1e-5)
    assert np.allclose(mount.position + mount.rotation @ body.ipos, centre, atol=1e-6)
    turned = Rotation.from_quat(np.roll(body.iquat, -1)).as_matrix()
    own = mount.rotation @ turned @ np.diag(body.inertia) @ turned.T @ mount.rotation.T
    assert np.allclose(own, inertia, rtol=1e-4, atol=1e-8)
    blade = mj.site("blade")
    assert np.allclose(mount.position + mount.rotation @ blade.pos, 0.0, atol=1e-7)
    axes = mount.rotation @ Rotation.from_quat(np.roll(blade.quat, -1)).as_matrix()
    assert np.allclose(axes, np.eye(3), atol=1e-6)


def test_at_home_the_camera_sees_all_of_the_tray(robot):
    """Rays from the camera to the floor and to a heap's height, over all of it, meet nothing of the arm, and are in the picture."""
    mj = robot.mj_model
    data = mujoco.MjData(mj)
    mujoco.mj_resetDataKeyframe(mj, data, 0)
    mujoco.mj_forward(mj, data)
    camera, tray = mj.camera("overhead").id, data.site("tray")
    eye, axes = data.cam_xpos[camera], data.cam_xmat[camera].reshape(3, 3) @ OPTICAL
    half = np.tan(np.deg2rad(mj.cam_fovy[camera]) / 2)
    for height in (0.0, 0.25):
        for x in np.linspace(-0.44, 0.44, 9):
            for y in np.linspace(-0.29, 0.29, 7):
                point = tray.xpos + tray.xmat.reshape(3, 3) @ [x, y, height]
                ray = (point - eye) @ axes
                assert abs(ray[1]) < half * ray[2]
                if abs(x) < 0.35:  # what stands 0.25 m high at the short walls is beyond its left and right edges
                    assert abs(ray[0]) < half * 4 / 3 * ray[2]
                hit = np.zeros(1, np.int32)
                share = mujoco.mj_ray(mj, data, eye, point - eye, None, 1, -1, hit)
                blocked = share >= 0.0 and share < 0.999
                if blocked:  # by its own walls alone, which lean over nothing but hide their feet
                    assert mj.body(mj.geom_bodyid[hit[0]]).name == "tray" and height == 0.0
