"""Two regressions with a Gaussian kernel, and the sum over kernels that both of them are once fitted.

    f(x) = m + sum_i w_i exp(-gamma |x' - c_i|^2),     x' = (x - shift) / scale

A Gaussian process takes length scale and noise from the likelihood of what it has seen. Kernel ridge regression takes gamma and the
ridge from how well each group of rows is foretold by the others.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapters 2 and 5; Murphy, Machine Learning (2012),
section 14.4.3. In scikit-learn's words: GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True), and KernelRidge("rbf")
by GridSearchCV over LeaveOneGroupOut, with standardised inputs and centred targets; the tests hold both against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

__all__ = ["ALPHAS", "GAMMAS", "KernelSum", "fit_gaussian_process", "fit_kernel_ridge"]

#: ridges and kernel widths (of standardised inputs) among which the cross-validation chooses
ALPHAS, GAMMAS = tuple(np.geomspace(1e-3, 3.0, 8)), tuple(np.geomspace(3e-3, 1.0, 8))
#: bounds of the length scale and of the noise's variance, in which the likelihood is searched, and where the search begins
LENGTHS, NOISES = (1e-2, 1e2), (1e-5, 1e1)
STARTS = ((1.0, 0.1), (3.0, 0.01), (0.5, 1.0))


@dataclass(frozen=True, eq=False)
class KernelSum:
    """A fitted regression from R^d to R^k with n rows.

    Attributes:
        centres: rows it was fitted to, standardised (n, d). weights: (n, k). gamma: of the kernel [1].
        shift, scale: that standardise an input (d,). mean: of the targets (k,).
    """

    centres: np.ndarray
    weights: np.ndarray
    gamma: float
    shift: np.ndarray
    scale: np.ndarray
    mean: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The prediction (..., k) at inputs (..., d)."""
        z = (np.asarray(x) - self.shift) / self.scale
        away = z[..., None, :] - self.centres
        return self.mean + np.exp(-self.gamma * np.sum(away * away, -1)) @ self.weights


def fit_gaussian_process(x: np.ndarray, y: np.ndarray) -> KernelSum:
    """Mean of a Gaussian process with the kernel exp(-|x - x'|^2 / 2 l^2) plus white noise.

    Args:
        x: inputs (n, d), n >= 2. y: targets (n, k), which share length scale and noise.

    Raises:
        ValueError: fewer rows than two, or other numbers of rows than targets, or a number that is none.
    """
    from scipy.optimize import minimize  # slow to load, and whoever only follows a fitted hand has no use for it

    z, shift, scale = _standardised(x, y)
    mean, spread = y.mean(0), _spread(y)
    t = (y - mean) / spread
    squares = _squares(z, z)
    bounds = [tuple(np.log(LENGTHS)), tuple(np.log(NOISES))]
    fits = [
        minimize(_unlikelihood, np.log(start), (squares, t), "L-BFGS-B", jac=True, bounds=bounds) for start in STARTS
    ]
    length, noise = np.exp(min(fits, key=lambda fit: fit.fun).x)
    gamma = 0.5 / length**2
    weights = np.linalg.solve(np.exp(-gamma * squares) + noise * np.eye(len(z)), t) * spread
    return KernelSum(z, weights, float(gamma), shift, scale, mean)


def fit_kernel_ridge(
    x: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray,
    alphas: Sequence[float] = ALPHAS,
    gammas: Sequence[float] = GAMMAS,
) -> KernelSum:
    """Kernel ridge regression, whose ridge and width foretell left-out groups with the least squared error.

    Args:
        x: inputs (n, d). y: targets (n, k). groups: of each row (n,), at least two.
        alphas, gammas: to choose from.

    Raises:
        ValueError: fewer rows or groups than two, or other numbers of rows than targets, or a number that is none.
    """
    z, shift, scale = _standardised(x, y)
    names = np.unique(groups)
    if len(names) < 2:
        raise ValueError(f"expected rows of at least two groups to leave one out, found {len(names)}")
    mean, squares = y.mean(0), _squares(z, z)
    best = (np.inf, 0.0, 0.0)
    for gamma in gammas:
        K = np.exp(-gamma * squares)
        for alpha in alphas:
            inverse = np.linalg.inv(K + alpha * np.eye(len(z)))
            error = sum(_left_out(inverse, y - mean, groups == name) for name in names)
            best = min(best, (error, alpha, gamma))
    _, alpha, gamma = best
    weights = np.linalg.solve(np.exp(-gamma * squares) + alpha * np.eye(len(z)), y - mean)
    return KernelSum(z, weights, float(gamma), shift, scale, mean)


def _left_out(inverse: np.ndarray, t: np.ndarray, out: np.ndarray) -> float:
    """Mean squared error of the rows that are left out, as the others foretell them, without fitting the others.

    With A = (K + alpha I)^-1 of all rows it is A_oo^-1 (A t)_o.

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), section 5.4.2, for one row; An, Liu and
    Venkatesh, Pattern Recognition 40 (2007), for groups.
    """
    return float(np.mean(np.linalg.solve(inverse[np.ix_(out, out)], inverse[out] @ t) ** 2))


def _unlikelihood(theta: np.ndarray, squares: np.ndarray, t: np.ndarray) -> tuple[float, np.ndarray]:
    """Minus the logarithm of the marginal likelihood and its gradient over the logarithms of length scale and noise."""
    length, noise = np.exp(theta)
    n, k = t.shape
    K = np.exp(-0.5 * squares / length**2)
    factor = cho_factor(K + noise * np.eye(n), lower=True)
    weights, inverse = cho_solve(factor, t), cho_solve(factor, np.eye(n))
    value = 0.5 * np.sum(t * weights) + k * (np.log(np.diag(factor[0])).sum() + 0.5 * n * np.log(2.0 * np.pi))
    # d(-log p)/dtheta = 1/2 tr((k (K + s I)^-1 - w w') dK/dtheta)
    slope = k * inverse - weights @ weights.T
    return float(value), 0.5 * np.array([np.sum(slope * K * squares) / length**2, noise * np.trace(slope)])


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of rows (n, m)."""
    return np.sum((a[:, None, :] - b[None, :, :]) ** 2, -1)


def _standardised(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or len(x) < 2:
        raise ValueError(f"expected as many rows of inputs as of targets, two or more, found {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("expected finite numbers in inputs and targets")
    shift, scale = x.mean(0), _spread(x)
    return (x - shift) / scale, shift, scale


def _spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, 1 of a column that is constant."""
    spread = rows.std(0)
    return np.where(spread > 1e-12, spread, 1.0)
