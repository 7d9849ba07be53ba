"""The volume of a load from depth, on fills whose volume is known, with the noise of a time-of-flight camera."""

from functools import cache

import numpy as np
import pytest

from sim_core.perception.depth_noise import noisy_depth
from sim_core.scooping.arm.primitive import blade_rotation
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.arm.volume import LoadMeter, depth_points, load_points
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

SHAPE = ScoopShape()
L, W, H = SHAPE.length, SHAPE.width, SHAPE.height
DOWN = np.diag([1.0, -1.0, -1.0])
CAMERA = Pose(np.array([0.55, 0.0, 1.2]), DOWN)
BLADE = Pose(np.array([0.58, 0.02, 0.4]), blade_rotation(0.1, np.deg2rad(190.0)))
GROUND = 0.1
HEIGHT, WIDTH = 480, 640
FOCAL = 0.5 * HEIGHT / np.tan(np.deg2rad(20.0))
K = np.array([[FOCAL, 0.0, (WIDTH - 1) / 2], [0.0, FOCAL, (HEIGHT - 1) / 2], [0.0, 0.0, 1.0]])


def tilted(x, y):
    return 0.02 + 0.1 * (x + L / 2) + 0.15 * y


def heap(x, y):
    return 0.055 * np.exp(-(((x + L / 2) / 0.04) ** 2) - (y / 0.035) ** 2)


def grains(x, y):
    """Bumps of a centimetre on a slope, as of gravel."""
    return 0.022 + 0.1 * (x + L / 2) + 0.004 * np.sin(2 * np.pi * x / 0.011) * np.sin(2 * np.pi * y / 0.013)


FILLS = {
    "little": lambda x, y: np.full_like(x, 0.005),
    "half": lambda x, y: np.full_like(x, 0.5 * H),
    "full": lambda x, y: np.full_like(x, H),
    "tilted": tilted,
    "heap": heap,
    "grains": grains,
}


def true_volume(fill):
    x, y = np.meshgrid(-L * (np.arange(900) + 0.5) / 900, W * ((np.arange(800) + 0.5) / 800 - 0.5), indexing="ij")
    return float(fill(x, y).mean() * L * W)


V, U = (part[150:330, 240:460] for part in np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), indexing="ij"))
RAYS = np.stack([(U - K[0, 2]) / FOCAL, (V - K[1, 2]) / FOCAL, np.ones(U.shape)], axis=-1)
LENGTHS = np.linalg.norm(RAYS, axis=-1)


@cache
def depth_of(name, blade=BLADE):
    """What the camera would see without noise of the scoop with a load, and the ground below: a part of its picture."""
    directions = RAYS.reshape(-1, 3) @ CAMERA.rotation.T @ blade.rotation
    origins = np.broadcast_to((CAMERA.position - blade.position) @ blade.rotation, directions.shape)
    depth = np.full(len(directions), CAMERA.position[2] - GROUND)
    for box in SHAPE.boxes:
        if box.name != "handle":
            depth = np.fmin(depth, box.rays(origins, directions))
    if name:
        # Where a ray is as low as the load, by bisection from above the load, or from where it comes in at the front, to the floor.
        above, below = ((z - origins[:, 2]) / directions[:, 2] for z in (0.1, 0.0))
        front = -origins[:, 0] / directions[:, 0]
        above = np.where(directions[:, 0] < 0.0, np.maximum(above, front + 1e-9), above)
        for _ in range(30):
            t = 0.5 * (above + below)
            x, y, z = (origins + t[:, None] * directions).T
            over = z > FILLS[name](x, y)
            above, below = np.where(over, t, above), np.where(over, below, t)
        depth = np.where(SHAPE.contains(origins + above[:, None] * directions) & (above < depth), above, depth)
    return depth.reshape(U.shape)


def seen(depth, blade=BLADE, seed=None):
    """The points of it, with or without the camera's noise."""
    if seed is not None:
        rng = np.random.default_rng(seed)
        depth = noisy_depth(depth * LENGTHS, depth[..., None] * RAYS, RAYS / LENGTHS[..., None], rng) / LENGTHS
    whole = np.full((HEIGHT, WIDTH), np.nan)
    whole[150:330, 240:460] = depth
    return load_points(depth_points(whole, K, CAMERA), blade)


def calibrated(seed=None):
    made = LoadMeter(SHAPE)
    made.calibrate(seen(depth_of(""), seed=seed))
    return made


@pytest.mark.parametrize("name", FILLS)
def test_a_known_fill_is_measured_within_5_percent_or_3_cubic_centimetres(name):
    true = true_volume(FILLS[name])
    assert calibrated().volume(seen(depth_of(name))) == pytest.approx(true, rel=0.02, abs=1e-6)
    for seed in range(4):
        found = calibrated(100 + seed).volume(seen(depth_of(name), seed=seed))
        assert abs(found - true) <= max(0.05 * true, 3e-6), f"{1e6 * found:.1f} cm3 instead of {1e6 * true:.1f}"


def test_an_arm_that_its_load_pushes_down_measures_the_same():
    """The joints tell where the scoop is: 6 mm lower and a little tilted."""
    low = Pose(BLADE.position - [0.0, 0.0, 0.006], blade_rotation(0.12, np.deg2rad(188.5)))
    assert calibrated(1).volume(seen(depth_of("tilted", low), low, seed=2)) == pytest.approx(
        true_volume(tilted), rel=0.05
    )


def test_an_empty_scoop_holds_nothing():
    assert abs(calibrated(1).volume(seen(depth_of(""), seed=2))) < 3e-6


def test_a_scoop_that_is_hidden_is_not_measured():
    points = seen(depth_of("half"))
    hidden = points[points[:, 0] < -0.05]
    with pytest.raises(ValueError, match="the camera sees .. % of the scoop, at least 60 % are needed"):
        calibrated().volume(hidden)
    with pytest.raises(RuntimeError, match="the empty scoop is not known"):
        LoadMeter(SHAPE).volume(points)


def test_points_of_a_picture_are_where_they_were():
    """Back through the pinhole: their pixels and depths are those of the picture."""
    depth = np.full((HEIGHT, WIDTH), np.nan)
    depth[100, 200], depth[479, 0] = 0.7, 1.1
    points = (depth_points(depth, K, CAMERA) - CAMERA.position) @ CAMERA.rotation
    pixels = points @ K.T
    assert np.allclose(pixels[:, 2], [0.7, 1.1])
    assert np.allclose(pixels[:, :2] / pixels[:, 2:], [[200, 100], [0, 479]])
