"""Grains that stand: the slope that is left when a bed drains over an edge, and a cut that stays upright because grains stick.

Sources: Zhou, Xu, Yu, Zulli, Physical Review E 64, 021301 (2001) and Powder Technology 125 (2002), whose containers drain in this
way; Rumpf, Chemie Ingenieur Technik 42 (1970), for the strength of grains that stick; Terzaghi, Theoretical Soil Mechanics (1943), for
the height of a cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.problems.granular_beds import (
    DENSITY,
    DIAMETER,
    GRAVITY,
    balls_for,
    filling,
    materials,
    poured,
    slice_walls,
    solid_share,
)
from sim_core.granular.grains import rock
from sim_core.granular.law import Material
from sim_core.granular.population import Grains
from sim_core.granular.tools import Tool, box
from sim_core.granular.world import GranularWorld

__all__ = ["Cut", "Slope", "critical_adhesion", "repose", "upright"]


@dataclass(frozen=True)
class Slope:
    """Attributes:
    friction, rolling: of grains, floor and far wall. rocks: unions of spheres instead of balls. stiffness: of contacts [N/m^2].
    length, depth, height: of the bed [diameters]. time: to drain [s]. seed: of the filling.
    """

    friction: float = 0.5
    rolling: float = 0.0
    rocks: bool = False
    stiffness: float = 5e5
    length: float = 24.0
    depth: float = 4.0
    height: float = 14.0
    time: float = 1.6
    seed: int = 0


def repose(slope: Slope) -> float:
    """Angle of the slope that stays on a floor when the wall at its edge is taken away and the rest has drained over it [rad]."""
    d = DIAMETER
    length, depth, height = slope.length * d, slope.depth * d, slope.height * d
    grain = Material(slope.friction, slope.rolling, 0.5, slope.stiffness)
    if slope.rocks:
        # As much matter as a ball of the diameter, or so: size is a piece's longest side.
        shapes = [rock(1.2 * d, DENSITY, seed=k, spheres=4) for k in range(8)]
        count = filling(length * depth * height, shapes)
        grains = Grains.of(shapes, "grain", np.random.default_rng([slope.seed, 3]).integers(len(shapes), size=count))
    else:
        grains = balls_for(length * depth * height, slope.seed)
    world = poured(grains, (length, depth), _edge(length, depth), materials(grain), slope.seed)
    world.move("gate", (0.0, 0.0, 50.0))
    world.run(round(slope.time / world.step))
    x, z = world.position[:, 0].astype(float), world.position[:, 2].astype(float)
    stays = (z > 0.0) & (np.abs(x) < 0.5 * length)
    return angle_of(x[stays], z[stays], 2.0 * d)


def _edge(length: float, depth: float) -> list[Tool]:
    """A floor that ends at x = length/2 with a gate; what leaves it falls into a pit."""
    far = 0.5 * length
    floor = box((-far - 0.1, -1.0, -1.0), (far, 1.0, 0.0))
    pit = (box((far, -1.0, -1.0), (far + 0.5, 1.0, -0.6)), box((far + 0.4, -1.0, -1.0), (far + 0.5, 1.0, 2.0)))
    back = box((-far - 0.1, -1.0, 0.0), (-far, 1.0, 2.0))
    gate = Tool("gate", (box((far, -1.0, 0.0), (far + 0.1, 1.0, 2.0), "smooth"),))
    return [Tool("world", (*slice_walls(depth), floor, back, *pit)), gate]


def angle_of(x: np.ndarray, z: np.ndarray, bin_: float) -> float:
    """Slope of the surface of grains at x, z [m] that falls with x: a line through the highest middle in each of the bins, but for the
    outermost fifths, where a slope is rounded by its edge and by the wall [rad]."""
    edges = np.arange(x.min(), x.max() + bin_, bin_)
    number = np.digitize(x, edges)
    middles, tops = [], []
    for k in np.unique(number):
        highest = np.argmax(np.where(number == k, z, -np.inf))
        middles.append(x[highest])
        tops.append(z[highest])
    low, high = np.quantile(middles, [0.2, 0.8])
    inner = (np.array(middles) >= low) & (np.array(middles) <= high)
    return float(-np.arctan(np.polyfit(np.array(middles)[inner], np.array(tops)[inner], 1)[0]))


@dataclass(frozen=True)
class Cut:
    """Attributes:
    bonds: pull-off force of two grains over a grain's weight, ascending. length, depth, height: of the bed [diameters].
    seed: of the filling.
    """

    bonds: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0)
    length: float = 14.0
    depth: float = 5.0
    height: float = 10.0
    seed: int = 0


def upright(cut: Cut) -> dict[str, np.ndarray | float]:
    """How much of a bed stays when the wall before it is taken away, by how strongly its grains stick.

    The bed is poured and settles without adhesion, so that all are packed alike.

    Returns:
        stays (k,): share of the grains that have not gone over the edge. height: of the bed [m]. solid: share of grain in it.
    """
    d = DIAMETER
    length, depth = cut.length * d, cut.depth * d
    grains = balls_for(length * depth * cut.height * d, cut.seed)
    tools = _edge(length, depth)
    plain = poured(grains, (length, depth), tools, materials(), cut.seed)
    height = 2.0 * float(np.average(plain.position[:, 2].astype(float), weights=plain.mass))
    solid = solid_share(plain, (length, depth), 0.1 * height, 0.8 * height)
    weight = DENSITY * np.pi * d**3 / 6.0 * GRAVITY
    lying, stays = plain.grains.placed(plain.position, plain.quaternion), []
    for bond in cut.bonds:
        # A pull-off force of 2 pi w R, R the effective radius of two equal balls.
        sticky = Material(0.5, 0.0, 0.5, 5e5, adhesion=bond * weight / (2.0 * np.pi * 0.25 * d), reach=0.02)
        world = GranularWorld(lying, tools, materials(sticky))
        world.run(round(0.15 / world.step))
        world.move("gate", (0.0, 0.0, 50.0))
        world.run(round(1.2 / world.step))
        stays.append(float(((world.position[:, 0] < 0.5 * length) & (world.position[:, 2] > 0.0)).mean()))
    return {"stays": np.array(stays), "height": height, "solid": solid}


def critical_adhesion(height: float, solid: float, angle: float) -> float:
    """Pull-off force over a grain's weight with which a cut of a height [m] just stands.

    Rumpf: strength F / d^2 times solid over pores; cohesion is it times the tangent of the angle of friction [rad]; Terzaghi: a cut
    stands up to 4 c / (rho g) tan(45 deg + angle / 2).
    """
    weight = DENSITY * np.pi * DIAMETER**3 / 6.0 * GRAVITY
    cohesion = height * solid * DENSITY * GRAVITY / (4.0 * np.tan(np.pi / 4.0 + 0.5 * angle))
    strength = cohesion / np.tan(angle)
    return float(strength * DIAMETER**2 * (1.0 - solid) / solid / weight)
