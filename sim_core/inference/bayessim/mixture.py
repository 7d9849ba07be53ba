"""Log density of a mixture of Gaussians whose parameters a network gives, and its gradient in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["LOG_DIAGONAL", "log_mixture", "split"]

LOG_DIAGONAL = (-3.0, 7.0)  # standard deviations between 1e-3 and 20 of the range


def split(raw: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
    """Views of raw (K, P, B), P = 1 + 2 n + n (n-1) / 2: logits (K, B), mu (K, n, B), log of L's diagonal (K, n, B), L below
    it column by column (K, n (n-1) / 2, B)."""
    return raw[:, 0], raw[:, 1 : 1 + n], raw[:, 1 + n : 1 + 2 * n], raw[:, 1 + 2 * n :]


def log_mixture(raw: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """log sum_k softmax(logits)_k N(theta; mu_k, (L_k L_k')^-1), (B,), of raw (K, P, B) and theta (n, B).

    The batch is the last, contiguous dimension, so that every operation runs over it at full width; automatic
    differentiation would gather and scatter the entries of L for each of its factors.
    """
    return _LogMixture.apply(raw, theta)


class _LogMixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, raw: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        n = len(theta)
        logits, mu, log_diagonal, below = split(raw, n)
        log_diagonal = log_diagonal.clamp(*LOG_DIAGONAL)
        log_w = torch.log_softmax(logits, 0)
        apart, diagonal = theta - mu, log_diagonal.exp()
        white = diagonal * apart  # L' (theta - mu)
        for j, part in _columns(n):
            white[:, j] += (below[:, part] * apart[:, j + 1 :]).sum(1)
        inside = log_w + log_diagonal.sum(1) - 0.5 * (white * white).sum(1)
        log_q = torch.logsumexp(inside, 0)
        ctx.save_for_backward(raw, log_w, apart, diagonal, white, inside, log_q)
        return log_q - 0.5 * n * math.log(2 * math.pi)

    @staticmethod
    def backward(ctx: Any, bar: torch.Tensor) -> tuple[torch.Tensor, None]:
        raw, log_w, apart, diagonal, white, inside, log_q = ctx.saved_tensors
        n = apart.shape[1]
        below = split(raw, n)[3]
        grad = torch.empty_like(raw)
        logitsbar, mubar, diagonalbar, belowbar = split(grad, n)
        share = (inside - log_q).exp() * bar  # how much of theta each component explains
        torch.sub(share, log_w.exp() * bar, out=logitsbar)
        whitebar = share[:, None] * white
        torch.mul(whitebar, diagonal, out=mubar)  # mubar = L whitebar
        torch.sub(share[:, None], mubar * apart, out=diagonalbar)
        for j, part in _columns(n):
            torch.mul(-whitebar[:, j, None], apart[:, j + 1 :], out=belowbar[:, part])
            mubar[:, j + 1 :] += below[:, part] * whitebar[:, j, None]
        low, high = LOG_DIAGONAL
        log_diagonal = split(raw, n)[2]
        diagonalbar *= (log_diagonal >= low) & (log_diagonal <= high)
        return grad, None


def _columns(n: int) -> Iterator[tuple[int, slice]]:
    """(j, where column j of L below the diagonal lies among its entries)."""
    at = 0
    for j in range(n - 1):
        yield j, slice(at, at + n - 1 - j)
        at += n - 1 - j
