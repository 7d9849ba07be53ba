"""A posterior as a set of particles: saves, loads, rolls out and draws itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["ParticlePosterior"]


@dataclass(frozen=True)
class ParticlePosterior:
    """N samples of M named quantities.

    Attributes:
        names: M names. lower, upper: limits (M,). values: (N, M), SI. log_p: log likelihood (N,).
        meta: plain data about where they come from (robot, method, seed, ...).
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    values: np.ndarray
    log_p: np.ndarray
    meta: dict = field(default_factory=dict)

    def save(self, path): ...

    @classmethod
    def load(cls, path): ...

    best = property(lambda self: self.values[np.argmax(self.log_p)])
    mean = property(lambda self: self.values.mean(0))

    def rollout(self, dynamics, parameters, x0, U): ...

    def corner(self, truth=None): ...
