"""Residuals that repeat themselves, against a first-order process in closed form."""

import numpy as np
import pytest

from sim_core.inference.fit.repetition import autocorrelation, independent_share


def coloured(memory, seed, shape=(40, 200, 6)):
    """Residuals of unit variance, each of which remembers so much of the one before."""
    e = np.random.default_rng(seed).standard_normal(shape)
    for k in range(1, shape[1]):
        e[:, k] = memory * e[:, k - 1] + np.sqrt(1.0 - memory**2) * e[:, k]
    return e


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8, 0.9])
def test_residuals_that_remember_say_as_much_as_their_autocorrelation_time_allows(memory):
    expected = (1.0 - memory) / (1.0 + memory)  # of a first-order process, in closed form
    found = [independent_share(coloured(memory, seed)) for seed in range(5)]
    assert np.allclose(found, expected, rtol=0.1) and max(found) <= 1.0
    white, slow = coloured(0.0, 7, (40, 200, 3)), 0.01 * coloured(0.9, 8, (40, 200, 3))
    assert independent_share(np.concatenate([white, slow], 2)) > 0.9  # what costs nothing says nothing


def test_one_wild_residual_is_no_repetition():
    e = coloured(0.8, 1)
    e[0, 50:52] = 1e6
    assert independent_share(e) == pytest.approx(1.0 / 9.0, rel=0.1)
    assert independent_share(np.zeros((2, 30, 4))) == 1.0


def test_the_autocorrelation_of_a_first_order_process():
    lags = [0, 1, 2, 5]
    assert autocorrelation(coloured(0.8, 3), lags) == pytest.approx(0.8 ** np.array(lags), abs=0.05)
