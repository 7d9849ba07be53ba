"""A surface out of a noisy cloud is a shell some millimetres thick; this brings its points onto the middle of it."""

from __future__ import annotations

import numpy as np

from sim_core.elastic.surface import Surface

__all__ = ["settled"]


def settled(surface: Surface, neighbours: int, side: float = 0.0) -> Surface:
    """Each point moved along its normal onto the plane through its neighbours, and then averaged in cubes.

    Noise of a depth camera is along its view and far larger than the spacing of points, so that a shell has several layers, which a
    probe would meet at different displacements. On a surface of curvature radius R, neighbours within r pull a point in by
    r^2 / (4 R).

    Args:
        neighbours: whose mean is the plane's middle, the point among them. side: of the cubes [m]; 0: all points stay.

    Raises:
        ValueError: fewer neighbours than 3, or a side below 0.
    """
    if neighbours < 3 or not side >= 0.0:
        raise ValueError(f"expected 3 neighbours or more and a side of 0 or more, found {neighbours} and {side:g}")
    points, normals = surface.points, surface.normals
    near = surface.tree.query(points, min(neighbours, len(points)))[1]
    off = ((points - points[near].mean(axis=1)) * normals).sum(axis=1)
    points, colours = points - off[:, None] * normals, surface.colours
    if side > 0.0:
        _, cube = np.unique(np.floor(points / side).astype(np.int64), axis=0, return_inverse=True)
        count = np.bincount(cube.ravel())[:, None]
        points, colours, normals = (
            np.stack([np.bincount(cube.ravel(), column) for column in array.T], axis=1) / count
            for array in (points, colours, normals)
        )
    length = np.linalg.norm(normals, axis=1)
    kept = length > 0.5  # a cube with both sides of a thin sheet has no normal
    return Surface(points[kept], np.clip(colours[kept], 0.0, 1.0), normals[kept] / length[kept, None])
