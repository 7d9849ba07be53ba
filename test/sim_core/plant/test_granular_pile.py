"""Blocks before an arm with a bucket: those of the pile without an arm, felt at the wrist, reacting as they are acted upon, and new ones."""

import mujoco
import numpy as np
import pytest

from sim_core.command import Command, Mode
from sim_core.excavation.pile import PileSettings, poured, surface_of
from sim_core.excavation.pile_eye import PileEye
from sim_core.granular.pictures import height_map
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, PlantError
from sim_core.plant.granular_pile import GranularPile, PileSite
from sim_core.plant.rendered_camera import RenderedCamera
from sim_core.plant.tray_fills import filled_tray
from sim_core.scooping.arm.felt_wrench import FeltWrench

pytestmark = pytest.mark.pure

ROBOT, SEED, STEP = "panda_bucket", 3, 0.002
SETTINGS = PileSettings()
#: joint positions with the bucket level and high over the box, and 0.08 m below the surface of the blocks [rad]
HIGH, DEEP = [0.0, -0.2, 0.0, -2.144, 0.0, 1.744, 0.785], [0.0, 0.236, 0.0, -2.144, 0.0, 2.18, 0.785]


@pytest.fixture(scope="module")
def model():
    return load_model(ROBOT)


@pytest.fixture(scope="module")
def site(model):
    return PileSite.of(model)


@pytest.fixture(scope="module")
def pile(site):
    return GranularPile(site, SEED)


@pytest.fixture(autouse=True)
def fresh(request):
    if "pile" in request.fixturenames:
        request.getfixturevalue("pile").reset()


class Piece:
    """A bucket that is held anywhere, with any velocity: a free body with the site alone."""

    def __init__(self, timestep=STEP, site="bucket"):
        self.model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option gravity="0 0 0" timestep="{timestep}"/><worldbody><body name="piece"><freejoint/>'
            f'<geom type="box" size="0.05 0.05 0.05" pos="0.02 0 0.05" mass="3"/><site name="{site}"/></body></worldbody></mujoco>'
        )
        self.data = mujoco.MjData(self.model)

    def put(self, position, velocity=(0.0, 0.0, 0.0)):
        self.data.qpos[:] = [*position, 1.0, 0.0, 0.0, 0.0]
        self.data.qvel[:] = [*velocity, 0.0, 0.0, 0.0]


def over(site, x, y, z):
    """A place in the pile's frame, in the world."""
    return np.array(site.pile) + [x, y, z]


def arm(pile, posture):
    return MujocoPlant(
        ROBOT, tick=STEP, stop_state="hold", servo_bandwidth=8.0, wrench_site="wrist", tray=pile, initial_q=posture
    )


def test_they_are_those_of_the_pile_without_an_arm(pile, site):
    """The same blocks where they fell, but for a few that were not quite at rest there and rolled on."""
    world, shades = poured(SETTINGS, np.random.default_rng([SEED, 73]))
    assert np.array_equal(pile.world.mass, world.mass) and np.array_equal(pile.world.inertia, world.inertia)
    surface = np.array([0.0, 0.0, surface_of(world, SETTINGS)])
    apart = np.linalg.norm(pile.world.position - site.pile - (world.position - surface), axis=1)
    assert np.median(apart) < 2e-3 and np.mean(apart < 0.25 * SETTINGS.sizes[0]) > 0.95
    _, colours = pile.seen()
    assert np.allclose(np.unique(colours, axis=0), np.unique((255.0 * shades).clip(0, 255).astype(np.uint8), axis=0))


def test_their_surface_is_where_the_robot_counts_from(pile, site):
    view = SETTINGS.view
    floor = site.pile[2] - SETTINGS.floor
    heights, _ = height_map(pile.world.spheres, view.low, view.high, view.cell, floor)
    assert heights[8:-8, 4:-4].mean() == pytest.approx(site.pile[2], abs=1e-4)
    x, y, _ = (pile.world.position - [*SETTINGS.middle, 0.0]).T
    assert np.abs(x).max() < 0.5 * SETTINGS.box[0] and np.abs(y).max() < 0.5 * SETTINGS.box[1]
    assert np.sqrt((pile.world.velocity**2).sum(1).mean()) < 0.004


def test_box_and_ground_bear_the_blocks(pile):
    """Their weight, and nothing sideways."""
    mean = np.mean([pile.world.run(50)["rim"] for _ in range(6)], axis=0)
    weight = 9.81 * pile.world.mass.sum()
    assert mean[2] == pytest.approx(-weight, rel=0.02) and np.abs(mean[:2]).max() < 0.02 * weight


def test_what_rolls_away_stays_on_the_ground(pile):
    """A block far off, which once fell from the ground's edge until it was too fast to be true."""
    pile.world.position[0], pile.world.velocity[0] = (-3.2, 0.5, 0.03), (-0.3, 0.0, 0.0)
    pile.world.touch()
    pile.world.run(1000)
    assert pile.world.position[0, 0] < -3.22 and 0.0 < pile.world.position[0, 2] < 0.05


def test_blocks_that_fly_apart_stop_the_plant_with_a_sentence(pile):
    """And a reset mends it."""
    plant = arm(pile, DEEP)
    plant.tick()
    pile.world.velocity[0] = (0.0, 0.0, 60.0)
    with pytest.raises(PlantError, match="fly apart: 1 of .* faster than 30 m/s .*; reset the simulation"):
        for _ in range(5):
            plant.tick()
    plant.reset()
    plant.tick()


def test_the_wrist_feels_what_lies_in_the_bucket(pile, model):
    """The arm holds the bucket level in the air; two of the smallest blocks fall into it."""
    plant, felt = arm(pile, HIGH), FeltWrench(model, "wrist", "bucket")
    at = plant.world.data.site("bucket")
    small = np.argsort(pile.world.mass)[:2]
    turn = at.xmat.reshape(3, 3).copy()
    pile.world.position[small] = at.xpos + np.array([[0.0, 0.0, 0.004], [0.0, 0.0, 0.05]]) @ turn.T
    pile.world.velocity[small] = 0.0
    pile.world.touch()
    readings = []
    for k in range(500):
        plant.tick()
        if k >= 400:
            readings.append(felt.external(plant.wrench(), plant.world.data.site("bucket").xmat.reshape(3, 3)))
    force = np.mean(readings, axis=0)
    held, mass = pile.held, pile.world.mass
    assert held[small].any() and not np.delete(held, small).any() and pile.load_mass == mass[held].sum()
    weight = 9.81 * pile.load_mass
    assert force[2] == pytest.approx(-weight, rel=0.05) and np.abs(force[:2]).max() < 0.05 * weight


def test_a_bucket_among_them_is_felt_as_it_is_pressed(pile, model):
    """Lowered into them and at rest, the wrist feels what the blocks do to the bucket, and nothing else."""
    plant, felt = arm(pile, HIGH), FeltWrench(model, "wrist", "bucket")
    felt_, true = [], []
    for k in range(900):
        share = min(k / 500, 1.0)
        goal = (1.0 - share) * np.array(HIGH) + share * np.array(DEEP)
        zero = np.zeros(7)
        plant.command(Command(Mode.POSITION, plant.t, plant.joints, zero, goal, zero, np.zeros((7, 14))))
        plant.tick()
        if k >= 800:
            felt_.append(felt.external(plant.wrench(), plant.world.data.site("bucket").xmat.reshape(3, 3)))
            true.append(pile.wrench)
    wrench, pressed = np.mean(felt_, axis=0), np.mean(true, axis=0)
    assert np.linalg.norm(pressed[:3]) > 5.0
    assert np.allclose(wrench[:3], pressed[:3], atol=0.02 * np.linalg.norm(pressed[:3]))
    assert np.allclose(wrench[3:], pressed[3:], atol=0.002 * np.linalg.norm(pressed[:3]))


def test_action_is_reaction(pile, site, monkeypatch):
    """Momentum of a bucket that is thrown into the blocks goes to them and to what bears them, and both simulations have one bucket."""
    piece, apart, told = Piece(), [], []
    piece.put(over(site, 0.5, 0.0, 0.06), (-0.3, 0.0, -0.6))
    pile.meet(piece.model, piece.data, 0.0)
    run, mass = pile.world.run, pile.world.mass
    monkeypatch.setattr(pile.world, "run", lambda steps: told.append(run(steps)) or told[-1])

    def of_blocks():
        return mass @ pile.world.velocity.astype(float)

    def of_piece():
        mujoco.mj_kinematics(piece.model, piece.data)
        mujoco.mj_comPos(piece.model, piece.data)
        mujoco.mj_comVel(piece.model, piece.data)
        mujoco.mj_subtreeVel(piece.model, piece.data)
        return 3.0 * piece.data.subtree_linvel[1]

    blocks, bucket = of_blocks(), of_piece()
    for _ in range(100):
        pile.press(piece.model, piece.data, piece.data.time)
        applied = piece.data.xfrc_applied[1].copy()
        lever = piece.data.xipos[1] - piece.data.site_xpos[0]
        assert np.allclose(applied[:3], pile.wrench[:3])
        assert np.allclose(applied[3:], pile.wrench[3:] - np.cross(lever, applied[:3]))
        mujoco.mj_step(piece.model, piece.data)
        mujoco.mj_kinematics(piece.model, piece.data)
        apart.append(np.linalg.norm(pile.tool.position - piece.data.site_xpos[0]))
    gained, lost = of_blocks() - blocks, bucket - of_piece()
    borne = STEP * sum(wrenches[name][:3] for wrenches in told for name in ("rim", "ground", "box"))
    weight = np.array([0.0, 0.0, -9.81 * mass.sum() * STEP * 100])
    assert max(apart) < 2e-4 and np.linalg.norm(lost) > 0.5
    assert np.allclose(gained, lost + weight - borne, atol=0.02 * np.linalg.norm(lost))


def test_where_nothing_moves_nothing_is_computed(pile, site):
    piece = Piece()
    piece.put(over(site, 0.5, 0.0, 0.6))
    pile.meet(piece.model, piece.data, 0.0)
    before = pile.world.time
    for _ in range(20):
        pile.press(piece.model, piece.data, piece.data.time)
    assert not pile.awake and pile.world.time == before and not piece.data.xfrc_applied.any()
    piece.put(over(site, 0.5, 0.0, 0.1))
    for _ in range(6):
        pile.press(piece.model, piece.data, piece.data.time)
    assert pile.awake and pile.world.time > before


def test_a_seed_and_a_reset_repeat_it_to_the_bit(pile, site):
    def dig(pile):
        piece = Piece()
        piece.put(over(site, 0.5, 0.0, 0.06), (-0.3, 0.0, -0.6))
        pile.meet(piece.model, piece.data, 0.0)
        for _ in range(60):
            pile.press(piece.model, piece.data, piece.data.time)
            mujoco.mj_step(piece.model, piece.data)
        return pile.world.position.copy(), piece.data.qpos.copy()

    blocks, bucket = dig(pile)
    pile.reset()
    for same in (pile, filled_tray("blocks", ROBOT, STEP, SEED)):
        again, there = dig(same)
        assert np.array_equal(blocks, again) and np.array_equal(bucket, there)


def test_other_blocks_take_the_place_of_those_that_lay_there(pile, site):
    plant = arm(pile, HIGH)
    other = GranularPile(site, SEED + 1)
    plant.replace_tray(other)
    plant.reset()
    for _ in range(10):
        plant.tick()
    assert plant.tray is other and other.awake and not np.array_equal(other.world.mass, pile.world.mass)
    with pytest.raises(PlantError, match="No grains lie before this robot"):
        MujocoPlant(ROBOT).replace_tray(other)


def test_the_camera_sees_all_of_it_at_home_and_nothing_of_the_arm(pile, site):
    """Nothing stands before it, and each cell is as high as the highest block in it and the camera's noise."""
    plant, eye = MujocoPlant(ROBOT), PileEye()
    with RenderedCamera(ROBOT, "overhead", 640, 480) as camera:
        seen = camera.render(dict(zip(plant.joints, plant.true_q)), grains=pile.seen())
        place = seen.pose.copy()
        place[:3, 3] -= site.pile
        eye.look(seen.colour, seen.depth, camera.K, place)
    view, fine = SETTINGS.view, 6
    heights, _ = height_map(pile.world.spheres, view.low, view.high, view.cell / fine, site.pile[2] - SETTINGS.floor)
    highest = heights.reshape(view.shape[0], fine, view.shape[1], fine).max(axis=(1, 3)) - site.pile[2]
    inside = (slice(4, -8), slice(4, -4))
    off = (eye.heights - highest)[inside]
    noise = 0.005  # of a pixel at that distance; the highest of the twenty in a cell is up by less than two standard deviations
    assert 0.0 < np.median(off) < 2.0 * noise and np.mean(np.abs(off) < 4.0 * noise) > 0.95


@pytest.mark.parametrize(
    "piece, message",
    [
        (Piece(timestep=0.001), "grains go on by 0.002 s at a time and the robot by 0.001 s"),
        (Piece(site="nose"), "a bucket, whose model has a site 'bucket'"),
    ],
)
def test_a_robot_that_does_not_fit_is_refused(pile, piece, message):
    with pytest.raises(PlantError, match=message):
        pile.meet(piece.model, piece.data, 0.0)


@pytest.mark.parametrize(
    "fill, robot, step, message",
    [
        ("blocks", "ur5e_scoop", STEP, "no place for blocks before this robot: expected a site 'pile'"),
        ("gravel", ROBOT, STEP, "no place for gravel before this robot: expected a site 'tray'"),
        ("bricks", ROBOT, STEP, "expected one of pebbles, .*, blocks, found 'bricks'"),
        ("blocks", ROBOT, 0.0011, "0.00025 s does not fit into the robot's of 0.0011 s"),
    ],
)
def test_what_cannot_lie_there_is_refused(fill, robot, step, message):
    with pytest.raises(PlantError, match=message):
        filled_tray(fill, robot, step)
