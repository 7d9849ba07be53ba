"""Shapes of grains: rigid unions of spheres, with the mass and inertia of the union.

    gravel = rock(0.02, density=2600.0, seed=3)
    slate = plate(0.03, 0.006, density=2700.0)

Lengths in metres, densities in kg/m^3. Offsets are in the axes of principal inertia, from the centre of mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

__all__ = ["Clump", "ball", "plate", "rock", "rod", "union"]

#: points along the longest side of a union by which its mass is summed: 0.1 % of a ball's volume
FINENESS = 64


@dataclass(frozen=True)
class Clump:
    """A rigid union of spheres.

    Attributes:
        offsets: of the spheres (m, 3) [m]. radii: (m,) [m].
        volume: of the union [m^3]. mass: [kg]. inertia: principal moments (3,) [kg m^2].
    """

    offsets: np.ndarray
    radii: np.ndarray
    volume: float
    mass: float
    inertia: np.ndarray

    @property
    def reach(self) -> float:
        """Radius of the ball about the centre of mass that holds the clump [m]."""
        return float((np.linalg.norm(self.offsets, axis=1) + self.radii).max())


def ball(radius: float, density: float) -> Clump:
    """One sphere."""
    if not (radius > 0.0 and density > 0.0):
        raise ValueError(f"a ball has a radius and a density above 0, not {radius} m and {density} kg/m^3")
    volume = 4.0 / 3.0 * np.pi * radius**3
    mass = density * volume
    return Clump(np.zeros((1, 3)), np.array([radius]), volume, mass, np.full(3, 0.4 * mass * radius**2))


def union(offsets: np.ndarray, radii: np.ndarray, density: float) -> Clump:
    """Spheres that are one body, in the axes of its principal inertia; where they overlap, matter counts once.

    Args:
        offsets: middles of the spheres (m, 3) [m]. radii: (m,) [m].

    Raises:
        ValueError: shapes that do not belong together, or what is not positive or not finite.
    """
    offsets, radii = np.asarray(offsets, float), np.asarray(radii, float)
    if offsets.shape != (len(radii), 3) or not np.isfinite(offsets).all():
        raise ValueError(
            f"spheres of a clump have middles (m, 3) and radii (m,), not {offsets.shape} and {radii.shape}"
        )
    if not (len(radii) and (radii > 0.0).all() and density > 0.0):
        raise ValueError("spheres of a clump have radii above 0, and so is its density")
    if len(radii) == 1:
        return ball(float(radii[0]), density)
    low, high = (offsets - radii[:, None]).min(0), (offsets + radii[:, None]).max(0)
    cell = float((high - low).max()) / FINENESS
    axes = [np.arange(a + 0.5 * cell, b, cell) for a, b in zip(low, high)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    inside = np.zeros(len(points), bool)
    for middle, radius in zip(offsets, radii):
        inside |= ((points - middle) ** 2).sum(1) < radius**2
    points = points[inside]
    volume = len(points) * cell**3
    center = points.mean(0)
    away = points - center
    squares = away.T @ away / len(points) + np.eye(3) * cell**2 / 12.0
    moments, axes_ = np.linalg.eigh(np.trace(squares) * np.eye(3) - squares)
    if np.linalg.det(axes_) < 0.0:
        axes_[:, 0] = -axes_[:, 0]
    mass = density * volume
    return Clump((offsets - center) @ axes_, radii, volume, mass, mass * moments)


def rod(length: float, radius: float, density: float) -> Clump:
    """A rod with round ends, spheres at most a radius apart; `length` from end to end."""
    count = max(2, int(np.ceil((length - 2.0 * radius) / radius)) + 1)
    along = np.linspace(-0.5, 0.5, count) * max(length - 2.0 * radius, 1e-6)
    return union(np.stack([along, 0.0 * along, 0.0 * along], -1), np.full(count, radius), density)


def plate(width: float, thickness: float, density: float) -> Clump:
    """A round flat piece, as a slate: spheres on rings, at most a thickness apart."""
    radius, rim = 0.5 * thickness, 0.5 * (width - thickness)
    if rim <= 0.0:
        return ball(0.5 * width, density)
    middles = [np.zeros(3)]
    rings = max(1, int(np.ceil(rim / thickness)))
    for ring in range(1, rings + 1):
        around = max(5, round(2.0 * np.pi * ring))
        angle = 2.0 * np.pi * np.arange(around) / around
        middles += list(rim * ring / rings * np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], -1))
    return union(np.array(middles), np.full(len(middles), radius), density)


def rock(
    size: float, density: float, seed: int, spheres: int = 6, flatness: float = 0.7, concave: float = 0.0
) -> Clump:
    """An irregular piece: spheres of unequal size around a middle one.

    Args:
        size: largest diameter [m]. spheres: of which it is made.
        flatness: its shortest side over its longest, about. concave: 0, lobes close to the middle, to 1, lobes that stand off.
    """
    rng = np.random.default_rng(seed)
    stretch = np.array([1.0, 0.5 * (1.0 + flatness), flatness])
    directions = rng.standard_normal((max(spheres - 1, 0), 3))
    # lobes repel each other, so that a piece has no bare side
    for _ in range(30):
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        apart = directions[:, None] - directions[None]
        square = (apart**2).sum(-1) + np.eye(len(directions)) + 0.05
        directions += 0.1 * (apart / square[..., None] ** 2).sum(1)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lobes = rng.uniform(0.45, 0.75, len(directions)) * (1.0 - 0.35 * concave)
    offsets = np.vstack([np.zeros(3), directions * (0.55 + 0.35 * concave) * stretch])
    radii = np.append(0.7 - 0.2 * concave, lobes * stretch[1])
    turned = offsets @ Rotation.random(rng=rng).as_matrix().T
    extent = max(float(np.linalg.norm(a - b) + r + s) for a, r in zip(turned, radii) for b, s in zip(turned, radii))
    return union(turned * size / extent, radii * size / extent, density)
