"""How good a recording is for a listener, from 0 to 1, by a few features of it: the published kind of estimator.

    estimator = QualityEstimator.fit("heart", features, ratings, bodies)
    estimator.predict(sound, 44100.0)                        # 0.71, or UnusableRecording, which says why

The published regressor was found by an automatic search over pipelines (TPOT), which is not reported; here depth and
number of trees are chosen by cross-validation, in which all recordings of one body are left out together.

Source: Zhu, PhD thesis (University of Illinois 2023), section 5.3.2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim_core.auscultation.boosted_trees import BoostedTrees, TreeSettings, choose_trees, fit_trees
from sim_core.auscultation.estimator_file import EstimatorFileError, read_estimator, write_estimator
from sim_core.auscultation.heart_features import HEART_FEATURES, heart_features
from sim_core.auscultation.judged_sound import judged_sound
from sim_core.auscultation.lung_features import LUNG_FEATURES, lung_features
from sim_core.auscultation.regions import Structure

__all__ = ["CANDIDATES", "FEATURES", "QualityEstimator"]

KIND, VERSION = "refit sound quality by trees", 1
#: structure -> names of its features, and what takes them from a recording at the common rate
FEATURES: dict[Structure, tuple[tuple[str, ...], Callable[[np.ndarray], np.ndarray]]] = {
    "heart": (HEART_FEATURES, heart_features),
    "lung": (LUNG_FEATURES, lung_features),
}
#: among which cross-validation chooses; 340 trees of depth 6 are a file of 200 kB
CANDIDATES = (
    TreeSettings(340, 3, 0.06),
    TreeSettings(340, 4, 0.05),
    TreeSettings(340, 5, 0.04),
    TreeSettings(340, 6, 0.04),
)


class QualityEstimator:
    """See the module's docstring.

    Args:
        structure: what is listened to. trees: fitted to its features. meta: how it came about.
    """

    def __init__(self, structure: Structure, trees: BoostedTrees, meta: Mapping[str, Any] | None = None) -> None:
        names, _ = FEATURES[structure]
        if trees.features != len(names):
            raise ValueError(f"a {structure} has {len(names)} features, the trees were fitted to {trees.features}")
        self.structure, self.trees, self.meta = structure, trees, dict(meta or {})

    @classmethod
    def fit(
        cls,
        structure: Structure,
        features: np.ndarray,
        ratings: np.ndarray,
        bodies: np.ndarray,
        candidates: Sequence[TreeSettings] = CANDIDATES,
        folds: int = 5,
        seed: int = 0,
    ) -> QualityEstimator:
        """Choose settings by cross-validation, then fit to all.

        Args:
            features: (n, d) of FEATURES[structure]. ratings: (n,) in [0, 1]. bodies: whose each recording is, (n,).

        Raises:
            ValueError: shapes that do not fit each other, ratings outside [0, 1], NaN, or fewer bodies than folds.
        """
        features, ratings, bodies = np.asarray(features, float), np.asarray(ratings, float), np.asarray(bodies)
        if features.shape != (len(ratings), len(FEATURES[structure][0])) or ratings.shape != bodies.shape:
            raise ValueError(
                f"expected features (n, {len(FEATURES[structure][0])}), a rating and a body for each of n recordings, "
                f"found {features.shape}, {ratings.shape} and {bodies.shape}"
            )
        if not ((ratings >= 0.0) & (ratings <= 1.0)).all():
            raise ValueError("expected ratings from 0 to 1; divide marks by the highest one")
        chosen, tried = choose_trees(features, ratings, bodies, candidates, folds, seed)
        meta = {
            "recordings": len(ratings),
            "bodies": len(np.unique(bodies)),
            "seed": seed,
            "depth": chosen.depth,
            "trees": chosen.trees,
            "error in cross-validation": min(error for _, error in tried),
        }
        return cls(structure, fit_trees(features, ratings, chosen, seed), meta)

    def predict(self, sound: np.ndarray, rate: float, lasted: float | None = None) -> float:
        """Quality of a recording in [0, 1]; arguments as `usability.usable`.

        Raises:
            UnusableRecording: it cannot be judged; the text says why and what to do.
        """
        heard = judged_sound(sound, rate, self.structure, lasted)
        return float(self.predict_features(FEATURES[self.structure][1](heard)[None])[0])

    def predict_features(self, features: np.ndarray) -> np.ndarray:
        """Quality (n,) in [0, 1] by features (n, d)."""
        return np.clip(self.trees(features), 0.0, 1.0)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file that `load` reads."""
        trees = self.trees
        arrays = {"feature": trees.feature, "edge": trees.edge, "value": trees.value, "mean": np.array([trees.mean])}
        meta = {**self.meta, "features": list(FEATURES[self.structure][0])}
        return write_estimator(path, KIND, VERSION, self.structure, arrays, meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QualityEstimator:
        """The estimator that `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            EstimatorFileError: it is something else, of another version, of other features, or damaged.
        """
        structure, arrays, meta = read_estimator(path, KIND, VERSION, ("feature", "edge", "value", "mean"))
        names = list(FEATURES[structure][0])
        if meta.get("features") != names:
            raise EstimatorFileError(
                f"{path} was fitted to other features than those of a {structure} now; fit it again"
            )
        try:
            trees = BoostedTrees(
                float(arrays["mean"][0]), arrays["feature"], arrays["edge"], arrays["value"], len(names)
            )
        except (ValueError, IndexError) as error:
            raise EstimatorFileError(f"{path} is damaged: {error}") from None
        return cls(structure, trees, meta)
