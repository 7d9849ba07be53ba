"""The surface of an object at rest: points with a colour and an outward normal each."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from config.whole_file import whole_file

__all__ = ["COLUMNS", "Surface", "export_cloud", "load_surface", "save_surface"]

#: the columns of `Surface.features`
COLUMNS = ("x", "y", "z", "red", "green", "blue", "normal_x", "normal_y", "normal_z")
FORMAT = "refit surface 1"


@dataclass(frozen=True, eq=False)
class Surface:
    """Points of the surface at rest.

    Attributes:
        points: (n, 3) [m]. colours: (n, 3), 0 to 1. normals: (n, 3) unit, out of the object.

    Raises:
        ValueError: shapes that do not fit, fewer than three points, values that are not finite, colours beyond 0 to 1, normals whose
            length is not 1.
    """

    points: np.ndarray
    colours: np.ndarray
    normals: np.ndarray

    def __post_init__(self) -> None:
        for name in ("points", "colours", "normals"):
            array = np.ascontiguousarray(getattr(self, name), float)
            object.__setattr__(self, name, array)
            if array.ndim != 2 or array.shape[1] != 3 or len(array) != len(self.points):
                raise ValueError(
                    f"a surface has points, colours and normals of one shape (n, 3), found {name} of {array.shape}"
                )
            if not np.isfinite(array).all():
                bad = int(np.flatnonzero(~np.isfinite(array).all(1))[0])
                raise ValueError(f"a surface's {name} are finite, but those of point {bad} are {array[bad]}")
        if len(self.points) < 3:
            raise ValueError(f"a surface has at least three points, found {len(self.points)}; scan the object again")
        if self.colours.min() < 0.0 or self.colours.max() > 1.0:
            raise ValueError(
                f"colours are from 0 to 1, found {self.colours.min():.3g} to {self.colours.max():.3g}; divide bytes by 255"
            )
        length = np.linalg.norm(self.normals, axis=1)
        if np.abs(length - 1.0).max() > 1e-6:
            worst = int(np.argmax(np.abs(length - 1.0)))
            raise ValueError(f"normals are unit vectors, but that of point {worst} is {length[worst]:.6g} long")

    def __len__(self) -> int:
        return len(self.points)

    @functools.cached_property
    def features(self) -> np.ndarray:
        """(n, 9): COLUMNS, what a point model is told of each point."""
        return np.hstack([self.points, self.colours, self.normals])

    @functools.cached_property
    def tree(self) -> cKDTree:
        """The points as a tree, for neighbours."""
        return cKDTree(self.points)

    @functools.cached_property
    def spacing(self) -> float:
        """Median distance of a point to its third neighbour [m]."""
        return float(np.median(self.tree.query(self.points, min(4, len(self)))[0][:, -1]))

    def pressed(self, displacement: np.ndarray) -> Surface:
        """With each point moved in along its inward normal by so much (n,) [m]; normals stay those at rest.

        Raises:
            ValueError: another number of displacements.
        """
        moved = np.asarray(displacement, float)
        if moved.shape != (len(self),):
            raise ValueError(f"a surface of {len(self)} points is pressed by as many displacements, not {moved.shape}")
        return Surface(self.points - moved[:, None] * self.normals, self.colours, self.normals)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """Index of the surface's point nearest to each of points (..., 3), (...)."""
        return self.tree.query(np.asarray(points, float))[1]


def export_cloud(path: str | os.PathLike[str], surface: Surface) -> Path:
    """Write points and colours as a PLY file, which viewers of clouds open."""
    import trimesh  # half a second, for those who export

    colours = np.round(255.0 * np.clip(surface.colours, 0.0, 1.0)).astype(np.uint8)
    content = trimesh.PointCloud(surface.points, colors=colours).export(file_type="ply")
    with whole_file(path) as partial:
        partial.write_bytes(content)
    return Path(path)


def save_surface(path: str | os.PathLike[str], surface: Surface) -> Path:
    """Write a file, whole or not at all, that `load_surface` reads."""
    with whole_file(path) as partial, open(partial, "wb") as file:
        arrays = {"points": surface.points, "colours": surface.colours, "normals": surface.normals}
        np.savez_compressed(file, format=np.array(FORMAT), **arrays)  # type: ignore[arg-type]
    return Path(path)


def load_surface(path: str | os.PathLike[str]) -> Surface:
    """The surface that `save_surface` wrote.

    Raises:
        FileNotFoundError: there is no such file. ValueError: it holds something else.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"a surface is expected at {path}, and nothing is there")
    try:
        with np.load(path, allow_pickle=False) as found:
            if str(found["format"]) != FORMAT:
                raise ValueError(f"its format is {found['format']}")
            return Surface(found["points"], found["colours"], found["normals"])
    except (KeyError, OSError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path} holds no surface ({FORMAT}): {error}") from error
