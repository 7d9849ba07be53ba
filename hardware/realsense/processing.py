"""What is made of frames: filters, depth in the view of the colour camera, point clouds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyrealsense2 as rs

__all__ = ["Filters", "PointCloud", "cloud_points"]


@dataclass(frozen=True)
class Filters:
    """Which of the SDK's depth filters run, in the order the maker recommends.

    Attributes:
        clip_distance: depth beyond it becomes zero [m]; negative: off.
    """

    decimation: bool = False
    disparity: bool = False
    spatial: bool = False
    temporal: bool = False
    hole_filling: bool = False
    clip_distance: float = -2.0

    def build(self) -> list:
        """Processing blocks of the SDK; each has a state of its own."""
        chain = []
        if self.decimation:
            chain.append(rs.decimation_filter())
        if self.clip_distance > 0.0:
            chain.append(rs.threshold_filter(0.0, self.clip_distance))
        if self.disparity:
            chain.append(rs.disparity_transform(True))
        if self.spatial:
            chain.append(rs.spatial_filter())
        if self.temporal:
            chain.append(rs.temporal_filter())
        if self.disparity:
            chain.append(rs.disparity_transform(False))
        if self.hole_filling:
            chain.append(rs.hole_filling_filter())
        return chain


@dataclass(frozen=True)
class PointCloud:
    """How clouds are made.

    Attributes:
        ordered: keep the image's order, NaN where there is no depth.
        textured: colour each point from the colour image.
        keep_untextured: also points that the colour camera does not see (black).
    """

    ordered: bool = False
    textured: bool = True
    keep_untextured: bool = False


def cloud_points(
    vertices: np.ndarray, texture: np.ndarray | None, image: np.ndarray | None, settings: PointCloud
) -> np.ndarray:
    """The buffer of a point cloud, made at once.

    Args:
        vertices: shape (n, 3) float32 [m]; z = 0 without a measurement.
        texture: coordinates of each vertex in the colour image, shape (n, 2), 0 to 1 inside.
        image: colour, shape (h, w, 3) uint8.

    Returns:
        Shape (m, 5) float32, see `records.Cloud`; m = n if ordered, else the points kept.
    """
    # np.take, whole columns and sums in place: fancy indexing costs three times as much, and every array anew its pages.
    measured = vertices[:, 2] > 0.0
    pixel = seen = None
    if texture is not None and image is not None:
        pixel, seen = _pixels(texture, image)
        if not settings.keep_untextured:
            measured &= seen
    if settings.ordered:
        points = np.empty((len(vertices), 5), np.float32)
        for k in range(3):
            points[:, k] = np.where(measured, vertices[:, k], np.float32("nan"))
    else:
        keep = np.flatnonzero(measured)
        points, kept = np.empty((len(keep), 5), np.float32), np.take(vertices, keep, axis=0)
        for k in range(3):
            points[:, k] = kept[:, k]
        if pixel is not None and seen is not None:
            pixel, seen = np.take(pixel, keep), np.take(seen, keep) if settings.keep_untextured else None
    points[:, 3:] = 0.0
    if pixel is not None and image is not None:
        colour = _colours(image, pixel)
        points.view(np.uint32)[:, 4] = colour if seen is None else colour * seen
    return points


def _pixels(texture: np.ndarray, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest pixel of each texture coordinate as an index into the image's pixels, and whether there is one, shape (n,) each."""
    h, w = image.shape[:2]
    columns = []
    for k, size in ((0, w), (1, h)):
        # Conversion to integers rounds towards 0: 1 is added to round what lies just outside down, as all else.
        place = texture[:, k] * np.float32(size)
        place += np.float32(1.5)
        with np.errstate(invalid="ignore"):  # whoever is not seen may be anywhere, infinity included
            column = place.astype(np.int32)
        column -= 1
        columns.append(column)
    u, v = columns
    seen = u.view(np.uint32) < w
    seen &= v.view(np.uint32) < h
    v *= w
    v += u
    return v, seen


def _colours(image: np.ndarray, pixel: np.ndarray) -> np.ndarray:
    """0x00RRGGBB of pixels, uint32 (n,); of one that is not there, that of another."""
    # Four bytes at every third: R, G, B and one too many, which the last pixel needs as well.
    padded = np.empty(image.size + 1, np.uint8)
    padded[:-1] = image.reshape(-1)
    padded[-1] = 0
    words = np.ndarray(image.size // 3, "<u4", buffer=padded, strides=(3,))
    colour = np.take(words, pixel, mode="clip")
    colour.byteswap(inplace=True)
    colour >>= 8
    return colour
