"""An object as the network sees it: a fixed number of coloured points in a frame of the object's own size.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.5: 2,048 points at random, positions and colours, no normals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["POINTS", "ObjectFrame", "canonical", "canonical_order", "frame_of", "seen", "symmetries"]

#: of a cloud that the network sees
POINTS = 2048


@dataclass(frozen=True, eq=False)
class ObjectFrame:
    """Where an object is and how large: its centre becomes the origin, its largest radius 1; axes stay the world's.

    Attributes:
        centre: mean of the cloud (3,) [m]. radius: largest distance from it [m].
    """

    centre: np.ndarray
    radius: float

    def points(self, points: np.ndarray) -> np.ndarray:
        """World [m] to the object's frame (n, 3) [radii]."""
        return (points - self.centre) / self.radius

    def numbers(self, points: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """A poke's place and displacement (n, 4) [radii]: scaled alike."""
        return np.column_stack([self.points(points), displacement / self.radius]).astype(np.float32)


def canonical_order(cloud: np.ndarray) -> np.ndarray:
    """An order (n,) of the rows (n, c) that depends on their content alone, so that nothing after it depends on the given one."""
    return np.lexsort(cloud.T[::-1])


def canonical(cloud: np.ndarray) -> np.ndarray:
    """The rows in `canonical_order`."""
    return cloud[canonical_order(cloud)]


def frame_of(points: np.ndarray) -> ObjectFrame:
    """The frame of points (n, 3) [m].

    Raises:
        ValueError: too few points, numbers that are not finite, or all points in one place.
    """
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 3 or not np.isfinite(points).all():
        raise ValueError(f"expected three finite points (n, 3) or more, found the shape {points.shape}")
    # Sorted first: a sum depends on the order of its terms in the last bit.
    centre = canonical(points).mean(0)
    radius = float(np.linalg.norm(points - centre, axis=1).max())
    if radius <= 0.0:
        raise ValueError("expected an object, found a cloud whose points are all in one place")
    return ObjectFrame(centre, radius)


def seen(points: np.ndarray, colours: np.ndarray, frame: ObjectFrame, count: int = POINTS, seed: int = 0) -> np.ndarray:
    """What the network sees of a cloud: (1, count, 6), position [radii] and colour, in canonical order.

    Fewer points are taken at random; where there are too few, some appear twice, which changes nothing that the network finds but the
    density.

    Args:
        points: (n, 3) [m]. colours: (n, 3) in [0, 1].

    Raises:
        ValueError: colours that do not belong to the points or are outside of [0, 1].
    """
    if colours.shape != points.shape or not ((colours >= -1e-6) & (colours <= 1.0 + 1e-6)).all():
        raise ValueError(f"expected colours {points.shape} from 0 to 1, found {colours.shape} or others")
    cloud = canonical(np.column_stack([frame.points(points), colours]))
    rng = np.random.default_rng([seed, 83])
    n = len(cloud)
    kept = (
        rng.choice(n, count, replace=False) if n >= count else np.concatenate([np.arange(n), rng.choice(n, count - n)])
    )
    return canonical(cloud[kept].astype(np.float32))[None]


def symmetries(inputs: tuple[torch.Tensor, ...], which: int) -> tuple[torch.Tensor, ...]:
    """An object and its pokes turned by `which` quarters about the vertical, from 4 on mirrored first: no force changes.

    Args:
        inputs: clouds (b, n, 6), places with displacements (m, 4), and places with normals (m, 6). which: 1 to 7.
    """
    mirror, quarters = divmod(which, 4)

    def turned(array: torch.Tensor) -> torch.Tensor:
        x, y, *others = array.split(1, -1)
        x = -x if mirror else x
        for _ in range(quarters):
            x, y = -y, x
        return torch.cat([x, y, *others], -1)

    cloud, pokes, where = inputs
    return turned(cloud), turned(pokes), torch.cat([turned(part) for part in where.split(3, -1)], -1)
