"""Conditional densities q(theta | s): mixtures of Gaussians whose parameters depend on the summary s.

The dependence is a small network (mixture density network, MDN) or a linear function of random Fourier features (MDRFF).

Sources: Bishop, Mixture density networks, 1994; Rahimi & Recht, NeurIPS 2007; Ramos et al., BayesSim, RSS 2019.
"""

from __future__ import annotations

import math

import torch
from torch import nn

__all__ = ["FEATURES", "ConditionalMixture", "random_frequencies"]


class ConditionalMixture(nn.Module):
    """q(theta | s) = sum_k w_k(s) N(theta; mu_k(s), (L_k(s) L_k(s)')^-1), L lower triangular: the precision's factor.

    Args:
        features: module s (N, F) -> (N, out).   out: its width.   n: dimension of theta.   components: K.
    """

    def __init__(self, features: nn.Module, out: int, n: int, components: int):
        super().__init__()
        self.n, self.components, self.features = n, components, features
        below = torch.tril_indices(n, n, -1)
        self.register_buffer("_rows", below[0])
        self.register_buffer("_columns", below[1])
        self.head = nn.Linear(out, components * (1 + 2 * n + below.shape[1]))
        with torch.no_grad():  # begins as broad kernels spread over the unit interval
            self.head.weight.mul_(0.1)
            bias = self.head.bias.view(components, -1)
            bias.zero_()
            bias[:, 1 : 1 + n] = torch.rand(components, n)
            bias[:, 1 + n : 1 + 2 * n] = math.log(4.0)

    def mixture(self, s: torch.Tensor):
        """log w (N, K), mu (N, K, n), log of L's diagonal (N, K, n), L below it row by row (N, K, n (n-1) / 2)."""
        n = self.n
        raw = self.head(self.features(s)).view(len(s), self.components, -1)
        log_diagonal = raw[..., 1 + n : 1 + 2 * n].clamp(-3.0, 7.0)  # std between 1e-3 and 20 of the range
        return torch.log_softmax(raw[..., 0], -1), raw[..., 1 : 1 + n], log_diagonal, raw[..., 1 + 2 * n :]

    def log_prob(self, theta: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """log q(theta | s), (N,), of theta (N, n) and s (N, F)."""
        log_w, mu, log_diagonal, below = self.mixture(s)
        apart = theta[:, None] - mu
        white = (log_diagonal.exp() * apart).index_add(2, self._columns, below * apart[..., self._rows])  # L' (theta - mu)
        inside = log_w + log_diagonal.sum(-1) - 0.5 * (white**2).sum(-1)
        return torch.logsumexp(inside, -1) - 0.5 * self.n * math.log(2 * math.pi)

    @torch.no_grad()
    def sample(self, s: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
        """theta (count, n) given one summary s (F,)."""
        log_w, mu, log_diagonal, below = self.mixture(s[None])
        L = torch.diag_embed(log_diagonal.exp())
        L[..., self._rows, self._columns] = below
        k = torch.multinomial(log_w[0].exp(), count, replacement=True, generator=generator)
        white = torch.randn(count, self.n, 1, generator=generator, dtype=mu.dtype)
        # The covariance is (L L')^-1, so its factor is L'^-1.
        return mu[0, k] + torch.linalg.solve_triangular(L[0, k].mT, white, upper=True)[..., 0]


class FourierFeatures(nn.Module):
    """sqrt(2 / D) cos(W s + b) with fixed random W, b: their inner products approximate a stationary kernel."""

    def __init__(self, frequencies: torch.Tensor, phase: torch.Tensor):
        super().__init__()
        self.register_buffer("W", frequencies)
        self.register_buffer("b", phase)

    def forward(self, s):
        return math.sqrt(2 / len(self.b)) * torch.cos(s @ self.W.T + self.b)


def random_frequencies(kernel: str, count: int, dimension: int, generator: torch.Generator, dtype=torch.float32) -> torch.Tensor:
    """Frequencies (count, dimension) from the spectral density of a kernel of length scale 1.

    "rbf": exp(-r^2 / 2), normal.  "matern": nu = 5/2, Student's t of 2 nu = 5 degrees of freedom.
    """
    W = torch.randn(count, dimension, generator=generator, dtype=dtype)
    if kernel == "rbf":
        return W
    if kernel == "matern":
        chi2 = (torch.randn(count, 5, generator=generator, dtype=dtype) ** 2).sum(1, keepdim=True)
        return W * torch.sqrt(5 / chi2)
    raise ValueError(f"There is no kernel '{kernel}'. Known: rbf, matern.")


def mdn(s: torch.Tensor, n: int, components: int, generator: torch.Generator, width: int = 24) -> ConditionalMixture:
    network = nn.Sequential(nn.Linear(s.shape[1], width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
    return ConditionalMixture(network, width, n, components)


def mdrff(kernel: str, s: torch.Tensor, n: int, components: int, generator: torch.Generator, count: int = 128):
    """Length scale: the median distance between summaries, from 500 of them."""
    few = s[torch.randperm(len(s), generator=generator)[:500]]
    scale = torch.pdist(few).median().clamp_min(1e-6)
    W = random_frequencies(kernel, count, s.shape[1], generator, s.dtype) / scale
    phase = 2 * math.pi * torch.rand(count, generator=generator, dtype=s.dtype)
    return ConditionalMixture(FourierFeatures(W, phase), count, n, components)


#: name -> f(s (N, F), n, components, generator) -> ConditionalMixture, not trained yet
FEATURES = {
    "mdn": mdn,
    "mdrff-rbf": lambda *a: mdrff("rbf", *a),
    "mdrff-matern": lambda *a: mdrff("matern", *a),
}
