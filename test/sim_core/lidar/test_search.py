"""Searches end as they are declared to: found, lost, in disagreement, without a scan, cancelled; and scans come as drivers tell them."""

import math

import numpy as np
import pytest

from sim_core.lidar.material import MIRROR, Material
from sim_core.lidar.measured import measured_ranges, seen_by, valid_scan
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene
from sim_core.lidar.search import Outcome, SearchOptions, calibrate, flat, locate
from sim_core.lidar.settings import LidarSettings
from sim_core.lidar.shapes import panel, room, stripes

pytestmark = pytest.mark.pure
WALL = {"wall": Material(0.6), "mirror": MIRROR}
BOX = Scene((Body("walls", room((1.85, 0.92, 0.28), "wall")),), WALL)
BOARD = Scene(
    (Body("board", stripes(0.03, 20, 0.3, ("white", "black")), (0.5, 0, 0, 0, 0, 0)),),
    {"white": Material(0.8), "black": Material(0.4)},
)
GUESS = dict(zip(flat(), (0.1, 0.05, 0.2)))


def measured(lidar, **values):
    return lidar.scan(values).range + np.random.default_rng(0).normal(0.0, 0.01, lidar.settings.beams)


def test_a_pose_is_found_from_one_scan_and_better_from_several():
    lidar = Lidar(BOX)
    rows = lidar.scan().range + np.random.default_rng(1).normal(0.0, 0.01, (4, 682))
    one, four = locate(lidar, rows[0], GUESS), locate(lidar, rows, GUESS)
    for found, count in ((one, 682), (four, 4 * 682)):
        assert found.outcome == Outcome.FOUND and found.beams == count and found.agreement > 0.99
        assert list(found.values.values()) == pytest.approx([0.0] * 3, abs=4e-3)
        assert found.residual == pytest.approx(0.01, rel=0.1)
    assert np.diag(four.fit.covariance) == pytest.approx(np.diag(one.fit.covariance) / 4.0, rel=0.2)


@pytest.mark.parametrize(
    "guess, ranges, outcome, said",
    [
        (dict(zip(flat(), (9.0, 0.0, 0.0))), None, Outcome.LOST, "outside of the scene"),
        (GUESS, np.full(682, np.nan), Outcome.NO_SCAN, "All 682 beams of the scan are invalid"),
        (GUESS, np.full(682, 1.0), Outcome.DISAGREES, "does not fit"),
    ],
)
def test_what_cannot_be_found_is_told(guess, ranges, outcome, said):
    lidar = Lidar(BOX)
    found = locate(lidar, measured(lidar) if ranges is None else ranges, guess)
    assert found.outcome == outcome and said in found.message
    if outcome != Outcome.DISAGREES:
        assert found.values == guess


def test_a_body_out_of_view_is_lost_and_one_that_is_gone_disagrees():
    mirror = Body("mirror", panel(0.4, 0.28, "mirror"), (0.5, 0.05, 0, 0, 0, 0.3), soft=True)
    lidar = Lidar(Scene((*BOX.bodies, mirror), WALL), values={"sensor.x": -0.3})
    names = flat("mirror")
    # Farther off, a mirror through the room's corner would show one wall in the other's place.
    near = dict(zip(names, (0.05, 0.05, 0.15)))
    gone = locate(lidar, measured(lidar, **{"mirror.x": 9.0}), dict(zip(names, (0.5, 0.05, 0.3))), near)
    assert gone.outcome == Outcome.DISAGREES and "mirror" in gone.message
    behind = locate(lidar, measured(lidar), dict(zip(names, (-0.8, 0.0, 0.0))), {name: 0.02 for name in names})
    assert behind.outcome == Outcome.LOST and "mirror: it is out of view" in behind.message


def test_who_watches_sees_costs_fall_and_may_end_it():
    lidar, steps = Lidar(BOX), []

    def until_two(step, cost, values):
        steps.append((step, cost, dict(values)))
        return step >= 2

    found = locate(lidar, measured(lidar), GUESS, options=SearchOptions(starts=1), watch=until_two)
    assert found.outcome == Outcome.CANCELLED and found.fit.iterations == 2 and not found.fit.converged
    assert [s for s, *_ in steps] == [0, 1, 2] and set(steps[0][2]) == set(GUESS)
    assert np.diff([c for _, c, _ in steps]).max() < 0.0
    again = locate(lidar, measured(lidar), GUESS, options=SearchOptions(starts=1), watch=lambda *_: False)
    assert again.values == locate(lidar, measured(lidar), GUESS, options=SearchOptions(starts=1)).values


def test_a_diode_and_black_are_learnt_and_two_albedos_are_too_many():
    truth = {"black.albedo": 0.1, "diode.a": 0.05, "diode.b": -0.06, "diode.c": 0.02}
    lidar = Lidar(BOARD)
    scans = lidar.scan(truth).range + np.random.default_rng(3).normal(0.0, 0.003, (20, 682))
    scans[3, 300:320] = np.nan
    learnt = calibrate(lidar, scans, tuple(truth))
    assert learnt.weak == () and learnt.after < 0.2 * learnt.before
    simulated = lidar.scan(learnt.values).range
    assert np.nanmax(np.abs(simulated - lidar.scan(truth).range)) < 0.004
    assert calibrate(lidar, scans, ("diode.c", "black.index")).weak == ("black.index",)
    with pytest.raises(ValueError, match="invalid"):
        calibrate(lidar, np.full((2, 682), np.nan), tuple(truth))


def test_a_scan_is_where_its_driver_says():
    step = 2.0 * math.pi / 1024.0
    settings = seen_by(-340 * step, step, 682)
    assert settings.angles[340] == pytest.approx(0.0, abs=1e-12) and settings.angles[0] == pytest.approx(-340 * step)
    turned = Lidar(BOX, settings, {"sensor.x": 0.1}).scan().range
    plain = Lidar(BOX, values={"sensor.x": 0.1, "sensor.yaw": 0.5 * step}).scan().range
    assert turned == pytest.approx(plain, abs=1e-12)
    told = np.array([np.nan, np.inf, 0.01, 0.02, 5.6, 5.7, 1.0])
    seven = seen_by(-3 * step, step, 7)
    found = measured_ranges(told, 0.02, 5.6, -3 * step, step, seven)
    assert np.isnan(found).tolist() == [True, True, True, False, False, True, False]
    with pytest.raises(ValueError, match="7 beams is expected, and this one has 6"):
        measured_ranges(told[:6], 0.02, 5.6, -3 * step, step, seven)
    with pytest.raises(ValueError, match="another sensor's"):
        measured_ranges(told, 0.02, 5.6, -2 * step, step, seven)
    for bad in ((-1.0, step, 0), (math.nan, step, 7), (-1.0, -step, 7), (0.0, 1.0, 8)):
        with pytest.raises(ValueError, match="at least one beam"):
            seen_by(*bad)
    assert valid_scan(told) == "" and "no scan" in valid_scan(np.zeros((0, 7)))
    assert LidarSettings().middle == 0.0
