"""A camera's picture as one looks straight down on the tray: what a model of scoops is shown.

    picture = rectified(colour, depth, K, camera, tray)

Every measured pixel is put where it is in the tray; where several fall together the highest is kept, and gaps take what is nearest.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt

from sim_core.scooping.arm.tray import Tray
from sim_core.scooping.bed.rendering import PIXEL, Picture
from sim_core.telepresence.clutch import Pose

__all__ = ["SEEN", "rectified"]

#: share of the tray's cells near which something has to be measured, and how near that is, in cells
SEEN, NEAR = 0.9, 4


def rectified(
    colour: np.ndarray, depth: np.ndarray, K: np.ndarray, camera: Pose, tray: Tray, pitch: float = PIXEL
) -> Picture:
    """The tray from above.

    Args:
        colour: (h, w, 3) uint8. depth: along the optical axis (h, w) [m]; NaN: not measured. K: intrinsics (3, 3) [pixel].
        camera: pose of the optical frame (x right, y down, z forward) in the world. pitch: width of the cells [m].

    Raises:
        ValueError: pictures of different sizes, or too little of the tray is seen; the text says how much.
    """
    if colour.shape != (*depth.shape, 3) or colour.dtype != np.uint8:
        raise ValueError(
            f"expected colours (h, w, 3) uint8 and depths (h, w), found {colour.shape} {colour.dtype}, {depth.shape}"
        )
    v, u = np.nonzero(np.isfinite(depth))
    z = depth[v, u]
    rays = np.column_stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones_like(z)])
    points = tray.to_tray(camera.position + (z[:, None] * rays) @ camera.rotation.T)
    columns, rows = (round(side / pitch) for side in tray.size[:2])
    origin = -0.5 * np.array(tray.size[:2])
    at = np.floor((points[:, :2] - origin) / pitch).astype(int)
    inside = (at >= 0).all(1) & (at < [columns, rows]).all(1)
    order = np.argsort(points[inside, 2], kind="stable")  # the highest is written last
    cell = (at[inside, 1] * columns + at[inside, 0])[order]
    height, painted = np.full(rows * columns, np.nan), np.zeros((rows * columns, 3), np.uint8)
    height[cell] = points[inside, 2][order]
    painted[cell] = colour[v[inside], u[inside]][order]
    empty = np.isnan(height).reshape(rows, columns)
    away, nearest = (
        distance_transform_edt(empty, return_indices=True) if not empty.all() else (np.full((1, 1), np.inf), None)
    )
    share = float((away <= NEAR).mean())
    if share < SEEN:
        raise ValueError(
            f"the camera sees {100 * share:.0f} % of the tray, at least {100 * SEEN:.0f} % are needed: move what stands before it, and "
            "check where the camera is said to be"
        )
    i, j = nearest  # type: ignore[misc]
    return Picture(
        painted.reshape(rows, columns, 3)[i, j], height.reshape(rows, columns)[i, j].astype(np.float32), origin, pitch
    )
