import numpy as np
import pytest
from scipy.spatial import cKDTree

from sim_core.inference.posterior.metrics import kl_knn, mmd


@pytest.mark.parametrize("d, within", [(1, 0.1), (2, 0.1), (3, 0.15)])
def test_kl_of_unit_gaussians_one_apart(d, within):
    """d_KL = 1/2, in the mean of five draws of 2000 samples; the estimator itself is 11 % low for d = 3."""
    values = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        P, Q = rng.standard_normal((2000, d)), rng.standard_normal((2000, d))
        Q[:, 0] += 1.0
        values.append(kl_knn(P, Q))
    assert np.mean(values) == pytest.approx(0.5, rel=within)


def test_kl_equals_the_formula_by_another_search():
    rng = np.random.default_rng(7)
    P, Q = rng.standard_normal((60, 4)), 0.3 + rng.standard_normal((45, 4))
    nu, rho = cKDTree(Q).query(P, 3)[0][:, -1], cKDTree(P).query(P, 4)[0][:, -1]
    assert kl_knn(P, Q) == pytest.approx(4 * np.mean(np.log(nu / rho)) + np.log(45 / 59))


def test_kl_has_a_direction():
    """d_KL(U(0, 1) || U(0, 2)) = log 2; the other way it is infinite, and the estimate large. Unequal numbers of samples."""
    rng = np.random.default_rng(1)
    narrow, wide = rng.uniform(0, 1, (1200, 1)), rng.uniform(0, 2, (1600, 1))
    assert kl_knn(narrow, wide) == pytest.approx(np.log(2), rel=0.1)
    assert kl_knn(wide, narrow) > 2.0


def test_kl_of_what_has_collapsed():
    rng = np.random.default_rng(2)
    collapsed, spread = np.ones((20, 2)), rng.standard_normal((20, 2))
    assert kl_knn(collapsed, spread) == np.inf
    assert np.isfinite(kl_knn(spread, collapsed))
    with pytest.raises(ValueError, match="at least 4 and 3 samples"):
        kl_knn(spread[:3], spread)
    with pytest.raises(ValueError, match="1 rows that are not"):
        kl_knn(np.vstack([spread, [[np.nan, 0]]]), spread)


def test_mmd_of_one_distribution_is_about_zero_and_of_two_is_not():
    rng = np.random.default_rng(3)
    draw = lambda shift=0.0: shift + rng.standard_normal((400, 3))
    same = [mmd(draw(), draw()) for _ in range(5)]
    assert np.abs(same).max() < 0.02
    assert mmd(draw(), draw(1.0)) > 0.3


def test_mmd_of_shifted_gaussians_in_closed_form():
    """One kernel exp(-r^2 / 2 s^2) on N(0,1), N(m,1): 2 s / sqrt(s^2 + 2) (1 - exp(-m^2 / (2 (s^2 + 2))))."""
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((2000, 1)), 2.0 + rng.standard_normal((2000, 1))
    both = np.vstack([X, Y])[:, 0]
    s = np.median(np.abs(both[:, None] - both)[np.triu_indices(4000, 1)])
    expected = 2 * s / np.sqrt(s**2 + 2) * (1 - np.exp(-2.0 / (s**2 + 2)))
    assert mmd(X, Y, bandwidths=(1.0,)) == pytest.approx(expected, rel=0.05)
