"""Point clouds where their camera is, in their own colours where they have any."""

from __future__ import annotations

from typing import Any

from nodes.framework.clouds import cloud_points
from nodes.view.stage.layer import Layer, Want
from nodes.view.stage.points import draw_points
from nodes.view.stage.stage import Stage

__all__ = ["CloudLayer"]

#: points that are drawn of one cloud
POINTS = 15000


class CloudLayer(Layer):
    """See the module's docstring."""

    wants = (Want("*", "sensor_msgs/msg/PointCloud2", period=0.2),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("cloud", "point clouds")

    def take(self, topic: str, message: Any, time: float) -> None:
        points, colours = cloud_points(message, POINTS)
        draw_points(self.stage, f"/cloud/{topic.strip('/')}", message.header.frame_id, points, colours, 0.006)
