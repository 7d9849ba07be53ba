"""Do the data speak for estimating what a fit holds? The evidence for freeing it, before and after it is freed.

Freeing coordinates c beside those that were fitted (a) pays where the cost that it saves exceeds what the freedom would save without
any reason, as Laplace's approximation has it. With S = A_aa^-1 A_ac and the Schur complement C = A_cc - A_ca S, prior L included,

    log E(a, c) - log E(a) = cost(a) - cost(a, c) + log|L| / 2 - log|C| / 2.

`promise` takes the saving from one Gauss-Newton step at the optimum of a, which costs nothing; `price` is the rest, with which the
saving of a fit of both is compared. Residuals that are correlated in time say less than as many independent ones: costs and Hessians
of the data are tempered by the independent share (repetition.py) of what is left over at the optimum of both. What the smaller model
leaves over must not say it: where that is wrong it repeats itself for that reason alone.

Source: MacKay, Bayesian Interpolation (Neural Computation 1992), section 4.
"""

from __future__ import annotations

import numpy as np

from sim_core.inference.fit.definite import solve_definite
from sim_core.inference.shooting.shooting import NormalEquations

__all__ = ["price", "promise"]


def price(normal: NormalEquations, a: np.ndarray, c: np.ndarray, std: np.ndarray, temper: float = 1.0) -> float:
    """What freeing the coordinates c beside a has to save [tempered cost]: half the logarithm of prior over posterior volume, at least 0.

    Args:
        normal: over all coordinates, with prior. a, c: indices. std: of the prior, of all coordinates.
    """
    _, information, _ = _directions(normal, a, c, std)
    return 0.5 * float(np.sum(np.log1p(temper * information)))


def promise(normal: NormalEquations, a: np.ndarray, c: np.ndarray, std: np.ndarray, temper: float = 1.0) -> float:
    """Logarithm of the evidence for freeing c at the optimum of a, as far as a linear model can tell."""
    follows, information, directions = _directions(normal, a, c, std)
    g = temper * std[c] * (normal.gradient[c] + follows.T @ normal.gradient[a])
    saved = 0.5 * np.sum((g @ directions) ** 2 / (temper * information + 1.0))
    return float(saved - 0.5 * np.sum(np.log1p(temper * information)))


def _directions(
    normal: NormalEquations, a: np.ndarray, c: np.ndarray, std: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How a follows c (a, c); information of the data on c (c,) along its own directions, in units of the prior, and those (c, c)."""
    H, unit = normal.hessian, std[c]
    follows = -solve_definite(H[np.ix_(a, a)], H[np.ix_(a, c)])
    D = unit[:, None] * (H[np.ix_(c, c)] + H[np.ix_(c, a)] @ follows) * unit - np.eye(len(c))
    information, directions = np.linalg.eigh(D)
    return follows, np.maximum(information, 0.0), directions
