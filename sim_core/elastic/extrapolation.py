"""Forces beyond the displacements that a model has learnt from go on along the last slope.

Simulated bodies press deeper than pokes did, and trees would answer with a constant. Source: Zhu, PhD thesis (2023), section 4.4.2, which gives
no width for the slope; a fifth of the deepest displacement is a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sim_core.elastic.point_model import PointModel

__all__ = ["Extrapolated"]


class Extrapolated:
    """A point model that may be asked at any depth.

    Args:
        model: with the deepest displacement that it has learnt from. Where it has a `reach` as well, the depth to which samples
            along the last slopes were added before it was fitted, it is asked up to there. window: share of that depth over which the
            slope is taken, 0 to 1.

    Raises:
        ValueError: window is not between 0 and 1.
    """

    def __init__(self, model: PointModel, window: float = 0.2) -> None:
        if not 0.0 < window <= 1.0:
            raise ValueError(f"window is a share above 0 and up to 1, not {window}")
        self.model, self.window = model, float(window)

    @property
    def deepest(self) -> float:
        """Of the model [m]."""
        return self.model.deepest

    @property
    def end(self) -> float:
        """Up to where the model itself answers [m]; beyond, forces are a straight line."""
        return float(getattr(self.model, "reach", self.model.deepest))

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """Normal forces (n,) [N] at features (n, 9) and displacements (n,) [m]; the model is asked once."""
        d = np.asarray(displacement, float)
        end = self.end
        deep = np.flatnonzero(d > end) if np.isfinite(end) and end > 0.0 else np.zeros(0, int)
        if not len(deep):
            return np.asarray(self.model.predict(features, d), float)
        before = np.full(len(deep), (1.0 - self.window) * end)
        asked = np.concatenate([np.minimum(d, end), before])
        found = np.asarray(self.model.predict(np.concatenate([features, features[deep]]), asked), float)
        force, last = found[: len(d)].copy(), found[len(d) :]
        force[deep] += (force[deep] - last) / (self.window * end) * (d[deep] - end)
        return force
