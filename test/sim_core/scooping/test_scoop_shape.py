"""The scoop's shape: what it holds, that its parts join without a gap, and that MuJoCo sees the same body."""

import mujoco
import numpy as np
import pytest

from sim_core.scooping.arm.primitive import blade_rotation
from sim_core.scooping.arm.scoop_shape import RoundedBox, ScoopShape

pytestmark = pytest.mark.pure

SHAPE = ScoopShape()


def occupied(points):
    """Which points (n, 3) are within any part."""
    return np.min([box.distance(points) for box in SHAPE.boxes], axis=0) < 0.0


def grid(low, high, step):
    axes = [np.arange(a + 0.5 * step, b, step) for a, b in zip(low, high)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def test_it_holds_a_quarter_of_a_litre():
    assert SHAPE.capacity == pytest.approx(0.26e-3, rel=0.01)


def test_its_inside_is_empty_and_its_walls_are_not():
    """By counting: the free volume between its walls is its capacity, and its walls have no hole in them."""
    step = 0.001
    inside = grid((-SHAPE.length, -SHAPE.width / 2, 0.0), (0.0, SHAPE.width / 2, SHAPE.height), step)
    assert occupied(inside).sum() == 0
    assert len(inside) * step**3 == pytest.approx(SHAPE.capacity, rel=0.01)
    # half way through each wall, up to where the outer edges are round
    e, t = SHAPE.edge + 1e-4, SHAPE.wall
    L, W, H = SHAPE.length, SHAPE.width, SHAPE.height
    for low, high in (
        ((-L - t + e, -W / 2 - t + e, -t / 2), (-e, W / 2 + t - e, -t / 2 + step)),
        ((-L - t / 2, -W / 2 - t + e, -t + e), (-L - t / 2 + step, W / 2 + t - e, H - e)),
        ((-L - t + e, W / 2 + t / 2, -t + e), (-e, W / 2 + t / 2 + step, H - e)),
        ((-L - t + e, -W / 2 - t / 2 - step, -t + e), (-e, -W / 2 - t / 2, H - e)),
    ):
        assert occupied(grid(low, high, step)).all()


def test_distance_to_a_rounded_box_is_that_to_the_nearest_point_of_its_surface():
    rng = np.random.default_rng(0)
    rotation = blade_rotation(0.4, 2.0)
    box = RoundedBox("box", np.array([0.1, -0.2, 0.3]), rotation, np.array([0.03, 0.02, 0.01]), 0.004)
    points = box.centre + rng.uniform(-0.08, 0.08, (50, 3))
    core = rng.uniform(-1.0, 1.0, (200_000, 3)) * box.core
    core[:100_000, 0] = np.sign(core[:100_000, 0]) * box.core[0]  # its faces as well
    core = box.centre + core @ rotation.T
    outside = box.distance(points) > 0.002
    dense = np.array([np.linalg.norm(core - point, axis=1).min() for point in points[outside]]) - box.radius
    assert outside.sum() > 30
    assert np.abs(box.distance(points[outside]) - dense).max() < 1e-3
    assert np.isclose(box.distance(box.centre[None])[0], -0.01)  # as deep as its thinnest half


def test_rays_meet_a_box_where_mujoco_says():
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{SHAPE.geoms('scoop')}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    rng, mount = np.random.default_rng(1), SHAPE.mount
    origins = rng.uniform(-0.3, 0.3, (300, 3)) + [0.0, 0.0, 0.4]
    aims = np.array([0.0, 0.0, 0.14]) + rng.uniform(-0.08, 0.08, (300, 3))
    met = 0
    for origin, direction in zip(origins, aims - origins):
        found = mujoco.mj_ray(model, data, origin, direction, None, 1, -1, np.zeros(1, np.int32))
        o, d = mount.position + mount.rotation @ origin, mount.rotation @ direction
        mine = min(float(box.rays(o[None], d[None])[0]) for box in SHAPE.boxes)
        assert (found < 0.0 and np.isinf(mine)) or mine == pytest.approx(found, abs=1e-5)
        met += np.isfinite(mine)
    assert met > 100


def test_mujoco_computes_the_same_mass_and_inertia():
    density = ' density="2700"'
    lines = SHAPE.geoms("scoop").replace("/>", density + "/>").splitlines()
    lines[-1] = lines[-1].replace(density, ' density="1350"')
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body name="scoop"><freejoint/>{"".join(lines)}</body></worldbody></mujoco>'
    )
    mass, centre, inertia = SHAPE.inertial
    mount = SHAPE.mount
    assert model.body("scoop").mass[0] == pytest.approx(mass, rel=1e-6)
    assert np.allclose(mount.position + mount.rotation @ model.body("scoop").ipos, centre, atol=1e-7)
    assert np.allclose(np.sort(model.body("scoop").inertia), np.sort(np.linalg.eigvalsh(inertia)), rtol=1e-5)


def test_the_handle_stands_upright_where_it_was_made_to():
    """From the flange straight down to the back, which it joins."""
    R = blade_rotation(0.7, SHAPE.upright)
    assert np.allclose(R @ SHAPE.mount.rotation[:, 2], [0.0, 0.0, -1.0])
    foot = SHAPE.mount.position + SHAPE.handle * SHAPE.mount.rotation[:, 2]
    assert SHAPE.boxes[1].distance(foot[None])[0] < 0.4 * SHAPE.grip


def test_its_rim_is_over_its_floor():
    assert SHAPE.contains(SHAPE.rim).all()
    beyond = SHAPE.rim + np.sign(SHAPE.rim - SHAPE.rim.mean(axis=0)) * [0.002, 0.002, 0.0]
    assert not SHAPE.contains(beyond).any()
    a, b, c, d = SHAPE.rim
    assert np.isclose(np.dot(np.cross(b - a, c - a), d - a), 0.0)  # four corners of one plane


def test_a_radius_that_leaves_nothing_is_refused():
    with pytest.raises(
        ValueError, match="side: expected a radius between 0 and the least half length 0.01 m, found 0.02"
    ):
        RoundedBox("side", np.zeros(3), np.eye(3), np.array([0.1, 0.1, 0.01]), 0.02)
