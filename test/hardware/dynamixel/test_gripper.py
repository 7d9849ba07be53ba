"""A gripper's jaws on one servo."""

import numpy as np
import pytest

from hardware.dynamixel.gripper import JawMap


@pytest.mark.parametrize("openings", [[0.0, 0.01, 0.05, 0.06], [0.06, 0.05, 0.01, 0.0]])
def test_the_lever_is_the_slope_of_the_opening(openings):
    """|d opening / d angle| by central differences; beyond the ends as just before them, also for an angle that nobody knows."""
    angles = [-1.0, 0.0, 0.5, 2.0]
    jaws = JawMap(angles, openings)
    for angle in (-0.9, -0.1, 0.1, 0.4, 0.6, 1.9):
        slope = (jaws.opening(angle + 1e-6) - jaws.opening(angle - 1e-6)) / 2e-6
        assert jaws.lever(angle) == pytest.approx(abs(slope), rel=1e-6)
    assert jaws.lever(-5.0) == jaws.lever(-0.5) and jaws.lever(9.0) == jaws.lever(1.0) == jaws.lever(2.0)
    assert jaws.lever(np.nan) == jaws.lever(1.0)


def test_a_map_that_is_given_from_the_other_end_is_the_same():
    there, back = JawMap([0.0, 1.0, 3.0], [0.0, 0.02, 0.03]), JawMap([3.0, 1.0, 0.0], [0.03, 0.02, 0.0])
    assert [there.lever(a) for a in (0.5, 2.0)] == [back.lever(a) for a in (0.5, 2.0)] == pytest.approx([0.02, 0.005])
