"""What a fit cannot know of its coordinates because other parameters, which it holds, may be off: an allowance for each kind of them.

    normal = wide.normal_equations(wide.evaluate(theta, starts), scale)    # coordinates of the fit and of what it holds
    doubt = consider(normal, fitted, kinds, prior_std)
    covariance + doubt.covariance

Considered parameters of a kind k (motors' strengths, say) have a normal prior around what they are held at, with precision L. With the
Hessian of the data in the blocks of fitted (a, with its prior) and held (c) coordinates, at the fit's optimum,

    S = -A_aa^-1 A_ac                          how the fit follows them
    D = A_cc - A_ca A_aa^-1 A_ac, g likewise   what the data say of them once the fit has adapted
    d = -(D + L)^-1 g                          where the data would put them
    V = (D + L)^-1                             and how surely

and the evidence for them over holding them is exp(g' V g / 2) |L V|^(1/2). Each kind has the same prior probability, and that nothing
held is off one half; the probabilities w_k after the data weigh what is added to the fit's covariance,

    sum_k w_k S (V + d d') S'.

Residuals that are correlated in time say less than as many independent ones: D and g are tempered by the ratio of the curvature
to the scatter of the segments' scores.

Source: Schmidt, Application of State-Space Methods to Navigation Problems (1966), for parameters that are considered and not
estimated; Hoeting et al., Bayesian Model Averaging (Statistical Science 1999), for the average over kinds; Pauli, Racugno and Ventura,
Bayesian Composite Marginal Likelihoods (Statistica Sinica 2011), for the tempering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.inference.fit.definite import solve_definite
from sim_core.inference.shooting.shooting import NormalEquations

__all__ = ["Doubt", "Considered", "consider"]

#: prior probability that nothing is off that a fit holds
NOTHING = 0.5


@dataclass(frozen=True)
class Considered:
    """What a fit holds and may be off.

    Attributes:
        spec: coordinates of the fit and of what it holds, with prior and bounds (FreeParameters or the like).
        at: where the coordinates are held; entries of the fit's own do not matter.
        kinds: names of the held coordinates of each kind.
    """

    spec: Any
    at: np.ndarray
    kinds: Mapping[str, Sequence[str]]

    def indices(self, names: Sequence[str]) -> np.ndarray:
        """Where names are among the coordinates."""
        known = list(self.spec.names)
        return np.array([known.index(name) for name in names], int)

    def around(self, names: Sequence[str], xi: np.ndarray) -> np.ndarray:
        """All coordinates: those of the fit at xi, the others where they are held."""
        whole = np.array(self.at, float)
        whole[self.indices(names)] = xi
        return whole


@dataclass(frozen=True)
class Doubt:
    """What the parameters that a fit holds mean for it.

    Attributes:
        covariance: to be added to the fit's own (n, n).
        probability: of each kind, that it is off; what is left to 1 is that none is.
    """

    covariance: np.ndarray
    probability: Mapping[str, float]

    @property
    def suspect(self) -> tuple[str, float]:
        """The likeliest kind, and its probability; "" and 0 where nothing is held."""
        return max(self.probability.items(), key=lambda item: item[1], default=("", 0.0))


def consider(
    normal: NormalEquations, fitted: np.ndarray, kinds: Mapping[str, np.ndarray], prior_std: np.ndarray
) -> Doubt:
    """The allowance for what is held, from normal equations over fitted and held coordinates.

    Args:
        normal: at the fit's optimum, with the rest where it is held. fitted: indices of the fit's n coordinates.
        kinds: indices of each kind of held coordinates; at least one kind. prior_std: of all coordinates.

    """
    names = list(kinds)
    found = [_kind(normal, fitted, kinds[name], prior_std) for name in names]
    logs = np.array([0.0, *(log for _, log in found)])
    prior = np.array([NOTHING, *[(1.0 - NOTHING) / len(names)] * len(names)])
    weights = prior * np.exp(logs - logs.max())
    weights /= weights.sum()
    covariance = np.einsum("k,kij->ij", weights[1:], np.stack([added for added, _ in found]))
    return Doubt(covariance, dict(zip(names, map(float, weights[1:]))))


def _kind(normal: NormalEquations, a: np.ndarray, c: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, float]:
    """S (V + d d') S' and the logarithm of the evidence of one kind, in units of its prior."""
    H, U = normal.hessian, normal.scores
    follows = -solve_definite(H[np.ix_(a, a)], H[np.ix_(a, c)])  # S
    unit = std[c]
    D = unit[:, None] * (H[np.ix_(c, c)] + H[np.ix_(c, a)] @ follows) * unit - np.eye(len(c))
    g = unit * (U[:, c].sum(0) + follows.T @ normal.gradient[a])  # the prior of what is held lies around it
    scores = unit * (U[:, c] + U[:, a] @ follows)
    # By eigenvalues: beside exact data rounding makes some of them negative, and a variance must not be.
    information, directions = np.linalg.eigh(D)
    information, scores, g = np.maximum(information, 0.0), scores @ directions, directions.T @ g
    temper = _temper(information, scores)
    v = 1.0 / (temper * information + 1.0)  # of V
    d = -temper * v * g
    log = 0.5 * float(-temper * g @ d + np.sum(np.log(v)))
    S = follows * unit @ directions
    return S * v @ S.T + np.outer(S @ d, S @ d), log


def _temper(information: np.ndarray, scores: np.ndarray) -> float:
    """Curvature over the scatter of segments' scores (S, c), along its directions (c,), at most 1; 1 where there is one segment."""
    count = len(scores)
    if count < 2:
        return 1.0
    v = 1.0 / (information + 1.0)
    scatter = count / (count - 1) * float(np.sum(v * (scores - scores.mean(0)) ** 2))
    return min(1.0, float(np.sum(v * information)) / max(scatter, np.finfo(float).tiny))
