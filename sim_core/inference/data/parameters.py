"""Entries of a system's parameters that are free between limits: what inference and refit ask of parameters, for any System.

    ParameterBox(system, {"friction": (0.0, 0.5), "height": (0.1, 0.4)})

Rigid bodies have richer ones, in which what is reachable is physical (FreeParameters) or which stand for masses, centres of
mass and inertias (LimitedParameters).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sim_core.inference.data.density import Box
from sim_core.multibody.model.parameters import NamedEstimate
from sim_core.system import System

__all__ = ["ParameterBox"]


class ParameterBox(Box):
    """Named entries of p, each its own coordinate xi, between limits; the others keep their nominal values.

    Samplers see a uniform density between the limits, refit a normal prior cut off at them.

    Args:
        system: whose `parameter_names` and `nominal` are meant.
        limits: name -> (lower, upper), SI.
        prior: name -> (mean, standard deviation); by default the nominal value, moved into the limits, and a quarter of
            their distance.
        units: name -> unit, for reports; "-" where none is given.

    Attributes:
        names, lower, upper, n: see Box. units; prior_mean, prior_std: (n,).

    Raises:
        KeyError: the system has no such parameter, or a prior is given for one that is not free.
        ValueError: no parameters, limits that are no interval, or a standard deviation that is not positive.
    """

    def __init__(
        self,
        system: System,
        limits: Mapping[str, tuple[float, float]],
        prior: Mapping[str, tuple[float, float]] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        if not limits:
            raise ValueError(f"no free parameters; {system.name} has {', '.join(system.parameter_names)}")
        known = {name: i for i, name in enumerate(system.parameter_names)}
        for name in (*limits, *(prior or {})):
            if name not in known:
                raise KeyError(f"{system.name} has no parameter '{name}'; it has {', '.join(known)}")
            if name not in limits:
                raise KeyError(f"a prior is given for {name}, which has no limits; add it to the limits")
        super().__init__(limits, *np.array([limits[name] for name in limits], dtype=float).T)
        self.units = tuple((units or {}).get(name, "-") for name in self.names)
        self._at, self._base = np.array([known[name] for name in self.names]), np.array(system.nominal, dtype=float)
        self.prior_mean = np.clip(self._base[self._at], self.lower, self.upper)
        self.prior_std = self.width / 4
        for name, (mean, std) in (prior or {}).items():
            i = self.names.index(name)
            self.prior_mean[i], self.prior_std[i] = mean, std
        if not (self.prior_std > 0).all():
            raise ValueError(f"expected prior standard deviations > 0, found {self.prior_std.tolist()}")

    def to_physical(self, xi: np.ndarray) -> np.ndarray:
        """p (..., np_) of xi (..., n)."""
        xi = self.checked(xi)
        p = np.broadcast_to(self._base, (*xi.shape[:-1], len(self._base))).copy()
        p[..., self._at] = xi
        return p

    def from_physical(self, p: np.ndarray) -> np.ndarray:
        """xi (..., n) of p (..., np_)."""
        return np.asarray(p, dtype=float)[..., self._at]

    def jacobian(self, xi: np.ndarray) -> np.ndarray:
        """dp/dxi (np_, n), the same at every xi (n,)."""
        J = np.zeros((len(self._base), self.n))
        J[self._at, np.arange(self.n)] = 1.0
        return J

    def pullback(self, xi: np.ndarray, pbar: np.ndarray) -> np.ndarray:
        """dL/dxi (..., n) from dL/dp (..., np_)."""
        return np.asarray(pbar)[..., self._at]

    def report(self, xi: np.ndarray, covariance: np.ndarray) -> list[NamedEstimate]:
        """Every free parameter with its 95 % interval, from xi (n,) and its covariance (n, n)."""
        std = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return [
            NamedEstimate.of(name, unit, float(x), float(s))
            for name, unit, x, s in zip(self.names, self.units, xi, std)
        ]

    def __repr__(self) -> str:
        return f"ParameterBox({', '.join(self.names)})"
