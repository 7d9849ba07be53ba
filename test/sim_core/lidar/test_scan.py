"""Scans beside closed forms, a brute-force implementation and central differences."""

import math

import numpy as np
import pytest

from sim_core.lidar.material import ACRYLIC, GLASS, MIRROR, PAPER, Material, black_body
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import POSE, Body, Mesh, Scene, rotation
from sim_core.lidar.settings import LIGHT, LidarSettings, sample_times, spots
from sim_core.lidar.shapes import ball, box, pane, panel, room
from sim_core.lidar.stand_in import RealSensor, followed, real_scan

pytestmark = pytest.mark.pure
ONE = LidarSettings(beams=1, rays=1)
#: every kind of surface in one room
MATERIALS = {"wall": Material(0.6, 0.2), "mirror": MIRROR, "glass": GLASS, "sheet": ACRYLIC, "paper": PAPER}
MANY = Scene(
    (
        Body("walls", room((1.85, 0.92, 0.28), "wall", ends=True)),
        Body("mirror", panel(0.3, 0.2, "mirror"), (0.5, 0.1, 0.0, 0.1, 0.05, 0.3)),
        Body("pane", pane(0.3, 0.2, 0.01, "glass"), (-0.1, 0.3, 0.0, 0.0, 0.1, 1.3)),
        Body("sheet", panel(0.2, 0.2, "sheet"), (-0.1, -0.3, 0.0, 0.0, 0.0, 1.5)),
        Body("ball", ball(0.05, "glass"), (0.2, 0.2, 0.0, 0.1, 0.0, 0.0)),
        Body("block", box((0.1, 0.1, 0.1), "paper"), (0.2, -0.2, 0.0, 0.0, 0.0, 0.3)),
    ),
    MATERIALS,
)
PLACE = dict(zip((f"sensor.{q}" for q in POSE), (-0.2, 0.01, 0.02, 0.01, 0.02, 0.1)))


def facing(distance, material=PAPER, turn=0.0, settings=ONE, width=100.0, **more):
    """A wall before the sensor, turned about the point that its middle beam meets."""
    body = Body("wall", panel(width, width, "wall"), (distance, 0.0, 0.0, 0.0, 0.0, turn))
    return Lidar(Scene((body, *more.pop("others", ())), {"wall": material} | more), settings)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("mean", [False, True])
def test_one_return_gives_its_distance(sampled, mean):
    settings = LidarSettings(beams=1, rays=1, sampled=sampled, mean=mean, lowest=0.0)
    lidar = facing(1.0, settings=settings)
    distance = np.linspace(0.06, 20.0, 1001)
    found = lidar.scans(["wall.x"], distance[:, None])
    assert found.valid.all()
    assert np.abs(found.range[:, 0] - distance).max() < 1e-7  # asked for: 1e-4


def test_sampled_and_closed_phases_agree_on_all_surfaces():
    scans = [Lidar(MANY, LidarSettings(sampled=s), PLACE).scan() for s in (False, True)]
    apart = np.exp(1j * scans[0].phase) - np.exp(1j * scans[1].phase)
    assert np.abs(apart).max() < 1e-9


def test_what_a_surface_emits_is_an_offset_that_the_phases_do_not_see():
    hot = Scene(MANY.bodies, MATERIALS | {"wall": Material(0.6, 0.2, emission=3.0)})
    cold, warm = (Lidar(s, LidarSettings(sampled=True), PLACE).scan() for s in (MANY, hot))
    assert (cold.offset == 0.0).all() and warm.offset.max() == pytest.approx(3.0)
    assert np.abs(np.exp(1j * cold.phase) - np.exp(1j * warm.phase)).max() < 1e-9
    # Its radiance is the same from any distance; in a mirror, what that reflects of it, once.
    near, far = (facing(d, Material(0.6, emission=2.0)).scan().offset[0] for d in (0.5, 3.0))
    assert near == far == 2.0
    glowing = Body("behind", panel(9.0, 9.0, "glowing"), (-2.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    seen = facing(1.0, MIRROR, others=(glowing,), glowing=Material(emission=2.0)).scan().offset[0]
    assert seen == pytest.approx(2.0 * MIRROR.reflectivity)


def test_a_black_body_has_plancks_radiance():
    wavelength = np.geomspace(1e-7, 1e-3, 20001)
    spectrum = np.array([black_body(1500.0, w) for w in wavelength])
    # Stefan and Boltzmann: sigma T^4 / pi over all wavelengths; Wien: where it is largest.
    assert np.trapezoid(spectrum, wavelength) == pytest.approx(5.670374e-8 * 1500.0**4 / math.pi, rel=1e-4)
    assert wavelength[spectrum.argmax()] * 1500.0 == pytest.approx(2.897772e-3, rel=1e-3)
    with pytest.raises(ValueError, match="positive"):
        black_body(0.0)


@pytest.mark.parametrize("frequency", LidarSettings().frequencies)
def test_thirty_samples_of_fifteen_periods_give_the_phase(frequency):
    rng = np.random.default_rng(0)
    time = sample_times() / frequency
    assert time[-1] < 15.0 / frequency and len(np.unique(np.round(np.mod(sample_times(), 1.0), 9))) == 30
    angle = 2.0 * np.pi * frequency * time
    for _ in range(50):
        phase, amplitude, offset = rng.uniform(-3.1, 3.1), rng.uniform(0.01, 10.0), rng.uniform(-5.0, 5.0)
        sample = amplitude * np.sin(angle - phase) + offset
        received = math.atan2(sample @ np.cos(angle), sample @ np.sin(angle))
        assert abs(np.angle(np.exp(1j * (-received - phase)))) < 1e-9


def fresnel(cosine, index):
    """Shares reflected of either polarisation, from the angles (Hecht)."""
    a = math.acos(cosine)
    b = math.asin(math.sin(a) / index)
    return 0.5 * ((math.sin(a - b) / math.sin(a + b)) ** 2 + (math.tan(a - b) / math.tan(a + b)) ** 2)


@pytest.mark.parametrize("turn", [0.2, 0.6, 1.1])
def test_light_is_shared_between_reflection_and_transmission(turn):
    """One wall behind a thin sheet and one where its mirror image looks: together they tell F and 1 - F."""
    onward = np.array([-math.cos(2 * turn), -math.sin(2 * turn)])
    bodies = (
        Body("sheet", panel(1.0, 1.0, "sheet"), (1.0, 0, 0, 0, 0, turn)),
        Body("behind", panel(0.5, 0.5, "paper"), (3.0, 0, 0, 0, 0, 0)),
        Body("aside", panel(0.5, 0.5, "paper"), (1 + 2 * onward[0], 2 * onward[1], 0, 0, 0, math.atan2(*onward[::-1]))),
    )
    sheet = Material(index=1.5, transmission=1.0, thin=True)
    back = Lidar(Scene(bodies, {"paper": PAPER, "sheet": sheet}), LidarSettings(beams=1, rays=1)).returns()
    share = {int(one["body"]): math.sqrt(one["radiance"] * one["path"] ** 2 * math.pi / 0.8) for one in back}
    once = fresnel(math.cos(turn), 1.5)
    assert set(share) == {1, 2} and back["path"] == pytest.approx(np.full(2, 3.0))
    assert share[1] + share[2] == pytest.approx(1.0, abs=1e-12)
    assert share[2] == pytest.approx(2.0 * once / (1.0 + once), rel=1e-9)


def test_snell_and_total_reflection_in_a_prism():
    """Straight into a right-angled prism: light leaves through the slope at Snell's angle, or not at all beyond the critical one."""

    def prism(angle):
        h = math.tan(angle)
        corner = [[0, -2, -1], [0, 2, -1], [1, 2, -1], [0, -2, 1], [0, 2, 1], [1, 2, 1]]
        corner[2][0] = corner[5][0] = 4 * h
        faces = [[0, 1, 2], [3, 5, 4], [0, 4, 1], [0, 3, 4], [0, 5, 3], [0, 2, 5], [1, 5, 2], [1, 4, 5]]
        return Mesh.of(corner, faces, "glass")

    for angle in (0.3, 0.6, 0.8):
        mesh = prism(angle)
        assert mesh.open_edges() == 0
        scene = Scene(
            (Body("prism", mesh, (1, 0, 0, 0, 0, 0)), Body("screen", panel(400, 10, "wall"), (30, 0, 0, 0, 0, 0))),
            {"glass": Material(index=1.5, transmission=1.0), "wall": PAPER},
        )
        back = Lidar(scene, LidarSettings(beams=1, rays=1, glint=0.0, depth=3)).returns()
        onto = back[(back["body"] == 1) & (back["depth"] == 2)]
        assert len(back[back["depth"] < 2]) == 0
        if 1.5 * math.sin(angle) >= 1.0:
            assert len(onto) == 0
            continue
        bend = math.asin(1.5 * math.sin(angle)) - angle
        inside = 2 * math.tan(angle)
        assert onto["path"] == pytest.approx([1.0 + inside + (29.0 - inside) / math.cos(bend)], rel=1e-12)


def test_a_diffuse_surface_scatters_its_albedo():
    """By Monte Carlo over the hemisphere: the radiance of every outgoing direction, reversed, is that of a wall turned so."""
    rng = np.random.default_rng(3)
    cosine = np.sqrt(rng.uniform(0.0, 1.0, 4000))  # weighted by the cosine
    cosine = cosine[cosine > 1e-3]
    lidar = facing(1.0, Material(albedo=0.7), width=1e5, settings=LidarSettings(beams=1, rays=1, glint=0.0, lowest=0.0))
    radiance = lidar.scans(["wall.yaw"], np.arccos(cosine)[:, None]).amplitude[:, 0]
    # L = k / pi cos theta, so that the integral of k / pi cos theta is the mean of pi L / cos theta
    assert np.mean(radiance / cosine) * math.pi == pytest.approx(0.7, rel=0.01)


def test_radiance_falls_with_the_square_of_the_distance_and_with_the_cosine():
    lidar = facing(1.0, Material(albedo=0.7), settings=LidarSettings(beams=1, rays=1, glint=0.0))
    by_distance = lidar.scans(["wall.x"], np.array([[0.5], [1.0], [3.0]])).amplitude[:, 0]
    assert by_distance * np.array([0.25, 1.0, 9.0]) == pytest.approx(np.full(3, 0.7 / math.pi))
    turns = np.array([0.0, 0.5, 1.0])
    assert lidar.scans(["wall.yaw"], turns[:, None]).amplitude[:, 0] == pytest.approx(0.7 / math.pi * np.cos(turns))


def test_rough_surfaces_are_oren_and_nayars():
    sigma, turn = 0.3, 0.8
    lidar = facing(2.0, Material(0.5, sigma), turn, LidarSettings(beams=1, rays=1, glint=0.0))
    a, b = 1 - sigma**2 / (2 * (sigma**2 + 0.33)), 0.45 * sigma**2 / (sigma**2 + 0.09)
    wanted = 0.5 / math.pi * (a + b * math.sin(turn) * math.tan(turn)) * math.cos(turn) / 4.0
    assert lidar.scan().amplitude[0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("rays", [2, 3, 5, 7, 31])
def test_beams_of_several_rays_receive_as_much(rays):
    one, many = (facing(1.5, turn=0.3, settings=LidarSettings(beams=1, rays=r)).scan() for r in (1, rays))
    assert many.amplitude[0] == pytest.approx(one.amplitude[0], rel=0.01)
    assert (spots(rays) ** 2).sum(1).mean() == pytest.approx(0.5, abs=1e-9) and np.abs(spots(rays)).max() < 1.0


def test_a_beam_on_an_edge_reads_between_only_with_several_rays():
    near = Body("near", panel(0.4, 1.0, "near"), (1.0, 0.2, 0.0, 0.0, 0.0, 0.0))
    between = {}
    for rays in (1, 3):
        settings = LidarSettings(beams=9, rays=rays, spacing=0.001)
        lidar = facing(1.5, settings=settings, near=PAPER, others=(near,))
        found = lidar.scan().range
        between[rays] = int(((found > 1.02) & (found < 1.48)).sum())
    assert between[1] == 0 and between[3] >= 1


def test_a_mirror_shows_the_wall_at_the_unfolded_distance():
    bodies = (
        Body("mirror", panel(1.0, 1.0, "mirror"), (1.0, 0, 0, 0, 0, math.pi / 4)),
        Body("wall", panel(50.0, 1.0, "paper"), (0.0, -2.0, 0, 0, 0, math.pi / 2)),
    )
    lidar = Lidar(Scene(bodies, {"mirror": MIRROR, "paper": PAPER}), LidarSettings(beams=3, rays=1))
    found = lidar.scan()
    image = [1.0 + 2.0, 3.0, 3.0]  # the wall's image is the plane x = 3
    assert found.range == pytest.approx(np.array(image) / np.cos(lidar.settings.angles), rel=1e-9)


def test_a_clear_sheet_shows_itself_only_at_a_right_angle():
    sheet = Body("sheet", panel(0.8, 1.0, "sheet"), (0.7, 0, 0, 0, 0, 0))
    lidar = facing(
        1.2,
        settings=LidarSettings(beams=60, rays=3),
        sheet=Material(index=1.49, transmission=1.0, thin=True),
        others=(sheet,),
    )
    angles = lidar.settings.angles
    off = np.abs(lidar.scan().range - 1.2 / np.cos(angles))
    assert off[np.abs(angles) > 0.012].max() < 1e-3 and off[np.abs(angles) < 0.004].max() > 0.02


def test_scans_are_those_of_brute_force():
    """Another implementation, ray by triangle: every return of every ray, with mirrors, glass, sheets and rough walls."""
    settings = LidarSettings(rays=2)
    back = Lidar(MANY, settings, PLACE).returns()
    pose = list(PLACE.values())
    aim = settings.directions.reshape(-1, 3) @ rotation(pose[3:]).T
    other = followed(MANY, np.broadcast_to(pose[:3], aim.shape), aim, RealSensor())
    mine = [back["beam"] * 2 + back["ray"], back["depth"], back["path"], back["radiance"]]
    theirs = [other.ray, other.depth, other.path, other.radiance]
    assert len(mine[0]) == len(theirs[0]) and back["depth"].max() >= 3
    mine, theirs = ([c[np.lexsort((np.round(x[2], 6), x[1], x[0]))] for c in x] for x in (mine, theirs))
    assert np.array_equal(mine[0], theirs[0]) and np.array_equal(mine[1], theirs[1])
    assert np.abs(mine[2] - theirs[2]).max() < 1e-11 and np.abs(mine[3] - theirs[3]).max() < 1e-9


def test_the_tree_finds_what_trying_all_finds():
    rng = np.random.default_rng(1)
    scene = Scene((Body("ball", ball(0.4, "paper", rings=24), (0.1, 0, 0, 0.4, 0.2, 0.1)), *MANY.bodies[:1]), MATERIALS)
    origin = rng.uniform(-0.12, 0.12, (500, 3)) * [6, 3, 1]
    aim = rng.normal(size=(500, 3))
    aim /= np.linalg.norm(aim, axis=1)[:, None]
    lidar = Lidar(scene)
    distance, _, _ = lidar.tracer.cast(np.array(list(lidar.values.values())), origin, aim, threads=2)
    corner = np.concatenate([b.mesh.moved(b.pose).corners for b in scene.bodies])
    a, u, v = corner[:, 0], corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    whole = np.stack(np.broadcast_arrays(u, v, -aim[:, None]), -1)
    t = np.linalg.solve(whole, (origin[:, None] - a)[..., None])[..., 0]
    inside = (t[..., 0] >= 0) & (t[..., 1] >= 0) & (t[..., 0] + t[..., 1] <= 1) & (t[..., 2] > 0)
    assert distance == pytest.approx(np.where(inside, t[..., 2], np.inf).min(1), rel=1e-9)


def test_no_ray_slips_between_triangles():
    lidar = Lidar(Scene((Body("ball", ball(1.0, "paper", rings=8), (0, 0, 0, 0.1, 0.2, 0.3)),), MATERIALS))
    aim = lidar.scene.bodies[0].mesh.moved(lidar.scene.bodies[0].pose).vertices
    middle = 0.5 * (aim[:-2] + np.roll(aim[:-2], 1, axis=0))
    aim = np.concatenate([aim, middle])  # at corners and along edges
    aim /= np.linalg.norm(aim, axis=1)[:, None]
    distance, body, _ = lidar.tracer.cast(np.array(list(lidar.values.values())), 0.0 * aim, aim)
    assert (body == 0).all() and distance.max() < 1.01


FREE = (
    *(f"sensor.{q}" for q in POSE),
    *(f"mirror.{q}" for q in POSE if q != "roll"),  # by which a mirror turns in its plane
    *("pane.x", "pane.yaw", "block.y", "block.pitch"),
    *("wall.albedo", "wall.roughness", "mirror.reflectivity", "glass.index", "sheet.transmission", "paper.albedo"),
    *("diode.a", "diode.b", "diode.c"),
)


@pytest.mark.parametrize("settings", [LidarSettings(), LidarSettings(per_return=False, mean=True, optical=True)])
def test_derivatives_are_those_of_central_differences(settings):
    lidar = Lidar(MANY, settings, PLACE | {"diode.a": 0.02, "diode.b": -0.05, "diode.c": 0.01})
    found = lidar.scan(by=FREE)
    assert found.jacobian.shape == (682, len(FREE)) and found.valid.all()
    step = 1e-6
    for k, name in enumerate(FREE):
        ends = lidar.scans([name], lidar.values[name] + step * np.array([[-2.0], [-1.0], [1.0], [2.0]]))
        a, b, c, d = ends.range
        slope, coarse = (c - b) / (2 * step), (d - a) / (4 * step)
        # differences of two widths agree where no ray changes what it meets; the phases of some sums turn fast
        smooth = np.abs(slope - coarse) < 1e-5 * (1.0 + np.abs(slope))
        assert smooth.mean() > 0.9, name
        miss = np.abs(found.jacobian[smooth, k] - slope[smooth]) / (1.0 + np.abs(slope[smooth]))
        assert miss.max() < 1e-4, name
        assert np.abs(found.jacobian[:, k]).max() > 1e-6, name


def test_a_batch_is_its_scans_and_threads_change_nothing():
    rng = np.random.default_rng(0)
    names = ("sensor.x", "sensor.y", "sensor.yaw", "wall.albedo")
    rows = np.column_stack([rng.uniform(-0.1, 0.1, (5, 3)), rng.uniform(0.3, 0.9, 5)])
    one, two = (Lidar(MANY, threads=t).scans(names, rows, derivatives=True) for t in (1, 2))
    assert np.array_equal(one.range, two.range, equal_nan=True) and np.array_equal(one.jacobian, two.jacobian)
    lidar = Lidar(MANY)
    for k, row in enumerate(rows):
        alone = lidar.scan(dict(zip(names, row)), by=names)
        assert np.array_equal(alone.range, one.range[k], equal_nan=True)
        assert np.array_equal(alone.jacobian, one.jacobian[k])


def test_a_body_that_moves_is_as_one_built_elsewhere():
    there = MANY.at({"mirror": (0.4, 0.0, 0.0, 0.1, 0.0, -0.2)})
    moved = {"mirror.x": 0.4, "mirror.y": 0.0, "mirror.roll": 0.1, "mirror.pitch": 0.0, "mirror.yaw": -0.2}
    assert np.array_equal(Lidar(there).scan().range, Lidar(MANY).scan(moved).range, equal_nan=True)


def test_the_diode_shifts_each_return_by_its_radiance():
    lidar = facing(1.0, Material(albedo=0.5), settings=LidarSettings(beams=1, rays=1, glint=0.0))
    radiance = 0.5 / math.pi
    found = lidar.scan({"diode.a": 0.3, "diode.b": -0.2, "diode.c": 0.05}).range[0]
    shift = 0.3 * radiance**2 - 0.2 * radiance + 0.05
    assert found == pytest.approx(1.0 - LIGHT / (4 * math.pi * 46.55e6) * shift, rel=1e-12)


def test_beams_that_mix_two_returns_say_so():
    """Half on an edge at 1 m, half on a wall at 2.4 m: more than a quarter of a wavelength apart, the phases disagree."""
    near = Body("near", panel(0.4, 1.0, "near"), (1.0, 0.2, 0.0, 0.0, 0.0, 0.0))
    found = facing(2.4, settings=LidarSettings(beams=31, rays=31, spacing=0.001), near=PAPER, others=(near,)).scan()
    mixed = np.abs(found.range - 1.0) + np.abs(found.range - 2.4) > 1.5
    assert found.apart[np.r_[:5, -5:0]].max() < 1e-9
    assert mixed.any() and (found.apart[mixed] > 0.02).all()


def test_where_nothing_comes_back_there_is_no_range():
    lidar = facing(1.0, settings=LidarSettings(beams=682, rays=3), width=0.5)
    found = lidar.scan(by=("sensor.x",))
    assert 0.0 < found.valid.mean() < 0.2
    assert np.isnan(found.range[~found.valid]).all() and not found.jacobian[~found.valid].any()


def test_a_stand_in_without_its_faults_reads_what_the_model_reads():
    few = Scene(tuple(b for b in MANY.bodies if b.name != "ball"), MATERIALS)  # whose triangles are many
    exact = real_scan(few, list(PLACE.values()), RealSensor(rays=7, phase_noise=0.0, bits=0))
    mine = Lidar(few, LidarSettings(rays=7), PLACE).scan().range
    assert np.quantile(np.abs(exact - mine), 0.99) < 1e-9
    noisy = real_scan(few, list(PLACE.values()), RealSensor(rays=7, phase_noise=0.01))
    assert np.median(np.abs(noisy - mine)) == pytest.approx(0.6745 * 0.01 * LIGHT / (4 * math.pi * 46.55e6), rel=0.2)


def test_what_is_unknown_or_not_finite_is_refused():
    lidar = facing(1.0)
    with pytest.raises(KeyError, match="wall.albedo"):
        lidar.scan({"wall.colour": 1.0})
    with pytest.raises(KeyError, match="mirror"):
        lidar.scan(by=("mirror.x",))
    with pytest.raises(ValueError, match="sensor.y is not"):
        lidar.scan({"sensor.y": math.nan})
    with pytest.raises(ValueError, match="each of 1 names"):
        lidar.scans(["sensor.x"], np.zeros((2, 2)))
    for wrong in ({"rays": 0}, {"frequencies": (46e6, 53e6)}, {"depth": 1.5}, {"farthest": 30.0}):
        with pytest.raises(ValueError):
            LidarSettings(**wrong)
