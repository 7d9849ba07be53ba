"""What is seen of grains: heights over a grid, and colour and depth as a pinhole camera sees them.

    heights, body = height_map(world, low=(-0.3, -0.2), high=(0.3, 0.2), cell=0.005)
    picture = draw(world.spheres, camera, colours)                 # colour (h, w, 3), depth (h, w), body (h, w)

Spheres may come from a world (`GranularWorld.spheres`) or from a message that tells of them; lengths in metres, the world's axes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim_core.codegen.library import pointer
from sim_core.granular.on_threads import kernels
from sim_core.granular.world import Spheres

__all__ = ["Camera", "Picture", "draw", "height_map", "shaded"]

_F, _I32 = ctypes.c_float, ctypes.c_int32
#: share of light that has no direction
AMBIENT = 0.45
#: where light comes from
LIGHT = np.array([0.3, -0.25, 0.92])


@dataclass(frozen=True)
class Camera:
    """A pinhole camera.

    Attributes:
        position: (3,) [m]. axes: columns point right, down and forward (3, 3). K: intrinsics (3, 3) [pixel].
        width, height: [pixel].
    """

    position: np.ndarray
    axes: np.ndarray
    K: np.ndarray
    width: int
    height: int

    @classmethod
    def above(cls, middle: Sequence[float], height: float, width: float, pixels: Sequence[int]) -> Camera:
        """One that looks straight down from `height` [m] above a middle (3,), whose picture's x is the world's x and spans `width` [m]."""
        focal = pixels[0] * height / width
        K = np.array([[focal, 0.0, 0.5 * (pixels[0] - 1)], [0.0, focal, 0.5 * (pixels[1] - 1)], [0.0, 0.0, 1.0]])
        position = np.asarray(middle, float) + np.array([0.0, 0.0, height])
        return cls(position, np.diag([1.0, -1.0, -1.0]), K, int(pixels[0]), int(pixels[1]))


@dataclass(frozen=True)
class Picture:
    """Attributes:
    depth: along the optical axis (h, w) [m]; inf: nothing. body: number of the body there (h, w); -1: none.
    normal: of the surface in the world (h, w, 3).
    """

    depth: np.ndarray
    body: np.ndarray
    normal: np.ndarray


def height_map(
    spheres: Spheres, low: Sequence[float], high: Sequence[float], cell: float, bottom: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Height of the highest sphere over the middles of square cells.

    Args:
        low, high: corners in x and y (2,) [m]. cell: [m]. bottom: height where no sphere is [m].

    Returns:
        Heights (nx, ny) [m], x first, and the number of the body there, -1 where none is.
    """
    nx, ny = (max(1, round((b - a) / cell)) for a, b in zip(low, high))
    heights, body = np.empty((nx, ny), np.float32), np.empty((nx, ny), np.int32)
    seen = spheres.as_world()
    kernels()._dll.refit_granular_heights(  # type: ignore[union-attr]
        seen.address,
        _F(low[0] + 0.5 * cell),
        _F(low[1] + 0.5 * cell),
        _F(cell),
        _I32(nx),
        _I32(ny),
        _F(bottom),
        pointer(heights),
        pointer(body),
    )
    return heights, body


def draw(spheres: Spheres, camera: Camera, over: np.ndarray | None = None) -> Picture:
    """Spheres as a camera sees them.

    Args:
        over: depth of what else is seen (h, w) [m]; spheres behind it are hidden. None: nothing else.
    """
    shape = camera.height, camera.width
    depth = np.full(shape, np.inf, np.float32) if over is None else np.array(over, np.float32)
    if depth.shape != shape:
        raise ValueError(f"the depth drawn over has the picture's shape {shape}, not {depth.shape}")
    body, normal = np.full(shape, -1, np.int32), np.zeros((*shape, 3), np.float32)
    K = camera.K
    numbers = np.array(
        [*camera.position, *np.asarray(camera.axes).ravel(), K[0, 0], K[1, 1], K[0, 2], K[1, 2]], np.float32
    )
    seen = spheres.as_world()
    kernels()._dll.refit_granular_draw(  # type: ignore[union-attr]
        seen.address,
        pointer(numbers),
        _I32(camera.width),
        _I32(camera.height),
        pointer(depth),
        pointer(body),
        pointer(normal),
    )
    return Picture(depth, body, normal)


def shaded(picture: Picture, colours: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Colours of a picture (h, w, 3), 0 to 255.

    Args:
        colours: of each body (n, 3), 0 to 1. background: what is seen where no body is (h, w, 3) or (3,), 0 to 255.
    """
    light = LIGHT / np.linalg.norm(LIGHT)
    bright = AMBIENT + (1.0 - AMBIENT) * np.clip(picture.normal @ light, 0.0, 1.0)
    shape = picture.body.shape
    seen = np.broadcast_to(np.asarray(background, float), (*shape, 3)).copy()
    is_ = picture.body >= 0
    seen[is_] = 255.0 * np.asarray(colours)[picture.body[is_]] * bright[is_, None]
    return np.clip(seen, 0.0, 255.0).astype(np.uint8)
