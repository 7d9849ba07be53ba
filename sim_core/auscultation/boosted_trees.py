"""Gradient-boosted regression trees as plain arrays: fitted and evaluated without a framework.

    f(x) = mean + sum over trees of the value of the leaf that x falls into

Each tree is fitted to what the trees before it leave over, on a random half of the rows, and counts for `rate` of
what it says. A split is the edge between quantile bins of one feature that lowers the squared error most. All trees
are complete: where a branch has nothing left to split, its edge is infinite and everything goes left.

Source: Friedman, Ann. Statist. 29 (2001); Friedman, Comput. Stat. Data Anal. 38 (2002), for the random half; bins as
in LightGBM (Ke et al., NIPS 2017). The tests hold it against scikit-learn's HistGradientBoostingRegressor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

__all__ = ["BoostedTrees", "TreeSettings", "choose_trees", "fit_trees", "folds_of"]


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown.

    Attributes:
        trees: how many. depth: splits from root to leaf. rate: share of each tree that counts.
        leaf: rows of a leaf at least. share: of the rows that each tree sees. bins: of each feature.
    """

    trees: int = 300
    depth: int = 5
    rate: float = 0.04
    leaf: int = 10
    share: float = 0.5
    bins: int = 48

    def __post_init__(self) -> None:
        if not (self.trees >= 1 and 1 <= self.depth <= 10 and self.leaf >= 1 and 2 <= self.bins <= 255):
            raise ValueError(
                f"expected a tree or more, a depth of 1 to 10, a leaf of 1 or more, 2 to 255 bins; found {self}"
            )
        if not (0.0 < self.rate <= 1.0 and 0.0 < self.share <= 1.0):
            raise ValueError(f"expected rate and share above 0 and up to 1, found {self.rate} and {self.share}")


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """A fitted sum of T complete trees of depth D over d features.

    Attributes:
        mean: of the targets. feature: that each node asks (T, 2^D - 1) int; node k has the children 2k+1 and 2k+2.
        edge: x <= edge goes to the first child (T, 2^D - 1). value: of each leaf (T, 2^D). features: d.
    """

    mean: float
    feature: np.ndarray
    edge: np.ndarray
    value: np.ndarray
    features: int

    def __post_init__(self) -> None:
        trees, nodes = self.feature.shape
        if nodes & (nodes + 1) or self.edge.shape != (trees, nodes) or self.value.shape != (trees, nodes + 1):
            raise ValueError(
                f"expected trees with 2^D - 1 nodes and 2^D leaves, found features {self.feature.shape}, edges "
                f"{self.edge.shape}, values {self.value.shape}"
            )
        if self.feature.min() < 0 or self.feature.max() >= self.features:
            raise ValueError(f"expected features from 0 to {self.features - 1}, found up to {self.feature.max()}")

    def stages(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Prediction (n,) at inputs (n, d) after one, two, ... trees."""
        total = np.full(len(x), self.mean)
        for tree in range(len(self.feature)):
            total = total + self._leaves(x, slice(tree, tree + 1))[:, 0]
            yield total

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Prediction (n,) at inputs (n, d).

        Raises:
            ValueError: another number of features, or a number that is not finite.
        """
        x = np.asarray(x, float)
        if x.ndim != 2 or x.shape[1] != self.features or not np.isfinite(x).all():
            raise ValueError(
                f"expected finite inputs (n, {self.features}), found shape {x.shape}; look for NaN before this"
            )
        # In blocks, since all trees at once take rows times trees numbers.
        blocks = [self._leaves(x[k : k + 256], slice(None)).sum(1) for k in range(0, len(x), 256)]
        return self.mean + np.concatenate(blocks) if blocks else np.zeros(0)

    def _leaves(self, x: np.ndarray, which: slice) -> np.ndarray:
        """What each of the trees says of each row, (n, trees)."""
        feature, edge, value = self.feature[which], self.edge[which], self.value[which]
        trees, nodes = feature.shape
        tree, row = np.arange(trees), np.arange(len(x))[:, None]
        at = np.zeros((len(x), trees), int)
        for _ in range((nodes + 1).bit_length() - 1):
            at = 2 * at + 1 + (x[row, feature[tree, at]] > edge[tree, at])
        return value[tree, at - nodes]


def fit_trees(x: np.ndarray, y: np.ndarray, settings: TreeSettings = TreeSettings(), seed: int = 0) -> BoostedTrees:
    """Fit to rows (n, d) and targets (n,).

    Raises:
        ValueError: fewer rows than two leaves, other numbers of rows than targets, or a number that is not finite.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    _check(x, y, settings.leaf)
    n, d = x.shape
    rng = np.random.default_rng([seed, 81])
    edges = _edges(x, settings.bins)
    codes = np.stack([np.searchsorted(edges[k], x[:, k], side="left") for k in range(d)], 1)
    # Each feature has bins of its own in one long histogram.
    codes += np.arange(d) * settings.bins
    nodes = 2**settings.depth - 1
    feature = np.zeros((settings.trees, nodes), np.int16)
    edge = np.full((settings.trees, nodes), np.inf, np.float32)
    value = np.zeros((settings.trees, nodes + 1), np.float32)
    mean, drawn = float(y.mean()), max(2 * settings.leaf, round(settings.share * n))
    left = y - mean
    for tree in range(settings.trees):
        seen = rng.permutation(n)[:drawn]
        node = _grow(codes, left, seen, settings, edges, feature[tree], edge[tree])
        sums = np.bincount(node[seen], left[seen], nodes + 1)
        counts = np.bincount(node[seen], minlength=nodes + 1)
        value[tree] = settings.rate * sums / np.maximum(counts, 1)
        left = left - value[tree][node]
    return BoostedTrees(mean, feature, edge, value, d)


def _check(x: np.ndarray, y: np.ndarray, leaf: int) -> None:
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise ValueError(f"expected rows (n, d) and as many targets (n,), found {x.shape} and {y.shape}")
    if len(x) < 2 * leaf:
        raise ValueError(f"expected {2 * leaf} rows or more for leaves of {leaf}, found {len(x)}; record more")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("the rows or targets hold NaN or infinity; leave such recordings out")


def _edges(x: np.ndarray, bins: int) -> list[np.ndarray]:
    """Between neighbouring values at the quantiles of each feature, at most bins - 1, ascending, single as stored."""
    found = []
    for column in x.T:
        values = np.unique(np.quantile(column, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        found.append(np.unique(values.astype(np.float32)))
    return found


def _grow(
    codes: np.ndarray,
    left: np.ndarray,
    seen: np.ndarray,
    settings: TreeSettings,
    edges: Sequence[np.ndarray],
    feature: np.ndarray,
    edge: np.ndarray,
) -> np.ndarray:
    """Write one tree into feature and edge (nodes,); return each row's leaf (n,)."""
    n, d = codes.shape
    bins, node = settings.bins, np.zeros(n, int)
    for level in range(settings.depth):
        wide, first = 2**level, 2**level - 1
        place = (node[seen, None] * (d * bins) + codes[seen]).ravel()
        shape = (wide, d, bins)
        counts = np.bincount(place, minlength=wide * d * bins).reshape(shape).cumsum(-1)
        sums = np.bincount(place, np.repeat(left[seen], d), wide * d * bins).reshape(shape).cumsum(-1)
        every, total = counts[..., -1:], sums[..., -1:]
        rest = every - counts
        allowed = (counts >= settings.leaf) & (rest >= settings.leaf)
        gain = sums**2 / np.maximum(counts, 1) + (total - sums) ** 2 / np.maximum(rest, 1)
        gain = np.where(allowed, gain - total**2 / np.maximum(every, 1), 0.0).reshape(wide, -1)
        best = gain.argmax(1)
        split = gain[np.arange(wide), best] > 1e-12
        which, code = best // bins, best % bins
        for k in np.flatnonzero(split):
            feature[first + k], edge[first + k] = which[k], edges[which[k]][code[k]]
        beyond = codes[np.arange(n), which[node]] > (which * bins + code)[node]
        node = 2 * node + (beyond & split[node])
    return node


def folds_of(groups: np.ndarray, folds: int, seed: int = 0) -> np.ndarray:
    """A fold (n,) from 0 to folds - 1 for each row; rows of one group share theirs.

    Raises:
        ValueError: fewer groups than folds.
    """
    names, index = np.unique(groups, return_inverse=True)
    if len(names) < folds:
        raise ValueError(f"expected {folds} groups or more for {folds} folds, found {len(names)}; record more bodies")
    return (np.random.default_rng([seed, 82]).permutation(len(names)) % folds)[index]


def choose_trees(
    x: np.ndarray, y: np.ndarray, groups: np.ndarray, candidates: Sequence[TreeSettings], folds: int = 5, seed: int = 0
) -> tuple[TreeSettings, list[tuple[TreeSettings, float]]]:
    """Settings, and a number of trees up to theirs, with the least mean absolute error on groups that were left out.

    Args:
        groups: of each row (n,), such as its body. candidates: each is tried with every number of trees up to its own.

    Returns:
        The best with its number of trees, and for each candidate its best and the error of that.
    """
    fold = folds_of(groups, folds, seed)
    found = []
    for settings in candidates:
        errors = np.zeros(settings.trees)
        for k in range(folds):
            out = fold == k
            trees = fit_trees(x[~out], y[~out], settings, seed)
            errors += [np.abs(np.clip(p, 0.0, 1.0) - y[out]).sum() for p in trees.stages(x[out])]
        best = int(errors.argmin())
        found.append((replace(settings, trees=best + 1), float(errors[best] / len(y))))
    return min(found, key=lambda one: one[1])[0], found
