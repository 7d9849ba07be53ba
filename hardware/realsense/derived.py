"""What is made of images: depth in the view of the colour camera, point clouds. Each has a thread of its own.

A thread takes the newest images: where a machine is too slow for all of them, images are on time and some clouds are
left out, counted as `align_skipped` and `cloud_skipped`. Of a recording that is read as fast as can be none is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyrealsense2 as rs

from hardware.link import Counters
from hardware.realsense.latest import LatestWins
from hardware.realsense.processing import PointCloud, cloud_points
from hardware.realsense.records import Cloud, Image, Rgbd
from hardware.realsense.streams import image_of

__all__ = ["Derived"]


class _Pictures(NamedTuple):
    """Frames of the SDK, the records of their images by stream, and when the SDK handed them over [s]."""

    frames: Any  # the set that depth and colour came in; None if depth came alone
    depth: Any
    color: Any  # None if depth came alone
    images: dict[str, Image]
    arrival: float


class Derived:
    """See the module's docstring. From `close` on no frame is referenced any more.

    Args:
        align, rgbd: whether aligned depth, and both images as one record, are wanted.
        cloud: how point clouds are made; None: none.
        lossless: wait for the threads rather than leave something out.
        on_sample: called as on_sample(record, t) on the threads.
        counters: of the device.
    """

    def __init__(
        self, align: bool, rgbd: bool, cloud: PointCloud | None, lossless: bool, on_sample: Callable, counters: Counters
    ) -> None:
        self.align, self.rgbd, self.cloud, self.lossless, self.on_sample = align, rgbd, cloud, lossless, on_sample
        self._align, self._points = rs.align(rs.stream.color), rs.pointcloud()
        self._lenses: dict = {}
        self._aligned = (
            LatestWins(self._make_aligned, lambda: counters.add("align_skipped"), "camera align")
            if align or rgbd
            else None
        )
        self._clouds = (
            LatestWins(partial(self._make_cloud, cloud), lambda: counters.add("cloud_skipped"), "camera cloud")
            if cloud
            else None
        )
        self._workers = [worker for worker in (self._aligned, self._clouds) if worker is not None]

    def offer(self, depth: Any, color: Any, images: dict[str, Image], arrival: float, frames: Any = None) -> None:
        """New images: frames of the SDK, colour None where depth comes alone."""
        of = _Pictures(frames, depth, color, images, arrival)
        for worker in self._workers:
            if frames is not None or worker is self._clouds:
                worker.offer(of, wait=self.lossless)

    def check(self) -> None:
        """Raise what a thread has raised."""
        for worker in self._workers:
            worker.check()

    @property
    def idle(self) -> bool:
        return all(worker.idle for worker in self._workers)

    def close(self) -> None:
        """End the threads; what they are at is finished."""
        for worker in self._workers:
            worker.close()

    # -- on the threads ----------------------------------------------------------------------------
    def _make_aligned(self, of: _Pictures) -> None:
        depth, color = of.images["depth"], of.images["color"]
        aligned = image_of(
            self._align.process(of.frames).get_depth_frame(),
            "aligned_depth_to_color",
            depth.t,
            of.arrival,
            self._lenses,
        )
        if self.align:
            self.on_sample(aligned, aligned.t)
        if self.rgbd:
            self.on_sample(Rgbd(color.t, of.arrival, color, aligned), color.t)

    def _make_cloud(self, how: PointCloud, of: _Pictures) -> None:
        depth, color, t = of.depth, of.color if how.textured else None, of.images["depth"].t
        if color is not None:
            self._points.map_to(color)
        points = self._points.calculate(depth)
        vertices = np.asanyarray(points.get_vertices(2))
        texture = image = None
        if color is not None:
            texture, image = np.asanyarray(points.get_texture_coordinates(2)), np.asanyarray(color.get_data())
        buffer = cloud_points(vertices, texture, image, how)
        width, height = (depth.get_width(), depth.get_height()) if how.ordered else (len(buffer), 1)
        self.on_sample(Cloud(t, of.arrival, buffer, width, height, color is not None, not how.ordered), t)
