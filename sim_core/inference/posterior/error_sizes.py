"""How large each kind of a simulator's errors is: a linearised recording's density of the sizes, its mode and draws about it.

What the simulator lacks is linear about a roll-out, so that it is integrated out in closed form; what is left is a density of a
handful of sizes, with half-Cauchy priors. It has several modes where one kind of error may stand for another, which differ by
tens of nats: ascents from several places find the one that counts.

Source: half-Cauchy priors of sizes: Gelman, "Prior distributions for variance parameters in hierarchical models", Bayesian Analysis
1(3), 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from sim_core.inference.samplers import sobol
from sim_core.inference.shooting.joint_causes import KINDS

__all__ = [
    "BROAD",
    "EXPECTED",
    "FIRST_STATES",
    "SIZES",
    "LinearRecording",
    "drawn_sizes",
    "likely_sizes",
    "log_density",
]

#: what has a size of its own: noise in units of what the likelihood assumes; the sensors' delay in tenths of a second; the others in shares
#: of the joints' load or of the states' scale
SIZES = ("noise", "process", "first states", "delay", *KINDS)
FIRST_STATES = SIZES.index("first states")
EXPECTED = (
    0.02  # a simulator is expected to be wrong by so much of the load, and first states by so much of their scale
)
BROAD = 1.0  # standard deviation of z about the middle, in widths of the limits, while sizes are fitted
LOWER, UPPER = np.r_[-3.0, np.full(len(SIZES) - 1, -6.0)], np.r_[2.0, np.full(len(SIZES) - 1, 0.7)]  # log10 of sizes
STARTS = 6  # places from which the density of the sizes is climbed, beside those given
CANDIDATES, TAILS = 150, 4  # drawn about each mode, from a t distribution of so many degrees of freedom
MODES, LESS = 3, 10.0  # at most so many are drawn about, none that is less likely than the best by more than e^LESS
APART = 0.3  # of places that count as two modes [decades]
WIDEST = 1.0  # standard deviation of a size that the recording says nothing about [decades]
NOTHING = -1e100  # log density of sizes that cannot be; finite, so that a line search turns back from it
SLIGHT = 1e-3  # by which a size is changed for the curvature [decades]


@dataclass(frozen=True)
class LinearRecording:
    """A recording linearised at z, rotated trajectory by trajectory so that noise and process are independent: D samples.

    Attributes:
        z (M,). basis (R, D, D): rotation, columns. spread (R, D): variance of the process of size 1 along it.
        residual (R, D): measured minus predicted. slope (R, D, M): of the prediction by z. effects (R, D, K): of units of the
        causes, kind (K,): index into SIZES.
    """

    z: np.ndarray
    basis: np.ndarray
    spread: np.ndarray
    residual: np.ndarray
    slope: np.ndarray
    effects: np.ndarray
    kind: np.ndarray

    def weight(self, sizes: np.ndarray) -> np.ndarray:
        """Inverse variance of noise and process, (R, D)."""
        return 1.0 / (sizes[0] ** 2 + sizes[1] ** 2 * self.spread)

    @cached_property
    def columns(self) -> np.ndarray:
        """Slope, effects and residual side by side, (R D, M + K + 1)."""
        return np.concatenate([self.slope, self.effects, self.residual[..., None]], axis=-1).reshape(
            self.spread.size, -1
        )

    def marginal(self, sizes: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """With causes integrated out: log density of the recording, z being integrated out as well; mean (M,) of z; and the factor
        (K, K) of the precision of z and all causes."""
        value, best, L = self._solved(sizes)
        return value, self.z + best[: len(self.z)], L

    def causes(self, sizes: np.ndarray) -> np.ndarray:
        """The likeliest causes (K,), in their units."""
        return sizes[self.kind] * self._solved(sizes)[1][len(self.z) :]

    def marginal_slope(self, sizes: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density, and its derivative (len(SIZES),) by the natural logarithms of the sizes.

        The best z and causes minimise what the density has of them, so that only the determinant changes with them.
        """
        value, best, L = self._solved(sizes)
        M, w = len(self.z), self.weight(sizes).ravel()
        unit, columns = np.r_[np.ones(M), sizes[self.kind]], self.columns[:, :-1]
        left = self.columns[:, -1] - columns @ (unit * best)
        covariance = cho_solve((L, True), np.eye(len(L)))
        slope = np.bincount(self.kind, best[M:] ** 2 - 1.0 + np.diag(covariance)[M:], minlength=len(SIZES))
        seen = covariance * unit * unit[:, None]
        for k, variance in enumerate((sizes[0] ** 2, sizes[1] ** 2 * self.spread.ravel())):
            root = np.sqrt(variance) * w  # of half by how much less the samples weigh
            weighted = columns * root[:, None]
            slope[k] = root @ (root * (left**2 - 1.0 / w)) + np.vdot(weighted.T @ weighted, seen)
        return value, slope

    def _solved(self, sizes: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Log density, best (M + K) change of z and causes, and the factor of their precision."""
        w, M = self.weight(sizes).ravel(), len(self.z)
        weighted = self.columns * np.sqrt(w)[:, None]
        gram = weighted.T @ weighted
        unit = np.r_[np.ones(M), sizes[self.kind]]
        prior = np.r_[np.full(M, BROAD**-2), np.ones(len(self.kind))]
        centre = np.r_[(0.5 - self.z) * BROAD**-2, np.zeros(len(self.kind))]
        precision = gram[:-1, :-1] * unit * unit[:, None] + np.diag(prior)
        pull = unit * gram[:-1, -1] + centre
        L = np.linalg.cholesky(precision)
        best = np.linalg.solve(L.T, np.linalg.solve(L, pull))
        quadratic = gram[-1, -1] + centre[:M] @ (0.5 - self.z) - pull @ best
        value = 0.5 * (np.log(w).sum() - quadratic) - np.log(np.diag(L)).sum()
        return float(value), best, L


def log_density(linear: LinearRecording, x: np.ndarray) -> tuple[float, np.ndarray]:
    """Of the sizes' common logarithms x (len(SIZES),), prior included, and its gradient; NOTHING and zero where sizes are too far apart
    for the precision to be told from a singular one."""
    sizes = 10.0**x
    try:
        value, slope = linear.marginal_slope(sizes)
    except np.linalg.LinAlgError:
        return NOTHING, np.zeros(len(x))
    share = _share(sizes)
    return value + _log_prior(sizes), np.log(10.0) * (slope + 1.0 - 2.0 * share / (1.0 + share))


def _value(linear: LinearRecording, sizes: np.ndarray) -> float:
    """`log_density` of sizes, without its gradient, which takes twice as long."""
    try:
        return linear.marginal(sizes)[0] + _log_prior(sizes)
    except np.linalg.LinAlgError:
        return NOTHING


def _share(sizes: np.ndarray) -> np.ndarray:
    return (sizes / np.r_[1.0, np.full(len(sizes) - 1, EXPECTED)]) ** 2


def _log_prior(sizes: np.ndarray) -> float:
    """Half-Cauchy, of the logarithms."""
    return float(np.log(sizes).sum() - np.log1p(_share(sizes)).sum())


def likely_sizes(linear: LinearRecording, starts: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Common logarithms of sizes at which their density is highest, (at most MODES, len(SIZES)), the likeliest first.

    Args:
        starts: where they were for another linearisation of the recording; None: there was none, and the climb begins in many places.
    """
    if starts is None:
        starts = LOWER + sobol(STARTS, len(SIZES), seed) * (UPPER - LOWER)
    expected = np.r_[0.0, np.full(len(SIZES) - 1, np.log10(EXPECTED))]

    def descent(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = log_density(linear, x)
        return -value, -slope

    bounds = list(zip(LOWER, UPPER))
    ends = sorted(
        (minimize(descent, each, jac=True, method="L-BFGS-B", bounds=bounds) for each in (expected, *starts)),
        key=lambda end: end.fun,
    )
    modes: list[np.ndarray] = []
    for end in ends:
        new = all(np.abs(end.x - mode).max() > APART for mode in modes)
        if new and len(modes) < MODES and end.fun < ends[0].fun + LESS:
            modes.append(end.x)
    return np.array(modes)


def drawn_sizes(linear: LinearRecording, modes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (count, len(SIZES)) of the sizes' posterior about its modes (log10): of t distributions with the modes' curvatures those that
    their weights choose."""
    proposals = [_about(linear, mode, rng) for mode in modes]
    x = np.vstack([_inside(mode, proposal) for mode, proposal in zip(modes, proposals)])
    log_p = [_value(linear, sizes) for sizes in 10.0**x]
    log_weight = log_p - logsumexp([proposal.logpdf(x) for proposal in proposals], axis=0)
    weight = np.exp(log_weight - log_weight.max())
    # Every so many hundredths of the weights one: less chance than in as many single draws.
    places = (np.arange(count) + rng.random()) / count
    below = np.cumsum(weight)
    return 10.0 ** x[np.searchsorted(below / below[-1], places)]


def _about(linear: LinearRecording, mode: np.ndarray, rng: np.random.Generator) -> Any:
    """A t distribution with the curvature that the density has at a mode."""
    steps = SLIGHT * np.eye(len(mode))
    curvature = -np.array([log_density(linear, mode + e)[1] - log_density(linear, mode - e)[1] for e in steps])
    values, axes = np.linalg.eigh((curvature + curvature.T) / (4.0 * SLIGHT))
    return multivariate_t(mode, (axes / np.maximum(values, WIDEST**-2)) @ axes.T, df=TAILS, seed=rng)


def _inside(mode: np.ndarray, proposal: Any) -> np.ndarray:
    """The mode, and draws within the bounds, CANDIDATES in all at most."""
    x = np.vstack([mode, proposal.rvs(20 * CANDIDATES)])
    return x[((x >= LOWER) & (x <= UPPER)).all(axis=1)][:CANDIDATES]
