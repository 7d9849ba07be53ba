"""Stein's identity tells exact draws from sets that are too narrow, too wide, moved, or all at one place."""

import numpy as np
import pytest

from sim_core.inference.posterior.stein_check import stein_check

N = 100


@pytest.fixture(params=[1, 3, 8])
def gaussian(request):
    """(draw, score): of a Gaussian with correlations, well within the limits."""
    n = request.param
    rng = np.random.default_rng(n)
    mix = rng.normal(size=(n, n)) + 2.0 * np.eye(n)
    factor = 0.01 * np.linalg.cholesky(mix @ mix.T / n)
    precision = np.linalg.inv(factor @ factor.T)

    def draw(spread=1.0, shift=0.0):
        return 0.5 + (spread * rng.normal(size=(N, n)) + shift) @ factor.T

    return draw, lambda z: -(z - 0.5) @ precision


def test_exact_draws_pass_as_often_as_they_should(gaussian):
    draw, score = gaussian
    found = [stein_check(z, score(z), seed) for seed, z in enumerate(draw() for _ in range(60))]
    assert np.mean([each.p_value < 0.1 for each in found]) < 0.25
    assert np.mean([each.discrepancy for each in found]) == pytest.approx(1.0, abs=0.35)
    low, high = found[0].expected
    assert (
        low / 1.5 < np.mean([each.narrowest for each in found]) <= np.mean([each.widest for each in found]) < 1.5 * high
    )


@pytest.mark.parametrize("spread, shift", [(0.4, 0.0), (0.0, 0.0), (1.0, 1.0)])
def test_too_narrow_or_elsewhere_is_no_set_of_draws(gaussian, spread, shift):
    draw, score = gaussian
    z = draw(spread, shift)
    found = stein_check(z, score(z))
    assert found.p_value < 0.01 and found.discrepancy > 2.0
    if not shift:
        assert found.widest < 0.5


def test_the_ratio_of_variances_is_that_of_the_spread(gaussian):
    draw, score = gaussian
    for spread in (0.5, 2.0):
        z = draw()
        # Moments of the draws themselves, so that the ratio is exact but for what the limits' coordinates bend.
        z = 0.5 + spread * (z - z.mean(axis=0))
        found, same = stein_check(z, score(z)), stein_check((z - 0.5) / spread + 0.5, score((z - 0.5) / spread + 0.5))
        assert found.narrowest / same.narrowest == pytest.approx(spread**2, rel=0.15)


def test_one_direction_of_many_is_seen():
    rng = np.random.default_rng(4)
    e = rng.normal(size=(N, 8))
    e[:, 3] *= 0.2
    found = stein_check(0.5 + 0.03 * e, -e / 0.03)
    assert found.narrowest < 0.1 < 0.4 < found.widest
    assert found.narrowest < found.expected[0] / 2.0


def test_a_uniform_density_has_no_score_and_yet_a_spread():
    rng = np.random.default_rng(5)
    for n in (1, 3):
        z = rng.random((N, n))
        found = stein_check(z, np.zeros_like(z))
        assert found.p_value > 0.01 and 0.5 < found.narrowest <= found.widest < 2.0
        lumped = stein_check(0.4 + 0.2 * z, np.zeros_like(z))
        assert lumped.p_value < 0.01 and lumped.widest < 0.3


def test_particles_on_a_limit_are_no_draws_of_a_density_that_ends_before_it():
    z = np.full((N, 2), 1.0)
    found = stein_check(z, -(z - 0.5) / 0.01)
    assert found.discrepancy > 0.9 * N and found.p_value < 0.01


def test_what_cannot_be_judged_is_said():
    with pytest.raises(ValueError, match="at least 6 particles of 3 coordinates"):
        stein_check(np.full((5, 3), 0.5), np.zeros((5, 3)))
    with pytest.raises(ValueError, match="finite"):
        stein_check(np.full((9, 3), np.nan), np.zeros((9, 3)))
