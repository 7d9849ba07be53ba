"""Truths that are known: their noise is what it says, and their places among exact draws are even."""

import numpy as np
import pytest

from experiments.csvgd.calibration import ERRORS, Job, WrongJob, ranked, ranked_under_a_wrong_model
from experiments.problems.known_truths import ROBOTS, problem
from experiments.problems.wrong_models import CASES, WrongModel


@pytest.mark.parametrize("robot", ROBOTS)
def test_recordings_are_those_of_the_truth_with_the_noise_that_the_likelihood_has(robot):
    found = problem(robot)
    z, data = found.drawn(3)
    theta = found.parameters.theta(z)
    exact = found.dynamics.rollout(found.x0, found.u, found.parameters.to_physical(theta))
    residual = (data.x - exact) / found.scale
    assert (residual[:, 0] == 0).all()
    assert residual[:, 1:].std() == pytest.approx(found.sigma, rel=0.1)
    again, same = found.drawn(3)
    np.testing.assert_array_equal(again, z)
    np.testing.assert_array_equal(same.x, data.x)
    # The likelihood is the Gaussian of that noise: chi squared at the truth, and lower a little beside it.
    density = found.density(data, 1)
    log_p = density.log_p(
        np.array([z, *np.clip(z + 0.1 * np.eye(len(z)), 0, 1), *np.clip(z - 0.1 * np.eye(len(z)), 0, 1)])
    )
    norm = -residual[:, 1:].size * np.log(np.sqrt(2 * np.pi) * found.sigma)
    expected = norm - 0.5 * (residual**2).sum() / found.sigma**2
    assert log_p[0] == pytest.approx(expected, rel=1e-6)
    moved = np.abs(np.clip([*(z + 0.1 * np.eye(len(z))), *(z - 0.1 * np.eye(len(z)))], 0, 1) - z).max(axis=1)
    assert (log_p[1:][moved > 0.09] < log_p[0] + 3.0).all()


def test_a_place_among_draws_is_one_of_each_quantity():
    found = ranked(Job("double pendulum", "csvgd", 0, 1))
    assert set(found) == {"csvgd, unfinished", "csvgd"}
    for places in found.values():
        assert places.shape == (2,) and ((places > 0) & (places < 1)).all()
    np.testing.assert_array_equal(found["csvgd"], ranked(Job("double pendulum", "csvgd", 0, 1))["csvgd"])


@pytest.mark.parametrize("robot", ROBOTS)
def test_the_other_robot_is_the_model_s_own_where_nothing_is_wrong_and_moves_otherwise_where_something_is(robot):
    found = problem(robot)
    z, same = WrongModel.of(found, CASES[0]).moved(3)
    exact = found.dynamics.rollout(found.x0, found.u, found.parameters.to_physical(found.parameters.theta(z)))
    np.testing.assert_allclose(same, exact, atol=1e-9)
    for case in CASES[1:]:
        again, other = WrongModel.of(found, case).moved(3)
        np.testing.assert_array_equal(again, z)
        assert np.abs((other - exact) / found.scale).max() > 0.01, case
    _, data = WrongModel.of(found, CASES[-1]).drawn(3)
    noise = ((data.x - WrongModel.of(found, CASES[-1]).moved(3)[1]) / found.scale)[:, 1:]
    assert noise.std() == pytest.approx(found.sigma, rel=0.1)


def test_a_place_under_a_wrong_model_is_one_of_each_quantity():
    places, spreads = ranked_under_a_wrong_model(WrongJob("double pendulum", "hidden friction", 0, 1))
    assert set(places) == set(spreads) == set(ERRORS)
    for each in places.values():
        assert each.shape == (2,) and ((each > 0) & (each < 1)).all()
    assert (spreads["fitted"] > spreads["assumed"]).all()
