"""Seven categories of soft objects, any number of each: shape, colours and stiffness follow from the category's law.

The source poked 21 objects of these categories (Zhu, PhD thesis, section 6.5). Of each object a mesh is made whose points follow
f = k1 d + k3 d^3, and what is stiff where differs by category: a box at edges and corners, a shoe at sole and toe, a bag at its seams; a stuffed
animal is soft all over. Within a category, objects differ in size, proportions, paint, level and a smooth field of stiffness. Paint goes
with stiffness in some categories, against it in others, and means nothing in the rest, so that a new category is a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.elastic.objects.soft_object import SoftObject, camera_offset
from sim_core.elastic.truth.analytic import AnalyticSolid

__all__ = ["CATEGORIES", "category_object"]

#: largest extents of objects [m] (published: 0.15 to 0.40; smaller ones would be poked through), and limits of point and of other probes [N], as
#: published
EXTENTS, POINT_LIMITS, PROBE_LIMITS = (0.22, 0.40), (7.0, 11.0), (11.0, 15.0)
#: at which pokes end if no force has ended them [m]
TRAVEL = 0.02
#: largest distance by which a camera sees an object off [m], and turned [deg]
SHIFT, DEGREES = 0.005, 1.0
#: displacement at which k3 adds from 0.3 to 1 of what k1 brings [m]
HARDENED_AT = 0.02


@dataclass(frozen=True, eq=False)
class Body:
    """An object before it has a size: largest extent about 2.

    Attributes:
        points: (n, 3). law: factor of the stiffness (n,). paint: share of the second colour (n,).
        stiffness: k1 where the law is 1 [N/m]. uneven: factor of the smooth field's deviation. coupling: c [m].
    """

    points: np.ndarray
    law: np.ndarray
    paint: np.ndarray
    stiffness: float
    uneven: float = 1.0
    coupling: float = 0.01


def _superquadric(directions: np.ndarray, axes: tuple[float, float, float], power: float) -> np.ndarray:
    """Points (n, 3) of |x/a|^p + |y/b|^p + |z/c|^p = 1 in directions (n, 3)."""
    return directions / ((np.abs(directions / np.array(axes)) ** power).sum(1) ** (1.0 / power))[:, None]


def _field(points: np.ndarray, rng: np.random.Generator, length: float, waves: int = 24) -> np.ndarray:
    """A smooth random field (n,) of mean 0 and deviation 1 that changes over a length."""
    way, phase = rng.normal(size=(waves, 3)) / length, rng.uniform(0.0, 2.0 * np.pi, waves)
    return np.sqrt(2.0 / waves) * np.cos(points @ way.T + phase).sum(1)


def _step(x: np.ndarray) -> np.ndarray:
    """From 0 at 0 to 1 at 1, smoothly."""
    x = np.clip(x, 0.0, 1.0)
    return x * x * (3.0 - 2.0 * x)


def _share(points: np.ndarray, axis: int) -> np.ndarray:
    """Distance from the middle along an axis, of the largest."""
    return np.abs(points[:, axis]) / np.abs(points[:, axis]).max()


def _stuffed(u: np.ndarray, rng: np.random.Generator) -> Body:
    points = _superquadric(u, (1.0, rng.uniform(0.6, 0.9), rng.uniform(0.5, 0.8)), 2.0)
    points *= 1.0 + 0.12 * _field(u, rng, 0.7)[:, None]
    return Body(points, np.ones(len(u)), _step(0.5 + _field(u, rng, 0.5)), 300.0, 0.4, 0.02)


def _rubber(u: np.ndarray, rng: np.random.Generator) -> Body:
    points = _superquadric(u, (1.0, rng.uniform(0.5, 0.8), rng.uniform(0.5, 0.8)), 2.5)
    points *= 1.0 + 0.06 * _field(u, rng, 0.4)[:, None]
    parts = _step(2.0 * (_field(u, rng, 0.6) - 0.1))
    return Body(points, 1.0 + 1.5 * parts, parts, 500.0)


def _dog_toy(u: np.ndarray, rng: np.random.Generator) -> Body:
    points = _superquadric(u, (1.0, rng.uniform(0.3, 0.45), rng.uniform(0.3, 0.45)), 2.0)
    along = _share(points, 0)
    points[:, 1:] *= 0.85 + 0.75 * _step((along - 0.3) / 0.5)[:, None]
    stripes = _step(0.5 + 2.0 * np.sin(12.0 * points[:, 0]))
    return Body(points, 0.7 + 1.3 * _step((along - 0.4) / 0.5), stripes, 600.0)


def _bag(u: np.ndarray, rng: np.random.Generator) -> Body:
    points = _superquadric(u, (1.0, rng.uniform(0.6, 0.9), rng.uniform(0.3, 0.4)), 4.0)
    seams = np.maximum(_step(1.0 - _share(points, 2) / 0.7), _step((_share(points, 0) - 0.75) / 0.2))
    return Body(points, 0.8 + 2.2 * seams, 1.0 - seams, 300.0, coupling=0.02)


def _sport(u: np.ndarray, rng: np.random.Generator) -> Body:
    points = _superquadric(u, (1.0, rng.uniform(0.9, 1.0), rng.uniform(0.6, 1.0)), 2.0)
    panels = _step(0.5 + 3.0 * _field(u, rng, 0.4))
    return Body(points, 1.25 - 0.5 * panels, panels, 1200.0, 0.6)


def _shoe(u: np.ndarray, rng: np.random.Generator) -> Body:
    points = _superquadric(u, (1.0, rng.uniform(0.34, 0.42), 0.4), 3.0)
    x, z = points[:, 0], points[:, 2]
    heel = 0.55 + 0.45 * _step((0.4 - x) / 1.2)
    points[:, 2] = np.where(z > 0.0, 1.3 * heel * z, 0.5 * z)
    sole, toe = _step((0.05 - points[:, 2]) / 0.12), _step((x - 0.6) / 0.25)
    return Body(points, 0.8 + 4.0 * sole + 2.5 * toe * (1.0 - sole), sole, 350.0, coupling=0.02)


def _box(u: np.ndarray, rng: np.random.Generator) -> Body:
    axes = (1.0, rng.uniform(0.45, 0.8), rng.uniform(0.35, 0.7))
    points = _superquadric(u, axes, 12.0)
    # The nearest face is the one that the point is on; the next one meets it in the edge.
    to_edge = np.sort(np.array(axes) - np.abs(points), axis=1)[:, 1]
    return Body(points, 0.8 + 3.2 * _step(1.0 - to_edge / 0.3), _step(2.0 * (_field(u, rng, 0.5) - 0.2)), 600.0)


BODIES: dict[str, Callable[[np.ndarray, np.random.Generator], Body]] = {
    "stuffed objects": _stuffed,
    "toys with rubber": _rubber,
    "dog toys": _dog_toy,
    "hand bags": _bag,
    "sports equipment": _sport,
    "shoes": _shoe,
    "boxes": _box,
}
CATEGORIES = tuple(BODIES)


def category_object(category: str, index: int, seed: int = 0, offset: np.ndarray | None = None) -> SoftObject:
    """One object, on a table at z = 0.

    Args:
        category: one of CATEGORIES. index: which of them; any number. seed: of the whole collection.
        offset: (3,) by which the camera sees it off [m]; None: up to `SHIFT` any way, and turned by up to `DEGREES`.

    Raises:
        ValueError: there is no such category.
    """
    if category not in BODIES:
        raise ValueError(f"there is no category {category!r}; there are {', '.join(CATEGORIES)}")
    import trimesh  # half a second, for those who make one

    rng = np.random.default_rng([seed, CATEGORIES.index(category), index, 97])
    sphere = trimesh.creation.icosphere(subdivisions=4)
    body = BODIES[category](np.asarray(sphere.vertices), rng)
    extent = rng.uniform(*EXTENTS)
    points = body.points * extent / np.ptp(body.points, axis=0).max()
    points[:, 2] -= points[:, 2].min()
    uneven = body.uneven * rng.uniform(0.1, 0.3) * _field(points, rng, 0.25 * extent)
    k1 = body.stiffness * body.law * np.exp(0.3 * rng.normal() + uneven)
    k3 = k1 * rng.uniform(0.3, 1.0) / HARDENED_AT**2
    first, second = rng.uniform(0.1, 0.95, (2, 3))
    colours = np.clip(
        first + (second - first) * body.paint[:, None] + 0.03 * rng.normal(size=(len(points), 3)), 0.0, 1.0
    )
    name = f"{category} {index}"
    solid = AnalyticSolid(points, np.asarray(sphere.faces), k1, k3, body.coupling, colours, name)
    camera = camera_offset(rng, points.mean(0), SHIFT, DEGREES)
    if offset is not None:
        camera = np.eye(4)
        camera[:3, 3] = offset
    return SoftObject(name, category, solid, camera, rng.uniform(*POINT_LIMITS), rng.uniform(*PROBE_LIMITS), TRAVEL)
