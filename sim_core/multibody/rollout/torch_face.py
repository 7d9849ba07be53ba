"""Roll-outs as a torch operation, so that losses, networks and optimisers stay ordinary torch.

Tensors and numpy arrays share memory in both directions: nothing is copied. On a robot set
torch.set_num_threads(1); the kernels have their own `threads`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch.autograd.function import once_differentiable

__all__ = ["Rollouts", "rollout"]


class Rollouts(Protocol):
    """What torch differentiates through; `Dynamics` is one, and its documentation explains the calls."""

    dtype: np.dtype

    def rollout(self, x0: np.ndarray, U: np.ndarray, p: np.ndarray) -> np.ndarray: ...

    def rollout_vjp(
        self, x0: np.ndarray, U: np.ndarray, p: np.ndarray, X: np.ndarray, Xbar: np.ndarray, summed: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dynamics: Rollouts, x0: torch.Tensor, U: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        X = torch.from_numpy(dynamics.rollout(*(t.detach().numpy() for t in (x0, U, p))))
        ctx.dynamics = dynamics
        ctx.save_for_backward(x0, U, p, X)
        return X

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, Xbar: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs = ctx.saved_tensors
        bars = ctx.dynamics.rollout_vjp(*(t.detach().numpy() for t in inputs), Xbar.numpy(), summed=inputs[2].ndim == 1)
        # An input that the batch shares collects the gradients of all.
        return None, *(torch.from_numpy(bar).sum_to_size(t.shape) for bar, t in zip(bars, inputs))


def rollout(dynamics: Rollouts, x0: torch.Tensor, U: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """Differentiable X (..., H+1, nx) from x0 (..., nx), U (..., H, nu), p (..., np_).

    Raises:
        TypeError: not CPU tensors of the dynamics' dtype.
        ValueError: expected and found shape; NaN or infinity.
    """
    expected = getattr(torch, dynamics.dtype.name)
    for name, t in (("x0", x0), ("U", U), ("p", p)):
        if not isinstance(t, torch.Tensor) or t.dtype != expected or t.device.type != "cpu":
            found = f"{t.dtype} on {t.device}" if isinstance(t, torch.Tensor) else type(t).__name__
            raise TypeError(f"torch_rollout, argument {name}: expected a {expected} tensor on the CPU, found {found}")
    return _Rollout.apply(dynamics, x0, U, p)
