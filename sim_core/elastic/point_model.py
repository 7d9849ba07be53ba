"""What a contact simulation asks of a model of point forces, and the step from a fitted regressor to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim_core.elastic.poke import Poke, downsampled, extrapolated, rows

__all__ = ["Estimator", "HomogeneousStiffness", "PointModel", "RegressorModel", "fit_homogeneous", "fit_regressor"]


class PointModel(Protocol):
    """Normal force of a point probe anywhere on a surface. A model that knows how sure it is has `predict_with_deviation` as well,
    with the same arguments, which returns mean and standard deviation (n,) [N]."""

    @property
    def deepest(self) -> float:
        """Largest displacement that was learnt from [m]."""
        ...

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """Forces (n,) [N] at features (n, 9), as `Surface.features`, and displacements (n,) [m]."""
        ...


class Estimator(Protocol):
    """What scikit-learn calls a regressor."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> object:
        """Learn forces y (n,) from features with displacement x (n, 10)."""
        ...

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Forces (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class RegressorModel:
    """A fitted regressor of [feature, displacement]. Negative forces, which a probe that pushes cannot feel, become 0.

    Attributes:
        estimator: fitted. deepest: displacement of the deepest sample that was measured [m]. reach: of the deepest sample that was added
            by extrapolation [m].
    """

    estimator: Estimator
    deepest: float
    reach: float

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """See PointModel."""
        return np.maximum(self.raw(features, displacement), 0.0)

    def raw(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """The regressor's own answer (n,) [N], which may be negative."""
        return np.asarray(self.estimator.predict(np.column_stack([features, displacement])), float)


def fit_regressor(
    estimator: Estimator, pokes: Sequence[Poke], pairs: int = 24, reach: float = 3.0, window: float = 0.2
) -> RegressorModel:
    """Fit an estimator to pokes.

    Args:
        pairs: of displacement and force that a longer poke is reduced to; a curve sampled at 250 Hz says nothing more.
        reach, window: of samples that are added beyond each poke, see `extrapolated`; reach 1 adds none.

    Raises:
        ValueError: there are no samples, or some are not finite.
    """
    rows(pokes)
    reduced = [poke if len(poke) <= pairs else downsampled(poke, pairs) for poke in pokes]
    x, f = rows([extrapolated(poke, reach, window, pairs) for poke in reduced] if reach > 1.0 else reduced)
    estimator.fit(x, f)
    deepest = max(float(poke.displacement.max()) for poke in reduced if len(poke))
    return RegressorModel(estimator, deepest, float(x[:, 9].max()))


@dataclass(frozen=True)
class HomogeneousStiffness:
    """One spring for the whole object, as a baseline: f = k max(d - onset, 0)."""

    stiffness: float
    onset: float
    deepest: float

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """See PointModel; features say nothing."""
        return self.stiffness * np.maximum(np.asarray(displacement, float) - self.onset, 0.0)


def fit_homogeneous(pokes: Sequence[Poke]) -> HomogeneousStiffness:
    """The spring and the onset with the least squared error over all pokes; the onset on a lattice of 0.25 mm.

    Raises:
        ValueError: there are no samples, or some are not finite.
    """
    x, f = rows(pokes)
    d, best = x[:, 9], (np.inf, 0.0, 0.0)
    for onset in np.arange(min(0.0, d.min()), d.max(), 2.5e-4):
        deep = np.maximum(d - onset, 0.0)
        stiffness = max(0.0, float(deep @ f) / float(deep @ deep)) if deep.any() else 0.0
        error = float(((stiffness * deep - f) ** 2).sum())
        best = min(best, (error, stiffness, float(onset)))
    return HomogeneousStiffness(best[1], best[2], float(d.max()))
