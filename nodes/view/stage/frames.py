"""Where a frame is: a body or site of the robot as its joints have it, or what is fixed to one by /tf_static."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.frames.transforms import TransformBuffer, TransformError
from nodes.view.stage.robot_shape import RobotShape

__all__ = ["Frames"]


class Frames:
    """Poses in the world.

    Args:
        robot: None: only what is published is known.
    """

    def __init__(self, robot: RobotShape | None) -> None:
        self._robot = robot
        self._published = TransformBuffer()
        #: frame -> frame of the robot (or world) that it is fixed to, and its pose there (4, 4); None: not known
        self._fixed: dict[str, tuple[str, np.ndarray] | None] = {}

    def add_static(self, message: Any) -> None:
        """Take a tf2_msgs/TFMessage of /tf_static."""
        self._published.add_static(message)
        self._fixed.clear()

    def pose(self, frame: str) -> np.ndarray | None:
        """X_WF (4, 4) of a frame; None: nobody has said where it is."""
        frame = frame.lstrip("/")
        if frame not in self._fixed:
            self._fixed[frame] = self._anchor(frame)
        found = self._fixed[frame]
        if found is None:
            return None
        anchor, X_AF = found
        X_WA = np.eye(4) if anchor == "world" or self._robot is None else self._robot.pose(anchor)
        return None if X_WA is None else X_WA @ X_AF

    def _anchor(self, frame: str) -> tuple[str, np.ndarray] | None:
        own = self._robot.frames if self._robot is not None else frozenset()
        if frame in own or frame == "world":
            return frame, np.eye(4)
        best = None
        for anchor in (*own, "world"):
            try:
                X = self._published.lookup(anchor, frame)
            except TransformError:
                continue
            # Of several frames of the robot on the way the nearest is meant: the others may move against it.
            if best is None or np.linalg.norm(X[:3, 3]) < np.linalg.norm(best[1][:3, 3]):
                best = anchor, X
        return best
