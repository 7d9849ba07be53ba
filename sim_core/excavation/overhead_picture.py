"""What a camera straight above the pile sees: the blocks' colours in the light of one lamp, orthographically, without shadows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["View", "over_blocks", "painted"]

BUCKET, GROUND = np.array((0.25, 0.35, 0.55)), np.array((0.35, 0.33, 0.30))


@dataclass(frozen=True)
class View:
    """Where the camera looks.

    Attributes:
        low: corner of what it sees in x and y [m]. cell: side of a pixel [m]. shape: pixels along x and y.
    """

    low: tuple[float, float] = (0.308, -0.096)
    cell: float = 0.006
    shape: tuple[int, int] = (64, 32)

    @property
    def high(self) -> tuple[float, float]:
        """The opposite corner [m]."""
        return self.low[0] + self.cell * self.shape[0], self.low[1] + self.cell * self.shape[1]


def over_blocks(
    heights: np.ndarray, body: np.ndarray, points: np.ndarray, view: View = View()
) -> tuple[np.ndarray, np.ndarray]:
    """Heights and bodies with the bucket over them.

    Args:
        heights: of the blocks (nx, ny) [m]. body: of each pixel (nx, ny), -1 where none is. points: of the bucket (k, 3) [m].

    Returns:
        The same with the bucket, whose number is -2.
    """
    heights, body = heights.astype(float), body.copy()
    pixel = np.floor((points[:, :2] - view.low) / view.cell).astype(int)
    inside = np.all((pixel >= 0) & (pixel < view.shape), axis=1)
    x, y = pixel[inside].T
    top = np.full(view.shape, -np.inf)
    np.maximum.at(top, (x, y), points[inside, 2])
    shown = top > heights
    heights[shown], body[shown] = top[shown], -2
    return heights, body


def painted(
    heights: np.ndarray, body: np.ndarray, colours: np.ndarray, light: np.ndarray, view: View = View()
) -> np.ndarray:
    """The picture (nx, ny, 3) of bytes.

    Args:
        heights, body: as `over_blocks` gives them. colours: of the bodies (n, 3) in [0, 1]. light: direction towards the lamp (3,).
    """
    table = np.concatenate([colours, [BUCKET, GROUND]])
    slope = np.stack(np.gradient(heights, view.cell), -1)
    normal = np.concatenate([-slope, np.ones((*heights.shape, 1))], -1)
    shade = np.clip((normal @ light) / np.linalg.norm(normal, axis=-1), 0.0, 1.0)
    picture = table[body] * (0.35 + 0.65 * shade[..., None])
    return np.round(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8)
