"""What the experiments with the LIDAR stand on: registration of clouds, pose errors, steps of a board, cases."""

import math

import numpy as np
import pytest

from experiments.lidar.lidar_checkerboard import DISTANCES, board, step
from experiments.lidar.lidar_localization import cloud
from experiments.lidar.lidar_mirror_tracking import PLACE, found_from, way
from experiments.lidar.lidar_mirrors import guess
from experiments.lidar.lidar_posterior import Job, judge, solved
from experiments.problems.lidar_scenes import AMONG_THINGS, BOX, MIRRORS, Case, located, measured, noise
from experiments.problems.scan_registration import METHODS, available, best_registration, moved, pose_error
from reporting import Result
from sim_core.lidar.scan import Lidar
from sim_core.lidar.stand_in import RealSensor

pytestmark = pytest.mark.pure


def test_poses_differ_by_place_and_by_the_shorter_turn():
    assert pose_error(np.array([0.3, 0.4, 3.1]), np.array([0.0, 0.0, -3.1])) == pytest.approx((0.5, 2 * math.pi - 6.2))
    assert moved(np.array([1.0, 2.0, math.pi / 2]), np.array([[1.0, 0.0]])) == pytest.approx(np.array([[1.0, 3.0]]))


@pytest.mark.parametrize("method", METHODS)
def test_a_registration_finds_a_small_step(method):
    if method != "NDT" and not available():
        pytest.skip("small_gicp is not installed (./refit setup bench)")
    lidar, truth, start = Lidar(BOX), np.array([0.1, -0.05, 0.2]), np.array([0.14, -0.02, 0.15])
    clouds = [
        cloud(lidar.scan(dict(zip(("sensor.x", "sensor.y", "sensor.yaw"), p))).range, lidar.settings.angles)
        for p in (start, truth)
    ]
    found = best_registration(method, *clouds, start, truth)
    assert found.place < 0.01 and found.heading < 0.02
    assert found.combined < 0.2 * np.hypot(*pose_error(start, truth))


def test_guesses_are_as_far_off_as_the_published_one():
    assert guess(0) == pytest.approx((0.1, 0.1, math.radians(10.0)))
    for k in range(8):
        x, y, yaw = guess(k)
        assert math.hypot(x, y) == pytest.approx(math.hypot(0.1, 0.1)) and abs(yaw) == pytest.approx(math.radians(10.0))


def test_a_sensor_among_mirrors_is_located():
    case = Case(MIRRORS, (0.0, 0.0, 0.0), guess(0), RealSensor(rays=7, phase_noise=noise(0.003).phase_noise), 0)
    found = located(case, measured(case.scene, case.truth, case.sensor, case.seed), AMONG_THINGS)
    place, heading = pose_error(np.array(list(found.values.values())), np.array(case.truth))
    assert place < 0.005 and heading < math.radians(0.3)


def test_a_mirrors_posterior_is_as_wide_as_its_fits_scatter_and_is_judged():
    rows = [solved(Job("mirror", seed, chain=seed == 0)) for seed in range(3)]
    for row in rows:
        assert row["outcome"] == "FOUND" and ((row["rank"] >= 0.0) & (row["rank"] <= 1.0)).all()
        assert row["std"] == pytest.approx(row["told"], rel=0.5)
        assert (np.abs(row["mean"]) < 4.0 * row["std"]).all()
    result = Result("lidar_posterior", seed=0, size="quick")
    judge(result, "mirror", rows)
    assert len(result.checks) == 4 and result.details["mirror"][0]["parameter"] == "mirror.x"
    # A posterior that is a hundred times too narrow misses: the truth is at an end of its ranks.
    narrow = [row | {"rank": np.ones(3)} for row in rows]
    result = Result("lidar_posterior", seed=0, size="quick")
    judge(result, "mirror", narrow)
    assert not any(check.passed for check in result.checks[:3])


def test_a_mirror_behind_the_sensor_is_lost_and_its_way_stays_in_sight():
    assert found_from(np.array([-0.8, 0.0, 0.0]), (-0.8, 0.0, 0.0), 0).lost == ("mirror",)
    there = way(40)
    assert (np.hypot(there[:, 0] - PLACE[0], there[:, 1]) > 0.4).all()
    assert np.abs(np.diff(there, axis=0)[:, :2]).max() < 0.03


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_step_of_a_board_is_what_the_diode_makes_of_white_and_black(distance):
    lidar = Lidar(board(distance, black=0.1))
    plain, shifted = lidar.scan().range, lidar.scan({"diode.b": -0.05}).range
    # at the middle: 0.05 rad for each unit of radiance, k / pi / distance^2
    wanted = 0.512 * 0.05 * (0.8 - 0.1) / math.pi / distance**2
    assert step(plain, distance) == pytest.approx(0.0, abs=5e-4)
    assert step(shifted, distance) == pytest.approx(wanted, rel=0.4) and step(shifted, distance) > 0.0
