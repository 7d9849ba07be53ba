"""A camera's picture as one looks straight down on the tray: what a model of scoops is shown.

picture = rectified(colour, depth, K, camera, tray)
"""

from __future__ import annotations

import numpy as np

from sim_core.perception.from_above import from_above
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
    columns, rows = (round(side / pitch) for side in tray.size[:2])
    origin = -0.5 * np.array(tray.size[:2])
    turn = tray.pose.rotation.T
    found = from_above(
        colour, depth, K, tray.to_tray(camera.position), turn @ camera.rotation, origin, pitch, (rows, columns)
    )
    if (share := found.seen(NEAR)) < SEEN:
        raise ValueError(
            f"the camera sees {100 * share:.0f} % of the tray, at least {100 * SEEN:.0f} % are needed: move what stands before it, and "
            "check where the camera is said to be"
        )
    return Picture(found.colour, found.height.astype(np.float32), origin, pitch)
