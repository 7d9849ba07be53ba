"""What a scoop's blade sweeps: where its bottom passes, and how much of the terrain lies above it.

In the plane of the scoop, s along the drag from its start and z from the surface there, the bottom goes down with the attack angle, drags
level, and comes up where the scoop closes. What is above it is the swept intersection, which scores an action without
any learning (Vol-Max) and is the geometry in a scoop's volume.

Source: Zhu, PhD thesis (University of Illinois 2023), sections 6.2 and 6.4 (Vol-Max).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.scooping.bed.actions import Actions

__all__ = ["BLADE", "Blade", "Field", "overlaps", "swept_volume"]

#: samples along and across the sweep
_ALONG, _ACROSS = 28, 6


@dataclass(frozen=True)
class Blade:
    """The blade and its path.

    Attributes:
        width: across the drag [m]. drag: length [m]. attack, rise: slopes of the way down and of the way up where it closes [rad].
    """

    width: float = 0.05
    drag: float = 0.06
    attack: float = np.pi / 4
    rise: float = np.pi / 3

    def ends(self, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where it is down, where it begins to rise, and where it is back at the height of its start: each s (n,) [m]."""
        down = depth / np.tan(self.attack)
        return down, down + self.drag, down + self.drag + depth / np.tan(self.rise)

    def bottom(self, s: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """Height of the bottom over that of the start [m], at s, both of any shapes that fit; 0 before and after the sweep."""
        down, rise, _ = self.ends(depth)
        return -np.clip(np.minimum(s * np.tan(self.attack), depth - (s - rise) * np.tan(self.rise)), 0.0, depth)


BLADE = Blade()


@dataclass(frozen=True)
class Field:
    """Values on a grid of the tray, between whose points they are interpolated.

    Attributes:
        values: (rows along y, columns along x). origin: x and y of the corner of the first cell (2,) [m]. pitch: width of a cell [m].
    """

    values: np.ndarray
    origin: np.ndarray
    pitch: float

    def at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Bilinear between the cells' middles; beyond the grid as at its edge. x, y, result: of one shape."""
        rows, columns = self.values.shape
        u = np.clip((x - self.origin[0]) / self.pitch - 0.5, 0.0, columns - 1.001)
        v = np.clip((y - self.origin[1]) / self.pitch - 0.5, 0.0, rows - 1.001)
        j, i = u.astype(np.intp), v.astype(np.intp)
        u, v = u - j, v - i
        flat, k = self.values.reshape(-1), i * columns + j
        upper = flat[k] * (1.0 - u) + flat[k + 1] * u
        lower = flat[k + columns] * (1.0 - u) + flat[k + columns + 1] * u
        return upper * (1.0 - v) + lower * v

    def cell(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of the cell that holds a place."""
        rows, columns = self.values.shape
        column = np.clip(((x - self.origin[0]) / self.pitch).astype(np.intp), 0, columns - 1)
        return np.clip(((y - self.origin[1]) / self.pitch).astype(np.intp), 0, rows - 1), column


def overlaps(
    height: Field, actions: Actions, blade: Blade = BLADE
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Terrain above the blade's bottom, sampled over the sweep of each action.

    Returns:
        x, y: of the samples [m]. depth: of terrain above the bottom [m]. Each (n, samples).
        area: of the tray that a sample stands for (n,) [m^2].
    """
    share = (np.arange(_ALONG) + 0.5) / _ALONG
    across = ((np.arange(_ACROSS) + 0.5) / _ACROSS - 0.5) * blade.width
    length = blade.ends(actions.depth)[2]
    s = length[:, None] * share
    cosine, sine = np.cos(actions.yaw), np.sin(actions.yaw)
    along, side = s[:, :, None], across[None, None, :]
    x = (actions.place[:, 0, None, None] + along * cosine[:, None, None] - side * sine[:, None, None]).reshape(
        len(s), -1
    )
    y = (actions.place[:, 1, None, None] + along * sine[:, None, None] + side * cosine[:, None, None]).reshape(
        len(s), -1
    )
    start = height.at(actions.place[:, 0], actions.place[:, 1])
    bottom = start[:, None] + blade.bottom(s, actions.depth[:, None])
    above = np.maximum(height.at(x, y) - np.repeat(bottom, _ACROSS, 1), 0.0)
    return x, y, above, length * blade.width / (_ALONG * _ACROSS)


def swept_volume(height: Field, actions: Actions, blade: Blade = BLADE) -> np.ndarray:
    """Intersection of the sweep with the terrain (n,) [m^3]: Vol-Max's score."""
    _, _, above, area = overlaps(height, actions, blade)
    return above.sum(1) * area
