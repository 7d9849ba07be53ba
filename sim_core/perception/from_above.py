"""A camera's picture as one looks straight down: every measured pixel is put where it is, the highest one is kept, gaps take what is nearest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_edt

__all__ = ["FromAbove", "from_above"]


@dataclass(frozen=True, eq=False)
class FromAbove:
    """Cells of a grid, rows along y and columns along x.

    Attributes:
        colour: (rows, columns, 3) uint8. height: (rows, columns) [m]. away: of each cell from the nearest one in which something was
            measured (rows, columns) [cells]; infinite if nothing was measured anywhere, and then the rest is 0.
    """

    colour: np.ndarray
    height: np.ndarray
    away: np.ndarray

    def seen(self, near: float) -> float:
        """Share of the cells at most so many cells from which something was measured."""
        return float((self.away <= near).mean())


def from_above(
    colour: np.ndarray,
    depth: np.ndarray,
    K: np.ndarray,
    position: np.ndarray,
    rotation: np.ndarray,
    low: np.ndarray,
    pitch: float,
    shape: tuple[int, int],
) -> FromAbove:
    """A picture on a grid.

    Args:
        colour: (h, w, 3) uint8. depth: along the optical axis (h, w) [m]; NaN: not measured. K: intrinsics (3, 3) [pixel].
        position, rotation: of the optical frame (x right, y down, z forward) in the grid's, whose z is up (3,) [m], (3, 3).
        low: corner of the grid in x and y (2,) [m]. pitch: side of a cell [m]. shape: rows and columns.

    Raises:
        ValueError: colour and depth are of different sizes, or not of these types.
    """
    if colour.shape != (*depth.shape, 3) or colour.dtype != np.uint8:
        raise ValueError(
            f"expected colours (h, w, 3) uint8 and depths (h, w), found {colour.shape} {colour.dtype}, {depth.shape}"
        )
    rows, columns = shape
    v, u = np.nonzero(np.isfinite(depth))
    z = depth[v, u]
    rays = np.column_stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones_like(z)])
    points = position + (z[:, None] * rays) @ np.asarray(rotation).T
    at = np.floor((points[:, :2] - low) / pitch).astype(int)
    inside = (at >= 0).all(1) & (at < [columns, rows]).all(1)
    order = np.argsort(points[inside, 2], kind="stable")  # the highest is written last
    cell = (at[inside, 1] * columns + at[inside, 0])[order]
    height, painted = np.full(rows * columns, np.nan), np.zeros((rows * columns, 3), np.uint8)
    height[cell] = points[inside, 2][order]
    painted[cell] = colour[v[inside], u[inside]][order]
    empty = np.isnan(height).reshape(shape)
    if empty.all():
        return FromAbove(painted.reshape(rows, columns, 3), np.zeros(shape), np.full(shape, np.inf))
    away, (i, j) = distance_transform_edt(empty, return_indices=True)
    return FromAbove(painted.reshape(rows, columns, 3)[i, j], height.reshape(shape)[i, j], away)
