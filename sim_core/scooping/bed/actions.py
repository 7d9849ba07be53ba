"""Where, which way, how deep and how stiffly to scoop.

The frame of the tray: origin in the middle of its floor, x along its 0.9 m, y along its 0.6 m, z up. A scoop starts at a point of the
surface, goes down into it, drags along the yaw, and closes. Angles, drag and lift are fixed (`primitive`); the
remaining choices are these.

Source: Zhu, PhD thesis (University of Illinois 2023), sections 6.2 and 6.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["DEPTHS", "PLACES", "SPACING", "YAWS", "Actions", "grid", "random_actions"]

#: least and greatest depth [m]
DEPTHS = (0.03, 0.08)
YAWS = 8
#: of the grid: places along x and y, their distances [m], depths
PLACES, SPACING, LEVELS = (15, 12), (0.03, 0.02), 4


@dataclass(frozen=True)
class Actions:
    """n scoops.

    Attributes:
        place: start on the surface (n, 2) [m]. yaw: direction of the drag, from x towards y (n,) [rad].
        depth: below the start (n,) [m]. stiff: 750 N/m instead of 250 N/m (n,).
    """

    place: np.ndarray
    yaw: np.ndarray
    depth: np.ndarray
    stiff: np.ndarray

    def __post_init__(self) -> None:
        n = len(self.yaw)
        shapes = (self.place.shape, self.yaw.shape, self.depth.shape, self.stiff.shape)
        if shapes != ((n, 2), (n,), (n,), (n,)):
            raise ValueError(f"expected place (n, 2), yaw, depth and stiff (n,), found {shapes}")

    def __len__(self) -> int:
        return len(self.yaw)

    def __getitem__(self, which: np.ndarray | slice | list[int]) -> Actions:
        """Some of them; one of them as `actions[[k]]`."""
        return Actions(self.place[which], self.yaw[which], self.depth[which], self.stiff[which])

    @property
    def numbers(self) -> np.ndarray:
        """(n, 2): depth [m], and 1 where stiff: what a model is told beside the crop."""
        return np.stack([self.depth, self.stiff.astype(float)], 1)

    def table(self) -> np.ndarray:
        """(n, 5): x, y, yaw, depth, stiff."""
        return np.column_stack([self.place, self.yaw, self.depth, self.stiff])

    @classmethod
    def of(cls, table: np.ndarray) -> Actions:
        """From what `table` gives."""
        return cls(table[:, :2], table[:, 2], table[:, 3], table[:, 4] > 0.5)


def grid(
    places: tuple[int, int] = PLACES, spacing: tuple[float, float] = SPACING, yaws: int = YAWS, levels: int = LEVELS
) -> Actions:
    """All combinations: 15 x 12 places, 8 yaws, 4 depths and 2 stiffnesses are 11,520.

    The choices of a picture (place and yaw) change slowest: action k has the picture number k // (2 * levels).
    """
    axes = [(np.arange(n) - (n - 1) / 2.0) * step for n, step in zip(places, spacing)]
    turns = np.arange(yaws) * 2.0 * np.pi / yaws
    columns = np.meshgrid(*axes, turns, np.linspace(*DEPTHS, levels), [0.0, 1.0], indexing="ij")
    return Actions.of(np.stack([c.ravel() for c in columns], 1))


def random_actions(n: int, rng: np.random.Generator) -> Actions:
    """Anywhere within the grid's places, in one of its yaws, at any depth, soft or stiff: how data are collected."""
    reach = (np.array(PLACES) - 1) / 2.0 * SPACING
    return Actions(
        rng.uniform(-reach, reach, (n, 2)),
        rng.integers(YAWS, size=n) * 2.0 * np.pi / YAWS,
        rng.uniform(*DEPTHS, n),
        rng.uniform(size=n) < 0.5,
    )
