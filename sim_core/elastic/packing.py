"""Where a ball fits beside a soft object in a box, and how deep it may be pressed in with a limited force.

At every place of a grid the ball comes down from the top of the box until the object pushes back with more than the limit; the last
height at which it does not is reported. All places go down together, first by coarse steps and then by halving the step in which the limit was
passed, so that the model is asked a few dozen times for the whole map. Source: Zhu, PhD thesis (2023), section 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.rigid_body import RigidBody

__all__ = ["Box", "HeightMap", "height_map"]

DOWN = (0.0, 0.0, -1.0)


@dataclass(frozen=True)
class Box:
    """What the object and the ball are in, along the world's axes: lowest corner and size [m].

    Raises:
        ValueError: a size that is not positive.
    """

    corner: tuple[float, float, float]
    size: tuple[float, float, float]

    def __post_init__(self) -> None:
        if len(self.corner) != 3 or len(self.size) != 3 or not np.isfinite([*self.corner, *self.size]).all():
            raise ValueError(f"a box has a corner and a size of three finite numbers, found {self.corner}, {self.size}")
        if min(self.size) <= 0.0:
            raise ValueError(f"a box has sizes above 0 [m], found {self.size}")


@dataclass(frozen=True, eq=False)
class HeightMap:
    """The lowest places of a ball.

    Attributes:
        x: (columns,), y: (rows,) of its middle [m]. heights: lowest admissible z of its middle (rows, columns) [m]; NaN: none, not even at
            the top. forces: that push it there (rows, columns) [N]. beyond: where the model was asked deeper than it has learnt
            from (rows, columns). queries: how many contacts were simulated.
    """

    x: np.ndarray
    y: np.ndarray
    heights: np.ndarray
    forces: np.ndarray
    beyond: np.ndarray
    queries: int


def height_map(
    simulator: ContactSimulator,
    ball: RigidBody,
    box: Box,
    spacing: float = 5e-3,
    limit: float = 2.0,
    step: float = 4e-3,
    tolerance: float = 1e-4,
    clearance: float = 0.0,
) -> HeightMap:
    """Lowest places of a ball in a box.

    Args:
        ball: its points about its middle. spacing: of the grid [m]. limit: largest force [N]. step: by which the ball first comes down [m]; a force
            that passes the limit and falls below it again within one is not seen. tolerance: of the height [m].
        clearance: the ball could be so much deeper without passing the limit [m]: for scans and models that are not exact.

    Raises:
        ValueError: a value that is not positive, or a ball that does not fit into the box.
    """
    if not (np.isfinite(clearance) and clearance >= 0.0):
        raise ValueError(f"clearance is a length of 0 or more [m], not {clearance}")
    for name, value in {"spacing": spacing, "limit": limit, "step": step, "tolerance": tolerance}.items():
        if not (np.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} is above 0, not {value}")
    radius = float(np.linalg.norm(ball.points, axis=1).max())
    if 2.0 * radius > min(box.size) + 1e-9:
        raise ValueError(f"a ball {2e3 * radius:.1f} mm wide does not fit into a box of {box.size} m")
    x, y = (
        box.corner[k] + radius + spacing * np.arange(int((box.size[k] - 2.0 * radius) / spacing + 1e-9) + 1)
        for k in (0, 1)
    )
    floor, top = box.corner[2] + radius, box.corner[2] + box.size[2] - radius
    across, along = np.meshgrid(x, y)
    fall = _Fall(simulator, ball, np.stack([across.ravel(), along.ravel()], 1), limit)

    # above the highest point there is nothing to meet
    start = min(top, max(floor, float(simulator.surface.points[:, 2].max()) + radius + max(0.0, -simulator.onset)))
    fall.try_at(np.arange(across.size), np.full(across.size, start))
    going = np.flatnonzero(fall.fits)
    refused = np.full(across.size, np.nan)  # the highest place that was refused
    while len(going):
        z = np.maximum(fall.heights[going] - step, floor)
        fits = fall.try_at(going, z)
        refused[going[~fits]] = z[~fits]
        going = going[fits & (z > floor)]
    open_ = np.flatnonzero(np.isfinite(refused))
    while len(open_ := open_[fall.heights[open_] - refused[open_] > tolerance]):
        z = 0.5 * (fall.heights[open_] + refused[open_])
        fits = fall.try_at(open_, z)
        refused[open_[~fits]] = z[~fits]
    if clearance > 0.0:
        fall.lift(np.flatnonzero(fall.fits), clearance, top)
    shape = across.shape
    heights, forces = (np.where(fall.fits, a, np.nan).reshape(shape) for a in (fall.heights, fall.forces))
    return HeightMap(x, y, heights, forces, (fall.beyond & fall.fits).reshape(shape), fall.queries)


class _Fall:
    """The lowest places so far, and what the ball feels there."""

    def __init__(self, simulator: ContactSimulator, ball: RigidBody, places: np.ndarray, limit: float) -> None:
        self.simulator, self.ball, self.places, self.limit = simulator, ball, places, limit
        self.heights, self.forces = np.full(len(places), np.nan), np.full(len(places), np.nan)
        self.beyond, self.queries = np.zeros(len(places), bool), 0

    @property
    def fits(self) -> np.ndarray:
        """Places at which some height is admissible (n,)."""
        return np.isfinite(self.heights)

    def try_at(self, which: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Whether the ball may be at heights z of places `which`; where it may, it goes there."""
        force, beyond = self._felt(which, z)
        fits = force <= self.limit
        at = which[fits]
        self.heights[at], self.forces[at], self.beyond[at] = z[fits], force[fits], beyond[fits]
        return fits

    def lift(self, which: np.ndarray, by: float, top: float) -> None:
        """What carries the ball lets it go up by that much, but not above the top; what lies on the floor stays."""
        held = which[self.forces[which] > 0.0]
        self.heights[held] = np.minimum(self.heights[held] + by, np.maximum(top, self.heights[held]))
        self.forces[held], self.beyond[held] = self._felt(held, self.heights[held])

    def _felt(self, which: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        poses = np.tile(np.eye(4), (len(which), 1, 1))
        poses[:, :2, 3], poses[:, 2, 3] = self.places[which], z
        found = self.simulator.queries(self.ball, poses, np.array(DOWN))
        self.queries += len(which)
        return np.linalg.norm(found.force, axis=1), found.beyond
