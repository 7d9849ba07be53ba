"""What lies in the tray: twelve granular materials, eight to learn from and four that nobody has seen.

Each material is one row of the table: what a camera sees of it, and how it answers a scoop. What a camera sees says nothing certain of
how it answers, and for the four unseen ones it misleads: packing peanuts look like balls of paper and scoop better, rocks are
coloured as pebbles and jam, bedding has the colour of corn, and the cardboard sheet is as bright and smooth as sand and cannot be scooped at all.

Names and grain sizes: Zhu, PhD thesis (University of Illinois 2023), section 6.4. The other numbers are choices, made once by
what the materials are like; `Material` is the place where numbers that are measured on grains would enter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

__all__ = ["MATERIALS", "TEST", "TRAINING", "Material", "Soil"]

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Material:
    """One material.

    Attributes:
        name: as in `MATERIALS`. grains: least and greatest grain [m].
        repose: steepest slope at rest [rad].
        efficiency: share of what the scoop sweeps that stays in it, on level ground.
        interlock: share that is lost where the scoop goes straight up a slope of 30 degrees; negative: what slides down fills it.
        fall_in: share that is gained where it goes across such a slope.
        resistance: stiffness against a blade that goes down [N/m].
        scatter: standard deviation of the logarithm of a scoop's volume, since buried grains are not seen.
        colours: of grains, each channel in [0, 1]. relief: height of a grain above its gaps, by its size.
    """

    name: str
    grains: tuple[float, float]
    repose: float
    efficiency: float
    interlock: float
    fall_in: float
    resistance: float
    scatter: float
    colours: tuple[Colour, ...]
    relief: float

    def __post_init__(self) -> None:
        if not 0.0 < self.grains[0] <= self.grains[1]:
            raise ValueError(f"{self.name}: expected grains 0 < least <= greatest [m], found {self.grains}")
        if not (0.0 < self.repose < np.pi / 2 and self.efficiency >= 0.0 < self.resistance and self.scatter >= 0.0):
            raise ValueError(f"{self.name}: expected 0 < repose < pi/2, efficiency and scatter >= 0, resistance > 0")

    @property
    def grain(self) -> float:
        """Size of a middling grain [m]."""
        return float(np.sqrt(self.grains[0] * self.grains[1]))


def _material(
    name: str,
    millimetres: tuple[float, float],
    repose: float,
    efficiency: float,
    interlock: float,
    fall_in: float,
    resistance: float,
    scatter: float,
    relief: float,
    *colours: str,
) -> Material:
    """A row of the table: grains in mm, repose in degrees, colours as "rrggbb"."""
    grains = (millimetres[0] / 1000.0, millimetres[1] / 1000.0)
    channels = [tuple(int(c[k : k + 2], 16) / 255.0 for k in (0, 2, 4)) for c in colours]
    table: tuple[Colour, ...] = tuple((r, g, b) for r, g, b in channels)
    turned = float(np.radians(repose))
    return Material(name, grains, turned, efficiency, interlock, fall_in, resistance, scatter, table, relief)


#         name                  grains [mm]  repose  eff.  interl. fall  N/m     scatter relief colours
_TABLE = (
    _material("sand", (0.3, 0.8), 32, 0.42, -0.50, 0.10, 400, 0.10, 0.3, "c2a97e", "b89b6e", "cdb78f"),
    _material("pebbles", (8, 10), 28, 0.30, 0.15, 0.30, 500, 0.20, 0.5, "8a8782", "a39c92", "6d6a68", "b5aca0"),
    _material("slates", (20, 40), 34, 0.16, 0.70, 0.25, 2600, 0.45, 0.12, "3c4650", "4a545e", "2f383f"),
    _material("gravel", (15, 30), 36, 0.25, 0.75, 0.60, 1600, 0.35, 0.45, "b3b1ab", "9c9a96", "c7c4bd"),
    _material("paper balls", (40, 60), 38, 0.14, 0.30, 0.20, 80, 0.40, 0.4, "f0efec", "e4e2dd", "faf9f7"),
    _material("corn", (3, 7), 29, 0.38, 0.05, 0.20, 300, 0.12, 0.5, "e0b040", "d39d2c", "ecc766"),
    _material("shredded cardboard", (10, 80), 40, 0.08, 0.50, 0.10, 350, 0.40, 0.15, "a67c52", "8f6841", "bb9468"),
    _material("mulch", (10, 50), 38, 0.17, 0.40, 0.20, 700, 0.30, 0.25, "4b3322", "5c4030", "3a2718"),
    _material("rock", (50, 80), 36, 0.09, 0.80, 0.35, 3200, 0.50, 0.4, "8f8b84", "a09a90", "75716c"),
    _material("packing peanuts", (20, 40), 38, 0.33, 0.10, 0.10, 60, 0.25, 0.5, "f2eee2", "e9e4d3", "f8f5ec"),
    _material("cardboard sheet", (400, 600), 35, 0.0, 0.0, 0.0, 20000, 0.10, 0.0, "d8bd92"),
    _material("bedding", (2, 30), 40, 0.12, 0.20, 0.10, 200, 0.25, 0.2, "e3c58c", "d6b373", "ecd6a8"),
)
MATERIALS: Mapping[str, Material] = {material.name: material for material in _TABLE}
TRAINING, TEST = tuple(MATERIALS)[:8], tuple(MATERIALS)[8:]


@dataclass(frozen=True)
class Soil:
    """What fills one part of the tray: a material, or several mixed in equal shares.

    A mixture's efficiency, interlock and fall-in are the means of its materials'; its resistance is their geometric mean,
    its variance their mean variance, and it comes to rest as the flattest of them.
    """

    materials: tuple[Material, ...]

    @classmethod
    def of(cls, names: Sequence[str], table: Mapping[str, Material] = MATERIALS) -> Soil:
        """By names. Raises ValueError: there is no such material."""
        if missing := [name for name in names if name not in table]:
            raise ValueError(f"expected materials of {', '.join(table)}; found {', '.join(missing)}")
        return cls(tuple(table[name] for name in names))

    @property
    def efficiency(self) -> float:
        """See `Material`."""
        return self._mean("efficiency")

    @property
    def interlock(self) -> float:
        """See `Material`."""
        return self._mean("interlock")

    @property
    def fall_in(self) -> float:
        """See `Material`."""
        return self._mean("fall_in")

    @property
    def resistance(self) -> float:
        """See `Material` [N/m]."""
        product = reduce(lambda total, one: total * one.resistance, self.materials, 1.0)
        return float(product ** (1.0 / len(self.materials)))

    @property
    def scatter(self) -> float:
        """See `Material`."""
        return float(np.sqrt(np.mean([one.scatter**2 for one in self.materials])))

    @property
    def repose(self) -> float:
        """See `Material` [rad]."""
        return min(one.repose for one in self.materials)

    def _mean(self, name: str) -> float:
        return float(np.mean([getattr(one, name) for one in self.materials]))
