"""What is believed of all places after some trials: the published model, and one that also averages over what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp

from sim_core.planning.map_estimate import Likelihood, map_estimate, prior_draws
from sim_core.planning.parametric_mean import ParametricMean
from sim_core.planning.residual_process import ResidualProcess, SquaredExponential

__all__ = ["NOISES", "SIGNALS", "MarginalSparGp", "Posterior", "SparGp", "Surrogate"]

#: of qualities from 0 to 1: how far they may be from the prior, and how far a reading may be from the truth
SIGNALS = (0.05, 0.15, 0.45)
NOISES = (0.02, 0.07, 0.2)


@dataclass(frozen=True)
class Posterior:
    """A belief.

    Attributes:
        theta: parameters of the mean function, the most probable or their expectation (p,).
        weights: of the mixture's normal distributions (s,), with the sum 1.
        predict: places (m, d) -> means and standard deviations of the value, each (s, m).
    """

    theta: np.ndarray
    weights: np.ndarray
    predict: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the whole mixture at places (m, d), each (m,)."""
        means, deviations = self.predict(x)
        mean = self.weights @ means
        return mean, np.sqrt(self.weights @ (deviations**2 + (means - mean) ** 2))


class Surrogate(Protocol):
    """Makes beliefs out of readings."""

    @property
    def mean(self) -> ParametricMean: ...

    def fit(self, x: np.ndarray, y: np.ndarray, start: np.ndarray) -> Posterior:
        """After readings y (n,) at places x (n, d), n >= 0; `start`: the parameters after one reading less (p,)."""

    def describe(self) -> dict[str, Any]:
        """All that the belief depends on besides the readings, for a checkpoint."""


@dataclass(frozen=True)
class SparGp:
    """Semi-parametric residual Gaussian process with a prior that is estimated by MAP (SPAR-GP).

    Source: Zhu, PhD thesis (University of Illinois 2023), sections 5.2 and 5.3.

    Attributes:
        mean: the parametric prior. kernel, noise: of the residual process and of a reading (a variance).
        adapt: estimate the parameters; else they stay at their default. likelihood: see `map_estimate`.
    """

    mean: ParametricMean
    kernel: SquaredExponential = SquaredExponential()
    noise: float = 0.0417
    adapt: bool = True
    likelihood: Likelihood = "independent"

    def fit(self, x: np.ndarray, y: np.ndarray, start: np.ndarray) -> Posterior:
        """See `Surrogate`. All residuals are taken anew from the newest parameters."""
        process = ResidualProcess(self.kernel, self.noise, x)
        theta = map_estimate(self.mean, process, y, start, self.likelihood) if self.adapt else self.mean.default
        residuals = y - self.mean.value(theta, x)

        def predict(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, deviation = process.predict(residuals, at)
            return (self.mean.value(theta, at) + mean)[None], deviation[None]

        return Posterior(theta, np.ones(1), predict)

    def describe(self) -> dict[str, Any]:
        """See `Surrogate`."""
        return {"model": "spar_gp", "adapt": self.adapt, "likelihood": self.likelihood, **_described(self)}


@dataclass(frozen=True)
class MarginalSparGp:
    """The same model, whose prior's parameters, signal variance and noise are integrated out instead of estimated or given.

    Parameters are drawn from their prior, weighted by the residual process's likelihood, and drawn once more around what that
    shows (population Monte Carlo: Cappe et al., J. Comput. Graph. Stat. 13(4), 2004); variances are summed over a lattice.

    Attributes:
        mean: the parametric prior. length: of the squared exponential kernel.
        signals, noises: standard deviations of the residual process and of a reading, between which the readings decide.
        draws: of the parameters, each round. rounds: of drawing. components: kept for a belief.
    """

    mean: ParametricMean
    length: float = 0.02
    signals: tuple[float, ...] = SIGNALS
    noises: tuple[float, ...] = NOISES
    draws: int = 512
    rounds: int = 3
    components: int = 64

    def fit(self, x: np.ndarray, y: np.ndarray, start: np.ndarray) -> Posterior:
        """See `Surrogate`."""
        pairs = list(product(self.signals, self.noises))
        processes = [ResidualProcess(SquaredExponential(self.length, s**2), n**2, x) for s, n in pairs]
        theta, log_proposal = prior_draws(self.mean, self.draws), np.zeros(self.draws)  # relative to the prior
        for turn in range(self.rounds):
            residuals = y - self.mean.value(theta, x)
            joint = np.stack([process.log_likelihood(residuals) for process in processes]) - log_proposal
            weights = np.exp(joint - logsumexp(joint))
            if turn < self.rounds - 1 and len(y):
                theta, log_proposal = self._around(theta, weights.sum(0))
        which, counts = self._kept(weights)
        kept = [divmod(k, self.draws) for k in which]

        def predict(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            means, deviations = self.mean.value(theta[[s for _, s in kept]], at), np.zeros((len(kept), len(at)))
            for h in {h for h, _ in kept}:
                rows = [row for row, (k, _) in enumerate(kept) if k == h]
                mean, deviations[rows] = processes[h].predict(residuals[[kept[row][1] for row in rows]], at)
                means[rows] += mean
            return means, deviations

        return Posterior(weights.sum(0) @ theta, counts / counts.sum(), predict)

    def _around(self, theta: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """New draws around weighted ones, a fifth of them the prior's, and the log density of their proposal over the prior."""
        default, scale, p = self.mean.default, self.mean.deviation, theta.shape[1]
        if not p:
            return theta, np.zeros(len(theta))
        z = (theta - default) / scale
        middle = weights @ z
        spread = (z - middle).T @ (weights[:, None] * (z - middle)) * 1.5 + 1e-4 * np.eye(p)
        factor = np.linalg.cholesky(spread)
        unit = (prior_draws(self.mean, self.draws) - default) / scale
        ours = np.arange(self.draws) % 5 > 0
        new = np.where(ours[:, None], middle + unit @ factor.T, unit)
        white = np.linalg.solve(factor, (new - middle).T)
        around = -0.5 * (white**2).sum(0) - np.log(np.diag(factor)).sum() + 0.5 * (new**2).sum(1)
        return default + scale * new, np.logaddexp(np.log(0.8) + around, np.log(0.2))

    def _kept(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Systematic resampling: flat numbers and how often each was taken."""
        edges = np.cumsum(weights.ravel())
        taken = np.searchsorted(edges, edges[-1] * (np.arange(self.components) + 0.5) / self.components)
        return np.unique(np.minimum(taken, weights.size - 1), return_counts=True)

    def describe(self) -> dict[str, Any]:
        """See `Surrogate`."""
        return {"model": "marginal_spar_gp", **_described(self)}


def _described(model: SparGp | MarginalSparGp) -> dict[str, Any]:
    """Fields as plain numbers and texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [plain(each) for each in value]
        if isinstance(value, (int, float, str, bool)):
            return value
        return {"kind": type(value).__name__, **{k: plain(v) for k, v in vars(value).items()}}

    return {name: plain(value) for name, value in vars(model).items()}
