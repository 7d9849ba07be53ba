"""Compiled ensembles of trees against scikit-learn's own answers."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from sim_core.elastic.forest import Forest, is_forest

pytestmark = pytest.mark.pure


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 10))
    return x, np.maximum(x[:, 9], 0.0) * (2.0 + np.sin(3.0 * x[:, 0])) + 0.05 * rng.standard_normal(n)


@pytest.mark.parametrize(
    "estimator",
    [
        ExtraTreesRegressor(30, random_state=0),
        RandomForestRegressor(30, random_state=0),
        GradientBoostingRegressor(random_state=0),
        GradientBoostingRegressor(init="zero", learning_rate=0.3, random_state=0),
        AdaBoostRegressor(random_state=0),
        AdaBoostRegressor(DecisionTreeRegressor(max_depth=8), n_estimators=20, random_state=1),
        BaggingRegressor(n_estimators=7, random_state=0),
        DecisionTreeRegressor(random_state=0),
        DecisionTreeRegressor(max_depth=1),
        make_pipeline(StandardScaler(), ExtraTreesRegressor(20, min_samples_leaf=3, random_state=0)),
    ],
    ids=lambda e: type(e).__name__,
)
def test_equal_to_scikit_learn(estimator):
    x, y = data()
    estimator.fit(x, y)
    asked = np.concatenate(
        [data(1003, 1)[0], x]
    )  # the trees' own thresholds lie between these; 1403 is no multiple of anything
    asked[:50] = np.round(asked[:50], 1)
    found = Forest.of(estimator).predict(asked)
    assert np.abs(found - estimator.predict(asked)).max() < 1e-12


def test_one_query_and_none():
    x, y = data()
    forest = Forest.of(ExtraTreesRegressor(10, random_state=0).fit(x, y))
    assert forest.predict(x[:1])[0] == pytest.approx(forest.predict(x)[0]) and forest.predict(x[:0]).shape == (0,)
    assert (pickle.loads(pickle.dumps(forest)).predict(x) == forest.predict(x)).all()


def test_fit_again():
    x, y = data()
    forest = Forest.of(RandomForestRegressor(10, random_state=0).fit(x, y))
    forest.fit(x, -y)
    assert np.abs(forest.predict(x) - forest.estimator.predict(x)).max() < 1e-12 and forest.predict(x).mean() < 0.0


def test_thresholds_that_are_no_single_numbers_part_queries_as_scikit_learn_does():
    """Each query is the single number next to a threshold, below or above it."""
    x, y = data(60)
    tree = DecisionTreeRegressor(random_state=0).fit(x, y)
    inner = tree.tree_.feature >= 0
    threshold = tree.tree_.threshold[inner].astype(np.float32)
    asked = np.repeat(x[:1].astype(np.float32), 3 * len(threshold), axis=0)
    near = np.stack([threshold, np.nextafter(threshold, np.float32(-9)), np.nextafter(threshold, np.float32(9))])
    asked[np.arange(len(asked)), np.tile(tree.tree_.feature[inner], 3)] = near.ravel()
    assert (Forest.of(tree).predict(asked) == tree.predict(asked)).all()


def test_what_is_no_forest():
    x, y = data()
    with pytest.raises(ValueError, match="not from Ridge"):
        Forest.of(Ridge().fit(x, y))
    with pytest.raises(ValueError, match="fitted"):
        Forest.of(ExtraTreesRegressor())
    forest = Forest.of(DecisionTreeRegressor().fit(x, y))
    with pytest.raises(ValueError, match="10 features"):
        forest.predict(x[:, :4])
    with pytest.raises(ValueError, match="finite"):
        forest.predict(np.full((1, 10), np.nan))
    assert is_forest(make_pipeline(StandardScaler(), DecisionTreeRegressor())) and not is_forest(Ridge())
