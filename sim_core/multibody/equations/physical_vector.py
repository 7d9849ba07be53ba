"""The flat vector p of physical parameters that every dynamics function takes.

Order: for each moving body ten linear inertial parameters; for each joint its damping, armature and, where
present, friction loss and stiffness; positions of the bodies and sites declared as geometry; gravity; gears.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["INERTIA_FIELDS", "PhysicalVector"]

# About the body frame's origin, in body axes. h = m c is the first moment of mass, I the rotational inertia.
INERTIA_FIELDS = ("mass", "h.x", "h.y", "h.z", "I.xx", "I.yy", "I.zz", "I.xy", "I.xz", "I.yz")
INERTIA_UNITS = ("kg",) + ("kg m",) * 3 + ("kg m^2",) * 6


class PhysicalVector:
    """Names, units and nominal values of the physical parameters.

    Attributes:
        names: tuple of n names such as "link3.mass", "joint1.damping", "gravity.z".
        units: tuple of n SI units.
        nominal: values of the model file, shape (n,).
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.units: tuple[str, ...] = ()
        self.nominal = np.zeros(0)
        self._index: dict[str, int] = {}

    def append(self, name: str, unit: str, value: float) -> None:
        """Append one entry."""
        self._index[name] = len(self.names)
        self.names += (name,)
        self.units += (unit,)
        self.nominal = np.append(self.nominal, float(value))

    def extend(self, names: Sequence[str], unit: str, values: ArrayLike) -> None:
        """Append entries of one unit."""
        self._index |= {name: len(self.names) + k for k, name in enumerate(names)}
        self.names += tuple(names)
        self.units += (unit,) * len(names)
        self.nominal = np.concatenate([self.nominal, np.asarray(values, dtype=float)])

    def copy(self, length: int | None = None) -> PhysicalVector:
        """The first `length` entries, default all, as a vector of its own."""
        other = PhysicalVector()
        other.names, other.units = self.names[:length], self.units[:length]
        other.nominal = self.nominal[:length].copy()
        other._index = {name: k for k, name in enumerate(other.names)}
        return other

    def append_inertia(self, body: str, inertia: Iterable[float]) -> None:
        """Append the ten inertial parameters (10,) of a body."""
        for field, unit, value in zip(INERTIA_FIELDS, INERTIA_UNITS, inertia):
            self.append(f"{body}.{field}", unit, value)

    def append_vector(self, name: str, unit: str, value: Iterable[float]) -> None:
        """Append the components of a vector (3,) as name.x, name.y and name.z."""
        for axis, component in zip("xyz", value):
            self.append(f"{name}.{axis}", unit, component)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def index(self, name: str) -> int:
        """Position of a parameter in p.

        Raises:
            KeyError: no such parameter; the message lists the names that look alike.
        """
        if name not in self._index:
            owner = name.split(".")[0]
            alike = [n for n in self.names if n.split(".")[0] == owner] or sorted({n.split(".")[0] for n in self.names})
            hint = ""
            if name.endswith(".frictionloss"):
                hint = ' Friction is off for that joint: load the model with friction=True or friction=("joint", ...).'
            elif ".pos." in name:
                hint = ' That position is constant: load the model with geometry=True or geometry=("body", ...).'
            raise KeyError(f"No physical parameter '{name}'. Known: {', '.join(alike)}.{hint}")
        return self._index[name]

    def inertia_slice(self, body: str) -> slice:
        """Slice of a body's ten inertial parameters."""
        start = self.index(f"{body}.mass")
        return slice(start, start + 10)

    def vector_slice(self, name: str) -> slice:
        """Slice of a three-vector such as "gravity" or "pole2.pos"."""
        start = self.index(f"{name}.x")
        return slice(start, start + 3)

    def values(self, overrides: Mapping[str, float] | None = None) -> np.ndarray:
        """Nominal vector with some entries replaced: values({"hand.mass": 1.2}) -> (n,)."""
        p = self.nominal.copy()
        for name, value in (overrides or {}).items():
            p[self.index(name)] = value
        return p
