"""Cross-entropy method with a Gaussian mixture: sample, keep the best, refit."""

from __future__ import annotations

import numpy as np

from sim_core.inference.samplers.limits import reflect
from sim_core.inference.samplers.sampler import Run, Sampler, sobol

__all__ = ["CEM", "Mixture"]


def cem(
    run: Run, iterations: int, kernels: int = 3, elite: float = 0.2, smoothing: float = 0.5, floor: float = 1e-3
) -> tuple[np.ndarray, np.ndarray]:
    """Populations of N drawn from a mixture that is refitted to the best of each.

    The first population are Sobol points; samples beyond the limits are reflected. It maximises rather than samples: the
    last population is as wide as the floor and the number of iterations leave it.

    Args:
        kernels: Gaussians of the mixture.
        elite: share of a population kept, at least two points per kernel.
        smoothing: share of the old mixture's covariance kept at each refit.
        floor: least standard deviation, in units of the limits.

    Source: Rubinstein & Kroese, The Cross-Entropy Method, 2004; three kernels: thesis, section 4.1.
    """
    z = sobol(run.samples, run.n, run.seed)
    log_p = run.log_p(z)
    kept = min(run.samples, max(round(elite * run.samples), 2 * kernels))
    mixture: Mixture | None = None
    for i in run.iterate(iterations, "CEM"):
        best = z[np.argsort(-log_p, kind="stable")[:kept]]
        fitted = Mixture.fit(best, kernels, run.rng, floor)
        mixture = fitted if mixture is None else fitted.blend(mixture, smoothing)
        z = reflect(mixture.draw(run.samples, run.rng))
        log_p = run.log_p(z)
        run.record(i, z, log_p, spread=float(z.std(0).mean()))
    return z, log_p


class Mixture:
    """Gaussians with weights (K,), means (K, M) and covariances (K, M, M)."""

    def __init__(self, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> None:
        self.weights, self.means, self.covariances = weights, means, covariances

    @classmethod
    def fit(cls, x: np.ndarray, kernels: int, rng: np.random.Generator, floor: float, sweeps: int = 10) -> Mixture:
        """Expectation-maximisation on x (N, M) from k-means++ centres; `floor`^2 is added to every variance."""
        n, m = x.shape
        kernels = min(kernels, n)
        centres = [x[rng.integers(n)]]
        while len(centres) < kernels:
            far = np.min([((x - c) ** 2).sum(1) for c in centres], axis=0)
            centres.append(x[rng.choice(n, p=far / far.sum())] if far.sum() > 0 else x[rng.integers(n)])
        mixture = cls(
            np.full(kernels, 1 / kernels), np.array(centres), np.tile(np.cov(x.T).reshape(m, m), (kernels, 1, 1))
        )
        mixture.covariances += floor**2 * np.eye(m)
        for _ in range(sweeps):
            log_r = mixture._log_joint(x)
            r = np.exp(log_r - np.logaddexp.reduce(log_r, axis=1, keepdims=True))
            mass = r.sum(0) + 1e-12
            means = r.T @ x / mass[:, None]
            apart = x[:, None] - means
            covariances = np.einsum("nk,nki,nkj->kij", r, apart, apart) / mass[:, None, None] + floor**2 * np.eye(m)
            mixture = cls(mass / mass.sum(), means, covariances)
        return mixture

    def blend(self, old: Mixture, share: float) -> Mixture:
        """This mixture with `share` of the old one's covariance, kernel by nearest mean."""
        nearest = np.argmin(((self.means[:, None] - old.means) ** 2).sum(-1), axis=1)
        return Mixture(self.weights, self.means, (1 - share) * self.covariances + share * old.covariances[nearest])

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        k = rng.choice(len(self.weights), size=count, p=self.weights)
        L = np.linalg.cholesky(self.covariances)
        return self.means[k] + np.einsum("nij,nj->ni", L[k], rng.standard_normal((count, self.means.shape[1])))

    def _log_joint(self, x: np.ndarray) -> np.ndarray:
        """log weight_k N(x_n | k), (N, K), without the constant."""
        L = np.linalg.cholesky(self.covariances)
        white = np.linalg.solve(L[None], (x[:, None] - self.means)[..., None])[..., 0]
        half_log_det = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(1)
        return np.log(self.weights + 1e-300) - half_log_det - 0.5 * (white**2).sum(-1)


CEM = Sampler(cem, False, 100, "cross-entropy method, Gaussian mixture of three kernels (an optimiser with spread)")
