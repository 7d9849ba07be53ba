"""The discrete-element kernel against closed forms, conservation laws and a second implementation."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from sim_core.granular.grains import ball, plate, rock, rod, union
from sim_core.granular.law import Material, pair_law
from sim_core.granular.population import Grains, pour
from sim_core.granular.tools import Part, Tool, box, container
from sim_core.granular.world import GrainsTooFast, GranularWorld

pytestmark = pytest.mark.pure

spec = importlib.util.spec_from_file_location("granular_reference", Path(__file__).parent / "reference.py")
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)

FLOOR = Tool("world", (box((-5, -5, -0.1), (5, 5, 0.0)),))
RADIUS, DENSITY = 0.01, 2500.0
STIFF = 1e6


def spheres(position, materials="grain", radius=RADIUS):
    radii = np.broadcast_to(radius, len(position))
    return Grains.of([ball(r, DENSITY) for r in radii], materials, position=np.asarray(position, float))


def world(position, grain=Material(stiffness=STIFF), tool=Material(stiffness=STIFF), tools=(FLOOR,), **settings):
    return GranularWorld(spheres(position), tools, {"grain": grain, "tool": tool}, **settings)


def test_a_ball_rests_where_the_spring_carries_it():
    w = world([[0.3, -0.2, RADIUS]])
    w.run(round(1.0 / w.step))
    weight = float(w.mass[0]) * 9.81
    assert w.position[0, 2] == pytest.approx(RADIUS - weight / (STIFF * RADIUS), abs=2e-9)
    wrench = w.run(100)["world"]
    np.testing.assert_allclose(wrench[:3], [0.0, 0.0, -weight], atol=1e-4 * weight)
    np.testing.assert_allclose(wrench[3:], [0.2 * weight, 0.3 * weight, 0.0], atol=1e-4 * weight)


@pytest.mark.parametrize("restitution", [0.08, 0.3, 0.9])
def test_balls_part_with_the_speed_that_the_coefficient_of_restitution_says(restitution):
    material = Material(friction=0.0, restitution=restitution, stiffness=STIFF)
    w = world([[0.0, 0.0, 0.5], [0.0201, 0.0, 0.5]], material, tools=(FLOOR,), gravity=(0, 0, 0), step=2e-6)
    w.velocity[0, 0] = 0.5
    w.run(5000)
    assert w.velocity[:, 0].sum() == pytest.approx(0.5, rel=1e-5)
    assert w.velocity[1, 0] - w.velocity[0, 0] == pytest.approx(0.5 * restitution, rel=5e-3)


def test_a_ball_that_slides_comes_to_roll_at_five_sevenths_of_its_speed():
    friction = 0.3
    w = world([[0.0, 0.0, RADIUS]], Material(friction=friction), Material(friction=friction), step=2e-5)
    w.run(20_000)
    w.velocity[0] = [1.0, 0.0, 0.0]
    before = round(0.05 / w.step)
    w.run(before)
    assert w.velocity[0, 0] == pytest.approx(1.0 - friction * 9.81 * 0.05, rel=2e-3)
    w.run(round(0.4 / w.step))
    assert w.velocity[0, 0] == pytest.approx(5.0 / 7.0, rel=2e-3)
    assert w.spin[0, 1] == pytest.approx(5.0 / 7.0 / RADIUS, rel=2e-3)


@pytest.mark.parametrize("tangent, moves", [(0.15, False), (0.25, True)])
def test_a_ball_on_a_slope_stays_below_the_angle_of_rolling_resistance(tangent, moves):
    angle = np.arctan(tangent)
    material = Material(friction=0.8, rolling=0.2)
    w = world([[0, 0, RADIUS]], material, material, gravity=(9.81 * np.sin(angle), 0, -9.81 * np.cos(angle)))
    w.run(round(0.5 / w.step))
    gone = float(w.position[0, 0])
    assert (gone > 0.02) == moves
    if moves:
        before = float(w.velocity[0, 0])
        w.run(round(0.5 / w.step))
        expected = 5.0 / 7.0 * 9.81 * (np.sin(angle) - 0.2 * np.cos(angle))
        assert (w.velocity[0, 0] - before) / 0.5 == pytest.approx(expected, rel=0.01)
    else:
        assert abs(gone) < 1e-4


def test_adhesion_holds_a_ball_below_a_ceiling_up_to_the_pull_off_force():
    weight = ball(RADIUS, DENSITY).mass * 9.81
    ceiling = Tool("world", (box((-1, -1, 0.0), (1, 1, 0.1)),))
    for share, holds in ((1.1, True), (0.9, False)):
        adhesion = share * weight / (2.0 * np.pi * RADIUS)
        material = Material(adhesion=adhesion)
        w = world([[0, 0, -RADIUS]], material, material, tools=(ceiling,))
        w.run(round(0.3 / w.step))
        assert (w.position[0, 2] > -RADIUS * 1.1) == holds


def test_spheres_move_as_a_second_implementation_says():
    rng = np.random.default_rng(4)
    x = np.stack(np.meshgrid([0.0, 0.021], [0.0, 0.0207], [0.011, 0.032]), -1).reshape(-1, 3) + rng.uniform(
        0, 4e-4, (8, 3)
    )
    radius = rng.uniform(0.009, 0.0101, 8)
    grain, floor = Material(0.5, 0.1, 0.4, 2e5, 0.05, 0.1), Material(0.3, 0.05, 0.6, 4e5)
    step = 1e-4
    w = GranularWorld(spheres(x, radius=radius), [FLOOR], {"grain": grain, "tool": floor}, step=step)
    them = reference.ReferenceSpheres(x, radius, w.mass, pair_law(grain, grain), pair_law(grain, floor), step)
    w.velocity[:] = them.v[:] = rng.uniform(-0.2, 0.2, (8, 3))
    w.spin[:] = them.w[:] = rng.uniform(-5, 5, (8, 3))
    for _ in range(6):
        w.run(100)
        them.run(100)
        np.testing.assert_allclose(w.position, them.x, atol=2e-6)
        np.testing.assert_allclose(w.velocity, them.v, atol=2e-4)
    assert len(w.touching()[0]) >= 6


def test_an_unequal_body_tumbles_as_eulers_equations_say():
    body = union(np.array([[0, 0, 0], [0.02, 0, 0], [0.0, 0.012, 0.003]]), np.array([0.01, 0.008, 0.006]), DENSITY)
    grains = Grains.of([body], "grain", position=np.array([[0, 0, 1.0]]))
    w = GranularWorld(grains, [FLOOR], {"grain": Material(), "tool": Material()}, gravity=(0, 0, 0), step=2e-5)
    start = np.array([3.0, -4.0, 20.0])
    w.spin[0] = start
    energy, momentum = w.energy()["turning"], body.inertia * start

    def rate(_, y):
        axes = Rotation.from_quat(y[:4]).as_matrix()
        omega = axes @ ((axes.T @ momentum) / body.inertia)
        x, y_, z, s = y[:4]
        a, b, c = omega
        return 0.5 * np.array(
            [s * a + b * z - c * y_, s * b + c * x - a * z, s * c + a * y_ - b * x, -a * x - b * y_ - c * z]
        )

    w.run(25_000)
    true = solve_ivp(rate, (0, 0.5), [0, 0, 0, 1.0], rtol=1e-9, atol=1e-9).y[:, -1]
    ours = Rotation.from_quat(np.roll(w.quaternion[0].astype(float), -1))
    assert (Rotation.from_quat(true / np.linalg.norm(true)).inv() * ours).magnitude() < 0.02
    assert w.energy()["turning"] == pytest.approx(energy, rel=1e-3)
    axes = ours.as_matrix()
    np.testing.assert_allclose(
        axes @ (body.inertia * (axes.T @ w.spin[0])), momentum, rtol=0, atol=2e-3 * np.linalg.norm(momentum)
    )


def stirred(threads=1, grains=150):
    shapes = [rock(0.02, 2600.0, k, spheres=5) for k in range(3)] + [
        plate(0.02, 0.006, 2600.0),
        rod(0.02, 0.003, 1500.0),
    ]
    every = pour(Grains.of(shapes, "grain", np.arange(grains) % len(shapes)), (0.12, 0.12), seed=1)
    blade = Tool("blade", (Part((0.03, 0.0, 0.02), rounding=0.003),), position=(0.0, -0.04, 0.03))
    w = GranularWorld(
        every,
        [container((0.12, 0.12, 1.0)), blade],
        {"grain": Material(0.6, 0.1), "tool": Material(0.4)},
        threads=threads,
    )
    w.move("blade", velocity=(0.0, 0.1, 0.0), spin=(0.0, 0.0, 0.5))
    return w


def test_momentum_is_what_tools_and_weight_gave():
    w = stirred()
    w.run(2000)
    before = (w.mass[:, None] * w.velocity.astype(float)).sum(0)
    steps = 400
    wrenches = w.run(steps)
    gained = (w.mass[:, None] * w.velocity.astype(float)).sum(0) - before
    given = np.array([0.0, 0.0, -9.81]) * w.mass.sum() - sum(wrench[:3] for wrench in wrenches.values())
    np.testing.assert_allclose(gained, given * steps * w.step, atol=2e-4 * w.mass.sum() * 9.81 * steps * w.step)
    assert np.linalg.norm(wrenches["blade"][:3]) > 0.1
    assert w.peak["blade"] >= np.linalg.norm(wrenches["blade"][:3])


def test_a_run_depends_on_neither_threads_nor_a_pause_for_saving():
    one, three = stirred(1), stirred(3)
    one.run(1500)
    three.run(1500)
    np.testing.assert_array_equal(one.position, three.position)
    saved = one.state()
    one.run(700)
    again = stirred(2)
    again.restore(saved)
    again.run(700)
    np.testing.assert_array_equal(one.position, again.position)
    np.testing.assert_array_equal(one.spin, again.spin)
    assert again.time == pytest.approx(one.time)


def test_a_pile_comes_to_rest_and_loses_energy():
    w = stirred(1)
    w.move("blade", position=(0.0, 0.0, 2.0))
    spent = w.settle(longest=3.0)
    assert spent < 3.0
    before = sum(w.energy().values())
    w.run(2000)
    assert sum(w.energy().values()) <= before * (1 + 1e-5)
    assert (w.position[:, 2] > 0.0).all() and (np.abs(w.position[:, :2]) < 0.06).all()


def test_a_shape_weighs_what_its_union_weighs():
    two = union(np.array([[0.0, 0, 0], [0.012, 0, 0]]), np.array([0.01, 0.01]), DENSITY)
    cap = np.pi * (0.01 - 0.006) ** 2 * (3 * 0.01 - 0.004) / 3.0
    assert two.volume == pytest.approx(2 * (4 / 3 * np.pi * 1e-6 - cap), rel=5e-3)
    one = union(np.array([[0.1, 0.2, 0.3]]), np.array([0.01]), DENSITY)
    assert one.inertia == pytest.approx(np.full(3, 0.4 * one.mass * 1e-4))
    dense = union(np.array([[0.0, 0, 0], [1e-9, 0, 0]]), np.array([0.01, 0.01]), DENSITY)
    assert dense.inertia == pytest.approx(one.inertia, rel=5e-3)
    assert plate(0.03, 0.006, 1.0).inertia[2] > 1.6 * plate(0.03, 0.006, 1.0).inertia[0]


def test_what_a_world_refuses():
    with pytest.raises(ValueError, match="no material 'granite'|no material granite"):
        GranularWorld(spheres([[0, 0, 1]], "granite"), [FLOOR], {"grain": Material(), "tool": Material()})
    with pytest.raises(ValueError, match="friction is between"):
        Material(friction=float("nan"))
    w = world([[0, 0, 1.0]])
    with pytest.raises(KeyError, match="no tool 'spoon'"):
        w.move("spoon")
    with pytest.raises(ValueError, match="nothing has moved"):
        w.move("world", position=(0, 0, float("nan")))
    with pytest.raises(ValueError, match="make the world with the same grains"):
        w.restore({**world([[0, 0, 1.0], [1, 0, 1]]).state()})


def test_grains_that_fly_apart_end_the_run_with_a_sentence():
    w = world([[0, 0, 0.02], [0.002, 0, 0.02]], Material(stiffness=1e9), step=1e-4)
    with pytest.raises(GrainsTooFast, match="use a step shorter than"):
        w.run(1000)
    w = world([[0, 0, 0.02]])
    w.velocity[0] = np.nan
    with pytest.raises(GrainsTooFast, match="1 of 1 grains"):
        w.run(1)
