"""Particles that are too narrow, too wide, or elsewhere become draws; those that are draws stay such."""

import numpy as np
import pytest

from sim_core.inference.data.density import Box
from sim_core.inference.posterior.finished import finished
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


@pytest.mark.parametrize("spread, shift", [(0.3, 0.0), (4.0, 0.0), (1.0, 5.0), (0.0, 0.0)])
def test_particles_become_draws(spread, shift):
    rng = np.random.default_rng(0)
    z = MEAN + (spread * rng.normal(size=(100, 3)) + shift) @ FACTOR.T
    start = Samples(z, Ridge().log_p(z), 7, sample("svgd", Ridge(), 5, 1).trace, "csvgd", not_finite=2)
    found = finished(start, Ridge(), 400)
    assert found.method == "csvgd" and found.evaluations > 7 and found.not_finite == 2 and found.chains is None
    assert found.z.shape == z.shape and len(found.trace.mean) == 400
    check = stein_check(found.z, Ridge().log_p_and_grad(found.z)[1])
    assert check.p_value > 0.01 and check.narrowest > check.expected[0] / 2 and check.widest < 2 * check.expected[1]
    np.testing.assert_array_equal(finished(start, Ridge(), 400).z, found.z)


def test_too_few_for_an_ensemble_stay_as_they_are():
    few = sample("svgd", Ridge(), 5, 3)
    assert finished(few, Ridge(), 10) is few
