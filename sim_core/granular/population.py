"""Many grains: which shapes, of which material, and where they are before anything moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.granular.grains import Clump

__all__ = ["Grains", "pour"]


@dataclass(frozen=True)
class Grains:
    """Grains and their places.

    Attributes:
        material: name of each grain's (n,). position: (n, 3) [m]. quaternion: w first (n, 4).
        mass: (n,) [kg]. inertia: principal (n, 3) [kg m^2]. volume: (n,) [m^3]. reach: of the ball that holds a grain (n,) [m].
        first: spheres of grain i are first[i] to first[i + 1] - 1 (n + 1,). offset: (m, 3) [m], radius: (m,) [m] of the spheres.
    """

    material: tuple[str, ...]
    position: np.ndarray
    quaternion: np.ndarray
    mass: np.ndarray
    inertia: np.ndarray
    volume: np.ndarray
    reach: np.ndarray
    first: np.ndarray
    offset: np.ndarray
    radius: np.ndarray

    def __len__(self) -> int:
        return len(self.mass)

    @classmethod
    def of(
        cls,
        shapes: Sequence[Clump],
        materials: str | Sequence[str],
        which: Sequence[int] | None = None,
        position: np.ndarray | None = None,
        quaternion: np.ndarray | None = None,
    ) -> Grains:
        """Grains of some shapes.

        Args:
            shapes: each may serve many grains. materials: name of all, or of each grain.
            which: shape of each grain (n,); None: one of each. position: (n, 3) [m]. quaternion: (n, 4); None: unturned.

        Raises:
            ValueError: numbers that differ, or places that are not finite.
        """
        chosen = np.arange(len(shapes)) if which is None else np.asarray(which, int)
        n = len(chosen)
        names = (materials,) * n if isinstance(materials, str) else tuple(materials)
        place = np.zeros((n, 3)) if position is None else np.asarray(position, float)
        turn = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)) if quaternion is None else np.asarray(quaternion, float)
        if len(names) != n or place.shape != (n, 3) or turn.shape != (n, 4) or not np.isfinite(place).all():
            raise ValueError(
                f"{n} grains have {n} materials, finite positions ({n}, 3) and quaternions ({n}, 4), not {len(names)}, "
                f"{place.shape} and {turn.shape}"
            )
        counts = np.array([len(shape.radii) for shape in shapes])
        each = [shapes[int(k)] for k in chosen]
        return cls(
            names,
            place,
            turn,
            np.array([shape.mass for shape in each]),
            np.array([shape.inertia for shape in each]).reshape(n, 3),
            np.array([shape.volume for shape in each]),
            np.array([shape.reach for shape in each]),
            np.concatenate([[0], np.cumsum(counts[chosen])]),
            np.concatenate([shape.offsets for shape in each]) if n else np.zeros((0, 3)),
            np.concatenate([shape.radii for shape in each]) if n else np.zeros(0),
        )

    @property
    def largest(self) -> np.ndarray:
        """Radius of each grain's largest sphere (n,) [m]."""
        return np.maximum.reduceat(self.radius, self.first[:-1])

    @property
    def contact_mass(self) -> np.ndarray:
        """Least mass that a contact meets, (n,) [kg]: of a union at its far end, where it also turns, and two spheres touch at once."""
        single = np.diff(self.first) == 1
        turning = self.reach**2 / self.inertia.min(axis=1)
        return np.where(single, self.mass, 0.5 / (1.0 / self.mass + turning))

    def take(self, order: np.ndarray) -> Grains:
        """Some of the grains, in an order (k,); neighbours in memory are met faster than others."""
        order = np.asarray(order, int)
        spheres = np.concatenate([np.arange(self.first[i], self.first[i + 1]) for i in order])
        return Grains(
            tuple(self.material[i] for i in order),
            self.position[order],
            self.quaternion[order],
            self.mass[order],
            self.inertia[order],
            self.volume[order],
            self.reach[order],
            np.concatenate([[0], np.cumsum(np.diff(self.first)[order])]),
            self.offset[spheres],
            self.radius[spheres],
        )

    def placed(self, position: np.ndarray, quaternion: np.ndarray) -> Grains:
        """The same grains elsewhere."""
        return replace(self, position=np.asarray(position, float), quaternion=np.asarray(quaternion, float))


def pour(
    grains: Grains, area: Sequence[float], seed: int, bottom: float = 0.0, middle: Sequence[float] = (0.0, 0.0)
) -> Grains:
    """Grains in loose layers over an area, mixed and turned at random, none touching another: let them fall.

    Args:
        area: sides in x and y [m], about `middle`. bottom: height of the lowest layer's floor [m].

    Raises:
        ValueError: a grain is wider than the area.
    """
    rng = np.random.default_rng(seed)
    pitch = 2.02 * float(grains.reach.max())
    across = [int(side / pitch) for side in area]
    if min(across) < 1:
        raise ValueError(f"a grain of {pitch:.3g} m does not fit into an area of {list(area)} m")
    layer = across[0] * across[1]
    grains, order = grains.take(rng.permutation(len(grains))), np.arange(len(grains))
    cell = np.stack([order // layer, order % layer // across[1], order % across[1]], -1)
    room = np.array([side / count - pitch / 1.01 for side, count in zip(area, across)])
    x, y = ((cell[:, k + 1] + 0.5) * area[k] / across[k] - 0.5 * area[k] + middle[k] for k in (0, 1))
    place = np.stack([x, y, bottom + (cell[:, 0] + 0.5) * pitch], -1)
    place[:, :2] += rng.uniform(-0.5, 0.5, (len(grains), 2)) * np.maximum(room, 0.0)
    turns = Rotation.random(len(grains), rng=rng).as_quat()
    return grains.placed(place, np.roll(turns, 1, axis=1))
