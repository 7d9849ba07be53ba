"""Grains before an arm: what lies in the scoop is felt at the wrist, both simulations have one scoop, and nothing moves unasked."""

import mujoco
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, PlantError
from sim_core.plant.granular_tray import GranularTray, TrayFill
from sim_core.scooping.arm.felt_wrench import FeltWrench
from sim_core.scooping.arm.primitive import blade_rotation
from sim_core.scooping.arm.scoop_arm import ScoopArm
from sim_core.scooping.arm.tray import Tray
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

ROBOT = "ur5e_scoop"
FILL = TrayFill(count=60, size=(0.018, 0.022), patch=(0.12, 0.12), relief="level")
STEP = 0.002


@pytest.fixture(scope="module")
def model():
    return load_model(ROBOT)


@pytest.fixture(scope="module")
def tray(model):
    return GranularTray(FILL, Tray.of(model))


@pytest.fixture(autouse=True)
def fresh(tray):
    tray.reset()


class Piece:
    """A scoop that is held anywhere, with any velocity: a free body with the site alone."""

    def __init__(self, timestep=STEP, site="blade"):
        self.model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option gravity="0 0 0" timestep="{timestep}"/><worldbody><body name="piece"><freejoint/>'
            f'<geom type="box" size="0.05 0.05 0.05" pos="-0.03 0 0.05" mass="3"/><site name="{site}"/></body></worldbody></mujoco>'
        )
        self.data = mujoco.MjData(self.model)

    def put(self, pose, velocity=(0.0, 0.0, 0.0)):
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, pose.rotation.ravel())
        self.data.qpos[:] = [*pose.position, *quaternion]
        self.data.qvel[:] = [*velocity, 0.0, 0.0, 0.0]


def at(x, y, z, angle=180.0):
    return Pose(np.array([0.55 + x, y, z]), blade_rotation(0.0, np.deg2rad(angle)))


#: joint positions at which the scoop is held closed under the camera [rad]
MEASURING = [-0.37, -1.84, 2.2, -2.42, -1.39, 1.25]


def test_the_tray_bears_the_grains(tray):
    """Their weight, upwards on them and down on what stands still, and nothing sideways."""
    mean = np.mean([tray.world.run(50)["still"] for _ in range(10)], axis=0)
    weight = 9.81 * tray.world.mass.sum()
    assert mean[2] == pytest.approx(-weight, rel=0.01) and np.abs(mean[:2]).max() < 0.01 * weight


def test_the_wrist_feels_what_lies_in_the_scoop(tray, model):
    """The arm holds the scoop closed in the air; a dozen grains are put above its floor, and fall into it."""
    arm = ScoopArm(model)
    plant = MujocoPlant(ROBOT, stop_state="hold", wrench_site="wrist", tray=tray, initial_q=MEASURING)
    felt = FeltWrench(model, "wrist", "blade")
    pose = arm.pose(plant.q)
    places = [
        [-0.03 - 0.025 * i, 0.024 * (j - 1), 0.013 + 0.024 * k] for k in range(2) for i in range(2) for j in range(3)
    ]
    tray.world.position[:12] = pose.position + places @ pose.rotation.T
    tray.world.velocity[:12] = 0.0
    tray.world.touch()
    readings = []
    for k in range(500):
        plant.tick()
        if k >= 400:
            readings.append(felt.external(plant.wrench(), arm.pose(plant.true_q).rotation))
    held = tray.held
    weight = 9.81 * tray.world.mass[held].sum()
    force = np.mean(readings, axis=0)
    assert 8 <= held.sum() <= 12 and tray.load == pytest.approx(tray.world.volume[held].sum())
    assert force[2] == pytest.approx(-weight, rel=0.03) and np.abs(force[:2]).max() < 0.05 * weight
    lever = (
        np.average(tray.world.position[held], axis=0, weights=tray.world.mass[held]) - arm.pose(plant.true_q).position
    )
    assert np.allclose(force[3:], np.cross(lever, [0.0, 0.0, -weight]), atol=0.05 * weight * 0.1)
    assert tray.heap > tray.load


def test_the_wrench_on_the_link_is_that_on_the_blade(tray):
    piece = Piece()
    piece.put(at(0.02, 0.0, 0.05, 135.0), (0.1, 0.0, -0.4))
    tray.meet(piece.model, piece.data, 0.0)
    for _ in range(40):
        tray.press(piece.model, piece.data, piece.data.time)
        applied = piece.data.xfrc_applied[1].copy()
        arm = piece.data.xipos[1] - piece.data.site_xpos[0]
        assert np.allclose(applied[:3], tray.wrench[:3])
        assert np.allclose(applied[3:], tray.wrench[3:] - np.cross(arm, applied[:3]))
        mujoco.mj_step(piece.model, piece.data)
    assert np.linalg.norm(tray.wrench[:3]) > 0.1 and tray.wrench[:3] @ [0.1, 0.0, -0.4] < 0.0  # it is braked


def test_both_simulations_have_one_scoop(tray):
    """Pushed through the grains and turned by them, it is where the robot's is, after every step."""
    piece = Piece()
    piece.put(at(-0.01, 0.0, 0.05, 135.0), (0.1, 0.02, -0.3))
    tray.meet(piece.model, piece.data, 0.0)
    apart = []
    for _ in range(100):
        tray.press(piece.model, piece.data, piece.data.time)
        mujoco.mj_step(piece.model, piece.data)
        mujoco.mj_kinematics(piece.model, piece.data)
        apart.append(np.linalg.norm(tray.tool.position - piece.data.site_xpos[0]))
    assert max(apart) < 5e-5 and np.linalg.norm(piece.data.qvel[3:]) > 0.01


def test_where_nothing_moves_nothing_is_computed(tray):
    piece = Piece()
    piece.put(at(0.0, 0.0, 0.6))
    tray.meet(piece.model, piece.data, 0.0)
    before = tray.world.time
    for _ in range(20):
        tray.press(piece.model, piece.data, piece.data.time)
    assert not tray.awake and tray.world.time == before and not piece.data.xfrc_applied.any()
    piece.put(at(0.0, 0.0, 0.1))
    for _ in range(6):
        tray.press(piece.model, piece.data, piece.data.time)
    assert tray.awake and tray.world.time > before
    assert np.allclose(tray.tool.position, piece.data.site_xpos[0], atol=1e-6)


def test_a_scoop_that_is_put_elsewhere_throws_no_grain(tray):
    """From one side of the tray to the other in no time: it appears above the grains."""
    piece = Piece()
    for x in (-0.03, 0.04):
        piece.put(at(x, 0.0, 0.08))
        tray.meet(piece.model, piece.data, 0.0)
        for _ in range(10):
            tray.press(piece.model, piece.data, piece.data.time)
    assert np.linalg.norm(tray.world.velocity, axis=1).max() < 0.2


def test_after_a_reset_all_goes_as_before(tray):
    def run():
        tray.reset()
        piece = Piece()
        piece.put(at(0.02, 0.0, 0.05, 135.0), (0.1, 0.0, -0.4))
        tray.meet(piece.model, piece.data, 0.0)
        for _ in range(30):
            tray.press(piece.model, piece.data, piece.data.time)
            mujoco.mj_step(piece.model, piece.data)
        return tray.world.position.copy(), piece.data.qpos.copy()

    (grains, scoop), (again, same) = run(), run()
    assert np.array_equal(grains, again) and np.array_equal(scoop, same)


def test_heights_are_those_of_its_grains(tray):
    """On the tray's own axes: where a grain is highest, its top."""
    heights, cell = tray.heights(0.002), 0.002
    assert heights.shape == (450, 300)
    local = tray.tray.to_tray(tray.world.position.astype(float))
    top = local[local[:, 2].argmax()]
    i, j = ((top[:2] + [0.45, 0.3]) / cell).astype(int)
    radius = tray.world.grains.radius[local[:, 2].argmax()]
    assert heights[i, j] == pytest.approx(top[2] + radius, abs=2e-4)
    x, y = np.nonzero(heights > 0.001)
    assert np.abs((x + 0.5) * cell - 0.45).max() < 0.06 and np.abs((y + 0.5) * cell - 0.3).max() < 0.06
    spheres, colours = tray.seen()
    assert spheres.shape == (60, 4) and colours.shape == (60, 3) and colours.dtype == np.uint8


@pytest.mark.parametrize("relief, rises", [("slope", (0.2, 0.9)), ("level", (-0.15, 0.15))])
def test_a_relief_is_what_was_asked_for(model, relief, rises):
    fill = TrayFill(count=500, size=(0.011, 0.013), patch=(0.16, 0.16), relief=relief, seed=1)
    made = GranularTray(fill, Tray.of(model))
    heights = made.heights(0.005)[76:104, 46:74]  # of the middle 14 cm
    smooth = heights.reshape(7, 4, 28).mean(axis=(1, 2))
    slope = np.polyfit(np.arange(7) * 0.02, smooth, 1)[0]
    assert rises[0] < slope < rises[1]


@pytest.mark.parametrize(
    "piece, message",
    [
        (Piece(timestep=0.001), "grains go on by 0.002 s at a time and the robot by 0.001 s"),
        (Piece(site="nose"), "a site 'blade'"),
    ],
)
def test_a_robot_that_does_not_fit_is_refused(tray, piece, message):
    with pytest.raises(PlantError, match=message):
        tray.meet(piece.model, piece.data, 0.0)


@pytest.mark.parametrize("wrong", [dict(count=0), dict(size=(0.02, 0.01)), dict(patch=(0.01, 0.3))])
def test_a_fill_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="grains"):
        TrayFill(**wrong)
