"""A step written in torch, a learnt network above all, as a `System`; torch derives the Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.func import jacrev, vjp, vmap

from sim_core.system import StepSystem

__all__ = ["TorchSystem"]


class TorchSystem(StepSystem):
    """x' = step(x, u, p) for one robot, in double precision; batches by torch.func.vmap.

    Args:
        function: step of tensors x (nx,), u (nu,), p (np_,) -> x' (nx,), torch.float64. What vmap cannot do (branches on
            values, writing in place) it cannot do either. Weights that inference shall find are part of p; all others are
            the function's own, in double precision.
        options: dt, states, controls, parameters, u_lower, u_upper, derivatives, name, as for StepSystem.
    """

    def __init__(
        self, function: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor], **options: Any
    ) -> None:
        super().__init__(**options)
        self._step = vmap(function)
        self._jacobians = vmap(jacrev(function, argnums=(0, 1, 2)))

    def advance(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self._step(*_tensors(x, u, p)).numpy()

    def jacobians(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with torch.no_grad():
            A, B, C = (J.numpy() for J in self._jacobians(*_tensors(x, u, p)))
        return A, B, C

    def pull_back(
        self, x: np.ndarray, u: np.ndarray, p: np.ndarray, after: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with torch.no_grad():
            pull = vjp(self._step, *_tensors(x, u, p))[1]
            xbar, ubar, pbar = (a.numpy() for a in pull(*_tensors(after)))
        return xbar, ubar, pbar


def _tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(np.require(a, np.float64, ["C", "W"])) for a in arrays]
