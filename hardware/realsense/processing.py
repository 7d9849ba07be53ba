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


def cloud_points(vertices: np.ndarray, texture: np.ndarray | None, image: np.ndarray | None, settings: PointCloud) -> np.ndarray:
    """The buffer of a point cloud, made at once.

    Args:
        vertices: shape (n, 3) float32 [m]; z = 0 without a measurement.
        texture: coordinates of each vertex in the colour image, shape (n, 2), 0 to 1 inside.
        image: colour, shape (h, w, 3) uint8.

    Returns:
        Shape (m, 5) float32, see `records.Cloud`; m = n if ordered, else the points kept.
    """
    # np.take and whole columns throughout: fancy indexing of rows costs three times as much.
    keep = np.arange(len(vertices)) if settings.ordered else np.flatnonzero(vertices[:, 2] > 0.0)
    if texture is not None:
        h, w = image.shape[:2]
        u, v = (np.take(texture[:, k], keep) for k in (0, 1))
        for coordinate, size in ((u, w), (v, h)):
            coordinate *= size
            coordinate += 0.5
        seen = (u >= 0) & (u < w) & (v >= 0) & (v < h)
        u[~seen] = v[~seen] = 0.0       # whoever is not seen may be anywhere, infinity included
    points = np.zeros((len(keep), 5), np.float32)
    points[:, :3] = vertices if settings.ordered else np.take(vertices, keep, axis=0)
    if texture is not None:
        channels, flat = points.view(np.uint8).reshape(-1, 20), image.reshape(-1)
        at = 3 * (v.astype(np.int32) * w + u.astype(np.int32))
        for channel, byte in enumerate((18, 17, 16)):       # 0x00RRGGBB, little endian
            channels[:, byte] = np.take(flat, at + channel)
        if settings.keep_untextured or settings.ordered:
            points[~seen, 4] = 0.0
        elif not seen.all():
            points = np.take(points, np.flatnonzero(seen), axis=0)
    if settings.ordered:
        valid = points[:, 2] > 0.0
        if texture is not None and not settings.keep_untextured:
            valid &= seen
        points[~valid, :3] = np.nan
    return points
