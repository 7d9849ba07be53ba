"""R-hat and effective sizes of chains whose truth is known."""

import numpy as np
import pytest

from sim_core.inference.posterior.chains import chain_check

C, D = 4, 500


def autoregressive(rho, shift=0.0, seed=0):
    """C chains of unit variance that remember rho of each step; the last one moved by `shift`."""
    rng = np.random.default_rng(seed)
    z = np.empty((C, D, 1))
    z[:, 0] = rng.normal(size=(C, 1))
    for k in range(1, D):
        z[:, k] = rho * z[:, k - 1] + np.sqrt(1 - rho**2) * rng.normal(size=(C, 1))
    z[-1] += shift
    return z


def test_independent_draws_are_counted_as_such():
    found = chain_check(autoregressive(0.0))
    assert found.r_hat[0] < 1.01 and found.size[0] > 0.6 * C * D


def test_memory_costs_draws():
    """Of a chain with memory rho, (1 - rho) / (1 + rho) of the draws count."""
    found = chain_check(np.concatenate([autoregressive(0.8, seed=k) for k in range(2)], axis=0))
    assert found.size[0] == pytest.approx(2 * C * D * 0.2 / 1.8, rel=0.5)


def test_a_chain_elsewhere_is_seen():
    assert chain_check(autoregressive(0.0, shift=1.0)).r_hat[0] > 1.1


def test_a_chain_that_never_moved_is_no_chain():
    z = np.concatenate([autoregressive(0.0), autoregressive(0.0, seed=1)], axis=2)
    z[2, :, 1] = 0.3
    found = chain_check(z)
    assert np.isinf(found.r_hat[1]) and found.size[1] == 0.0
    assert np.isfinite(found.r_hat[0]) and found.size[0] > 0.0
    z[..., 1] = 0.3
    assert np.isinf(chain_check(z).r_hat[1])


def test_too_short_chains_are_refused():
    with pytest.raises(ValueError, match="at least four draws"):
        chain_check(np.zeros((2, 3, 1)))
