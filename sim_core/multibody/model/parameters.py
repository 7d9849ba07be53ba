"""Free parameters of a model: unconstrained or boxed coordinates xi in which everything reachable is physical.

spec = FreeParameters(model, [BodyInertia("hand"), JointDamping("joint1")])
p = spec.to_physical(xi)            # (np_,), what the dynamics functions take
dp_dxi = spec.jacobian(xi)          # (np_, n), exact
estimates = spec.report(xi, cov)    # mass, COM, ... with 95 % intervals
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameter_blocks import Block, Coordinate, Quantity

__all__ = ["FreeParameters", "NamedEstimate"]

#: how names of quantities end that cannot be negative
POSITIVE = (".mass", ".xx", ".yy", ".zz", ".damping", ".frictionloss", ".armature", ".stiffness", ".gear", ".delay")
Z95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True)
class NamedEstimate:
    """A reported quantity with its 95 % interval [lower, upper], SI."""

    name: str
    unit: str
    value: float
    std: float
    lower: float
    upper: float

    @staticmethod
    def of(name: str, unit: str, value: float, std: float, quantile: float = Z95) -> NamedEstimate:
        """value +- quantile std, which ends at zero where no robot has less: an interval that claims negative inertia says nothing."""
        lower = value - quantile * std
        if value >= 0.0 and is_positive(name):
            lower = max(lower, 0.0)
        return NamedEstimate(name, unit, value, std, lower, value + quantile * std)


def is_positive(name: str) -> bool:
    """Can the quantity of this name not be negative? A payload can: what was added to a model that is too heavy."""
    return name.endswith(POSITIVE) and not name.endswith(".payload.mass")


class FreeParameters:
    """Which parameters of a model are free, and in which coordinates.

    Attributes:
        model: the model the parameters belong to.
        blocks: as given.
        n: number of free coordinates xi.
        names, units: of the coordinates, (n,).
        lower, upper: bounds, (n,).
        prior_mean, prior_std: Gaussian prior, (n,).
        written: names of the physical parameters that the coordinates determine.
    """

    def __init__(self, model: RobotModel, blocks: Iterable[Block]) -> None:
        """
        Args:
            model: RobotModel.
            blocks: BodyInertia, JointDamping, LinkLength, ... ; every physical entry may be written by one only.

        Raises:
            KeyError: a block names what the model does not have.
            ValueError: two blocks write the same physical parameter, or a block's own values do not fit.
        """
        self.model = model
        self.blocks = tuple(blocks)
        if not self.blocks:
            raise ValueError('No free parameters: give at least one block such as BodyInertia("hand").')
        self._coordinates: list[Coordinate] = []
        self._slices: list[slice] = []
        for block in self.blocks:
            rows = block.coordinates(model)
            self._slices.append(slice(len(self._coordinates), len(self._coordinates) + len(rows)))
            self._coordinates += rows
        self._held = np.array([c.prior_mean for c in self._coordinates])
        self._prior = self._held.copy()
        self._active = np.arange(len(self._coordinates))
        self._base = model.parameters.nominal
        self._build()

    def _build(self) -> None:
        """CasADi functions of the active coordinates."""
        xi = ca.SX.sym("xi", len(self._active))
        full = ca.SX(self._held)
        full[self._active.tolist()] = xi
        p = ca.SX(self._base)
        written: dict[str, Block] = {}
        quantities: list[Quantity] = []
        for block, where in zip(self.blocks, self._slices):
            for name, value in block.entries(self.model, full[where]).items():
                if name in written:
                    raise ValueError(f"{name} is set by two blocks, {written[name]} and {block}. Keep one.")
                written[name] = block
                p[self.model.parameters.index(name)] = value
            if np.any((self._active >= where.start) & (self._active < where.stop)):
                quantities += block.quantities(self.model, full[where])
        self._p = ca.Function("to_physical", [xi], [ca.densify(p)])
        self._dp = ca.Function("jacobian", [xi], [ca.densify(ca.jacobian(p, xi))])
        self._quantity_names = [(name, unit) for name, unit, _ in quantities]
        values = ca.vertcat(*(ca.SX(value) for _, _, value in quantities))
        self._report = ca.Function("report", [xi], [values, ca.densify(ca.jacobian(values, xi))])
        self.written = tuple(written)

    def _column(self, field: str) -> np.ndarray:
        return np.array([getattr(self._coordinates[i], field) for i in self._active], dtype=float)

    @property
    def n(self) -> int:
        """Number of free coordinates."""
        return len(self._active)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the free coordinates, (n,)."""
        return tuple(self._coordinates[i].name for i in self._active)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the free coordinates, (n,)."""
        return tuple(self._coordinates[i].unit for i in self._active)

    @property
    def lower(self) -> np.ndarray:
        """Lower bounds (n,)."""
        return self._column("lower")

    @property
    def upper(self) -> np.ndarray:
        """Upper bounds (n,)."""
        return self._column("upper")

    @property
    def prior_mean(self) -> np.ndarray:
        """Means of the Gaussian prior (n,)."""
        return self._prior[self._active]

    @property
    def prior_std(self) -> np.ndarray:
        """Standard deviations of the Gaussian prior (n,)."""
        return self._column("prior_std")

    def freeze(self, names: Iterable[str], xi: ArrayLike | None = None) -> FreeParameters:
        """The same parameters with some coordinates held at xi (n,), default their prior mean.

        Raises:
            KeyError: a name is not a free coordinate.
            ValueError: none would be left.
        """
        names = set(names)
        unknown = names - set(self.names)
        if unknown:
            raise KeyError(f"Not free: {', '.join(sorted(unknown))}. Free: {', '.join(self.names)}.")
        if len(names) == self.n:
            raise ValueError("All coordinates would be frozen; leave at least one free.")
        other = copy.copy(self)
        other._held = self._held.copy()
        other._held[self._active] = self.prior_mean if xi is None else self._checked(xi)
        other._active = np.array([i for i in self._active if self._coordinates[i].name not in names])
        other._build()
        return other

    def with_base(self, p: ArrayLike) -> FreeParameters:
        """The same parameters; what is not free has the values of p (np_,) instead of the model file's.

        Priors and what `payload` compares with stay the model file's.

        Raises:
            ValueError: wrong length, or not finite.
        """
        p = np.array(p, dtype=float)
        if p.shape != (self.model.np_,) or not np.isfinite(p).all():
            raise ValueError(f"Expected a finite physical vector of shape ({self.model.np_},), found shape {p.shape}.")
        other = copy.copy(self)
        other._base = p
        other._build()
        return other

    def believed(self, xi: ArrayLike) -> FreeParameters:
        """The same parameters; the prior's means are xi (n,) instead of the model file's."""
        other = copy.copy(self)
        other._prior = self._prior.copy()
        other._prior[self._active] = self._checked(xi)
        return other

    def _checked(self, xi: ArrayLike) -> np.ndarray:
        xi = np.asarray(xi, dtype=float)
        if xi.shape[-1:] != (self.n,):
            raise ValueError(f"Expected coordinates of shape (..., {self.n}), found {xi.shape}.")
        return xi

    def clip(self, xi: ArrayLike) -> np.ndarray:
        """xi moved into the box."""
        return np.clip(self._checked(xi), self.lower, self.upper)

    def to_physical(self, xi: ArrayLike) -> np.ndarray:
        """Physical vectors (..., np_) of coordinates (..., n)."""
        xi = self._checked(xi)
        p = self._p(xi.reshape(-1, self.n).T).full().T
        return p.reshape(xi.shape[:-1] + (self.model.np_,))

    def jacobian(self, xi: ArrayLike) -> np.ndarray:
        """dp/dxi (np_, n) at xi (n,)."""
        xi = self._checked(xi)
        if xi.ndim != 1:
            raise ValueError(f"Expected one vector of {self.n} coordinates, found shape {xi.shape}.")
        return self._dp(xi).full()

    def expression(self, xi: ca.SX) -> ca.SX:
        """Physical vector as SX of the symbolic coordinates xi, for graphs that contain the parameters' map."""
        return self._p(xi)

    def from_physical(self, p: ArrayLike) -> np.ndarray:
        """Coordinates (n,) of a physical vector (np_,).

        The inverse of to_physical on its range; elsewhere a block takes from p what it can express (mass and COM for
        "mass_com"). Entries that are not free are ignored.

        Raises:
            ValueError: wrong length, or p holds a body that no coordinates describe.
        """
        p = np.asarray(p, dtype=float)
        if p.shape != (self.model.np_,):
            raise ValueError(f"Expected a physical vector of shape ({self.model.np_},), found {p.shape}.")
        full = np.concatenate([block.inverse(self.model, p) for block in self.blocks])
        return full[self._active]

    def report(self, xi: ArrayLike, cov: ArrayLike) -> list[NamedEstimate]:
        """Estimates of mass, COM, inertia, damping, ... by the delta method.

        Args:
            xi: coordinates (n,). cov: their covariance (n, n).

        Returns:
            list of NamedEstimate; intervals are value +- 1.96 std, std^2 = g' cov g with g the quantity's gradient.
        """
        values, gradients = (out.full() for out in self._report(self._checked(xi)))
        return _estimates(self._quantity_names, values[:, 0], gradients, self._covariance(cov))

    def payload(self, body: str, xi: ArrayLike, cov: ArrayLike) -> list[NamedEstimate]:
        """What was added to a body: mass and COM (in the body's frame) of estimate minus model, with intervals.

        The smaller the added mass, the less certain is its COM, and the interval widens accordingly.

        Args:
            body: name of a body whose inertia is free.
            xi: coordinates (n,). cov: their covariance (n, n).

        Raises:
            ValueError: the body's inertia is not free.
        """
        where = self.model.parameters.inertia_slice(body)
        if f"{body}.mass" not in self.written:
            raise ValueError(f"The inertia of '{body}' is not free; add BodyInertia(\"{body}\").")
        nominal = self.model.parameters.nominal[where]
        change = self.to_physical(xi)[where][:4] - nominal[:4]
        d_change = self.jacobian(xi)[where][:4]
        m = change[0]
        c = change[1:] / m if m != 0 else np.zeros(3)
        # dc = (dh - c dm) / m
        d_com = (d_change[1:] - np.outer(c, d_change[0])) / (m if m != 0 else np.nan)
        names = [(f"{body}.payload.mass", "kg")] + [(f"{body}.payload.com.{axis}", "m") for axis in "xyz"]
        return _estimates(names, np.r_[m, c], np.vstack([d_change[0], d_com]), self._covariance(cov))

    def _covariance(self, cov: ArrayLike) -> np.ndarray:
        cov = np.asarray(cov, dtype=float)
        if cov.shape != (self.n, self.n):
            raise ValueError(f"Expected a covariance of shape ({self.n}, {self.n}), found {cov.shape}.")
        return cov

    def __repr__(self) -> str:
        return f"FreeParameters({self.model.name}: {', '.join(self.names)})"


def _estimates(
    names: Sequence[tuple[str, str]], values: np.ndarray, gradients: np.ndarray, cov: np.ndarray
) -> list[NamedEstimate]:
    stds = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gradients, cov, gradients), 0.0))
    return [NamedEstimate.of(name, unit, float(x), float(s)) for (name, unit), x, s in zip(names, values, stds)]
