"""A Gaussian process on what a mean function leaves: squared exponential kernel, fixed hyperparameters.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), algorithm 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

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
        square = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
        return self.variance * np.exp(-square / (2.0 * self.length**2))


class ResidualProcess:
    """The process, once readings at some places are there; residuals may be given in many versions at once.

    Args:
        kernel: of the process. noise: variance of a reading. x: places of the readings (n, d); n may be 0.
    """

    def __init__(self, kernel: SquaredExponential, noise: float, x: np.ndarray) -> None:
        if not noise > 0.0:
            raise ValueError(f"the variance of a reading's noise is greater than 0, not {noise}")
        self.kernel, self.noise, self.x = kernel, noise, x
        self._factor = cho_factor(kernel(x, x) + noise * np.eye(len(x)), lower=True) if len(x) else None

    def mean(self, residuals: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Expected residual at places (m, d) after residuals (..., n), shape (..., m)."""
        if self._factor is None:
            return np.zeros((*residuals.shape[:-1], len(x)))
        weights = cho_solve(self._factor, residuals.reshape(-1, len(self.x)).T)
        return (self.kernel(x, self.x) @ weights).T.reshape(*residuals.shape[:-1], len(x))

    def deviation(self, x: np.ndarray) -> np.ndarray:
        """Standard deviation of the residual at places (m, d), without a reading's noise, shape (m,)."""
        prior = np.full(len(x), self.kernel.variance)
        if self._factor is None:
            return np.sqrt(prior)
        return np.sqrt(np.maximum(prior - (self.whiten(self.kernel(self.x, x)) ** 2).sum(0), 0.0))

    def whiten(self, columns: np.ndarray) -> np.ndarray:
        """L^-1 columns, with L L' the covariance of the readings; columns (n, ...)."""
        if self._factor is None:
            return columns
        return solve_triangular(self._factor[0], columns, lower=True)

    def log_likelihood(self, residuals: np.ndarray) -> np.ndarray:
        """Log density of residuals (..., n), shape (...)."""
        if self._factor is None:
            return np.zeros(residuals.shape[:-1])
        white = self.whiten(residuals.reshape(-1, len(self.x)).T)
        log_det = 2.0 * np.log(np.diag(self._factor[0])).sum()
        found = -0.5 * (white**2).sum(0) - 0.5 * (log_det + len(self.x) * np.log(2.0 * np.pi))
        return found.reshape(residuals.shape[:-1])
