"""A camera's picture as the networks know it: orthographic, straight from above, on the pixels of a `View`.

The networks saw the bucket in their pictures, but no arm. An arm that carries the bucket hides what is under it, and is seen as it is.
"""

from __future__ import annotations

import numpy as np

from sim_core.excavation.overhead_picture import View
from sim_core.perception.from_above import from_above

__all__ = ["SEEN", "rectified_view"]

#: share of the pixels near which something has to be measured, and how near that is, in pixels
SEEN, NEAR = 0.9, 3


def rectified_view(
    colour: np.ndarray, depth: np.ndarray, K: np.ndarray, camera: np.ndarray, view: View = View()
) -> np.ndarray:
    """The pile from above, (nx, ny, 3) of bytes.

    Args:
        colour: (h, w, 3) uint8. depth: along the optical axis (h, w) [m]; NaN: not measured. K: intrinsics (3, 3) [pixel].
        camera: pose of the optical frame (x right, y down, z forward) in the pile's frame (4, 4) [m].

    Raises:
        ValueError: pictures of different sizes, or too little of the pile is seen; the text says how much.
    """
    nx, ny = view.shape
    found = from_above(colour, depth, K, camera[:3, 3], camera[:3, :3], np.array(view.low), view.cell, (ny, nx))
    if (share := found.seen(NEAR)) < SEEN:
        raise ValueError(
            f"the camera sees {100 * share:.0f} % of the pile, at least {100 * SEEN:.0f} % are needed: move what stands before it, and "
            "check where the camera is said to be"
        )
    return np.ascontiguousarray(found.colour.transpose(1, 0, 2))
