"""Log likelihood of recorded trajectories under a simulator, and its exact gradient, for many particles at once.

All particles x trajectories x windows are simulated in one roll-out and differentiated in one reverse sweep of the
compiled dynamics (`sim_core.articulated.Dynamics`). Residuals count in units of the observations' standard deviation over
the recording, parameters in units of their limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np

from .density import Box
from .trajectories import Trajectories, standard_deviation

__all__ = ["Evaluation", "MultipleShooting", "SingleShooting"]


@dataclass(frozen=True)
class Evaluation:
    """What one batched simulation says about N particles.

    Attributes:
        log_p: log p_obs, without the defects' density, (N,); -inf where a roll-out is not finite.
        grad: d log_p / dz (N, M).
        grad_starts: d log_p / dw of the shooting states, (N, R, S-1, nx).
        defects: (window start - end of the window before) / (scale sigma_def), (N, R, S-1, nx).
        penalty_grad, penalty_grad_starts: the defects' Jacobian transposed times `pull(defects)`, with respect to z and w.
    """

    log_p: np.ndarray
    grad: np.ndarray
    grad_starts: np.ndarray
    defects: np.ndarray
    penalty_grad: np.ndarray | None = None
    penalty_grad_starts: np.ndarray | None = None


class MultipleShooting(Box):
    """Windows of a trajectory, each with its own start state; what they do not join up by is a defect."""

    def __init__(self, dynamics, parameters, trajectories: Trajectories, windows: int = 10, sigma_obs=0.2,
                 sigma_def: float = 0.1, combine: str = "sum", loss: str = "gaussian", observe=None, scale=None):
        super().__init__(parameters.names, parameters.lower, parameters.upper)
        raise NotImplementedError

    def evaluate(self, z, starts=None, pull: Callable | None = None) -> Evaluation:
        """starts: offsets w (N, R, S-1, nx) of the shooting states from the measured ones, in units of the state's scale."""

    def log_p(self, z): ...

    def log_p_and_grad(self, z): ...

    def extended(self): ...


class SingleShooting(MultipleShooting): ...
