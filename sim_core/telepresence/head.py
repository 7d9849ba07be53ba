"""A neck of three joints that follows the operator's head.

    neck = Neck(lower, upper)
    neck.centre(headset)                          # what the operator looks at now is straight ahead
    q = neck.follow(headset, dt)                  # yaw, pitch, roll

The headset's turn away from where it was centred is the head's turn, in the robot's axes. Where the operator is lost, the head
keeps its last pose.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.3, and its predecessor, whose neck was relative to the
headset's pose at the last reset.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.telepresence.clutch import OPENXR, Pose

__all__ = ["Neck"]


class Neck:
    """Args:
        lower, upper: limits of yaw, pitch and roll (3,) [rad].
        speed: at most (3,) or one [rad/s].
        offset: yaw, pitch and roll of straight ahead (3,) [rad]; may be changed at any time.

    Attributes:
        q: where the joints are told to be (3,) [rad].
        offset: as above.

    Raises:
        ValueError: wrong shapes, or limits that leave no room.
    """

    def __init__(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        speed: float | np.ndarray = 3.0,
        offset: np.ndarray | tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> None:
        self.lower, self.upper = np.asarray(lower, float), np.asarray(upper, float)
        if self.lower.shape != (3,) or self.upper.shape != (3,) or not (self.lower < self.upper).all():
            raise ValueError(f"expected three limits each, lower below upper, found {lower} and {upper}")
        self.speed = np.broadcast_to(np.asarray(speed, float), (3,))
        self.offset = np.asarray(offset, float)
        self._ahead: np.ndarray | None = None
        self.q = np.clip(self.offset, self.lower, self.upper)

    @property
    def centred(self) -> bool:
        return self._ahead is not None

    def centre(self, headset: Pose, axes: np.ndarray = OPENXR) -> None:
        """Where the headset looks now, seen from above, is straight ahead: its inclination is the operator's own."""
        forward = (axes @ headset.rotation @ axes.T)[:, 0]
        self._ahead = Rotation.from_euler("z", np.arctan2(forward[1], forward[0])).as_matrix()

    def start_at(self, q: np.ndarray) -> None:
        """The joints are there (3,) [rad]: what follows goes on from it."""
        self.q = np.clip(np.asarray(q, float), self.lower, self.upper)

    def follow(self, headset: Pose | None, dt: float, axes: np.ndarray = OPENXR) -> np.ndarray:
        """Yaw, pitch and roll (3,) [rad] after `dt` [s]; None, or a headset that was never centred: as they were."""
        if headset is not None and self._ahead is not None:
            turn = self._ahead.T @ axes @ headset.rotation @ axes.T
            yaw, pitch, roll = Rotation.from_matrix(turn).as_euler("ZYX")
            wanted = np.clip(np.array([yaw, pitch, roll]) + self.offset, self.lower, self.upper)
            most = self.speed * dt
            self.q = self.q + np.clip(wanted - self.q, -most, most)
        return self.q
