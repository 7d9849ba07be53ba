"""Extra trees as a point model that says how sure it is: by how much its trees differ.

That is no standard deviation of an error: trees that have seen one poke agree everywhere. It says where pokes disagree, and so where
another one tells something.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim_core.elastic.forest import Forest
from sim_core.elastic.point_model import fit_regressor
from sim_core.elastic.poke import Poke
from sim_core.elastic.regressors import regressor

__all__ = ["SpreadTrees"]


class SpreadTrees:
    """Fitted extra trees, with samples beyond the pokes as the source has them (`point_model.fit_regressor`).

    Args:
        pokes: to learn from. seed: of the trees.

    Attributes:
        deepest: largest displacement that was measured [m]. reach: up to where samples were added [m].

    Raises:
        ValueError: there are no samples, or some are not finite. MissingTierError: scikit-learn is not installed.
    """

    def __init__(self, pokes: Sequence[Poke], seed: int = 0) -> None:
        estimator = regressor("extra trees", seed)
        fitted = fit_regressor(estimator, pokes)
        self.deepest, self.reach = fitted.deepest, fitted.reach
        self._all = Forest.of(estimator)
        self._each = [Forest([tree], np.ones(1)) for tree in estimator.estimators_]

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """Forces (n,) [N] at features (n, 9) and displacements (n,) [m]; not below 0."""
        return np.maximum(self._all.predict(np.column_stack([features, displacement])), 0.0)

    def predict_with_deviation(self, features: np.ndarray, displacement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `predict`, and the standard deviation over the trees, each (n,) [N]."""
        x = np.column_stack([features, displacement])
        return self.predict(features, displacement), np.std([tree.predict(x) for tree in self._each], axis=0)
