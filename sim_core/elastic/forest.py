"""Fitted ensembles of trees as flat arrays, evaluated by a compiled kernel: what scikit-learn answers, in a small share of the time.

    fast = Forest.of(fitted)          # a tree, random or extra trees, gradient or adaptive boosting, also behind transforms in a pipeline
    forces = fast.predict(x)          # (n,), as fitted.predict(x) to rounding

A forest has `fit` as well, of the estimator that it was made from, so that it stands wherever an estimator does.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_core.codegen.library import Library, check, compile_library, pointer
from sim_core.elastic.kernel import RUNTIME

__all__ = ["Forest", "is_forest"]

#: `forest_node` of runtime/forest.c
NODE = np.dtype([("threshold", "f8"), ("feature", "i4"), ("first", "i4")])
_P, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
#: ensembles by the names of their classes, so that scikit-learn is not loaded to ask
AVERAGED = ("ExtraTreesRegressor", "RandomForestRegressor", "BaggingRegressor")
SINGLE = ("DecisionTreeRegressor", "ExtraTreeRegressor")


class _Trees(ctypes.Structure):
    """`forest_trees` of runtime/forest.c."""

    _fields_ = [(name, _P) for name in ("node", "value", "root", "depth", "weight")] + [
        ("trees", _I32),
        ("features", _I32),
    ]


@functools.cache
def kernel() -> Library:
    """The compiled text. Raises RuntimeError: there is no C compiler."""
    library = compile_library("refit_forest", {}, [RUNTIME / "forest.c"], lanes=1, flags=["-O3"])
    library.symbol("forest", [_P, _P, _P, _I64, _I32])
    return library


def is_forest(estimator: Any) -> bool:
    """Whether `Forest.of` knows what to do with a fitted estimator."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    return type(last).__name__ in (*AVERAGED, *SINGLE, "GradientBoostingRegressor", "AdaBoostRegressor")


class Forest:
    """See the module's docstring; `of` makes one.

    Args:
        trees: fitted, of scikit-learn. weights: of each in the sum. base: that is added.
        median: whether the answer is the weighted median of the trees' in place of their weighted sum.
        transforms: fitted, through which queries go first. features: that a query has. estimator: that `fit` fits.
    """

    def __init__(
        self,
        trees: Sequence[Any],
        weights: np.ndarray,
        base: float = 0.0,
        median: bool = False,
        transforms: Sequence[Any] = (),
        estimator: Any = None,
    ) -> None:
        flat = [_flat(tree.tree_) for tree in trees]
        start = np.concatenate([[0], np.cumsum([len(node) for node, _, _ in flat])])
        for (node, _, _), begin in zip(flat, start):
            node["first"] += begin
        self._arrays = {
            "node": np.concatenate([node for node, _, _ in flat]),
            "value": np.concatenate([value for _, value, _ in flat]),
            "root": start[:-1].astype(np.int32),
            "depth": np.array([depth for _, _, depth in flat], np.int32),
            "weight": np.ascontiguousarray(weights, float),
        }
        self.features = int(trees[0].tree_.n_features)
        self.base, self.median, self.transforms, self.estimator = float(base), median, tuple(transforms), estimator
        pointers = {name: pointer(array) for name, array in self._arrays.items()}
        self._data = _Trees(**pointers, trees=len(trees), features=self.features)

    @classmethod
    def of(cls, estimator: Any) -> Forest:
        """The fitted ensemble, or pipeline that ends in one.

        Raises:
            ValueError: it is of another kind, or not fitted. RuntimeError: there is no C compiler.
        """
        steps = [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]
        *transforms, last = [step for step in steps if step not in ("passthrough", None)]
        kind = type(last).__name__
        if not is_forest(estimator) or not any(hasattr(last, name) for name in ("estimators_", "tree_")):
            raise ValueError(f"a forest is made from a fitted ensemble of regression trees, not from {kind} as it is")
        if kind in SINGLE:
            return cls([last], np.ones(1), 0.0, False, transforms, estimator)
        if kind in AVERAGED:
            if kind == "BaggingRegressor" and any(len(f) != last.n_features_in_ for f in last.estimators_features_):
                raise ValueError("a forest needs trees that see all features, and this bagging draws some")
            count = len(last.estimators_)
            return cls(last.estimators_, np.full(count, 1.0 / count), 0.0, False, transforms, estimator)
        if kind == "GradientBoostingRegressor":
            trees = list(last.estimators_[:, 0])
            base = float(last.init_.predict(np.zeros((1, last.n_features_in_)))[0]) if last.init_ != "zero" else 0.0
            if type(last.init_).__name__ not in ("DummyRegressor", "str"):
                raise ValueError(
                    "a forest needs boosting that begins with a constant, and this one begins with a model"
                )
            return cls(trees, np.full(len(trees), last.learning_rate), base, False, transforms, estimator)
        weights = last.estimator_weights_[: len(last.estimators_)]
        return cls(last.estimators_, weights, 0.0, True, transforms, estimator)

    def fit(self, x: np.ndarray, y: np.ndarray) -> Forest:
        """Fit the estimator anew and take its trees."""
        self.estimator.fit(x, y)
        fresh = Forest.of(self.estimator)
        self.__dict__.update(fresh.__dict__)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Answers (n,) to queries (n, features).

        Raises:
            ValueError: another number of features, or what is not finite.
        """
        for transform in self.transforms:
            x = transform.transform(x)
        # trees are grown and asked with single precision, which decides on which side of a threshold a query is
        rows = np.ascontiguousarray(np.asarray(x, np.float32), float)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"queries have {self.features} features each, found an array of {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("queries of a forest are finite, and some are not")
        each = self.median
        out = np.empty((len(rows), len(self._arrays["root"])) if each else len(rows))
        call = kernel().symbol("forest")
        check(call(ctypes.addressof(self._data), pointer(rows), pointer(out), len(rows), int(each)))
        return _weighted_median(out, self._arrays["weight"]) if each else out + self.base

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return Forest.of, (self.estimator,)


def _flat(tree: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """NODE (n,) with siblings side by side, leaves that lead to themselves, values (n,), and the depth."""
    left, right = tree.children_left, tree.children_right
    order, depth = [0], 0
    place = {0: 0}
    level = [0]
    while level:  # by levels, of which the upper ones are met by every query
        below = []
        for node in level:
            if left[node] >= 0:
                for child in (left[node], right[node]):
                    place[int(child)] = len(order)
                    order.append(int(child))
                    below.append(int(child))
        depth += bool(below)
        level = below
    nodes = np.zeros(len(order), NODE)
    at = np.array(order)
    leaf = left[at] < 0
    nodes["threshold"] = np.where(leaf, np.inf, tree.threshold[at])
    nodes["feature"] = np.where(leaf, 0, tree.feature[at])
    nodes["first"] = [k if left[node] < 0 else place[int(left[node])] for k, node in enumerate(order)]
    return nodes, np.ascontiguousarray(tree.value[at, 0, 0], float), depth


def _weighted_median(answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As adaptive boosting takes it (Drucker 1997): the least answer (n,) of (n, trees) up to which half the weight lies."""
    order = np.argsort(answers, axis=1)
    total = np.cumsum(weights[order], axis=1)
    middle = np.argmax(total >= 0.5 * total[:, -1:], axis=1)
    return np.take_along_axis(answers, np.take_along_axis(order, middle[:, None], 1), 1)[:, 0]
