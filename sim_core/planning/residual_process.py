"""A Gaussian process on what a mean function leaves: squared exponential kernel, fixed hyperparameters.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), algorithm 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

__all__ = ["ResidualProcess", "SquaredExponential"]


@dataclass(frozen=True)
class SquaredExponential:
    """k(x, x') = variance exp(-|x - x'|^2 / (2 length^2)).

    Attributes:
        length: [unit of places]. variance: [unit of values squared].
    """

    length: float = 0.02
    variance: float = 1.0

    def __post_init__(self) -> None:
        if not (self.length > 0.0 and self.variance > 0.0):
            raise ValueError(
                f"a kernel's length and variance are greater than 0, not {self.length} and {self.variance}"
            )

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Covariances of places (n, d) and (m, d), shape (n, m)."""
        return self.variance * np.exp(cdist(a, b, "sqeuclidean") / (-2.0 * self.length**2))


class ResidualProcess:
    """The process, once readings at some places are there; residuals may be given in many versions at once.

    Args:
        kernel: of the process. noise: variance of a reading. x: places of the readings (n, d); n may be 0.
    """

    def __init__(self, kernel: SquaredExponential, noise: float, x: np.ndarray) -> None:
        if not noise > 0.0:
            raise ValueError(f"the variance of a reading's noise is greater than 0, not {noise}")
        self.kernel, self.noise, self.x = kernel, noise, x
        self._factor = np.linalg.cholesky(kernel(x, x) + noise * np.eye(len(x))) if len(x) else None

    def predict(self, residuals: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is believed of the residual at places (m, d) after residuals (..., n).

        Returns:
            Its mean (..., m), and its standard deviation without a reading's noise (m,).
        """
        if self._factor is None:
            return np.zeros((*residuals.shape[:-1], len(x))), np.full(len(x), np.sqrt(self.kernel.variance))
        cross = self.whiten(self.kernel(self.x, x))
        mean = self.whiten(residuals.reshape(-1, len(self.x)).T).T @ cross
        variance = self.kernel.variance - np.einsum("nm,nm->m", cross, cross)
        return mean.reshape(*residuals.shape[:-1], len(x)), np.sqrt(np.maximum(variance, 0.0))

    def whiten(self, columns: np.ndarray) -> np.ndarray:
        """L^-1 columns, with L L' the covariance of the readings; columns (n, ...)."""
        if self._factor is None:
            return columns
        return solve_triangular(self._factor, columns, lower=True, check_finite=False)

    def log_likelihood(self, residuals: np.ndarray) -> np.ndarray:
        """Log density of residuals (..., n), shape (...)."""
        if self._factor is None:
            return np.zeros(residuals.shape[:-1])
        white = self.whiten(residuals.reshape(-1, len(self.x)).T)
        log_det = 2.0 * np.log(np.diag(self._factor)).sum()
        found = -0.5 * (white**2).sum(0) - 0.5 * (log_det + len(self.x) * np.log(2.0 * np.pi))
        return found.reshape(residuals.shape[:-1])
