"""Points that a sensor saw, drawn where it is."""

from __future__ import annotations

import numpy as np

from nodes.view.stage.stage import Stage

__all__ = ["draw_points"]


def draw_points(
    stage: Stage, name: str, frame: str, points: np.ndarray, colours: np.ndarray, size: float
) -> np.ndarray | None:
    """Replace the points of a node of the scene.

    Args:
        name: of the node. frame: in which the points are. points: (N, 3) [m]. colours: (N, 3) of 0 to 255. size: [m].

    Returns:
        The points in the world (N, 3) [m]; None: nobody has said where the frame is, and nothing is drawn.
    """
    X = stage.frames.pose(frame)
    if X is None:
        return None
    world = (points @ X[:3, :3].T + X[:3, 3]).astype(np.float32)
    stage.scene.add_point_cloud(name, world, colours, point_size=size, point_shape="circle", point_shading="flat")
    return world
