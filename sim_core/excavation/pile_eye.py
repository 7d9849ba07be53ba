"""Pictures of the pile as the networks know them, of what a camera over an arm sees: straight from above, without the arm, with the bucket.

    eye = PileEye()
    eye.look(colour, depth, K, camera)          # before the arm comes
    eye.look(colour, depth, K, camera, pose)    # and again and again, while it hides a part
    eye.picture(pose)

What the arm hides stays as it was seen last. The bucket is painted where it was measured to be, as in the pictures that the networks
learnt from.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.excavation.bucket import Bucket
from sim_core.excavation.overhead_picture import BUCKET, View, over_blocks
from sim_core.perception.from_above import from_above

__all__ = ["FIRST", "LATER", "PileEye"]

#: share of the pixels near which something of the pile has to be seen, at first and while the arm is there; how near that is, in pixels
FIRST, LATER, NEAR = 0.9, 0.25, 3
#: over the surface no block is so high: what is seen there is the arm [m]. Around the bucket, what is still taken for it [m], and
#: over the bucket, what holds it, so far from its middle [m].
HIGH, AROUND, HOLDER = 0.07, 0.012, 0.1
#: light on the bucket's level parts, in the mean over the lamps of the pictures that were learnt from
LIT = 0.88


class PileEye:
    """See the module's docstring.

    Attributes:
        ground: colours of the pile without the bucket (nx, ny, 3), bytes; None: not seen yet. heights: of it over the surface (nx, ny) [m], 0
            where it is not known.
    """

    def __init__(self, view: View = View(), bucket: Bucket = Bucket()) -> None:
        self.view, self._points, self._bucket = view, bucket.surface(), bucket
        self.ground: np.ndarray | None = None
        self.heights = np.full(view.shape, -np.inf)

    def remember(self, picture: np.ndarray) -> None:
        """Begin with the last picture of a trial that was interrupted, (nx, ny, 3) of bytes."""
        self.ground, self.heights = picture.copy(), np.zeros(self.view.shape)

    def look(
        self, colour: np.ndarray, depth: np.ndarray, K: np.ndarray, camera: np.ndarray, pose: np.ndarray | None = None
    ) -> None:
        """A picture of the camera's.

        Args:
            colour: (h, w, 3) uint8. depth: along the optical axis (h, w) [m]; NaN: not measured. K: intrinsics (3, 3) [pixel].
            camera: pose of the optical frame (x right, y down, z forward) in the pile's frame (4, 4) [m].
            pose: of the bucket (4,) [m, m, m, rad]; None: it is not in the picture.

        Raises:
            ValueError: pictures of different sizes, or too little of the pile is seen; the text says how much.
        """
        nx, ny = self.view.shape
        pile = np.where(self._is_arm(depth, K, camera, pose), np.nan, depth)
        low = np.array(self.view.low)
        found = from_above(colour, pile, K, camera[:3, 3], camera[:3, :3], low, self.view.cell, (ny, nx))
        least, share = (FIRST if self.ground is None else LATER), found.seen(NEAR)
        if share < least:
            raise ValueError(
                f"the camera sees {100 * share:.0f} % of the pile, at least {100 * least:.0f} % are needed: move what stands before it, "
                "and check where the camera is said to be"
            )
        seen = (found.away <= NEAR).T
        before = found.colour.transpose(1, 0, 2) if self.ground is None else self.ground
        self.ground = np.where(seen[..., None], found.colour.transpose(1, 0, 2), before)
        self.heights = np.where(seen, found.height.T, self.heights)

    def picture(self, pose: np.ndarray) -> np.ndarray:
        """The pile with the bucket at a pose (4,), (nx, ny, 3) of bytes.

        Raises:
            RuntimeError: nothing was seen yet.
        """
        if self.ground is None:
            raise RuntimeError("expected a pile that was seen, found none: look first")
        points = self._points @ _turn(pose).T + pose[:3]
        _, body = over_blocks(self.heights, np.full(self.view.shape, -1), points, self.view)
        found = self.ground.copy()
        found[body == -2] = np.round(255.0 * LIT * BUCKET).astype(np.uint8)
        return found

    def _is_arm(self, depth: np.ndarray, K: np.ndarray, camera: np.ndarray, pose: np.ndarray | None) -> np.ndarray:
        """Pixels (h, w) in which something over the pile is seen, or the bucket."""
        v, u = np.mgrid[0 : depth.shape[0], 0 : depth.shape[1]]
        rays = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones(depth.shape)], -1)
        points = (depth[..., None] * rays) @ camera[:3, :3].T + camera[:3, 3]
        there = points[..., 2] > HIGH
        if pose is not None:
            b = self._bucket
            half = np.array([0.5 * b.length + b.tooth, 0.5 * b.width + b.wall, 0.5 * b.height + b.wall]) + AROUND
            own = (points - pose[:3]) @ _turn(pose)
            there |= (np.abs(own) <= half).all(-1)
            there |= (own[..., 2] > half[2]) & (np.hypot(own[..., 0], own[..., 1]) < HOLDER)
        return there


def _turn(pose: np.ndarray) -> np.ndarray:
    return Rotation.from_rotvec([0.0, pose[3], 0.0]).as_matrix()
