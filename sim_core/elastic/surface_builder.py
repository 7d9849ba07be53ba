"""From what depth cameras saw of an object to its surface: one cloud, without outliers, with colours and outward normals.

1. Points that are finite, and far from where most are, are left out: those whose mean distance to their neighbours is larger than the
   cloud's mean by so many standard deviations.
2. Views are merged, and points are averaged in cubes.
3. A normal is that of the plane through a point's neighbours. It points out where it points to the camera that saw the point; as this
   says little where a view grazes the surface, neighbours vote, each by how squarely it was seen.

Source: Zhu, PhD thesis (2023), section 4.3.1, which leaves these steps to Open3D; the vote is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_closing, binary_fill_holes
from scipy.spatial import cKDTree

from sim_core.elastic.surface import Surface

__all__ = ["Cloud", "SurfaceOptions", "SurfaceQuality", "build_surface"]

#: points of one view at least
LEAST = 50


@dataclass(frozen=True, eq=False)
class Cloud:
    """What one camera saw from one place.

    Attributes:
        points: (n, 3) in the world [m]; rows that are not finite were not measured. colours: (n, 3), 0 to 1. camera: where it was (3,) [m].

    Raises:
        ValueError: shapes that do not fit, or too few finite points.
    """

    points: np.ndarray
    colours: np.ndarray
    camera: np.ndarray

    def __post_init__(self) -> None:
        for name in ("points", "colours", "camera"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), float))
        if self.points.ndim != 2 or self.points.shape[1] != 3 or self.colours.shape != self.points.shape:
            raise ValueError(
                f"a cloud has points and colours of one shape (n, 3), found {self.points.shape} and {self.colours.shape}"
            )
        if self.camera.shape != (3,) or not np.isfinite(self.camera).all():
            raise ValueError(f"the camera of a cloud is at a place (3,) in the world, found {self.camera}")
        if (count := int(self.measured.sum())) < LEAST:
            raise ValueError(
                f"a cloud has at least {LEAST} points that were measured, this one {count} of {len(self.points)}; "
                "look at the object from nearer"
            )

    @property
    def measured(self) -> np.ndarray:
        """Rows that are finite (n,)."""
        return np.isfinite(self.points).all(1) & np.isfinite(self.colours).all(1)


@dataclass(frozen=True)
class SurfaceOptions:
    """How a surface is built.

    Attributes:
        voxel: side of the cubes in which points are averaged [m]; 0: none are. outlier_neighbours: whose mean distance is looked at.
        outlier_deviations: above the mean of those, in standard deviations, a point is left out. neighbours: by which a normal is found.
        low, high: corners of the space in which the object is [m]; None: all that was seen is the object.

    Raises:
        ValueError: a value beyond its range.
    """

    voxel: float = 2e-3
    outlier_neighbours: int = 20
    outlier_deviations: float = 2.0
    neighbours: int = 20
    low: tuple[float, float, float] | None = None
    high: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.voxel) and self.voxel >= 0.0):
            raise ValueError(f"voxel is 0 or a length [m], not {self.voxel}")
        if self.outlier_neighbours < 1 or self.neighbours < 3:
            raise ValueError(
                f"an outlier is known by at least 1 neighbour and a normal by 3, not {self.outlier_neighbours}, {self.neighbours}"
            )
        if not self.outlier_deviations > 0.0:
            raise ValueError(f"outlier_deviations is above 0, not {self.outlier_deviations}")


@dataclass(frozen=True)
class SurfaceQuality:
    """What is to be known before a surface is used.

    Attributes:
        points: of the surface. outliers: measured points that were left out. outward: share of the others where the normal points to the camera that
            saw them. holes: share of the outline's area without points nearby. views: clouds.
    """

    points: int
    outliers: int
    outward: float
    holes: float
    views: int

    @property
    def complaint(self) -> str:
        """What is wrong with it, in a sentence; empty if nothing is."""
        if self.outward < 0.9:
            return f"only {100.0 * self.outward:.0f} % of the normals point to the camera that saw them; check where the cameras are said to be"
        if self.holes > 0.1:
            return f"{100.0 * self.holes:.0f} % of the outline were not seen; scan the object from further sides"
        return ""


def build_surface(
    clouds: Sequence[Cloud], options: SurfaceOptions = SurfaceOptions()
) -> tuple[Surface, SurfaceQuality]:
    """The surface of what clouds show.

    Raises:
        ValueError: no cloud, or too few points are left of them.
    """
    if not clouds:
        raise ValueError("a surface is built from at least one cloud, found none")
    points = np.concatenate([c.points[c.measured] for c in clouds])
    colours = np.clip(np.concatenate([c.colours[c.measured] for c in clouds]), 0.0, 1.0)
    view = np.concatenate([np.full(int(c.measured.sum()), k) for k, c in enumerate(clouds)])
    inside = np.ones(len(points), bool)
    if options.low is not None:
        inside &= (points >= options.low).all(1)
    if options.high is not None:
        inside &= (points <= options.high).all(1)
    points, colours, view = _enough(inside, points, colours, view, what="lie in the object's space")
    kept = _inliers(points, options)
    outliers = int((~kept).sum())
    points, colours, view = _enough(kept, points, colours, view, what="are no outliers")
    # the mean direction back to the cameras that saw a point says which side is out
    back = np.stack([c.camera for c in clouds])[view] - points
    back /= np.maximum(np.linalg.norm(back, axis=1, keepdims=True), 1e-12)
    measured, seen_from = points, back
    if options.voxel > 0.0:
        points, colours, back = _averaged(points, options.voxel, points, colours, back)
        if len(points) < LEAST:
            raise ValueError(
                f"a surface has at least {LEAST} points, but cubes of {options.voxel} m leave {len(points)}"
            )
    near = cKDTree(points).query(points, min(options.neighbours, len(points)))[1]
    normals = _outward(_planes(points, near), back, near)
    surface = Surface(points, colours, normals)
    outward = float(((normals[surface.nearest(measured)] * seen_from).sum(1) > 0.0).mean())
    return surface, SurfaceQuality(len(points), outliers, outward, _holes(surface, back.mean(0)), len(clouds))


def _enough(which: np.ndarray, *arrays: np.ndarray, what: str) -> list[np.ndarray]:
    if (count := int(which.sum())) < LEAST:
        raise ValueError(f"a surface is built from at least {LEAST} points, but of {len(which)} only {count} {what}")
    return [array[which] for array in arrays]


def _inliers(points: np.ndarray, options: SurfaceOptions) -> np.ndarray:
    count = min(options.outlier_neighbours + 1, len(points))
    mean = cKDTree(points).query(points, count)[0][:, 1:].mean(1)
    return mean <= mean.mean() + options.outlier_deviations * mean.std()


def _averaged(points: np.ndarray, side: float, *arrays: np.ndarray) -> list[np.ndarray]:
    """Means in the cubes of a grid."""
    where = np.unique(np.floor(points / side).astype(np.int64), axis=0, return_inverse=True)[1].ravel()
    count = np.bincount(where)[:, None]
    return [np.stack([np.bincount(where, a[:, k]) for k in range(3)], 1) / count for a in arrays]


def _planes(points: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Unit normals (n, 3) of the planes through neighbours, on either side."""
    off = points[near] - points[near].mean(1, keepdims=True)
    return np.linalg.eigh(np.einsum("nki,nkj->nij", off, off))[1][:, :, 0]


def _outward(normals: np.ndarray, back: np.ndarray, near: np.ndarray) -> np.ndarray:
    """The side on which the cameras were, by the vote of neighbours whose normals are about parallel."""
    towards = (normals * back).sum(1)
    first = np.where(towards[:, None] < 0.0, -normals, normals)
    alike = np.einsum("ni,nki->nk", first, first[near])
    vote = (alike * np.abs(alike) * np.abs(towards)[near]).sum(1)
    return np.where(vote[:, None] < 0.0, -first, first)


def _holes(surface: Surface, towards: np.ndarray) -> float:
    """Share of the outline's cells, as seen from the cameras' mean direction, that hold no point of the surface."""
    axis = towards / max(float(np.linalg.norm(towards)), 1e-12)
    u = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    u /= max(float(np.linalg.norm(u)), 1e-12)
    flat = surface.points @ np.stack([u, np.cross(axis, u)], 1)
    cell = max(2.0 * surface.spacing, float(np.ptp(flat, axis=0).max()) / 1000.0)
    at = np.floor((flat - flat.min(0)) / cell).astype(int) + 2
    seen = np.zeros(at.max(0) + 3, bool)
    seen[at[:, 0], at[:, 1]] = True
    seen = binary_closing(seen)
    outline = binary_fill_holes(seen)
    return float((outline & ~seen).sum() / outline.sum())
