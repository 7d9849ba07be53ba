"""Laser scans as points where the scanner is, red where near and blue where far."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.view.stage.layer import Layer, Want
from nodes.view.stage.points import draw_points
from nodes.view.stage.stage import Stage

__all__ = ["ScanLayer"]


class ScanLayer(Layer):
    """See the module's docstring."""

    wants = (Want("*", "sensor_msgs/msg/LaserScan", period=0.1),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("scan", "scans")

    def take(self, topic: str, message: Any, time: float) -> None:
        ranges = np.asarray(message.ranges, float)
        angles = message.angle_min + message.angle_increment * np.arange(len(ranges))
        seen = np.isfinite(ranges) & (ranges >= message.range_min) & (ranges <= message.range_max)
        r, a = ranges[seen], angles[seen]
        points = np.stack([r * np.cos(a), r * np.sin(a), np.zeros(len(r))], axis=1)
        nearness = 1.0 - np.clip(r / max(float(message.range_max), 1e-3), 0.0, 1.0)
        colours = np.stack([255 * nearness, np.full(len(r), 60.0), 255 * (1 - nearness)], axis=1).astype(np.uint8)
        draw_points(self.stage, f"/scan/{topic.strip('/')}", message.header.frame_id, points, colours, 0.012)
