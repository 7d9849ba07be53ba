"""A point model that takes objects to be as hard as they may well be."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sim_core.elastic.point_model import PointModel

__all__ = ["Cautious", "SurePointModel"]


class SurePointModel(PointModel, Protocol):
    """A point model that knows how sure it is."""

    def predict_with_deviation(self, features: np.ndarray, displacement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (n,) [N]."""
        ...


class Cautious:
    """The mean and `factor` standard deviations more, everywhere: errors of a body's points are taken to go together.

    Raises:
        ValueError: the factor is negative, or the model does not say how sure it is.
    """

    def __init__(self, model: SurePointModel, factor: float = 1.0) -> None:
        if not (np.isfinite(factor) and factor >= 0.0):
            raise ValueError(f"the factor of the deviation is 0 or more, not {factor}")
        if not hasattr(model, "predict_with_deviation"):
            raise ValueError(f"caution needs a model that says how sure it is, and {type(model).__name__} does not")
        self.model, self.factor = model, float(factor)

    @property
    def deepest(self) -> float:
        """Of the model [m]."""
        return self.model.deepest

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """Forces (n,) [N]; see PointModel."""
        mean, deviation = self.model.predict_with_deviation(features, displacement)
        return mean + self.factor * deviation
