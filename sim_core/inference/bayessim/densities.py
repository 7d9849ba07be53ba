"""Conditional densities q(theta | s): mixtures of Gaussians whose parameters depend on the summary s.

The dependence is a small network (mixture density network, MDN) or a linear function of random Fourier features (MDRFF).

Sources: Bishop, Mixture density networks, 1994; Rahimi & Recht, NeurIPS 2007; Ramos et al., BayesSim, RSS 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from sim_core.inference.bayessim.mixture import LOG_DIAGONAL, log_mixture, split

__all__ = ["FEATURES", "ConditionalMixture", "random_frequencies"]


class ConditionalMixture(nn.Module):
    """q(theta | s) = sum_k w_k(s) N(theta; mu_k(s), (L_k(s) L_k(s)')^-1), L lower triangular: the precision's factor.

    Args:
        basis: fixed module s (N, F) -> (N, B); training evaluates it once (`log_prob_given`).
        network: module (N, B) -> (N, out) that is trained.   out: its width.
        n: dimension of theta.   components: K.
    """

    def __init__(self, basis: nn.Module, network: nn.Module, out: int, n: int, components: int) -> None:
        super().__init__()
        self.n, self.components, self.basis, self.network = n, components, basis, network
        self.head = nn.Linear(out, components * (1 + 2 * n + n * (n - 1) // 2))
        with torch.no_grad():  # begins as broad kernels spread over the unit interval
            self.head.weight.mul_(0.1)
            logits, mu, log_diagonal, below = split(self.head.bias.view(components, -1, 1), n)
            for entries in (logits, below):
                entries.zero_()
            mu.copy_(torch.rand(mu.shape))
            log_diagonal.fill_(math.log(4.0))

    def raw(self, basis: torch.Tensor) -> torch.Tensor:
        """Entries of the mixture (K, P, N), see `mixture.split`, of values of the basis (N, B)."""
        h = self.network(basis)
        return torch.addmm(self.head.bias[:, None], self.head.weight, h.T).view(self.components, -1, len(h))

    def log_prob(self, theta: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """log q(theta | s), (N,), of theta (N, n) and s (N, F)."""
        return self.log_prob_given(theta, self.basis(s))

    def log_prob_given(self, theta: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
        """The same of the basis' values (N, B) in place of s."""
        return log_mixture(self.raw(basis), theta.T)

    @torch.no_grad()
    def mixture(self, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """w (K,), mu (K, n), L (K, n, n) given one summary s (F,)."""
        n = self.n
        logits, mu, log_diagonal, below = split(self.raw(self.basis(s[None])), n)
        L = torch.diag_embed(log_diagonal[..., 0].clamp(*LOG_DIAGONAL).exp())
        column, row = torch.triu_indices(n, n, 1)
        L[:, row, column] = below[..., 0]
        return torch.softmax(logits[:, 0], 0), mu[..., 0], L

    def sample(self, s: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
        """theta (count, n) given one summary s (F,)."""
        w, mu, L = self.mixture(s)
        k = torch.multinomial(w, count, replacement=True, generator=generator)
        white = torch.randn(count, self.n, 1, generator=generator, dtype=mu.dtype)
        # The covariance is (L L')^-1, so its factor is L'^-1.
        return mu[k] + torch.linalg.solve_triangular(L[k].mT, white, upper=True)[..., 0]


class FourierFeatures(nn.Module):
    """sqrt(2 / D) cos(W s + b) with fixed random W, b: their inner products approximate a stationary kernel."""

    W: torch.Tensor
    b: torch.Tensor

    def __init__(self, frequencies: torch.Tensor, phase: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("W", frequencies)
        self.register_buffer("b", phase)

    def forward(self, s: torch.Tensor) -> torch.Tensor:
        return math.sqrt(2 / len(self.b)) * torch.cos(s @ self.W.T + self.b)


def random_frequencies(
    kernel: str, count: int, dimension: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
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
    return ConditionalMixture(nn.Identity(), network, width, n, components)


def mdrff(
    kernel: str, s: torch.Tensor, n: int, components: int, generator: torch.Generator, count: int = 128
) -> ConditionalMixture:
    """Length scale: the median distance between summaries, from 500 of them."""
    few = s[torch.randperm(len(s), generator=generator)[:500]]
    scale = torch.pdist(few).median().clamp_min(1e-6)
    W = random_frequencies(kernel, count, s.shape[1], generator, s.dtype) / scale
    phase = 2 * math.pi * torch.rand(count, generator=generator, dtype=s.dtype)
    return ConditionalMixture(FourierFeatures(W, phase), nn.Identity(), count, n, components)


#: name -> f(s (N, F), n, components, generator) -> ConditionalMixture, not trained yet
FEATURES: dict[str, Callable[[torch.Tensor, int, int, torch.Generator], ConditionalMixture]] = {
    "mdn": mdn,
    "mdrff-rbf": lambda *a: mdrff("rbf", *a),
    "mdrff-matern": lambda *a: mdrff("matern", *a),
}
