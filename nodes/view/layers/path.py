"""The path that the controller's tool shall follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.stage import Stage

__all__ = ["PathLayer"]

COLOUR = (90, 96, 105)


class PathLayer(Layer):
    """See the module's docstring."""

    wants = (Want("controller/path", "nav_msgs/msg/Path", Keep.FACTS),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("path", "path")

    def take(self, topic: str, message: Any, time: float) -> None:
        points = np.array([[p.pose.position.x, p.pose.position.y, p.pose.position.z] for p in message.poses])
        if len(points) < 2 or not np.isfinite(points).all():
            return
        X = self.stage.frames.pose(message.header.frame_id or "world")
        if X is not None:
            points = points @ X[:3, :3].T + X[:3, 3]
        segments = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
        self.stage.scene.add_line_segments("/path/line", segments, COLOUR, thickness=0.003)
