"""Which points of a cloud stand for it, and which are around each: what PointNet++ needs before its layers.

A cloud is fixed while a network is trained, so that its groups are found once and kept.

Source: Qi, Yi, Su, Guibas, "PointNet++: deep hierarchical feature learning on point sets in a metric space", NeurIPS 2017,
sections 3.2 and 3.3.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from sim_core.elastic.force_response.clouds import canonical_order

__all__ = ["GroupCache", "Groups", "Level", "farthest_points", "groups_of", "neighbours"]


@dataclass(frozen=True)
class Level:
    """One set abstraction.

    Attributes:
        centroids: points that stand for the others. radius: of what is around each [radii of the object].
        count: of neighbours that are looked at. widths: of its layers.
    """

    centroids: int
    radius: float
    count: int
    widths: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Groups:
    """What the layers need of one cloud.

    Attributes:
        order: of its points (n,), so that the given one does not matter.
        centroids, neighbours: of each level (m,) and (m, k), as positions among the level's points.
    """

    order: torch.Tensor
    centroids: tuple[torch.Tensor, ...]
    neighbours: tuple[torch.Tensor, ...]


def farthest_points(points: np.ndarray, count: int) -> np.ndarray:
    """Positions (count,) of points (n, 3), each the farthest from those before; the first is the farthest from the mean.

    Raises:
        ValueError: fewer points than asked for.
    """
    if len(points) < count:
        raise ValueError(f"expected {count} points or more, found {len(points)}; give a denser cloud")
    chosen = np.empty(count, dtype=np.int64)
    nearest = np.full(len(points), np.inf)
    # The published first point is an arbitrary one.
    chosen[0] = np.argmax(((points - points.mean(0)) ** 2).sum(1))
    for k in range(1, count):
        np.minimum(nearest, ((points - points[chosen[k - 1]]) ** 2).sum(1), out=nearest)
        chosen[k] = np.argmax(nearest)
    return chosen


def neighbours(points: np.ndarray, centres: np.ndarray, radius: float, count: int) -> np.ndarray:
    """Positions (m, count) of the points nearest to each centre (m, 3) within a radius; the nearest again where they are fewer.

    The published ball query takes the first that it meets, which depends on the order of the points.
    """
    wanted = min(count, len(points))
    distance, index = cKDTree(points).query(centres, k=list(range(1, wanted + 1)), distance_upper_bound=radius)
    index = np.where(np.isfinite(distance), index, index[:, :1])
    return np.concatenate([index, np.repeat(index[:, :1], count - wanted, axis=1)], axis=1)


def groups_of(cloud: np.ndarray, levels: tuple[Level, ...]) -> Groups:
    """The groups of a cloud (n, c), whose first three columns are the position, level by level."""
    order = canonical_order(cloud)
    points = cloud[order, :3].astype(np.float64)
    centroids, around = [], []
    for level in levels:
        chosen = farthest_points(points, level.centroids)
        centres = points[chosen]
        centroids.append(torch.from_numpy(chosen))
        around.append(torch.from_numpy(neighbours(points, centres, level.radius, level.count)))
        points = centres
    return Groups(torch.from_numpy(order), tuple(centroids), tuple(around))


class GroupCache:
    """Groups of the clouds that were seen last, by their content.

    Args:
        levels: of the network. size: clouds that are kept at most.
    """

    def __init__(self, levels: tuple[Level, ...], size: int = 1024) -> None:
        self.levels, self.size = levels, size
        self._kept: OrderedDict[bytes, Groups] = OrderedDict()

    def __call__(self, clouds: torch.Tensor) -> list[Groups]:
        """Of each cloud (b, n, c)."""
        found = []
        for cloud in clouds.detach().numpy():
            key = hashlib.blake2b(cloud.tobytes(), digest_size=16).digest()
            if key not in self._kept:
                self._kept[key] = groups_of(cloud, self.levels)
                if len(self._kept) > self.size:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            found.append(self._kept[key])
        return found
