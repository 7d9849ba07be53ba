"""Rigid bodies pressed into surfaces: closed forms on slabs, an independent implementation on bumps, and what must not matter."""

import numpy as np
import pytest

from benchmarks.rivals.plain_contact import PlainContact, solve_exactly, solve_pruned
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.extrapolation import Extrapolated
from sim_core.elastic.rigid_body import RigidBody, cylinder_probe, line_probe, point_probe, punch, sphere
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure
DOWN = np.array([0.0, 0.0, -1.0])
STIFF = 300.0


class Springs:
    """f = k d with a stiffness k by the red of a point, or (k d)^p."""

    def __init__(self, stiffness=STIFF, by_red=0.0, power=1.0, onset=0.0, deepest=0.05):
        self.stiffness, self.by_red, self.power, self.onset, self.deepest = stiffness, by_red, power, onset, deepest
        self.calls = 0

    def predict(self, features, displacement):
        self.calls += 1
        k = self.stiffness + self.by_red * features[:, 3]
        return k * np.maximum(displacement - self.onset, 0.0) ** self.power


def slab(spacing=2e-3, half=0.05, z=0.0, rng=None):
    n = int(round(2.0 * half / spacing)) + 1
    x, y = (g.ravel() for g in np.meshgrid(*[np.linspace(-half, half, n)] * 2))
    points = np.stack([x, y, np.full(x.shape, z)], 1)
    if rng is not None:
        points[:, :2] += rng.uniform(-0.3, 0.3, (len(points), 2)) * spacing
    return Surface(points, np.clip(0.5 + 5.0 * points, 0.0, 1.0) * [1.0, 1.0, 0.0], np.tile(-DOWN, (len(points), 1)))


def bumps(count, rng, half=0.05):
    xy = rng.uniform(-half, half, (count, 2))
    x, y = 60.0 * xy.T
    height = 0.006 * np.sin(x) * np.cos(y)
    slope = 0.36 * np.stack([np.cos(x) * np.cos(y), -np.sin(x) * np.sin(y)], 1)
    normals = np.concatenate([-slope, np.ones((count, 1))], 1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return Surface(np.concatenate([xy, height[:, None]], 1), rng.uniform(0.0, 1.0, (count, 3)), normals)


def ball(count=20_000, radius=0.05):
    points = sphere(2.0 * radius, count).points
    return Surface(points, np.full(points.shape, 0.5), points / np.linalg.norm(points, axis=1, keepdims=True))


def at(x=0.0, y=0.0, z=0.0, turn=np.eye(3)):
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn, [x, y, z]
    return pose


def rotation(rng, least=0.0):
    """A random one whose z axis is above `least` as a cosine."""
    while True:
        q, r = np.linalg.qr(rng.normal(size=(3, 3)))
        q *= np.sign(np.diag(r))
        q[:, 0] *= np.sign(np.linalg.det(q))
        if q[2, 2] >= least:
            return q


def test_a_point_on_a_slab_is_a_spring_and_its_torque_has_a_lever():
    simulator = ContactSimulator(slab(), Springs())
    found = simulator.query(point_probe(), at(0.03, -0.02, -0.004), DOWN)
    assert found.force == pytest.approx([0.0, 0.0, STIFF * 0.004], abs=1e-12)
    assert found.torque == pytest.approx(np.zeros(3), abs=1e-12) and found.displacement == pytest.approx([0.004])
    # about a point 0.1 m back along x: r x F = (0.1, 0, 0) x (0, 0, f) = (0, -0.1 f, 0)
    found = simulator.query(point_probe(), at(0.03, -0.02, -0.004), DOWN, about=(-0.1, 0.0, 0.0))
    assert found.torque == pytest.approx([0.0, -0.1 * STIFF * 0.004, 0.0], abs=1e-12)


def test_torque_about_another_point_differs_by_the_lever_times_the_force():
    rng = np.random.default_rng(1)
    simulator = ContactSimulator(bumps(4000, rng), Springs(by_red=500.0))
    pose, about = at(0.01, 0.02, -0.004, rotation(rng, 0.9)), np.array([0.02, -0.03, 0.1])
    tip, other = (simulator.query(cylinder_probe(), pose, DOWN, a) for a in ((0.0, 0.0, 0.0), about))
    r = pose[:3, :3] @ about
    assert np.linalg.norm(tip.force) > 0.1 and other.force == pytest.approx(tip.force)
    assert other.torque == pytest.approx(tip.torque - np.cross(r, tip.force), abs=1e-12)
    assert tip.torque_about(pose[:3, 3] + r, pose[:3, 3]) == pytest.approx(other.torque, abs=1e-12)


def test_a_body_that_is_off_a_probe_s_middle_turns_it_back():
    """A punch half over the edge of a slab is pushed up on the side that touches: with the slab on x < 0, the torque about +y."""
    surface = slab(1e-3, rng=np.random.default_rng(0))
    half = Surface(*(a[surface.points[:, 0] <= 0.0] for a in (surface.points, surface.colours, surface.normals)))
    found = ContactSimulator(half, Springs(), reach=2e-3).query(punch(), at(z=-0.003), DOWN)
    assert found.force[2] > 0.0 and found.beside > 0
    assert found.torque[1] > 0.2 * 0.005 * found.force[2] and abs(found.torque[0]) < 0.1 * found.torque[1]


def test_a_punch_is_pressed_as_its_table_says_and_density_does_not_matter():
    """20 mm x 20 mm, c = 10 mm: force / (k d) is the table's 2.25 however densely surface and punch are sampled, within 3 % from 5 mm to
    1 mm."""
    by_body = [
        ContactSimulator(slab(1e-3), Springs()).query(punch(spacing=s), at(z=-0.003), DOWN).force[2]
        for s in (5e-3, 2.5e-3, 1e-3)
    ]
    by_surface = [
        ContactSimulator(slab(s), Springs()).query(punch(spacing=1e-3), at(z=-0.003), DOWN).force[2]
        for s in (5e-3, 2e-3, 1e-3)
    ]
    both = [
        ContactSimulator(slab(s), Springs()).query(punch(spacing=s), at(z=-0.003), DOWN).force[2] for s in (5e-3, 1e-3)
    ]
    for forces in (by_body, by_surface, both):
        assert max(forces) / min(forces) - 1.0 < 0.03, forces
    assert by_body[-1] / (STIFF * 0.003) == pytest.approx(2.251, rel=0.02)


@pytest.mark.parametrize("make", [line_probe, cylinder_probe])
def test_a_body_sampled_more_finely_feels_about_the_same(make):
    """6, 3, 1.5 mm: within 5 %."""
    simulator = ContactSimulator(slab(1e-3), Springs())
    forces = [simulator.query(make(spacing=s), at(z=-0.003), DOWN).force[2] for s in (6e-3, 3e-3, 1.5e-3)]
    assert max(forces) / min(forces) - 1.0 < 0.05, forces


@pytest.mark.parametrize("solver", ["exact", "pruned"])
def test_bodies_on_bumps_feel_what_an_independent_implementation_says(solver):
    """Other neighbours' search, other merging, other linear algebra; probes at any tilt, and one approach that is not along an axis."""
    rng = np.random.default_rng(2)
    surface, model = bumps(6000, rng), Springs(by_red=900.0, power=1.5)
    solve = {"exact": solve_exactly, "pruned": solve_pruned}[solver]
    touched = 0
    for approach in (DOWN, np.array([0.2, -0.3, -1.0])):
        simulator = ContactSimulator(surface, model, 0.008, solver=solver)
        plain = PlainContact(surface, model.predict, 0.008, approach, simulator.reach, solve=solve)
        for body in (line_probe(), cylinder_probe(), sphere(0.03)):
            for _ in range(8):
                low = -body.points[:, 2].min()
                pose = at(*rng.uniform(-0.04, 0.04, 2), low + rng.uniform(-0.008, 0.004), rotation(rng, 0.9))
                found = simulator.query(body, pose, approach)
                force, torque = plain.query(body.placed(pose), pose[:3, 3])
                assert found.force == pytest.approx(force, abs=1e-9) and found.torque == pytest.approx(
                    torque, abs=1e-10
                )
                touched += found.active.sum() > 3
    assert touched > 24


def test_a_batch_is_its_poses_one_by_one_and_asks_the_model_once():
    rng = np.random.default_rng(3)
    model = Springs(by_red=500.0)
    simulator = ContactSimulator(bumps(5000, rng), model, threads=2)
    poses = np.stack([at(*rng.uniform(-0.04, 0.04, 2), rng.uniform(0.01, 0.03)) for _ in range(40)])
    ways = np.where(np.arange(40)[:, None] % 3 == 0, [0.1, 0.0, -1.0], DOWN)
    together = simulator.queries(sphere(), poses, ways)
    assert model.calls == 1 and (together.active > 0).sum() > 10 and (together.active == 0).any()
    for k, (pose, way) in enumerate(zip(poses, ways)):
        alone = simulator.query(sphere(), pose, way)
        assert (together.force[k] == alone.force).all() and (together.torque[k] == alone.torque).all()
        assert (together[k].displacement == alone.displacement).all() and together[k].beside == alone.beside
    assert len(simulator.queries(sphere(), np.zeros((0, 4, 4)), DOWN)) == 0


def test_the_order_of_points_does_not_matter():
    rng = np.random.default_rng(4)
    surface, body = bumps(4000, rng), cylinder_probe()
    order = rng.permutation(len(surface))
    mixed = Surface(surface.points[order], surface.colours[order], surface.normals[order])
    turned = RigidBody(body.points[rng.permutation(len(body.points))], "mixed")
    pose, model = at(0.01, 0.0, -0.004, rotation(rng, 0.95)), Springs(by_red=400.0)
    one, two = (ContactSimulator(s, model).query(b, pose, DOWN) for s, b in ((surface, body), (mixed, turned)))
    assert one.force == pytest.approx(two.force, abs=1e-11) and one.torque == pytest.approx(two.torque, abs=1e-12)
    assert one.force[2] > 0.5


def test_the_world_s_axes_do_not_matter():
    rng = np.random.default_rng(5)
    surface, model = bumps(4000, rng), Springs(by_red=400.0)
    turn, shift = rotation(rng), rng.normal(size=3)
    moved = Surface(surface.points @ turn.T + shift, surface.colours, surface.normals @ turn.T)
    pose = at(0.0, 0.01, -0.003, rotation(rng, 0.95))
    there = at(*(turn @ pose[:3, 3] + shift), turn @ pose[:3, :3])
    about = (0.0, 0.01, 0.05)
    one = ContactSimulator(surface, model).query(line_probe(), pose, DOWN, about)
    two = ContactSimulator(moved, model).query(line_probe(), there, turn @ DOWN, about)
    assert two.force == pytest.approx(turn @ one.force, abs=1e-10)
    assert two.torque == pytest.approx(turn @ one.torque, abs=1e-11) and one.force[2] > 0.3


def test_the_deformed_surface_follows_the_body_and_decays_as_the_coupling_says():
    rng = np.random.default_rng(6)
    simulator = ContactSimulator(bumps(6000, rng), Springs(), 0.008)
    found = simulator.query(sphere(0.03), at(0.01, 0.0, 0.012), DOWN)
    active = found.active
    assert active.sum() > 3 and (~active).any()
    there = simulator.displacement_at(found.points, found)
    assert there[active] == pytest.approx(
        found.nominal[active], abs=1e-9
    )  # no penetration, and none away from the body
    assert (there[~active] >= found.nominal[~active] - 1e-9).all()
    assert len(simulator.deformed(found)) == 6000 and simulator.deformed(found).max() < 1.2 * found.nominal.max()
    one = simulator.query(point_probe(), at(0.0, 0.0, -0.005), DOWN)
    for r in (0.004, 0.03):
        far = simulator.displacement_at(one.points + [[r, 0.0, 0.0]], one)
        assert far == pytest.approx(one.displacement * 0.008 / (0.008 + r), abs=1e-12)


def test_points_apart_add_up_to_more_than_coupled_ones():
    apart, exact = (
        ContactSimulator(slab(), Springs(), solver=s).query(punch(), at(z=-0.003), DOWN) for s in ("apart", "exact")
    )
    assert apart.force[2] == pytest.approx(STIFF * 0.003 * len(apart.nominal)) and apart.force[2] > 5.0 * exact.force[2]


def test_a_closed_body_is_met_on_the_side_that_faces_the_approach():
    """Across the approach the far side of a ball lies at the same places; alone it would pull the probe in."""
    simulator = ContactSimulator(ball(), Springs())
    above, below, side = (
        simulator.query(line_probe(), at(*p, turn), way)
        for p, turn, way in (
            ((0.0, 0.0, 0.047), np.eye(3), DOWN),
            ((0.0, 0.0, -0.047), np.diag([1.0, -1.0, -1.0]), -DOWN),
            ((0.047, 0.0, 0.0), np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]]), np.array([-1.0, 0.0, 0.0])),
        )
    )
    assert above.force[2] > 0.5 and abs(above.force[0]) < 0.05 * above.force[2]
    assert below.force[2] == pytest.approx(-above.force[2], rel=0.05)
    assert side.force[0] == pytest.approx(above.force[2], rel=0.05)


def test_of_two_layers_the_first_is_met_and_it_is_said_that_there_is_another():
    rng = np.random.default_rng(7)
    upper, lower = slab(half=0.02, rng=rng), slab(half=0.05, z=-0.03, rng=rng)
    both = Surface(*(np.concatenate([getattr(s, a) for s in (upper, lower)]) for a in ("points", "colours", "normals")))
    alone, found = (ContactSimulator(s, Springs()).query(punch(0.01, 0.01), at(z=-0.003), DOWN) for s in (upper, both))
    assert found.force == pytest.approx(alone.force) and found.undercut > 0 and alone.undercut == 0
    beside = ContactSimulator(both, Springs()).query(punch(0.01, 0.01), at(0.035, 0.035, -0.033), DOWN)
    assert beside.force == pytest.approx(alone.force, rel=0.05) and beside.undercut == 0


def test_what_is_beside_the_outline_feels_nothing():
    found = ContactSimulator(slab(), Springs()).query(sphere(), at(0.08, 0.0, -0.01), DOWN)
    assert found.force == pytest.approx(np.zeros(3)) and found.beside == 150 and not len(found.nominal)


def test_normals_that_point_in_are_noticed():
    surface = slab()
    inverted = Surface(surface.points, surface.colours, -surface.normals)
    with pytest.raises(ValueError, match="normals point inward"):
        ContactSimulator(inverted, Springs()).query(punch(), at(z=-0.003), DOWN)


def test_an_offset_of_the_scan_that_the_model_has_learnt_counts_from_where_the_surface_is_met():
    """The scan is 4 mm inside the true surface. Pressed to 1 mm into the scan a point feels k 5 mm; (4.4) as published loses the 4 mm that
    the model has at d = 0, and before d = 0 there is no contact at all."""
    model = Springs(onset=-0.004)
    published, ours = (ContactSimulator(slab(), model, onset=o) for o in (0.0, -0.004))
    assert published.query(point_probe(), at(z=-0.001), DOWN).force[2] == pytest.approx(STIFF * 0.001)
    assert ours.query(point_probe(), at(z=-0.001), DOWN).force[2] == pytest.approx(STIFF * 0.005)
    assert published.query(point_probe(), at(z=0.002), DOWN).force[2] == 0.0
    assert ours.query(point_probe(), at(z=0.002), DOWN).force[2] == pytest.approx(STIFF * 0.002)
    # and a whole body feels what it would with a true scan
    true = ContactSimulator(slab(z=0.004), Springs()).query(cylinder_probe(), at(z=0.001), DOWN)
    assert ours.query(cylinder_probe(), at(z=0.001), DOWN).force == pytest.approx(true.force, rel=1e-9)


def test_forces_go_on_along_the_last_slope_beyond_what_was_learnt():
    model = Springs(power=2.0, deepest=0.01)
    features = np.zeros((4, 9))
    d = np.array([0.005, 0.01, 0.011, 0.03])
    slope = STIFF * (0.01**2 - 0.008**2) / 0.002
    found = Extrapolated(model, 0.2).predict(features, d)
    assert found == pytest.approx([*(STIFF * d[:2] ** 2), *(STIFF * 0.01**2 + slope * (d[2:] - 0.01))])
    assert model.calls == 1
    contact = ContactSimulator(slab(), model).query(point_probe(), at(z=-0.012), DOWN)
    assert contact.beyond and contact.force[2] == pytest.approx(STIFF * 0.01**2 + slope * 0.002)
    assert not ContactSimulator(slab(), model).query(point_probe(), at(z=-0.009), DOWN).beyond
    # a model with samples beyond its pokes is asked up to where it has them
    model.reach = 0.02
    slope = STIFF * (0.02**2 - 0.016**2) / 0.004
    found = Extrapolated(model, 0.2).predict(features[:3], np.array([0.011, 0.02, 0.03]))
    assert found == pytest.approx([STIFF * 0.011**2, STIFF * 0.02**2, STIFF * 0.02**2 + slope * 0.01])
    with pytest.raises(ValueError, match="window"):
        Extrapolated(model, 0.0)


def test_negative_point_forces_become_none_and_are_counted():
    class Falling(Springs):
        def predict(self, features, displacement):
            return -super().predict(features, displacement)

    found = ContactSimulator(slab(), Falling()).query(punch(), at(z=-0.003), DOWN)
    assert found.force == pytest.approx(np.zeros(3)) and found.clipped == found.active.sum() > 0
    assert ContactSimulator(slab(), Falling(), clip=False).query(punch(), at(z=-0.003), DOWN).force[2] < 0.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: ContactSimulator(s, Springs(), 0.0), "coupling"),
        (lambda s: ContactSimulator(s, Springs(), solver="lemke"), "exact, pruned, apart"),
        (lambda s: ContactSimulator(s, Springs(), reach=0.0), "reach"),
        (lambda s: ContactSimulator(s, Springs(), onset=np.nan), "onset"),
        (lambda s: ContactSimulator(s, Springs()).query(punch(), np.eye(3), DOWN), r"shape \(4, 4\)"),
        (lambda s: ContactSimulator(s, Springs()).query(punch(), at(np.nan), DOWN), "pose 0 is not"),
        (lambda s: ContactSimulator(s, Springs()).query(punch(), 2.0 * np.eye(4), DOWN), "orthogonal"),
        (lambda s: ContactSimulator(s, Springs()).query(punch(), np.eye(4), np.zeros(3)), "length above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make(slab(0.01))
