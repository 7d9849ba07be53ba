"""Fits: known parameters come back, what cannot be known is said, what makes no sense is refused."""

import math

import numpy as np
import pytest

from sim_core.lidar.fit import FitOptions, fit
from sim_core.lidar.material import MIRROR, Material
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene
from sim_core.lidar.settings import LidarSettings
from sim_core.lidar.shapes import panel, room, stripes
from sim_core.lidar.stand_in import RealSensor, real_scan, warped

pytestmark = pytest.mark.pure
POSE = ("sensor.x", "sensor.y", "sensor.yaw")
BOX = Scene((Body("walls", room((1.85, 0.92, 0.28), "wall")),), {"wall": Material(0.6)})
WITH_MIRROR = Scene(
    (*BOX.bodies, Body("mirror", panel(0.4, 0.28, "mirror"), (0.5, 0.05, 0, 0, 0, 0.3), soft=True)),
    {"wall": Material(0.6), "mirror": MIRROR},
)
MIRROR_POSE = {"mirror.x": 0.5, "mirror.y": 0.05, "mirror.yaw": 0.3}


@pytest.mark.parametrize("method", ["lm", "lbfgs"])
@pytest.mark.parametrize("place", [(0.0, 0.0, 0.0), (-0.3, 0.1, 0.2), (0.5, -0.2, 1.5)])
def test_a_sensor_turned_by_60_degrees_finds_itself(method, place):
    lidar = Lidar(BOX)
    measured = lidar.scan(dict(zip(POSE, place))).range
    start = dict(zip(POSE, (*place[:2], place[2] + math.pi / 3)))
    options = FitOptions(method=method, gain=1e-14, step=1e-12)
    found = fit(lidar, measured, start, options=options)
    assert list(found.values.values()) == pytest.approx(place, abs=1e-5)
    assert found.iterations <= 50 and found.lost == found.weak == ()
    assert len(found.path) == len(found.trace) and (np.diff(found.trace) <= 0).all()


def test_a_covariance_is_that_of_repeated_measurements():
    lidar, rng = Lidar(BOX), np.random.default_rng(0)
    exact = lidar.scan().range
    fits = [fit(lidar, exact + rng.normal(0.0, 0.01, 682), dict.fromkeys(POSE, 0.0)) for _ in range(80)]
    ends = np.array([list(f.values.values()) for f in fits])
    told = np.mean([np.sqrt(np.diag(f.covariance)) for f in fits], 0)
    assert ends.std(0) == pytest.approx(told, rel=0.25)


def test_a_stand_in_with_other_walls_is_still_located():
    other = Scene((warped(BOX.bodies[0], 0.002, 1),), {"wall": Material(0.6, 0.25)})
    measured = real_scan(other, (0,) * 6, RealSensor(phase_noise=0.0195, rays=7), seed=1)
    found = fit(Lidar(BOX), measured, dict(zip(POSE, (0.0, 0.0, math.pi / 3))))
    assert math.hypot(found.values["sensor.x"], found.values["sensor.y"]) < 0.005
    assert abs(math.degrees(found.values["sensor.yaw"])) < 0.3


def test_a_mirror_is_found_by_its_softened_outline_and_not_without():
    lidar = Lidar(WITH_MIRROR, values={"sensor.x": -0.3})
    measured = lidar.scan().range
    start = {"mirror.x": 0.53, "mirror.y": 0.09, "mirror.yaw": 0.3 - math.radians(10)}
    near = (0.08, 0.08, 0.2)
    bounds = {name: (value - by, value + by) for (name, value), by in zip(start.items(), near)}
    soft, hard = (
        fit(lidar, measured, start, bounds, FitOptions(huber=0.1, softness=s, starts=8))
        for s in ((0.05, 0.005), (0.0,))
    )
    away = [math.hypot(f.values["mirror.x"] - 0.5, f.values["mirror.y"] - 0.05) for f in (soft, hard)]
    assert away[0] < 2e-3 < 0.02 < away[1]
    assert soft.weak == () and 0.0 < np.sqrt(np.diag(soft.covariance)).max() < 0.01
    assert soft.values["mirror.yaw"] == pytest.approx(0.3, abs=2e-3)


def test_a_mirrors_covariance_is_that_of_repeated_measurements():
    # A real beam is a cone, whose outlines tell where a mirror ends: the one that is measured has 61 rays.
    lidar, rng = Lidar(WITH_MIRROR, values={"sensor.x": -0.3}), np.random.default_rng(0)
    exact = Lidar(WITH_MIRROR, LidarSettings(rays=61), {"sensor.x": -0.3}).scan().range
    options = FitOptions(huber=0.1, softness=(0.005,))
    fits = [fit(lidar, exact + rng.normal(0.0, 0.01, 682), MIRROR_POSE, options=options) for _ in range(60)]
    ends = np.array([list(f.values.values()) for f in fits])
    told = np.median([np.sqrt(np.diag(f.covariance)) for f in fits], 0)
    assert ends.std(0) == pytest.approx(told, rel=0.35)
    # Along itself, where its outline alone tells it, no more than a quarter of a millimetre off on average.
    assert (np.abs(ends.mean(0) - list(MIRROR_POSE.values())) < 1.2 * told).all()


def test_starts_are_tried_together_and_the_best_one_counts():
    lidar = Lidar(BOX)
    measured = lidar.scan({"sensor.x": 0.6, "sensor.y": 0.2, "sensor.yaw": 2.9}).range
    start = dict.fromkeys(POSE, 0.0)
    # half of all directions: from its other end, a box looks the same
    bounds = {"sensor.x": (-0.9, 0.9), "sensor.y": (-0.45, 0.45), "sensor.yaw": (0.0, math.pi)}
    many = fit(lidar, measured, start, bounds, FitOptions(starts=24))
    assert list(many.values.values()) == pytest.approx([0.6, 0.2, 2.9], abs=1e-4)
    assert many.cost <= fit(lidar, measured, start, bounds).cost


def test_a_bound_holds_and_the_rest_is_the_best_beside_it():
    lidar = Lidar(BOX)
    measured = lidar.scan({"sensor.x": 0.1}).range
    found = fit(lidar, measured, dict.fromkeys(POSE, 0.0), {"sensor.x": (-0.05, 0.05)})
    assert found.values["sensor.x"] == 0.05
    assert found.cost > 1e-3


def test_a_body_out_of_sight_is_lost():
    behind = WITH_MIRROR.at({"mirror": (-0.8, 0.0, 0.0, 0.0, 0.0, 0.0)})
    lidar = Lidar(behind, LidarSettings(), {"sensor.x": -0.3})  # in the sector behind that no beam sees
    start = {"mirror.x": -0.8, "mirror.y": 0.0, "mirror.yaw": 0.0}
    found = fit(lidar, lidar.scan().range, start, options=FitOptions(softness=(0.05, 0.0)))
    assert found.lost == ("mirror",) and list(found.values.values()) == list(start.values())
    assert set(found.weak) == set(start) and np.isnan(found.covariance).all()
    seen = Lidar(WITH_MIRROR, values={"sensor.x": -0.3})
    assert fit(seen, seen.scan().range, MIRROR_POSE).lost == ()


BOARD = Scene(
    (Body("board", stripes(0.03, 20, 0.3, ("white", "black")), (0.5, 0, 0, 0, 0, 0)),),
    {"white": Material(0.8), "black": Material(0.1)},
)
TRUTH = {"black.albedo": 0.1, "diode.a": 0.05, "diode.b": -0.06, "diode.c": 0.02}


def test_a_diode_and_a_black_come_back_and_two_albedos_are_too_many():
    lidar = Lidar(BOARD, values=TRUTH)
    measured = lidar.scan().range
    start = {"black.albedo": 0.3, "diode.a": 0.0, "diode.b": 0.0, "diode.c": 0.0}
    bounds = {"black.albedo": (0.01, 1.0)}
    tight = FitOptions(gain=1e-14, step=1e-12)
    found = fit(lidar, measured, start, bounds, tight)
    assert found.values == pytest.approx(TRUTH, abs=1e-5) and found.weak == ()
    both = fit(lidar, measured, {"white.albedo": 0.8, **TRUTH}, bounds | {"white.albedo": (0.01, 1.0)}, tight)
    assert {"white.albedo", "black.albedo", "diode.a", "diode.b"} <= set(both.weak)
    assert np.isnan(both.covariance[0, 0])


def test_scans_from_known_places_count_together():
    each = [{"board.x": x} for x in (0.4, 0.6, 0.9)]
    lidar = Lidar(BOARD, values=TRUTH)
    measured = np.array([lidar.scan(values).range for values in each])
    start = {"black.albedo": 0.3, "diode.a": 0.0, "diode.b": 0.0, "diode.c": 0.0}
    found = fit(lidar, measured, start, {"black.albedo": (0.01, 1.0)}, FitOptions(gain=1e-14), each)
    assert found.values == pytest.approx(TRUTH, abs=1e-5) and found.residual.shape == (3, 682)


def test_what_makes_no_fit_is_refused():
    lidar = Lidar(BOX)
    measured = lidar.scan().range
    with pytest.raises(KeyError, match="sensor.height"):
        fit(lidar, measured, {"sensor.height": 0.0})
    for start, bounds, data, options, said in (
        ({}, {}, measured, FitOptions(), "free parameter"),
        ({"sensor.x": 0.0}, {}, np.full(682, np.nan), FitOptions(), "measured range"),
        ({"sensor.x": 0.0}, {}, measured[:5], FitOptions(), "682"),
        ({"sensor.x": 0.0}, {"sensor.x": (0.1, 0.2)}, measured, FitOptions(), "within its bounds"),
        ({"sensor.x": 0.0}, {}, measured, FitOptions(starts=3), "bounds of every"),
    ):
        with pytest.raises(ValueError, match=said):
            fit(lidar, data, start, bounds, options)
    with pytest.raises(ValueError, match="lm or lbfgs"):
        FitOptions(method="newton")
