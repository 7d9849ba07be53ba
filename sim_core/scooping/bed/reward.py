"""How much a scoop brings, by what lies there and how it is scooped.

    V = min(C, density * eta * V_int * (1 - J u_up + F u_across) * q * xi)

V_int is the swept intersection (`swept`), eta, J and F the material's efficiency, interlock and fall-in, u_up and u_across how far the
drag points up a slope and across it, q how far a blade of that stiffness is pushed aside, and xi the luck of buried grains.
Where several materials are swept, their numbers count by the volume that is swept of each.

An arm that yields with stiffness k in a material that resists with r goes k / (k + r) of its way, and feels k r / (k + r) per
metre of depth. Beyond the arm's limit it stops, and the scoop stays empty.

Behaviour to reproduce: up a slope of sand a scoop brings more than on level ground; up a slope of gravel it jams, and across it stones fall in
(Zhu, PhD thesis, University of Illinois 2023, figure 6.2). The formula and its numbers are choices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.swept import BLADE, Blade, Field, overlaps
from sim_core.scooping.bed.terrain import CELL, Terrain

__all__ = ["REWARD", "Expectation", "RewardSettings", "Scooped", "expectation", "scoop"]


@dataclass(frozen=True)
class RewardSettings:
    """What does not depend on the material.

    Attributes:
        capacity: of the scoop [m^3]. soft, stiff: of the arm [N/m]. limit: force at which it stops [N].
        gain: factor on every volume. steep: slope for which the alignments are 1, its tangent. smooth: width over which a slope is felt [m].
        blade: and its path.
    """

    capacity: float = 2.608e-4
    soft: float = 250.0
    stiff: float = 750.0
    limit: float = 38.0
    gain: float = 0.91
    steep: float = float(np.tan(np.radians(30.0)))
    smooth: float = 0.015
    blade: Blade = BLADE


REWARD = RewardSettings()


@dataclass(frozen=True)
class Expectation:
    """What n scoops would bring and feel if no luck were involved; each (n,).

    Attributes:
        volume: not limited by the capacity [m^3]. force: greatest [N]. scatter: standard deviation of the volume's logarithm.
    """

    volume: np.ndarray
    force: np.ndarray
    scatter: np.ndarray


@dataclass(frozen=True)
class Scooped:
    """What one scoop brought.

    Attributes:
        volume: [m^3]. force: greatest [N]. stopped: by the arm's limit, so that the scoop is empty.
    """

    volume: float
    force: float
    stopped: bool


def expectation(terrain: Terrain, actions: Actions, settings: RewardSettings = REWARD) -> Expectation:
    """Of actions on a terrain as it is now."""
    surface = terrain.surface
    x, y, above, area = overlaps(surface, actions, settings.blade)
    shares, swept = _by_soil(terrain, *surface.cell(x, y), above, area)
    # Where nothing is swept, nothing is brought, whatever the shares.
    weights = shares / np.maximum(shares.sum(1, keepdims=True), 1e-12)
    eta, jam, fall, resistance, scatter = (
        weights @ np.array([getattr(soil, name) for soil in terrain.soils])
        for name in ("efficiency", "interlock", "fall_in", "resistance", "scatter")
    )
    up, across = alignment(terrain, actions, settings)
    arm = np.where(actions.stiff, settings.stiff, settings.soft)
    loss = np.maximum(1.0 - jam * up + fall * across, 0.0)
    volume = settings.gain * terrain.density * eta * swept * loss * arm / (arm + resistance)
    force = arm * resistance / (arm + resistance) * actions.depth * (1.0 + np.maximum(jam, 0.0) * up)
    return Expectation(volume, force, scatter)


def alignment(terrain: Terrain, actions: Actions, settings: RewardSettings = REWARD) -> tuple[np.ndarray, np.ndarray]:
    """How far the drag points up the slope, and across it, each (n,) in [0, 1] or a little more; 1 on a slope of 30 degrees."""
    smooth = gaussian_filter(terrain.height, settings.smooth / CELL, mode="nearest")
    middle = 0.5 * (settings.blade.drag + actions.depth)
    heading = np.stack([np.cos(actions.yaw), np.sin(actions.yaw)], 1)
    at = actions.place + middle[:, None] * heading
    by_y, by_x = (Field(part, terrain.origin, CELL).at(at[:, 0], at[:, 1]) for part in np.gradient(smooth, CELL))
    along = by_x * heading[:, 0] + by_y * heading[:, 1]
    side = by_y * heading[:, 0] - by_x * heading[:, 1]
    return np.maximum(along, 0.0) / settings.steep, np.abs(side) / settings.steep


def scoop(terrain: Terrain, action: Actions, rng: np.random.Generator, settings: RewardSettings = REWARD) -> Scooped:
    """Do one scoop: the terrain changes, and what it brought is told."""
    would = expectation(terrain, action, settings)
    sigma = float(would.scatter[0])
    # The same buried grains that make a scoop poor make it hard.
    luck = sigma * rng.standard_normal()
    force = float(would.force[0] * np.exp(-0.5 * luck))
    if force > settings.limit:
        return Scooped(0.0, force, True)
    wanted = float(would.volume[0] * np.exp(luck - sigma**2 / 2.0))
    taken = terrain.scoop(action, min(settings.capacity, wanted), settings.blade)
    return Scooped(taken, force, False)


def _by_soil(
    terrain: Terrain, row: np.ndarray, column: np.ndarray, above: np.ndarray, area: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Volume swept of each soil (n, soils), and of all together (n,) [m^3]."""
    top, below, cover = (part[row, column] for part in (terrain.top, terrain.below, terrain.cover))
    first = np.minimum(above, cover)
    columns = [
        (np.where(top == k, first, 0.0) + np.where(below == k, above - first, 0.0)).sum(1) * area
        for k in range(len(terrain.soils))
    ]
    return np.stack(columns, 1), above.sum(1) * area
