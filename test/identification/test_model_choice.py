"""Models of points by name: what each is asked and says."""

import numpy as np
import pytest

from identification.elastic.model_choice import POINT_MODELS, fit_point_model
from sim_core.elastic.exploration import Exploration, ExplorationSettings
from sim_core.elastic.poke import Poke
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure


def pokes():
    d = np.linspace(0.0, 0.008, 8)
    places = [(0.0, 200.0), (0.05, 300.0), (0.1, 600.0)]
    return [Poke(np.r_[x, 0.0, 0.05, 0.5, 0.5, 0.5, 0.0, 0.0, 1.0], d, k * d) for x, k in places]


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ValueError, match="there are process, extra_trees, deep_gp"):
        fit_point_model("spline")
    assert POINT_MODELS == ("process", "extra_trees", "deep_gp")


def test_extra_trees_say_how_much_their_trees_differ():
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sim_core.elastic.point_model import fit_regressor

    model = fit_point_model("extra_trees", seed=3)(pokes())
    rng = np.random.default_rng(0)
    features = np.c_[rng.uniform(0.0, 0.1, (40, 1)), np.zeros((40, 1)), np.full((40, 7), 0.5)]
    d = rng.uniform(0.0, 0.02, 40)
    mean, deviation = model.predict_with_deviation(features, d)
    estimator = ensemble.ExtraTreesRegressor(random_state=3)
    fit_regressor(estimator, pokes())
    x = np.column_stack([features, d])
    np.testing.assert_allclose(mean, estimator.predict(x), atol=1e-12)
    np.testing.assert_allclose(
        deviation, np.std([tree.predict(x) for tree in estimator.estimators_], axis=0), atol=1e-12
    )
    np.testing.assert_array_equal(model.predict(features, d), mean)
    assert model.deepest == 0.008 and model.reach == pytest.approx(0.024)


def test_extra_trees_explore_and_go_on_from_a_checkpoint():
    pytest.importorskip("sklearn.ensemble")
    x, y = (a.ravel() for a in np.meshgrid(np.arange(0.0, 0.1, 0.005), np.arange(0.0, 0.06, 0.005)))
    surface = Surface(np.c_[x, y, 0.0 * x], np.full((len(x), 3), 0.5), np.tile([0.0, 0.0, 1.0], (len(x), 1)))
    fit = fit_point_model("extra_trees")
    exploration = Exploration(surface, fit, ExplorationSettings(spacing=0.03))
    for _ in range(3):
        place = exploration.ask()
        d = np.linspace(0.0, 0.006, 8)
        exploration.tell(place.index, Poke(place.feature, d, (200.0 + 5000.0 * place.point[0]) * d))
    again = Exploration.resume(exploration.checkpoint(), surface, fit)
    assert again.ask().index == exploration.ask().index and again.mean_deviation() == exploration.mean_deviation()
