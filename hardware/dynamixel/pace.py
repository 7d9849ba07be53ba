"""The velocity limit of servos that track positions by themselves: how far ahead of the joint a goal may be.

Such a servo drives towards its goal as its gains say, as fast as its motor can. So a goal advances from cycle to cycle
no faster than the joint may move; and as the joint itself comes near its velocity limit, the goal's lead over it falls,
linearly to nothing at the limit. The first bounds a joint that follows well, the second one that follows late and then
overshoots.

The shares are chosen on emulated servos, XM430-W350, XM540-W270, XL430-W250 and XL330-M288 with 0 to 0.03 kg m^2, free or with
a quarter of the stall torque against them, at 50, 100 and 250 Hz (test/hardware/dynamixel/test_motion_limits.py).
"""

from __future__ import annotations

import numpy as np

from hardware.dynamixel.commands import Goals
from hardware.dynamixel.joints import GroupState, JointArrays, some

__all__ = ["Pace"]

ADVANCE = 0.85  # of the velocity limit: how fast a goal moves
BAND = 0.2  # of the velocity limit, below it: where the lead falls


class Pace:
    """Holds position goals back, in place.

    Args:
        arrays: of the joints.
        max_velocity: of each joint, shape (n,) [rad/s]; infinite: its goals pass as they are.
    """

    def __init__(self, arrays: JointArrays, max_velocity: np.ndarray) -> None:
        self._paced = arrays.takes_position & np.isfinite(max_velocity)
        self._limit = np.where(self._paced, max_velocity, 1.0)
        self._any = some(self._paced)
        self._goal = np.full(len(max_velocity), np.nan)

    def forget(self) -> None:
        """The next goals set out from where the joints are."""
        self._goal[:] = np.nan

    def hold_back(self, state: GroupState, goals: Goals, dt: float) -> None:
        """The goals of this cycle; dt: since the last ones [s]."""
        if not self._any:
            return
        at = np.where(np.isnan(self._goal), state.q, self._goal)
        step = ADVANCE * self._limit * dt
        at = np.clip(goals.position, at - step, at + step)
        lead = at - state.q
        calm = np.clip((self._limit - np.abs(state.qd)) / (BAND * self._limit), 0.0, 1.0)
        at = np.where(lead * state.qd > 0.0, state.q + calm * lead, at)
        np.copyto(goals.position, at, where=self._paced)
        np.copyto(self._goal, goals.position)
