"""How much lies in the scoop, from depth: heights over its floor, less those of the empty scoop, summed over its area.

    meter = LoadMeter(shape)
    meter.calibrate(load_points(depth_points(empty, K, camera), blade))            # once, at the fixed pose
    meter.volume(load_points(depth_points(depth, K, camera), blade))               # [m^3]

The scoop is held still at a fixed pose below the camera. Heights are told in the frame of the blade (`primitive.py`), which the
arm's joints tell: a load of half a kilogram that pushes the arm down by a few millimetres changes neither map. What it tells
is the volume of the heap with the air in it. Of the hollows between grains the camera sees less than of their tops, which makes heaps
of grains of a centimetre up to 5 % larger than they are.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.4.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt

from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.telepresence.clutch import Pose

__all__ = ["LoadMeter", "depth_points", "load_points"]

#: [m] of the cells; from a wall, within which points may be the wall's; below the floor, from where they are not the floor's
CELL, MARGIN, BELOW = 0.003, 0.001, 0.01
#: share of the cells that have to be seen
SEEN = 0.6


def depth_points(depth: np.ndarray, K: np.ndarray, camera: Pose) -> np.ndarray:
    """Points (n, 3) [m] in the world of a picture's depth (h, w) [m] along the optical axis; NaN: not measured.

    Args:
        K: intrinsics (3, 3) [pixel]. camera: pose of its optical frame (x right, y down, z forward) in the world.
    """
    v, u = np.nonzero(np.isfinite(depth))
    z = depth[v, u]
    rays = np.column_stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones_like(z)])
    return camera.position + (z[:, None] * rays) @ camera.rotation.T


def load_points(points: np.ndarray, blade: Pose) -> np.ndarray:
    """Points (n, 3) [m] of the world in the frame of the blade."""
    return (points - blade.position) @ blade.rotation


class LoadMeter:
    """See the module's docstring.

    Args:
        shape: of the scoop.

    Attributes:
        empty: heights over the floor of the empty scoop (cells along x, cells along y) [m]; None: not calibrated yet.
    """

    def __init__(self, shape: ScoopShape = ScoopShape()) -> None:
        self.shape = shape
        self.empty: np.ndarray | None = None
        self._cells = round(shape.length / CELL), round(shape.width / CELL)

    def heights(self, points: np.ndarray) -> np.ndarray:
        """The height map inside the rim, (cells along x from the back to the edge, cells along y from right to left) [m].

        A cell has the mean of its points: between round grains their median lies too high. One of which nothing was seen has that
        of the next cell, and points that may be a wall's count for nothing.

        Args:
            points: (n, 3) in the frame of the blade [m].

        Raises:
            ValueError: too little of the scoop is seen; the text says how much.
        """
        s, (rows, columns) = self.shape, self._cells
        x, y, z = points.T
        inner = (x > MARGIN - s.length) & (x < 0.0) & (np.abs(y) < 0.5 * s.width - MARGIN) & (z > -BELOW)
        inner &= z < s.length + s.height  # beyond that is whatever else hangs between the camera and the scoop
        i = np.minimum((x[inner] + s.length) / s.length * rows, rows - 1).astype(int)
        j = ((y[inner] + 0.5 * s.width) / s.width * columns).astype(int)
        cell = i * columns + j
        count = np.bincount(cell, minlength=rows * columns)
        total = np.bincount(cell, weights=z[inner], minlength=rows * columns)
        flat = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        heights = flat.reshape(rows, columns)
        share = float((count > 0).mean())
        if share < SEEN:
            raise ValueError(
                f"the camera sees {100 * share:.0f} % of the scoop, at least {100 * SEEN:.0f} % are needed: hold it at the "
                "measuring pose, with nothing between the two"
            )
        nearest = distance_transform_edt(np.isnan(heights), return_distances=False, return_indices=True)
        filled: np.ndarray = heights[tuple(nearest)]
        return filled

    def calibrate(self, points: np.ndarray) -> None:
        """Remember the empty scoop.

        Args:
            points: (n, 3) in the frame of the blade [m].

        Raises:
            ValueError: too little of it is seen.
        """
        self.empty = self.heights(points)

    def volume(self, points: np.ndarray) -> float:
        """What lies in it now [m^3].

        Args:
            points: (n, 3) in the frame of the blade [m].

        Raises:
            ValueError: too little of it is seen. RuntimeError: the empty scoop is not known.
        """
        if self.empty is None:
            raise RuntimeError("the empty scoop is not known: calibrate with a picture of it first")
        area = self.shape.length * self.shape.width
        return float((self.heights(points) - self.empty).mean() * area)
