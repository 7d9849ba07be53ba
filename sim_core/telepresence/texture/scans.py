"""A scan of a surface that is known, with nothing drawn: pictures of the avatar's wrist camera from somewhere before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.telepresence.texture.depth_pictures import camera_matrix, depth_pictures, surface_view
from sim_core.telepresence.texture.height_map import HeightMap, height_map
from sim_core.telepresence.texture.surfaces import TextureSurface

__all__ = ["DISTANCES", "PICTURES", "TILT", "Scan", "random_scan", "true_heights"]

#: [m] and [rad] between which a wrist is held, and pictures of a scan
DISTANCES, TILT, PICTURES = (0.25, 0.35), np.deg2rad(25.0), 10
#: part of a picture of 480 rows and 58 degrees that a scan looks at [pixel]
PART = 280
K = camera_matrix(PART, PART, 2.0 * np.arctan(PART / 480 * np.tan(np.deg2rad(29.0))))


@dataclass(frozen=True, eq=False)
class Scan:
    """A height map, and what there truly was.

    Attributes:
        measured: the map. X_CS: pose of the surface in the optical frame (4, 4) [m].
    """

    measured: HeightMap
    X_CS: np.ndarray


def random_scan(surface: TextureSurface, rng: np.random.Generator, pictures: int = PICTURES) -> Scan:
    """A scan from a random place: DISTANCES, TILT in any direction, any turn about the normal.

    Raises:
        ScanError: there is no height map.
    """
    tilt = TILT * float(np.sqrt(rng.uniform()))
    X = surface_view(float(rng.uniform(*DISTANCES)), tilt, *map(float, rng.uniform(0.0, 2.0 * np.pi, 2)))
    return Scan(height_map(depth_pictures(surface, X, K, (PART, PART), pictures, rng), K), X)


def true_heights(surface: TextureSurface, X_CS: np.ndarray, measured: HeightMap) -> np.ndarray:
    """The surface's own heights (rows, columns) [m] at the nodes of a map, about their mean."""
    rows, columns = measured.heights.shape
    u, v = (np.arange(n) - n // 2 for n in (columns, rows))
    X = np.linalg.inv(X_CS) @ measured.X_CP
    nodes = measured.pitch * np.stack(np.meshgrid(u, v), axis=-1) @ X[:3, :2].T + X[:3, 3]
    heights = surface.at(nodes[..., :2])
    return heights - heights.mean()
