"""Kinds of free parameters: how a few coordinates fill entries of the physical vector.

Each block turns its coordinates xi into physical entries such that everything inside the coordinates' box is
physical. Positive quantities are logarithmic where the model has a positive value, and boxed at zero where it has
none (the logarithm of zero is out of reach, and its neighbourhood is flat).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca
import numpy as np

from sim_core.multibody.equations import inertia
from sim_core.multibody.model.model import RobotModel

__all__ = [
    "Block",
    "BodyDensity",
    "BodyInertia",
    "BodyPosition",
    "Coordinate",
    "Gear",
    "Gravity",
    "GravityTilt",
    "JointArmature",
    "JointDamping",
    "JointFriction",
    "JointStiffness",
    "LinkLength",
    "Quantity",
]


@dataclass(frozen=True)
class Coordinate:
    """One free coordinate: bounds and Gaussian prior in its own unit ("ln kg" for the logarithm of a mass)."""

    name: str
    unit: str
    lower: float
    upper: float
    prior_mean: float
    prior_std: float

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(f"{self.name}: lower bound {self.lower:g} must be below upper bound {self.upper:g}.")
        if not self.prior_std > 0:
            raise ValueError(f"{self.name}: prior_std must be positive, found {self.prior_std:g}.")


#: A reported quantity: name, SI unit, expression of the coordinates.
Quantity = tuple[str, str, ca.SX]


class Block(ABC):
    """A group of coordinates. Subclasses say how they appear in the physical vector."""

    @abstractmethod
    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        """The block's coordinates, with bounds and priors.

        Raises:
            KeyError: the model lacks what the block names.
            ValueError: the block's own values do not fit the model.
        """

    @abstractmethod
    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        """Entries of the physical vector by name, from the block's coordinates xi, SX (n,)."""

    @abstractmethod
    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        """Coordinates xi (n,) of a numeric physical vector p (np_,).

        Raises:
            ValueError: no coordinates describe the values in p.
        """

    @abstractmethod
    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        """What a person wants to see reported, from the block's coordinates xi, SX (n,)."""


def _stds(given: Mapping[str, float] | float | None, defaults: Mapping[str, float]) -> dict[str, float]:
    """Prior standard deviations by key: a number scales the defaults, a mapping replaces some of them."""
    if given is None:
        return dict(defaults)
    if isinstance(given, Mapping):
        unknown = set(given) - set(defaults)
        if unknown:
            raise ValueError(f"prior_std names {sorted(unknown)}; expected some of {sorted(defaults)}, or one number.")
        return {**defaults, **given}
    return {key: value * float(given) for key, value in defaults.items()}


@dataclass(frozen=True)
class BodyInertia(Block):
    """Inertial parameters of one body.

    Kinds:
        "log_cholesky" (10): mass, COM and inertia; every value is a body of positive density.
        "mass_com" (4): ln mass and COM; the inertia about the COM stays the model's.
        "point_mass" (4): ln mass and COM; no inertia about the COM.
        "payload" (4): a point mass m >= 0 at c, in the body's frame, on top of the model's body.

    Args:
        start: prior mean as {"mass": kg, "com": (x, y, z) m}; default the model's body (no mass for a payload).
        prior_std: mapping, or a number that scales the defaults. Keys: "mass" (relative; for a payload kg) and "com"
            [m]; for log_cholesky "alpha", "d", "s" (relative to the body's size) and "t" [m].
        scale: "log", or "raw" for mass itself as coordinate (boxed below at a thousandth of the start).
        max_mass: upper bound [kg]; default a hundred times the start, 20 kg for a payload.
        com_range: bound on |COM - start| per axis [m].
    """

    body: str
    kind: str = "log_cholesky"
    start: Mapping[str, float | Sequence[float]] | None = None
    prior_std: Mapping[str, float] | float | None = None
    scale: str = "log"
    max_mass: float | None = None
    com_range: float = 1.0

    KINDS: ClassVar = ("log_cholesky", "mass_com", "point_mass", "payload")

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS:
            raise ValueError(f"{self.body}: unknown kind '{self.kind}'. Known: {', '.join(self.KINDS)}.")
        if self.scale not in ("log", "raw"):
            raise ValueError(f'{self.body}: scale must be "log" or "raw", found \'{self.scale}\'.')
        if self.start is not None and self.kind == "log_cholesky":
            raise ValueError(
                f"{self.body}: kind \"log_cholesky\" starts at the model's body; 'start' is for the others."
            )

    def _nominal(self, model: RobotModel) -> np.ndarray:
        return model.parameters.nominal[model.parameters.inertia_slice(self.body)]

    @property
    def _logarithmic(self) -> bool:
        return self.scale == "log" and self.kind != "payload"

    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        nominal = self._nominal(model)
        if self.kind == "log_cholesky":
            return self._log_cholesky_coordinates(nominal)
        start = dict(self.start or {})
        payload = self.kind == "payload"
        mass = float(np.asarray(start.get("mass", 0.0 if payload else nominal[0])))
        com = np.asarray(start.get("com", nominal[1:4] / nominal[0]), dtype=float)
        std = _stds(self.prior_std, {"mass": 2.0 if payload else 0.5, "com": 0.1})
        if payload:
            first = Coordinate(f"{self.body}.payload.mass", "kg", 0.0, self.max_mass or 20.0, mass, std["mass"])
        else:
            top = self.max_mass or 100.0 * mass
            if self._logarithmic:
                first = Coordinate(
                    f"{self.body}.mass", "ln kg", np.log(mass / 1000), np.log(top), np.log(mass), std["mass"]
                )
            else:
                first = Coordinate(f"{self.body}.mass", "kg", mass / 1000, top, mass, std["mass"] * mass)
        owner = f"{self.body}.payload" if payload else self.body
        return [first] + [
            Coordinate(f"{owner}.com.{axis}", "m", c - self.com_range, c + self.com_range, c, std["com"])
            for axis, c in zip("xyz", com)
        ]

    def _log_cholesky_coordinates(self, nominal: np.ndarray) -> list[Coordinate]:
        theta = inertia.to_log_cholesky(nominal)
        std = _stds(self.prior_std, {"alpha": 0.5, "d": 0.5, "s": 0.3, "t": 0.1})
        size = np.exp(theta[1:4])
        top = np.log(self.max_mass / nominal[0]) / 2 if self.max_mass else np.log(100.0) / 2
        rows = [("alpha", "ln kg / 2", np.log(1000.0) / 2, top, std["alpha"])]
        rows += [(f"d{k + 1}", "ln m", np.log(30.0), np.log(30.0), std["d"]) for k in range(3)]
        for name, i, j in (("s12", 0, 1), ("s23", 1, 2), ("s13", 0, 2)):
            reach = np.sqrt(size[i] * size[j])
            rows.append((name, "m", 10 * reach, 10 * reach, std["s"] * reach))
        rows += [(f"t{k + 1}", "m", self.com_range, self.com_range, std["t"]) for k in range(3)]
        return [
            Coordinate(f"{self.body}.{name}", unit, x - below, x + above, x, s)
            for (name, unit, below, above, s), x in zip(rows, theta)
        ]

    def _ten(self, model: RobotModel, xi: ca.SX) -> ca.SX:
        nominal = self._nominal(model)
        if self.kind == "log_cholesky":
            return inertia.from_log_cholesky(xi)
        m, c = (ca.exp(xi[0]) if self._logarithmic else xi[0]), xi[1:4]
        if self.kind == "mass_com":
            return inertia.from_com(m, c, inertia.com_inertia(nominal)[2])
        point = inertia.from_com(m, c, np.zeros((3, 3)))
        return ca.SX(nominal) + point if self.kind == "payload" else point

    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        names = model.parameters.names[model.parameters.inertia_slice(self.body)]
        ten = self._ten(model, xi)
        return {name: ten[k] for k, name in enumerate(names)}

    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        pi = np.asarray(p)[model.parameters.inertia_slice(self.body)]
        if self.kind == "log_cholesky":
            return inertia.to_log_cholesky(pi)
        if self.kind == "payload":
            start = np.array([c.prior_mean for c in self.coordinates(model)])
            change = pi[:4] - self._nominal(model)[:4]
            # Without mass there is no COM; the prior's stays.
            return np.r_[change[0], change[1:] / change[0] if abs(change[0]) > 1e-12 else start[1:]]
        return np.r_[np.log(pi[0]) if self._logarithmic else pi[0], pi[1:4] / pi[0]]

    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        if self.kind == "payload":
            rows = [(f"{self.body}.payload.mass", "kg", xi[0])]
            return rows + [(f"{self.body}.payload.com.{a}", "m", xi[k]) for k, a in enumerate("xyz", 1)]
        m, c, I_c = inertia.com_inertia(self._ten(model, xi))
        rows = [(f"{self.body}.mass", "kg", m)] + [(f"{self.body}.com.{a}", "m", c[k]) for k, a in enumerate("xyz")]
        if self.kind == "log_cholesky":
            pairs = (("xx", 0, 0), ("yy", 1, 1), ("zz", 2, 2), ("xy", 0, 1), ("xz", 0, 2), ("yz", 1, 2))
            rows += [(f"{self.body}.I_com.{name}", "kg m^2", I_c[i, j]) for name, i, j in pairs]
        return rows


@dataclass(frozen=True)
class BodyDensity(Block):
    """One factor on a body's mass, first moment and inertia: it is heavier or lighter, and shaped as before."""

    body: str
    prior_std: float = 0.3

    def _nominal(self, model: RobotModel) -> np.ndarray:
        return model.parameters.nominal[model.parameters.inertia_slice(self.body)]

    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        x = np.log(self._nominal(model)[0])
        return [
            Coordinate(f"{self.body}.mass", "ln kg", x - np.log(1000.0), x + np.log(100.0), x, self.prior_std),
        ]

    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        where = model.parameters.inertia_slice(self.body)
        nominal = self._nominal(model)
        return {name: value * ca.exp(xi[0]) for name, value in zip(model.parameters.names[where], nominal / nominal[0])}

    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        return np.array([np.log(p[model.parameters.index(f"{self.body}.mass")])])

    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        return [(f"{self.body}.mass", "kg", ca.exp(xi[0]))]


@dataclass(frozen=True)
class _Positive(Block):
    """A non-negative joint parameter: logarithmic if the model's value is positive, else boxed at zero."""

    joint: str
    prior_std: float | None = None
    start: float | None = None
    upper: float | None = None
    scale: str = "auto"

    FIELD: ClassVar[str] = ""
    RAW_STD: ClassVar[float] = 1.0  # prior standard deviation where the coordinate is the quantity itself

    @property
    def _name(self) -> str:
        return f"{self.joint}.{self.FIELD}"

    def _start(self, model: RobotModel) -> float:
        nominal = model.parameters.nominal[model.parameters.index(self._name)]
        return float(nominal if self.start is None else self.start)

    def _logarithmic(self, model: RobotModel) -> bool:
        if self.scale not in ("auto", "log", "raw"):
            raise ValueError(f"{self._name}: scale must be auto, log or raw, found '{self.scale}'.")
        positive = self._start(model) > 0
        if self.scale == "log" and not positive:
            raise ValueError(f'{self._name} starts at 0, which has no logarithm. Give a start > 0 or scale="raw".')
        return self.scale == "log" or (self.scale == "auto" and positive)

    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        unit = model.parameters.units[model.parameters.index(self._name)]
        x = self._start(model)
        if self._logarithmic(model):
            top = np.log(self.upper or 1000.0 * x)
            return [Coordinate(self._name, f"ln {unit}", np.log(x / 1000.0), top, np.log(x), self.prior_std or 1.0)]
        std = self.prior_std or self.RAW_STD
        return [Coordinate(self._name, unit, 0.0, self.upper or x + 100.0 * std, x, std)]

    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        return {self._name: ca.exp(xi[0]) if self._logarithmic(model) else xi[0]}

    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        value = p[model.parameters.index(self._name)]
        if not self._logarithmic(model):
            return np.array([value])
        if value <= 0:
            raise ValueError(f'{self._name} = {value:g} is out of reach of a logarithmic coordinate; use scale="raw".')
        return np.array([np.log(value)])

    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        unit = model.parameters.units[model.parameters.index(self._name)]
        return [(self._name, unit, self.entries(model, xi)[self._name])]


class JointDamping(_Positive):
    """Viscous damping of a joint [N m s/rad or N s/m]."""

    FIELD = "damping"


class JointFriction(_Positive):
    """Coulomb friction of a joint [N m or N]; the model must be loaded with friction for it."""

    FIELD = "frictionloss"


class JointArmature(_Positive):
    """Reflected inertia of a joint's drive [kg m^2 or kg]."""

    FIELD = "armature"
    RAW_STD = 0.1


class JointStiffness(_Positive):
    """Stiffness of a joint spring [N m/rad or N/m]."""

    FIELD = "stiffness"


@dataclass(frozen=True)
class LinkLength(Block):
    """One length that moves several geometry entries along with it.

    Args:
        name: reported as "<name>.length".
        along: physical names equal to the length, or a mapping name -> factor (a direction):
            LinkLength("pole1", ("pole2.pos.z", "pole1_tip.pos.z")).
        start: prior mean [m]; default the model's. prior_std: relative (log) or in metres (raw). scale: "log" | "raw".
        upper: bound [m].
    """

    name: str
    along: tuple[str, ...] | Mapping[str, float]
    start: float | None = None
    prior_std: float | None = None
    scale: str = "log"
    upper: float | None = None

    def _factors(self) -> dict[str, float]:
        return dict(self.along) if isinstance(self.along, Mapping) else {name: 1.0 for name in self.along}

    def inverse_length(self, model: RobotModel, p: np.ndarray) -> float:
        """Least-squares length of the entries' values."""
        factors = self._factors()
        values = np.array([p[model.parameters.index(name)] for name in factors])
        weights = np.array(list(factors.values()))
        return float(weights @ values / (weights @ weights))

    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        nominal = self.inverse_length(model, model.parameters.nominal)
        x = nominal if self.start is None else float(self.start)
        if x <= 0:
            raise ValueError(
                f"{self.name}.length starts at {x:g} m; expected > 0. Point 'along' in the link's direction."
            )
        top = self.upper or 100.0 * x
        if self.scale == "log":
            return [
                Coordinate(
                    f"{self.name}.length", "ln m", np.log(x / 1000.0), np.log(top), np.log(x), self.prior_std or 0.2
                )
            ]
        return [Coordinate(f"{self.name}.length", "m", x / 1000.0, top, x, self.prior_std or 0.2 * x)]

    def _length(self, xi: ca.SX) -> ca.SX:
        return ca.exp(xi[0]) if self.scale == "log" else xi[0]

    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        return {name: factor * self._length(xi) for name, factor in self._factors().items()}

    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        length = self.inverse_length(model, p)
        return np.array([np.log(length) if self.scale == "log" else length])

    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        return [(f"{self.name}.length", "m", self._length(xi))]


@dataclass(frozen=True)
class _Additive(Block):
    """Some components of a three-vector of the physical vector, as they are."""

    name: str
    axes: str = "xyz"
    prior_std: float = 0.01
    reach: float = 1.0

    def _names(self) -> list[str]:
        return [f"{self.name}.{axis}" for axis in self.axes]

    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        rows = []
        for name in self._names():
            i = model.parameters.index(name)
            x = model.parameters.nominal[i]
            rows.append(Coordinate(name, model.parameters.units[i], x - self.reach, x + self.reach, x, self.prior_std))
        return rows

    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        return {name: xi[k] for k, name in enumerate(self._names())}

    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        return np.array([p[model.parameters.index(name)] for name in self._names()])

    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        return [(n, model.parameters.units[model.parameters.index(n)], xi[k]) for k, n in enumerate(self._names())]


class BodyPosition(_Additive):
    """Position of a body or site in its parent [m]; the model must be loaded with geometry for it."""

    def __init__(self, name: str, axes: str = "xyz", prior_std: float = 0.01, reach: float = 1.0) -> None:
        super().__init__(f"{name}.pos", axes, prior_std, reach)


class Gravity(_Additive):
    """Gravity in world axes [m/s^2], for instance of a base that is not level."""

    def __init__(self, axes: str = "xyz", prior_std: float = 0.2, reach: float = 20.0) -> None:
        super().__init__("gravity", axes, prior_std, reach)


@dataclass(frozen=True)
class GravityTilt(Block):
    """A base that is not level: it was turned by x about its x axis, then by y about the world's y axis [rad].

    In its own axes gravity (0, 0, -g) then is g (sin y, -sin x cos y, -cos x cos y): as strong as before.
    """

    prior_std: float = 0.1
    reach: float = 1.2

    NAMES: ClassVar = ("gravity.x", "gravity.y", "gravity.z")

    def _strength(self, model: RobotModel) -> float:
        x, y, z = (model.parameters.nominal[model.parameters.index(name)] for name in self.NAMES)
        if x or y or not z < 0:
            raise ValueError(
                f"gravity is ({x:g}, {y:g}, {z:g}) in the model; a tilt needs one that points down its z axis."
            )
        return float(-z)

    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        self._strength(model)
        return [
            Coordinate(f"gravity.tilt.{axis}", "rad", -self.reach, self.reach, 0.0, self.prior_std) for axis in "xy"
        ]

    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        x, y = xi[0], xi[1]
        turned = (ca.sin(y), -ca.sin(x) * ca.cos(y), -ca.cos(x) * ca.cos(y))
        return {name: self._strength(model) * value for name, value in zip(self.NAMES, turned)}

    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        gx, gy, gz = (p[model.parameters.index(name)] for name in self.NAMES)
        return np.array([np.arctan2(-gy, -gz), np.arctan2(gx, np.hypot(gy, gz))])

    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        return [(f"gravity.tilt.{axis}", "rad", xi[k]) for k, axis in enumerate("xy")]


@dataclass(frozen=True)
class Gear(Block):
    """Transmission ratio of an actuator, or the true strength of its motor; keeps its sign."""

    actuator: str
    prior_std: float = 0.2

    @property
    def _name(self) -> str:
        return f"{self.actuator}.gear"

    def _nominal(self, model: RobotModel) -> float:
        value = model.parameters.nominal[model.parameters.index(self._name)]
        if value == 0:
            raise ValueError(f"{self._name} is 0 in the model: nothing to scale. Give it a gear.")
        return value

    def coordinates(self, model: RobotModel) -> list[Coordinate]:
        x = np.log(abs(self._nominal(model)))
        return [Coordinate(self._name, "ln", x - np.log(100.0), x + np.log(100.0), x, self.prior_std)]

    def entries(self, model: RobotModel, xi: ca.SX) -> dict[str, ca.SX]:
        return {self._name: np.sign(self._nominal(model)) * ca.exp(xi[0])}

    def inverse(self, model: RobotModel, p: np.ndarray) -> np.ndarray:
        return np.array([np.log(p[model.parameters.index(self._name)] / np.sign(self._nominal(model)))])

    def quantities(self, model: RobotModel, xi: ca.SX) -> list[Quantity]:
        return [(self._name, "-", self.entries(model, xi)[self._name])]
