"""A hand on a wrist that shakes: the square is what it says, an open hand drops what a firm one keeps."""

import numpy as np
import pytest

from sim_core.plant.avatar.hand_bench import ACCELERATION, MOTORS, OBJECTS, ROUNDS, SQUARE_SIDE, TICK, HandBench, square
from sim_core.telepresence.hand import poses

FIRM = {
    "Pinch 1": (1.028, 0.2, 0.2, 0.2, 0.382, 1.75),
    "Cube": (0.929, 0.954, 0.932, 1.05, 0.236, 1.85),
    "Power": (1.433, 1.47, 1.434, 1.317, 0.438, 1.9),
}


def test_it_has_the_motors_that_poses_are_told_for():
    bench = HandBench(OBJECTS["Cube"])
    assert MOTORS == poses.MOTORS
    assert bench.lower == pytest.approx(np.zeros(6)) and bench.upper == pytest.approx(poses.REACH)


@pytest.mark.parametrize("most", ACCELERATION)
def test_the_square_is_closed_and_as_fast_as_it_says(most):
    way, speed, acceleration = (np.array(part) for part in zip(*square(most, TICK)))
    assert way.min() == pytest.approx(0.0, abs=1e-12) and way.max() == pytest.approx(SQUARE_SIDE)
    assert way[-1] == pytest.approx([0.0, 0.0]) and not speed[-1].any()
    assert np.abs(acceleration).max() == pytest.approx(most, rel=0.02)
    assert np.gradient(way, TICK, axis=0)[1:-1] == pytest.approx(speed[1:-1], abs=2e-3 * most)
    assert np.gradient(speed, TICK, axis=0)[1:-1] == pytest.approx(acceleration[1:-1], abs=0.1 * most)


@pytest.mark.parametrize("grasp", FIRM)
def test_a_firm_hand_keeps_what_an_open_one_drops(grasp):
    bench = HandBench(OBJECTS[grasp])
    assert bench.close(np.array(FIRM[grasp]))
    assert bench.shake(np.array(FIRM[grasp])) == ROUNDS
    assert not bench.close(0.5 * np.array(FIRM[grasp]))
    assert bench.shake(0.5 * np.array(FIRM[grasp])) == 0


def test_the_wrist_goes_where_it_shall_and_the_same_trial_ends_alike():
    bench = HandBench(OBJECTS["Power"])
    places = []
    for _ in range(2):
        bench.close(np.array(FIRM["Power"]))
        for way, speed, acceleration in square(ACCELERATION[-1], TICK):
            bench._tick(np.array(FIRM["Power"]), way, speed, acceleration)
            assert bench.data.qpos[:2] == pytest.approx(way, abs=3e-3)
        places.append(bench.place())
    assert (places[0] == places[1]).all()


def test_targets_that_open_the_hand_let_go():
    bench = HandBench(OBJECTS["Power"])
    bench.close(np.array(FIRM["Power"]))
    opening = np.linspace(1.0, 0.0, 60)[:, None] * np.array(FIRM["Power"])
    assert bench.shake(opening) == 0
