"""Laws of many grains that small beds show already: what a floor and walls bear, and how a gas of grains cools."""

import numpy as np
import pytest

from experiments.problems.granular_flows import Gas, cooling
from experiments.problems.granular_loads import Silo, bottom_load
from experiments.problems.granular_slopes import angle_of

pytestmark = pytest.mark.pure


def test_the_floor_of_a_smooth_silo_bears_all_and_that_of_a_rough_one_little():
    rough, smooth = (bottom_load(Silo(300, side=4.0, rough=rough, descent=1.0)) for rough in (True, False))
    for load in (rough, smooth):
        assert load["floor"] + load["walls"] == pytest.approx(load["filled"], rel=0.02)
    assert smooth["floor"] == pytest.approx(smooth["filled"], rel=0.02)
    assert rough["floor"] < 0.5 * rough["filled"]


def test_a_gas_of_grains_cools_as_haff_says():
    gas = cooling(Gas(side=8, times=2.0))
    root = gas["temperature"] ** -0.5
    slope, start = np.polyfit(gas["time"], root, 1)
    assert np.corrcoef(gas["time"], root)[0, 1] ** 2 > 0.995
    # 512 balls in a box 19 of them long: kinetic theory is for more.
    assert start / slope == pytest.approx(gas["predicted"], rel=0.12)


def test_the_angle_of_a_known_slope_is_found():
    rng = np.random.default_rng(2)
    x, down = rng.uniform(0.0, 0.3, 4000), rng.uniform(0.0, 1.0, 4000)
    top = np.tan(0.4) * (0.3 - x)
    assert angle_of(x, top * down, 0.02) == pytest.approx(0.4, abs=0.03)
