"""Particles that are too narrow, too wide, or elsewhere become draws; those that are draws stay such."""

import numpy as np
import pytest

from sim_core.inference.data.density import Box
from sim_core.inference.posterior.finished import arrived, autocorrelation_time, finished
from sim_core.inference.posterior.stein_check import stein_check
from sim_core.inference.samplers import Samples, sample

MEAN = np.array([0.4, 0.6, 0.5])
FACTOR = 0.02 * np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 0.4, 0.2]])
PRECISION = np.linalg.inv(FACTOR @ FACTOR.T)


class Ridge(Box):
    """A Gaussian whose widths differ by a factor of ten, across the coordinates."""

    not_finite = 0

    def __init__(self):
        super().__init__("abc", np.zeros(3), np.ones(3))

    def log_p(self, z):
        return -0.5 * np.einsum("ni,ij,nj->n", z - MEAN, PRECISION, z - MEAN)

    def log_p_and_grad(self, z):
        return self.log_p(z), -(z - MEAN) @ PRECISION


NOTHING = sample("svgd", Ridge(), 5, 1)


@pytest.mark.parametrize("spread, shift", [(0.3, 0.0), (4.0, 0.0), (1.0, 5.0), (0.0, 0.0)])
def test_particles_become_draws(spread, shift):
    rng = np.random.default_rng(0)
    z = MEAN + (spread * rng.normal(size=(100, 3)) + shift) @ FACTOR.T
    start = Samples(z, Ridge().log_p(z), 7, NOTHING.trace, "csvgd", not_finite=2)
    found = finished(start, Ridge(), 400)
    assert found.method == "csvgd" and found.evaluations > 7 and found.not_finite == 2 and found.chains is None
    assert found.z.shape == z.shape and 40 <= len(found.trace.mean) <= 400 and not found.cancelled
    check = stein_check(found.z, Ridge().log_p_and_grad(found.z)[1])
    assert check.p_value > 0.01 and check.narrowest > check.expected[0] / 2 and check.widest < 2 * check.expected[1]
    np.testing.assert_array_equal(finished(start, Ridge(), 400).z, found.z)


def test_they_move_until_what_they_were_is_forgotten_and_no_longer():
    """By the autocorrelation of a walk of which it is known: an AR(1) process of 0.9 has (1 + 0.9) / (1 - 0.9) = 19 steps."""
    rng = np.random.default_rng(1)
    walks = np.zeros((2000, 100, 2))
    for k in range(1, 2000):
        walks[k] = [0.9, 0.5] * walks[k - 1] + rng.normal(size=(100, 2))
    assert autocorrelation_time(walks) == pytest.approx(19.0, rel=0.1)
    assert autocorrelation_time(np.zeros((50, 10, 2))) == np.inf
    draws = Samples(MEAN + rng.normal(size=(100, 3)) @ FACTOR.T, np.zeros(100), 0, NOTHING.trace, "csvgd")
    assert 60 <= len(finished(draws, Ridge(), 2000).trace.mean) <= 300


def test_particles_that_spread_from_one_point_are_not_taken_for_draws_on_the_way():
    """Their steps grow with them: each sweep looks independent of the one before."""
    point = Samples(np.tile(MEAN, (100, 1)), np.zeros(100), 0, NOTHING.trace, "csvgd")
    spreads = [np.linalg.solve(FACTOR, (finished(point, Ridge(), 2000, k).z - MEAN).T).std(1) for k in range(10)]
    np.testing.assert_allclose(np.mean(spreads, axis=0), 1.0, atol=0.12)


def test_too_few_for_an_ensemble_stay_as_they_are():
    few = sample("svgd", Ridge(), 5, 3)
    assert finished(few, Ridge(), 10) is few


def test_a_particle_that_is_caught_elsewhere_is_moved_beside_the_others():
    """Differences of the others, a thousandth as long as the way, would never carry it there."""
    rng = np.random.default_rng(2)
    z = MEAN + 0.01 * rng.normal(size=(60, 3)) @ FACTOR.T
    z[7] = 0.95
    found = finished(Samples(z, Ridge().log_p(z), 0, NOTHING.trace, "csvgd"), Ridge(), 400)
    assert (found.log_p > -20.0).all() and len(arrived(Ridge().log_p(z))) == 59
    check = stein_check(found.z, Ridge().log_p_and_grad(found.z)[1])
    assert check.p_value > 0.01 and check.narrowest > check.expected[0] / 2 and check.widest < 2 * check.expected[1]


def test_where_nothing_has_a_density_nothing_is_moved_beside_anything():
    class Void(Ridge):
        def log_p(self, z):
            return np.full(len(z), -np.inf)

    z = np.random.default_rng(3).random((20, 3))
    found = finished(Samples(z, np.full(20, -np.inf), 0, NOTHING.trace, "csvgd"), Void(), 5)
    np.testing.assert_allclose(found.z, z, atol=1e-7)
