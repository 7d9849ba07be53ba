"""The six regressors that learn forces from pokes, and the search within a budget that two of them are.

Four are scikit-learn's with their defaults; two search: over extra trees alone, and over several families. The source ran auto-sklearn for 30
and 360 seconds, which is no longer kept; in its place candidates are drawn at random and halved, each time by its error on pokes that it
has not seen (Zhu, PhD thesis, section 4.3.3; Jamieson and Talwalkar 2016). A budget is counted in fits and in seconds, whichever ends first.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from config.tiers import require
from sim_core.elastic.forest import Forest, is_forest

__all__ = ["AUTO", "AUTO_TREES", "REGRESSORS", "Budget", "BudgetedSearch", "regressor"]

AUTO, AUTO_TREES = "budgeted families", "budgeted extra trees"
#: names
REGRESSORS = ("AdaBoost", "gradient boosting", "random forest", "extra trees", AUTO_TREES, AUTO)
#: columns of [feature, displacement] that a candidate may do without
VIEWS = {
    "all": tuple(range(10)),
    "no colour": (0, 1, 2, 6, 7, 8, 9),
    "no normal": (0, 1, 2, 3, 4, 5, 9),
}
#: share of candidates that a rung keeps
KEPT = 1.0 / 3.0
#: pokes below which there is no search: what one poke says of another is chance
FEWEST = 4
#: candidates in the answer's mean, beside the defaults
BEST = 2
#: share of the defaults' error below which a candidate is worth a place in it; folds of few pokes say no more
WORTH = 0.92
#: candidates, more than which no budget needs
MOST = 300


@dataclass(frozen=True)
class Budget:
    """Attributes:
    fits: of candidates on parts of the data, at most. seconds: after which no further fit begins; the defaults are the source's for
        extra trees. trees: of the final fit; candidates have a quarter of them.
    """

    fits: int = 400
    seconds: float = 30.0
    trees: int = 100

    def __post_init__(self) -> None:
        if self.fits < 1 or self.seconds <= 0.0 or self.trees < 4:
            raise ValueError(f"a budget has at least one fit, some seconds and four trees, not {self}")


def regressor(name: str, seed: int = 0, budget: Budget = Budget()) -> Any:
    """A fresh one of REGRESSORS.

    Args:
        budget: of the two that search.

    Raises:
        ValueError: there is none of that name. MissingTierError: scikit-learn is not installed.
    """
    require("learning", f"the regressor '{name}'")
    from sklearn import ensemble

    plain: dict[str, Callable[..., Any]] = {
        "AdaBoost": ensemble.AdaBoostRegressor,
        "gradient boosting": ensemble.GradientBoostingRegressor,
        "random forest": ensemble.RandomForestRegressor,
        "extra trees": ensemble.ExtraTreesRegressor,
    }
    if name in plain:
        return plain[name](random_state=seed)
    if name not in (AUTO_TREES, AUTO):
        raise ValueError(f"there is no regressor {name!r}; there are {', '.join(REGRESSORS)}")
    return BudgetedSearch(budget, seed, ("extra trees",) if name == AUTO_TREES else tuple(FAMILIES))


class BudgetedSearch:
    """An estimator that searches for its settings when it is fitted.

    Args:
        budget: of the search. seed: of everything that is drawn. families: keys of FAMILIES.

    The answer is the mean of the best candidates and of the first family's defaults: few pokes cannot tell near equals apart, and a mean is
    seldom worse than either.

    Attributes:
        chosen: settings of the candidates in the mean, the best first. error: root mean square error of the best on pokes held out [N];
            NaN where fewer than FEWEST pokes are known.
        fits: that were made. models: fitted to everything; trees are compiled.
    """

    def __init__(self, budget: Budget = Budget(), seed: int = 0, families: tuple[str, ...] = ("extra trees",)) -> None:
        self.budget, self.seed, self.families = budget, seed, families
        self.chosen: list[dict[str, Any]] = []
        self.error, self.fits = float("nan"), 0
        self.models: list[Any] = []

    def fit(self, x: np.ndarray, y: np.ndarray) -> BudgetedSearch:
        """Search, then fit the best to x (n, k), of which the last column is the displacement and the others tell pokes apart, and forces (n,).
        Other columns than a feature's nine are never left out."""
        require("learning", "the search for a regressor")
        end = time.monotonic() + self.budget.seconds
        rng = np.random.default_rng(self.seed)
        poke = np.unique(x[:, :-1], axis=0, return_inverse=True)[1].reshape(-1)
        folds = list(_folds(poke, rng))
        self.fits, self.error = 0, float("nan")
        # defaults first: what a search finds should not be worse for want of a budget
        trials = [_settings(f, None) for f in self.families]
        if folds:
            each = max(1, min(len(folds), 2))
            count = min(MOST, max(len(trials) + 1, int(self.budget.fits * (1.0 - KEPT) / each)))
            names = self.families
            trials += [_settings(names[k % len(names)], rng, x.shape[1]) for k in range(count - len(trials))]
            trials = self._halved(trials, x, y, folds, each, end)
        default = _settings(self.families[0], None)
        self.chosen = [*(t for t in trials if t != default), default] if folds else [default]
        self.models = self._fitted(x, y)
        return self

    def _fitted(self, x: np.ndarray, y: np.ndarray) -> list[Any]:
        fitted = [_made(trial, self.budget.trees, self.seed).fit(x, y) for trial in self.chosen]
        return [Forest.of(model) if is_forest(model) else model for model in fitted]

    def like(self, x: np.ndarray, y: np.ndarray) -> BudgetedSearch:
        """Another one with what this one chose, fitted to other values without a search."""
        other = BudgetedSearch(self.budget, self.seed, self.families)
        other.chosen = self.chosen
        other.models = other._fitted(x, y)
        return other

    def _halved(
        self, trials: list[dict], x: np.ndarray, y: np.ndarray, folds: list[np.ndarray], each: int, end: float
    ) -> list[dict]:
        """The candidates that are better than the first, which has the defaults, in the order of their error. The worse are left out rung
        by rung, and every rung asks more folds."""
        square: list[list[float]] = [[] for _ in trials]
        alive, asked = list(range(len(trials))), 0
        while True:
            to = min(len(folds), asked + each)
            for k, held in itertools.product(alive, folds[asked:to]):
                if self.fits >= self.budget.fits or (time.monotonic() > end and square[0]):
                    break
                model = _made(trials[k], max(4, self.budget.trees // 4), self.seed).fit(x[~held], y[~held])
                square[k].append(float(np.mean((np.maximum(model.predict(x[held]), 0.0) - y[held]) ** 2)))
                self.fits += 1
            # those that the budget cut off are told by fewer folds only among themselves, last
            alive.sort(key=lambda k: (-len(square[k]), float(np.mean(square[k])) if square[k] else np.inf))
            spent = self.fits >= self.budget.fits or time.monotonic() > end
            if to == len(folds) or spent:
                break
            asked, each = to, 2 * each
            kept = alive[: max(2, int(np.ceil(KEPT * len(alive))))]
            alive = kept if 0 in kept else [*kept, 0]  # the defaults are what the others are held against
        error = {k: float(np.sqrt(np.mean(square[k]))) for k in alive if square[k]}
        if not error:
            return trials[:1]
        least = WORTH * error[0] if 0 in error else np.inf
        better = [k for k in alive if len(square[k]) == len(square[alive[0]]) and error[k] < least][:BEST]
        self.error = error[better[0]] if better else error[0]
        return [trials[k] for k in better]

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Forces (n,)."""
        if not self.models:
            raise RuntimeError("a search predicts after it was fitted: call fit first")
        return np.mean([model.predict(x) for model in self.models], axis=0)


def _folds(poke: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Which rows each fold holds out (n,): whole pokes, since samples of one poke tell each other."""
    count = int(poke.max()) + 1
    if count < FEWEST:
        return
    part = rng.permutation(count) % min(5, count)
    for k in range(min(5, count)):
        yield part[poke] == k


def _extra_trees(rng: np.random.Generator | None) -> dict[str, Any]:
    if rng is None:
        return {}
    return {
        "max_features": float(rng.choice([1.0, 0.7, 0.4])),
        "min_samples_leaf": int(rng.choice([1, 1, 2, 3])),
        "min_samples_split": int(rng.choice([2, 2, 5, 10])),
        "bootstrap": bool(rng.random() < 0.25),
    }


def _boosting(rng: np.random.Generator | None) -> dict[str, Any]:
    if rng is None:
        return {}
    return {
        "learning_rate": float(10.0 ** rng.uniform(-1.5, -0.3)),
        "max_depth": int(rng.integers(2, 6)),
        "subsample": float(rng.choice([1.0, 0.7])),
    }


def _neighbours(rng: np.random.Generator | None) -> dict[str, Any]:
    return {} if rng is None else {"n_neighbors": int(rng.integers(2, 12)), "weights": "distance"}


def _kernel(rng: np.random.Generator | None) -> dict[str, Any]:
    if rng is None:
        return {"kernel": "rbf", "alpha": 0.1, "gamma": 0.1}
    return {"kernel": "rbf", "alpha": float(10.0 ** rng.uniform(-3, 0)), "gamma": float(10.0 ** rng.uniform(-2, 0))}


#: family -> draws settings; those of its defaults for None
FAMILIES: dict[str, Callable[[np.random.Generator | None], dict[str, Any]]] = {
    "extra trees": _extra_trees,
    "random forest": _extra_trees,
    "gradient boosting": _boosting,
    "neighbours": _neighbours,
    "kernel ridge": _kernel,
}
FAMILIES_OF_TREES = ("extra trees", "random forest")
FAMILIES_SCALED = ("neighbours", "kernel ridge")


def _settings(family: str, rng: np.random.Generator | None, columns: int = 10) -> dict[str, Any]:
    view = "all" if rng is None or columns != 10 or rng.random() < 0.4 else str(rng.choice(list(VIEWS)))
    turned = rng is not None and bool(rng.random() < 0.2)
    return {"family": family, "view": view, "turned": turned, "settings": FAMILIES[family](rng)}


def _made(trial: dict[str, Any], trees: int, seed: int) -> Any:
    """The pipeline of a candidate: columns, scales, perhaps principal axes, estimator."""
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import PCA
    from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    family, settings = trial["family"], dict(trial["settings"])
    kinds = {
        "extra trees": ExtraTreesRegressor,
        "random forest": RandomForestRegressor,
        "gradient boosting": GradientBoostingRegressor,
        "neighbours": KNeighborsRegressor,
        "kernel ridge": KernelRidge,
    }
    if family in FAMILIES_OF_TREES:
        settings["n_estimators"] = trees
    if family not in FAMILIES_SCALED:
        settings["random_state"] = seed
    steps: list[tuple[str, Any]] = []
    if trial["view"] != "all":
        steps.append(("view", ColumnTransformer([("kept", "passthrough", list(VIEWS[trial["view"]]))])))
    if trial["turned"] or family in FAMILIES_SCALED:
        steps.append(("scale", StandardScaler()))
    if trial["turned"]:
        steps.append(("turn", PCA(random_state=seed)))
    return Pipeline([*steps, ("model", kinds[family](**settings))])
