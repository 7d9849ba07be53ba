"""What is expected before anything was tried, with a few parameters that trials correct.

Source: Zhu, PhD thesis (University of Illinois 2023), section 5.2; the shape of the bumps is not published there, and is the one
with which its table 5.1 comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.spatial.distance import cdist

__all__ = ["LandmarkMean", "ParametricMean", "ZeroMean"]


class ParametricMean(Protocol):
    """A mean function with normally distributed parameters.

    Attributes:
        names: of the p parameters. default: (p,). deviation: standard deviation of each parameter (p,).
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def default(self) -> np.ndarray: ...
    @property
    def deviation(self) -> np.ndarray: ...

    def value(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """At places (n, d) under parameters (..., p), shape (..., n)."""

    def jacobian(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Derivative by the parameters (p,) at places (n, d), shape (n, p)."""


class ZeroMean:
    """Nothing is expected anywhere; no parameters."""

    names: tuple[str, ...] = ()
    default = np.zeros(0)
    deviation = np.zeros(0)

    def value(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """0, shape (..., n)."""
        return np.zeros((*np.shape(theta)[:-1], len(x)))

    def jacobian(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Shape (n, 0)."""
        return np.zeros((len(x), 0))


@dataclass(frozen=True)
class LandmarkMean:
    """Best at landmarks that somebody has registered, falling with the distance from the nearest; all may be displaced together.

    mean(x) = c height max_j exp(-|x - t - l_j| / decay), parameters (t_x, t_y, c).

    Attributes:
        landmarks: l_j, shape (m, 2) [m]. height: at a landmark [-]. decay: [m].
        translation: standard deviation of t, shape (2,) [m]. scale: of c around 1 [-].
    """

    landmarks: np.ndarray
    height: float = 0.75
    decay: float = 0.022
    translation: tuple[float, float] = (0.0115, 0.0115)
    scale: float = 0.173
    names: tuple[str, ...] = field(default=("t_x", "t_y", "c"), init=False)

    def __post_init__(self) -> None:
        marks = np.array(self.landmarks, float)
        if marks.ndim != 2 or marks.shape[1] != 2 or not len(marks) or not np.isfinite(marks).all():
            raise ValueError(f"landmarks are finite places of shape (m, 2) with m > 0, not {marks.shape}: {marks}")
        if not min(self.height, self.decay, *self.translation, self.scale) > 0.0:
            raise ValueError("height, decay and the deviations of the parameters are greater than 0")
        object.__setattr__(self, "landmarks", marks)

    @property
    def default(self) -> np.ndarray:
        """As registered (3,)."""
        return np.array([0.0, 0.0, 1.0])

    @property
    def deviation(self) -> np.ndarray:
        """(3,)."""
        return np.array([*self.translation, self.scale])

    def value(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """At places (n, 2) [m] under parameters (..., 3), shape (..., n)."""
        moved = theta[..., None, :2] + self.landmarks
        distance = cdist(moved.reshape(-1, 2), x).reshape(*moved.shape[:-1], len(x))
        nearest = distance.min(-2)
        return theta[..., 2:3] * self.height * np.exp(-nearest / self.decay)

    def jacobian(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Shape (n, 3); 0 in t where a landmark is, at which the mean has a peak without a tangent."""
        away = x[:, None, :] - (theta[:2] + self.landmarks)
        distance = np.linalg.norm(away, axis=-1)
        j = distance.argmin(-1)
        rows = np.arange(len(x))
        away, distance = away[rows, j], distance[rows, j]
        bump = self.height * np.exp(-distance / self.decay)
        along = away / np.maximum(distance, 1e-12)[:, None]
        return np.concatenate([(theta[2] * bump / self.decay)[:, None] * along, bump[:, None]], axis=1)
