"""Arms displaced at random return to their path below 40 % of their velocity limits; the experiment does a hundred of each."""

import numpy as np
import pytest

from experiments.adaptive_mpc.resume_anywhere import FASTEST, ROBOTS, judge
from experiments.problems.displaced_arm import displaced, go_back, passes_through
from reporting import Result
from sim_core.control.path_follower import PathSettings
from sim_core.multibody import load_model


@pytest.mark.parametrize("robot", ROBOTS)
def test_arms_return_calmly_from_anywhere(robot):
    returns = [go_back(start) for start in displaced(robot, 4, seed=7)]
    result = Result("four")
    judge(result, robot, returns)
    assert result.passed, result.checks
    for back in returns:
        # They do use what they may, and the hand had been far away.
        assert back.fastest > 0.9 * PathSettings().approach_speed and back.distance > 0.1


def test_chasing_the_path_at_once_would_not_be_calm():
    start = displaced("panda", 1, seed=7)[0]
    at_once = go_back(start, PathSettings(path_tolerance=10.0, turn_tolerance=10.0))
    assert at_once.fastest > FASTEST


def test_displaced_states_are_clear_of_the_floor_and_of_the_arm():
    model = load_model("panda")
    starts = displaced("panda", 20, seed=3)
    assert not any(passes_through("panda", s.q) for s in starts)
    assert passes_through("panda", np.array([0, 1.7, 0, -0.1, 0, 0.5, 0]))  # stretched out and down
    moving = [np.abs(s.v).max() > 0 for s in starts]
    assert moving == [k % 2 == 1 for k in range(20)] and {s.mass for s in starts} == {0.0, 2.0}
    assert all(np.all(np.abs(s.v) <= 0.2 * model.v_limit) for s in starts)
