"""Height maps beside a search step by step, beside spheres and slabs in closed form, and within their limit."""

import numpy as np
import pytest

from benchmarks.rivals.plain_contact import PlainContact, solve_exactly
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.packing import Box, height_map
from sim_core.elastic.rigid_body import RigidBody, sphere
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure
BOX = Box((-0.07, -0.05, 0.0), (0.14, 0.10, 0.16))
LIMIT = 2.0


class Springs:
    """Stiffer where it is red [N/m]; a little harder with depth."""

    deepest = 0.05

    def predict(self, features, displacement):
        d = np.maximum(displacement, 0.0)
        return (200.0 + 800.0 * features[:, 3]) * d * (1.0 + 20.0 * d)


def mound(count=12_000, seed=0):
    """A soft lump in the middle of the box, 40 mm high, red to the right."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(-0.035, 0.035, (count, 2))
    x, y = xy.T
    bell = 0.04 * np.exp(-(x**2 + y**2) / 0.02**2 / 2.0)
    normals = np.stack([bell * x / 0.02**2, bell * y / 0.02**2, np.ones(count)], 1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    red = (x > 0.0).astype(float)
    return Surface(np.stack([x, y, bell], 1), np.stack([red, 0.0 * red, 1.0 - red], 1), normals)


@pytest.fixture(scope="module")
def simulator():
    return ContactSimulator(mound(), Springs(), 0.008)


@pytest.fixture(scope="module")
def found(simulator):
    return height_map(simulator, sphere(), BOX, spacing=0.0125, limit=LIMIT)


def test_halving_finds_what_going_down_step_by_step_finds(simulator, found):
    """By an independent implementation of contact, half a millimetre at a time."""
    plain = PlainContact(
        simulator.surface, Springs().predict, 0.008, np.array([0.0, 0.0, -1.0]), simulator.reach, solve=solve_exactly
    )
    ball, floor = sphere(), 0.02
    off = []
    for i, y in enumerate(found.y[::2]):
        for j, x in enumerate(found.x[::2]):
            z = 0.075
            while z - 5e-4 >= floor - 1e-12:
                force = np.linalg.norm(plain.query(ball.points + [x, y, z - 5e-4], np.zeros(3))[0])
                if force > LIMIT:
                    break
                z -= 5e-4
            off.append(abs(z - found.heights[2 * i, 2 * j]))
    assert max(off) <= 6e-4 and len(off) > 12


def test_no_place_pushes_back_with_more_than_the_limit(simulator, found):
    y, x = np.meshgrid(found.y, found.x, indexing="ij")
    poses = np.tile(np.eye(4), (x.size, 1, 1))
    poses[:, :3, 3] = np.stack([x.ravel(), y.ravel(), found.heights.ravel()], 1)
    force = np.linalg.norm(simulator.queries(sphere(), poses, np.array([0.0, 0.0, -1.0])).force, axis=1)
    assert force == pytest.approx(found.forces.ravel()) and force.max() <= LIMIT
    # and nearly all of it where the object is
    held = found.heights.ravel() > 0.0201
    assert held.sum() > 8 and (force[held] > 0.9 * LIMIT).mean() > 0.9


def test_beside_the_object_the_ball_lies_on_the_floor_and_soft_sides_let_it_deeper(found):
    assert (found.heights >= 0.02 - 1e-12).all() and np.isclose(found.heights, 0.02).any()
    row = int(np.argmin(np.abs(found.y)))
    left, right = found.heights[row, found.x < -0.01], found.heights[row, found.x > 0.01][::-1]
    assert (left <= right + 1e-3).all() and (left < right - 2e-3).any()


def test_a_ball_on_a_plane_of_springs_sinks_as_the_closed_form_says():
    """One point of a ball that touches first: with a pointed body f = k d exactly, so that z = F / k below the surface."""
    x, y = (g.ravel() for g in np.meshgrid(*[np.linspace(-0.05, 0.05, 51)] * 2))
    stiff = np.where(x > 0.0, 1.0, 0.0)
    flat = Surface(np.stack([x, y, 0.0 * x + 0.05], 1), np.stack([stiff] * 3, 1), np.tile([0.0, 0.0, 1.0], (len(x), 1)))

    class Linear(Springs):
        def predict(self, features, displacement):
            return (200.0 + 800.0 * features[:, 3]) * np.maximum(displacement, 0.0)

    simulator = ContactSimulator(flat, Linear())
    tip = RigidBody(np.array([[0.0, 0.0, -0.01], [0.0, 0.0, 0.01]]), "two ends")
    found = height_map(simulator, tip, Box((-0.045, -0.045, 0.0), (0.09, 0.09, 0.1)), 0.01, LIMIT, tolerance=1e-6)
    y, x = np.meshgrid(found.y, found.x, indexing="ij")
    for side, k in (((x < -0.005), 200.0), ((x > 0.005), 1000.0)):
        assert found.heights[side] == pytest.approx(np.full(side.sum(), 0.05 + 0.01 - LIMIT / k), abs=2e-6)


def test_where_the_ball_is_refused_at_the_top_there_is_no_height():
    simulator = ContactSimulator(mound(), Springs(), 0.008)
    low = Box((-0.07, -0.05, 0.0), (0.14, 0.10, 0.045))
    found = height_map(simulator, sphere(), low, spacing=0.015, limit=LIMIT)
    assert np.isnan(found.heights).any() and np.isfinite(found.heights).any()
    assert (np.isnan(found.forces) == np.isnan(found.heights)).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: Box((0.0, 0.0, 0.0), (0.1, 0.0, 0.1)), "sizes above 0"),
        (lambda s: Box((0.0, 0.0, np.nan), (0.1, 0.1, 0.1)), "finite"),
        (lambda s: height_map(s, sphere(), Box((0.0, 0.0, 0.0), (0.03, 0.1, 0.1))), "40.0 mm wide does not fit"),
        (lambda s: height_map(s, sphere(), BOX, spacing=0.0), "spacing is above 0"),
        (lambda s: height_map(s, sphere(), BOX, limit=-1.0), "limit is above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(simulator, make, said):
    with pytest.raises(ValueError, match=said):
        make(simulator)


def test_a_clearance_lifts_what_is_carried_and_leaves_what_lies_on_the_floor(simulator, found):
    lifted = height_map(simulator, sphere(), BOX, spacing=0.0125, limit=LIMIT, clearance=1e-3)
    carried = found.forces > 0.0
    assert lifted.heights[carried] == pytest.approx(found.heights[carried] + 1e-3)
    assert (lifted.heights[~carried] == found.heights[~carried]).all() and carried.any() and (~carried).any()
    assert (lifted.forces[carried] < found.forces[carried]).all()
    with pytest.raises(ValueError, match="clearance"):
        height_map(simulator, sphere(), BOX, clearance=-1e-3)
