"""Beds of grains between walls, settled under their weight, with which the published laws are tried.

A bed lies between two smooth walls at the front and the back, so that it is a slice of a wide one; its other walls differ from law to
law. Lengths are given in grain diameters where a law says nothing of metres.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sim_core.granular.grains import Clump, ball
from sim_core.granular.law import Material
from sim_core.granular.population import Grains, pour
from sim_core.granular.tools import Part, Tool, box
from sim_core.granular.world import GranularWorld

__all__ = [
    "DENSITY",
    "DIAMETER",
    "GRAVITY",
    "GRAIN",
    "SMOOTH",
    "balls",
    "balls_for",
    "filling",
    "materials",
    "poured",
    "slice_walls",
    "solid_share",
]

DIAMETER, DENSITY, GRAVITY = 0.01, 2500.0, 9.81
#: of the grains, with the friction of glass on glass or so; a wall without friction
GRAIN = Material(friction=0.5, restitution=0.5, stiffness=5e5)
SMOOTH = Material(friction=0.0, restitution=0.5, stiffness=5e5)
#: spread of diameters, without which balls settle as crystals
SPREAD = 0.1
#: loose packing, by which it is reckoned how many grains fill a space
LOOSE = 0.58


def balls(count: int, seed: int, diameter: float = DIAMETER, spread: float = SPREAD) -> Grains:
    """Balls whose diameters are spread evenly about one."""
    sizes = diameter * (1.0 + spread * np.linspace(-1.0, 1.0, 11))
    shapes = [ball(0.5 * size, DENSITY) for size in sizes]
    return Grains.of(shapes, "grain", np.random.default_rng([seed, 3]).integers(len(shapes), size=count))


def balls_for(space: float, seed: int) -> Grains:
    """Balls that fill a space [m^3]."""
    return balls(filling(space, [ball(0.5 * DIAMETER, DENSITY)]), seed)


def filling(space: float, shapes: Sequence[Clump]) -> int:
    """How many grains of such shapes, in equal shares, fill a space [m^3]."""
    return round(LOOSE * space / float(np.mean([shape.volume for shape in shapes])))


def materials(grain: Material = GRAIN, **others: Material) -> Mapping[str, Material]:
    """By name: grains, a rough wall of the same stuff, a smooth one, and others."""
    return {"grain": grain, "tool": grain, "smooth": SMOOTH, **others}


def slice_walls(depth: float, reach: float = 3.0) -> tuple[Part, ...]:
    """Smooth walls at the front and the back of a slice, y from -depth/2 to depth/2 [m]."""
    y = 0.5 * depth
    front = box((-reach, -y - 0.1, -reach), (reach, -y, reach), "smooth")
    return front, box((-reach, y, -reach), (reach, y + 0.1, reach), "smooth")


def poured(
    grains: Grains, area: tuple[float, float], tools: Sequence[Tool], stuff: Mapping[str, Material], seed: int
) -> GranularWorld:
    """A world in which grains have fallen into an area about the origin, and rest."""
    world = GranularWorld(pour(grains, area, seed), tools, stuff)
    world.settle(longest=4.0, speed=0.004)
    return world


def solid_share(world: GranularWorld, area: tuple[float, float], low: float, high: float) -> float:
    """Share of the space between two heights that is grain; a grain that is cut by a height counts by its part inside."""
    z, reach = world.position[:, 2].astype(float), world.grains.reach
    inside = np.clip((np.minimum(z + reach, high) - np.maximum(z - reach, low)) / (2.0 * reach), 0.0, 1.0)
    # A ball's share below a cut, by the cut's height over its diameter.
    return float((world.volume * inside**2 * (3.0 - 2.0 * inside)).sum() / (area[0] * area[1] * (high - low)))
