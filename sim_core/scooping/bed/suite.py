"""Which terrains are learnt from and which are met afterwards: 51 of eight materials, and 16 with four new ones.

Training: each material alone, 25 of the 28 pairs side by side (Partition) and 18 of them mixed (Mixture). Test: four of each of
Single, Mixture, Partition and Layers, the latter two partitions of which one has two materials, one above the other. The
Single ones are the four new materials; in each other composition every new material is used, each terrain has one
at least, and the cardboard sheet is never mixed.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from sim_core.scooping.bed.materials import MATERIALS, TEST, TRAINING

__all__ = ["COMPOSITIONS", "SHEET", "Composition", "Recipe", "test_recipes", "training_recipes"]

Composition = Literal["Single", "Mixture", "Partition", "Layers"]
COMPOSITIONS: tuple[Composition, ...] = ("Single", "Mixture", "Partition", "Layers")
PARTITIONS, MIXTURES = 25, 18
SHEET = "cardboard sheet"
#: names of the materials of a composition
_COUNT: dict[Composition, int] = {"Single": 1, "Mixture": 2, "Partition": 2, "Layers": 3}


@dataclass(frozen=True)
class Recipe:
    """What a terrain is made of.

    Attributes:
        number: of the terrain, from 1. materials: by name; of Layers: the one beside, the upper one, the lower one.
        seed: of its relief and its pictures.
    """

    number: int
    composition: Composition
    materials: tuple[str, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.materials) != _COUNT.get(self.composition):
            raise ValueError(
                f"expected {_COUNT} materials by composition, found {self.composition} of {self.materials}"
            )
        if missing := [name for name in self.materials if name not in MATERIALS]:
            raise ValueError(f"expected materials of {', '.join(MATERIALS)}; found {', '.join(missing)}")

    @property
    def name(self) -> str:
        """As "12 Partition corn + sand"."""
        return f"{self.number} {self.composition} {' + '.join(self.materials)}"


def training_recipes(seed: int = 0) -> tuple[Recipe, ...]:
    """The 51 terrains of the offline data."""
    rng = np.random.default_rng([seed, 61])
    pairs = list(combinations(TRAINING, 2))
    made: list[tuple[Composition, tuple[str, ...]]] = [("Single", (name,)) for name in TRAINING]
    for composition, count in (("Partition", PARTITIONS), ("Mixture", MIXTURES)):
        kept = sorted(rng.choice(len(pairs), count, replace=False))
        made += [(composition, pairs[k]) for k in kept]  # type: ignore[misc]
    return tuple(Recipe(k + 1, one, names, seed) for k, (one, names) in enumerate(made))


def test_recipes(seed: int = 0) -> tuple[Recipe, ...]:
    """The 16 terrains that are met afterwards, numbers 52 to 67."""
    rng = np.random.default_rng([seed, 62])
    made: list[tuple[Composition, tuple[str, ...]]] = [("Single", (name,)) for name in TEST]
    for composition, count in (("Mixture", 2), ("Partition", 2), ("Layers", 3)):
        may = [name for name in MATERIALS if composition != "Mixture" or name != SHEET]
        new = [name for name in TEST if name in may]
        new += list(rng.choice(new, 4 - len(new)))
        for first in new:
            others = rng.choice([name for name in may if name != first], count - 1, replace=False)
            names = rng.permutation([first, *others])
            made.append((composition, tuple(str(name) for name in names)))  # type: ignore[arg-type]
    first_number = len(TRAINING) + PARTITIONS + MIXTURES + 1
    return tuple(Recipe(first_number + k, one, names, seed) for k, (one, names) in enumerate(made))


# pytest would take it for a test where it is imported.
test_recipes.__test__ = False  # type: ignore[attr-defined]
