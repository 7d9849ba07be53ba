"""The six regressors on a small uneven sheet, and the search's budget."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sim_core.elastic.forest import Forest
from sim_core.elastic.point_model import fit_homogeneous, fit_regressor
from sim_core.elastic.poke import Poke
from sim_core.elastic.regressors import AUTO, AUTO_TREES, REGRESSORS, Budget, BudgetedSearch, regressor

pytestmark = pytest.mark.pure
SMALL = Budget(fits=8, seconds=20.0, trees=24)


def poke(place, noise=0.05, seed=0):
    """Hard where it is dark: 200 or 800 N/m, beginning at 2 mm."""
    dark = place[0] > 0.5
    d = np.linspace(-0.004, 0.008, 40)
    f = (800.0 if dark else 200.0) * np.maximum(d - 0.002, 0.0)
    feature = np.concatenate([0.1 * place, np.full(3, 0.1 if dark else 0.8), [0.0, 0.0, 1.0]])
    return Poke(feature, d, f + noise * np.random.default_rng(seed).standard_normal(40))


def some(count, seed):
    rng = np.random.default_rng(seed)
    return [poke(rng.uniform(0.0, 1.0, 3), 0.05, k) for k in range(count)]


def error(model, pokes):
    return float(
        np.sqrt(
            np.mean(
                [
                    np.mean((model.predict(np.tile(p.feature, (len(p), 1)), p.displacement) - p.force) ** 2)
                    for p in pokes
                ]
            )
        )
    )


@pytest.mark.parametrize("name", REGRESSORS)
def test_each_learns_what_one_spring_cannot(name):
    pokes = some(10, 1)
    model = fit_regressor(regressor(name, seed=0, budget=SMALL), pokes)
    tried = [poke(p, 0.0) for p in np.random.default_rng(5).uniform(0.0, 1.0, (30, 3))]
    assert error(model, tried) < 0.8 * error(fit_homogeneous(pokes), tried)
    if name in (AUTO_TREES, "AdaBoost"):
        assert error(fit_regressor(regressor(name, seed=0, budget=SMALL), pokes), tried) == error(model, tried)


def test_onset_is_learnt():
    model = fit_regressor(regressor("extra trees"), some(10, 2))
    tried = [poke(p, 0.0) for p in np.random.default_rng(6).uniform(0.0, 1.0, (30, 3))]
    at_zero = model.predict(np.array([p.feature for p in tried]), np.zeros(30))
    assert np.abs(at_zero).max() < 0.3


def test_the_budget_is_kept():
    pokes = some(10, 3)
    search = fit_regressor(BudgetedSearch(Budget(fits=9, seconds=60.0, trees=20), 0), pokes).estimator
    assert 5 <= search.fits <= 9 and np.isfinite(search.error) and all(isinstance(m, Forest) for m in search.models)
    search = fit_regressor(BudgetedSearch(Budget(fits=10**6, seconds=0.5, trees=20), 0), pokes).estimator
    assert 1 <= search.fits < 10**4


@pytest.mark.parametrize("count", [1, 3])
def test_few_pokes_are_learnt_without_a_search(count):
    search = fit_regressor(BudgetedSearch(SMALL), some(count, 4)).estimator
    assert search.fits == 0 and np.isnan(search.error) and [c["settings"] for c in search.chosen] == [{}]


def test_more_budget_does_no_harm():
    pokes, tried = some(10, 7), [poke(p, 0.0) for p in np.random.default_rng(8).uniform(0.0, 1.0, (30, 3))]
    found = fit_regressor(regressor(AUTO_TREES, budget=Budget(20, 60.0, 100)), pokes)
    assert error(found, tried) < 1.2 * error(fit_regressor(regressor("extra trees"), pokes), tried)


def test_names():
    with pytest.raises(ValueError, match="no regressor"):
        regressor("oracle")
    with pytest.raises(ValueError, match="at least one fit"):
        Budget(fits=0)
    with pytest.raises(RuntimeError, match="call fit first"):
        regressor(AUTO).predict(np.zeros((1, 10)))
