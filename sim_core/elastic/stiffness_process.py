"""How hard an object is, as a Gaussian process over where it is pressed and how deep: what few pokes say, and how sure that is.

    model = StiffnessProcess.fit(pokes)
    mean, deviation = model.predict_with_deviation(features, displacement)   # [N]

The mean is one curve for the whole object, the process says by how much a place is harder or softer than that. A force that is
twice as large may be off by twice as much, and so the process's deviation grows with the curve:

    f(x, d) = m(d) + h(d) u(x, d) + noise,        h(d) = m(d) + 0.1 m(D)
    u ~ GP(0, s^2 exp(-|p - p'|^2 / 2 l^2 - |n - n'|^2 / 2 - (d - d')^2 / 2 t^2)),        D the deepest displacement
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

if TYPE_CHECKING:
    from sim_core.elastic.poke import Poke

__all__ = ["StiffnessProcess"]

#: pieces of the mean curve
PIECES = 5
#: of the largest mean force, by which a place may be off even where the curve says nothing
FLOOR = 0.1
#: between which the marginal likelihood decides: shares of the object's size; relative deviations; shares of the deepest
#: displacement; standard deviations of a reading [N]
REACHES, SIGNALS, DEPTHS, NOISES = (0.1, 0.2, 0.4, 0.8), (0.15, 0.4, 1.0), (0.3, 1.0, 3.0), (0.03, 0.1, 0.3)
#: what is believed of relative deviation and reach before any poke, and how surely, as standard deviations of their logarithms: two
#: pokes that happen to agree do not make an object even
BELIEVED = {"signal": (0.4, 0.5), "reach": (0.2, 0.7)}
#: queries that are computed at once, so that a large cloud needs no large memory
ROWS = 4096


class StiffnessProcess:
    """See the module's docstring; `fit` makes one.

    Args:
        x: features of the readings, position [m], colour and outward normal, shape (n, 9). d: their displacements (n,) [m].
        f: their forces (n,) [N]. reach: l [m]. signal: s. depth: t [m]. noise: standard deviation of a reading [N].

    Attributes:
        deepest: largest displacement that was learnt from [m].
    """

    def __init__(
        self, x: np.ndarray, d: np.ndarray, f: np.ndarray, reach: float, signal: float, depth: float, noise: float
    ) -> None:
        if not len(f):
            raise ValueError("a model of stiffness needs a reading: poke the object once at least")
        if not (np.isfinite(x).all() and np.isfinite(d).all() and np.isfinite(f).all()):
            raise ValueError("places, displacements and forces are finite numbers; leave out readings that are not")
        self.x, self.d, self.f = x, d, f
        self.deepest = float(d.max())
        self.reach, self.signal, self.depth, self.noise = reach, signal, depth, noise
        self._knots = np.linspace(float(d.min()), self.deepest, PIECES + 1)[:-1]
        self._slopes = nnls(self._hinges(d), f)[0]
        self._least = FLOOR * float(self._curve(np.array([self.deepest]))[0]) + 1e-3
        covariance = self._covariance(x, d, x, d) + noise**2 * np.eye(len(f))
        self._factor = np.linalg.cholesky(covariance)
        self._residual = f - self._curve(d)
        self._weights = cho_solve((self._factor, True), self._residual)

    @classmethod
    def fit(cls, pokes: Sequence[Poke]) -> StiffnessProcess:
        """The most probable of a lattice of hyperparameters, by the restricted likelihood.

        The curve was fitted to the same readings, and so its level says nothing of how much places differ: of one poke that is what is
        believed before any, not that the object is even. (Patterson and Thompson, "Recovery of inter-block information when block sizes are
        unequal", Biometrika 58, 1971.)

        Raises:
            ValueError: there are no pokes, or they hold what is not finite.
        """
        x = np.concatenate([np.tile(poke.feature, (len(poke.displacement), 1)) for poke in pokes] or [np.zeros((0, 9))])
        d = np.concatenate([poke.displacement for poke in pokes] or [np.zeros(0)])
        f = np.concatenate([poke.force for poke in pokes] or [np.zeros(0)])
        if not len(f):
            raise ValueError("a model of stiffness needs a reading: poke the object once at least")
        size = max(float(np.ptp(x[:, :3], axis=0).max()), 0.05)
        span = max(float(np.ptp(d)), 1e-3)
        best, chosen = -np.inf, (0.0, 0.0, 0.0, 0.0)
        for reach, depth in product(REACHES, DEPTHS):
            # The covariance is s^2 C + noise^2, and so one decomposition of C serves all of s and of the noise.
            unit = cls(x, d, f, reach * size, 1.0, depth * span, 1.0)
            values, vectors = np.linalg.eigh(unit._covariance(x, d, x, d))
            residual, level = unit._residual @ vectors, unit._scale(d) @ vectors
            for signal, noise in product(SIGNALS, NOISES):
                variance = signal**2 * np.maximum(values, 0.0) + noise**2
                known = float((level**2 / variance).sum())
                explained = float((level * residual / variance).sum()) ** 2 / known
                off = float((residual**2 / variance + np.log(variance)).sum())
                probable = -0.5 * (off - explained + np.log(known))
                probable += _log_prior("signal", signal) + _log_prior("reach", reach)
                if probable > best:
                    best, chosen = probable, (reach * size, signal, depth * span, noise)
        return cls(x, d, f, *chosen)

    def log_likelihood(self) -> float:
        """Of the readings, given the mean curve."""
        log_det = 2.0 * np.log(np.diag(self._factor)).sum()
        return float(
            -0.5 * (self._residual @ self._weights) - 0.5 * (log_det + len(self._residual) * np.log(2.0 * np.pi))
        )

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """Force along the outward normal at features (m, 9) pressed in by `displacement` (m,) [m], shape (m,) [N]; not below 0.

        Beyond the deepest displacement the curve goes on with its last slope, and the place's share of it stays.
        """
        mean = [self._curve(d) + self._cross(x, d) @ self._weights for x, d in _pieces(features, displacement)]
        return np.maximum(np.concatenate(mean), 0.0) if mean else np.zeros(0)

    def predict_with_deviation(self, features: np.ndarray, displacement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `predict`, and the standard deviation of the force without a reading's noise, each (m,) [N]."""
        deviation = []
        for x, d in _pieces(features, displacement):
            white = solve_triangular(self._factor, self._cross(x, d).T, lower=True, check_finite=False)
            prior = (self.signal * self._scale(d)) ** 2
            deviation.append(np.sqrt(np.maximum(prior - np.einsum("nm,nm->m", white, white), 0.0)))
        return self.predict(features, displacement), np.concatenate(deviation) if deviation else np.zeros(0)

    def describe(self) -> dict[str, Any]:
        """What was chosen, for a person and a checkpoint."""
        return {
            "model": "process",
            "reach": self.reach,
            "signal": self.signal,
            "depth": self.depth,
            "noise": self.noise,
            "readings": len(self.d),
        }

    def _hinges(self, d: np.ndarray) -> np.ndarray:
        """Pieces of the curve at displacements (n,), shape (n, PIECES): with slopes not below 0 it rises ever more steeply."""
        return np.maximum(d[:, None] - self._knots, 0.0)

    def _curve(self, d: np.ndarray) -> np.ndarray:
        return self._hinges(d) @ self._slopes

    def _scale(self, d: np.ndarray) -> np.ndarray:
        return self._curve(d) + self._least

    def _cross(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        """Covariances of queries and readings (m, n). Deeper than any reading, a place is as much harder as it was there."""
        return self._covariance(x, d, self.x, self.d)

    def _covariance(self, x: np.ndarray, d: np.ndarray, y: np.ndarray, e: np.ndarray) -> np.ndarray:
        apart = cdist(x[:, :3], y[:, :3], "sqeuclidean") / self.reach**2 + cdist(x[:, 6:], y[:, 6:], "sqeuclidean")
        d_known, e_known = np.minimum(d, self.deepest), np.minimum(e, self.deepest)
        apart += ((d_known[:, None] - e_known) / self.depth) ** 2
        return self.signal**2 * np.outer(self._scale(d), self._scale(e)) * np.exp(-0.5 * apart)


def _log_prior(name: str, value: float) -> float:
    middle, spread = BELIEVED[name]
    return -0.5 * (np.log(value / middle) / spread) ** 2


def _pieces(features: np.ndarray, displacement: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    features, displacement = np.asarray(features, float), np.asarray(displacement, float)
    if features.shape != (len(displacement), 9):
        raise ValueError(
            f"expected a row of 9 features for each of {len(displacement)} displacements, found {features.shape}"
        )
    return [(features[k : k + ROWS], displacement[k : k + ROWS]) for k in range(0, len(displacement), ROWS)]
