"""A still scene that rays meet in closed form: a wall, a floor and boxes before a camera at rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from hardware.realsense.profiles import CameraModel, Mode

__all__ = ["Scene", "StillScene", "View", "cast"]

View = tuple[np.ndarray | None, np.ndarray | None]  # depth and colour as far as the stream needs them

WALL, FLOOR = 2.2, 0.6  # z of the wall and y of the floor in the depth imager's optical frame [m]
#: centre and half size in the same frame [m], colour
BOXES = (
    ((0.12, 0.05, 1.1), (0.18, 0.15, 0.10), (200, 60, 40)),
    ((-0.45, 0.20, 1.5), (0.15, 0.25, 0.15), (40, 110, 200)),
    ((0.05, -0.35, 1.8), (0.30, 0.08, 0.05), (60, 180, 80)),
)


class Scene(Protocol):
    """What an emulated camera looks at.

    Attributes:
        version: counts new views.
    """

    @property
    def version(self) -> int: ...

    def view(self, stream: str, mode: Mode) -> View | None:
        """Depth [m], shape (h, w), and colour, shape (h, w, 3), of an imager; None until there is a first view."""

    def close(self) -> None:
        """Free what it took."""


def cast(
    K: np.ndarray, width: int, height: int, position: Sequence[float] = (0.0, 0.0, 0.0)
) -> tuple[np.ndarray, np.ndarray]:
    """What a camera without distortion sees of the scene.

    Args:
        K: camera matrix, shape (3, 3) [pixels]; integer coordinates are pixel centres.
        position: of the camera in the scene's frame, axes parallel [m].

    Returns:
        depth along z, shape (height, width) [m]; colour, shape (height, width, 3) uint8.
    """
    eye = np.asarray(position, dtype=float)
    # Columns share their slope in x and rows theirs in y; rays are (x, y, 1), so that length is depth.
    x = (np.arange(width) - K[0, 2])[None, :] / K[0, 0]
    y = (np.arange(height) - K[1, 2])[:, None] / K[1, 1]
    z = np.full((height, width), WALL - eye[2])
    stripes = (np.floor((eye[0] + z * x) / 0.1) + np.floor((eye[1] + z * y) / 0.1)) % 2
    rgb = np.where(stripes[..., None] > 0, (170, 165, 150), (110, 105, 95)).astype(np.uint8)
    with np.errstate(divide="ignore", invalid="ignore"):
        floor = np.broadcast_to(np.where(y > 0, (FLOOR - eye[1]) / y, np.inf), z.shape)
        nearer = floor < z
        z = np.where(nearer, floor, z)
        rgb[nearer] = (90, 75, 60)
        for centre, half, colour in BOXES:
            low, high = np.subtract(centre, half) - eye, np.add(centre, half) - eye
            near = np.full(z.shape, low[2])
            far = np.full(z.shape, high[2])
            for slope, a, b in ((x, low[0], high[0]), (y, low[1], high[1])):
                first, last = np.minimum(a / slope, b / slope), np.maximum(a / slope, b / slope)
                near, far = np.maximum(near, first), np.minimum(far, last)
            hit = (near <= far) & (near > 0) & (near < z)
            z = np.where(hit, near, z)
            rgb[hit] = colour
    return z.astype(np.float32), rgb


class StillScene:
    """Views of the scene by the imagers of a camera model; each is computed once.

    Attributes:
        version: counts new views; here always 1.
    """

    version = 1

    def __init__(self, model: CameraModel) -> None:
        self._model = model
        self._views: dict[tuple[str, Mode], tuple] = {}

    def view(self, stream: str, mode: Mode) -> tuple[np.ndarray, np.ndarray]:
        """Depth [m], shape (h, w), and colour, shape (h, w, 3), of an imager."""
        key = stream, mode
        if key not in self._views:
            imager = self._model.stream(stream)
            self._views[key] = cast(imager.intrinsics(mode), mode.width, mode.height, imager.position)
        return self._views[key]

    def close(self) -> None:
        """Nothing to free."""
