"""A neck of three joints that follows the operator's head.

    neck = Neck(lower, upper)
    neck.centre(headset)                          # what the operator looks at now is straight ahead
    q = neck.follow(headset, dt)                  # yaw, pitch, roll

The headset's turn away from where it was centred is the head's turn, in the robot's axes. Where the operator is lost, the head
keeps its last pose: what he looked at may be what he comes back for, and nobody is startled by a head that moves by itself. It is put to
rest when somebody asks for it (`park`), until the next headset leads it.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.3, and its predecessor, whose neck was relative to the
headset's pose at the last reset.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.telepresence.clutch import OPENXR, Pose
from sim_core.telepresence.turns import yaw_pitch_roll

__all__ = ["Neck"]


class Neck:
    """Args:
        lower, upper: limits of yaw, pitch and roll (3,) [rad].
        speed: at most (3,) or one [rad/s].
        offset: yaw, pitch and roll of straight ahead (3,) [rad]; `set_offset` changes it at any time.
        rest: yaw, pitch and roll where it is parked (3,) [rad].

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
        rest: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        self.lower, self.upper = np.asarray(lower, float), np.asarray(upper, float)
        if self.lower.shape != (3,) or self.upper.shape != (3,) or not (self.lower < self.upper).all():
            raise ValueError(f"expected three limits each, lower below upper, found {lower} and {upper}")
        self.speed = np.broadcast_to(np.asarray(speed, float), (3,))
        self.offset = np.asarray(offset, float)
        self.rest, self._parks = np.asarray(rest, float), False
        if self.rest.shape != (3,) or (self.rest < self.lower).any() or (self.rest > self.upper).any():
            raise ValueError(f"park: expected angles within the neck's limits, {lower} to {upper} [rad], found {rest}")
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
        self.q, self._parks = np.clip(np.asarray(q, float), self.lower, self.upper), False

    def park(self) -> None:
        """From now on it goes to where it rests, until a headset leads it."""
        self._parks = True

    def set_offset(self, offset: Sequence[float]) -> str:
        """From now on straight ahead is yaw, pitch and roll (3,) [rad]; "" or the sentence why not, and then nothing changes."""
        for name, value, low, high in zip(("yaw", "pitch", "roll"), offset, self.lower, self.upper):
            if not low <= value <= high:
                return f"{name}: expected an angle within the neck's limits, {low:.2f} to {high:.2f} [rad], found {value:g}"
        self.offset = np.array(offset, float)
        return ""

    def follow(self, headset: Pose | None, dt: float, axes: np.ndarray = OPENXR) -> np.ndarray:
        """Yaw, pitch and roll (3,) [rad] after `dt` [s]; None, or a headset that was never centred: as they were, or parked."""
        wanted = self.rest if self._parks else self.q
        if headset is not None and self._ahead is not None:
            turn = self._ahead.T @ axes @ headset.rotation @ axes.T
            wanted, self._parks = np.clip(yaw_pitch_roll(turn) + self.offset, self.lower, self.upper), False
        most = self.speed * dt
        self.q = self.q + np.clip(wanted - self.q, -most, most)
        return self.q
