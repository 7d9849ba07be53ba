"""The velocity limit of servos that take current, where the actuator is: how much duty their bridge may use.

A servo in current mode keeps its goal current for as long as nobody says otherwise, and has none once its watchdog has
expired: while the driver stands still, its joint speeds up under the old current or falls under its load, whatever the
limit says. The register Velocity Limit (44) bounds goal velocities alone; Goal PWM (100) bounds the duty in every mode. A
winding that gets no more than u of the supply V brakes what is faster than u V / k_e, with k_t k_e / R per rad/s. So
a servo may use the duty that its goal current takes now, and a little more:

    u = (WARM R |i| + k_e |v|) / V + LEAST

Source: ROBOTIS e-manual, XM430-W350, Velocity Limit (44), Goal PWM (100).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware.dynamixel.joints import GroupState, JointArrays, some

__all__ = ["DutyCeiling"]

WARM = 1.3  # resistance of a copper winding at 100 deg C over that at 25
LEAST = 0.04  # of duty that is always to spare: 0.2 rad/s of an XM430-W350 at 12 V
MORE = 0.12  # of duty beyond that where a ceiling is lifted: it takes bytes of the bus ahead of a goal
MUCH = 0.15  # of duty above what is needed, from which on a ceiling is taken down, behind a goal
SPACING, REPEAT = 0.1, 2.0  # [s] at least between two such writes, and at most: nobody confirms them


class DutyCeiling:
    """See the module's docstring.

    Args:
        arrays: of the joints, n.
        which: servos in current mode, indices (m,).
        affordable: False: the bus is too slow for it, and all servos may use all of their duty.

    Attributes:
        duty: that each servo may use, shape (n,) in (0, 1].
    """

    def __init__(self, arrays: JointArrays, which: Sequence[int] | np.ndarray, affordable: bool = True) -> None:
        self._arrays, self._which, self._affordable = arrays, np.asarray(which), affordable
        self.duty = np.zeros(len(arrays.zero))
        self._said = -np.inf  # state's time when all were sent last [s]

    def lifted(self, state: GroupState, effort: np.ndarray) -> bool:
        """Whether the efforts (n,) [N m] take more than the servos may use: `duty` has to be sent before them."""
        needed = self._needed(state, effort)
        if not some((needed > self.duty)[self._which]):
            return False
        self.duty = np.minimum(np.maximum(self.duty, needed + MORE), 1.0)  # of all: they are sent together
        return True

    def lowered(self, state: GroupState, effort: np.ndarray) -> bool:
        """Whether `duty`, which is now what these efforts take, has to be sent."""
        elapsed = state.t - self._said
        if elapsed < SPACING:
            return False
        needed = self._needed(state, effort)
        if elapsed < REPEAT and not some((needed < self.duty - MUCH)[self._which]):
            return False
        self.duty, self._said = needed, state.t
        return True

    def _needed(self, state: GroupState, effort: np.ndarray) -> np.ndarray:
        """The duty of the module's docstring, (n,); 1 where the state is not known."""
        if not self._affordable:
            return np.ones_like(self.duty)
        a = self._arrays
        volts = WARM * a.resistance * np.abs(effort / a.k_t) + np.abs(a.back_emf * state.qd)
        duty = volts / np.maximum(state.voltage, 1.0) + LEAST
        return np.where(np.isfinite(duty), np.minimum(duty, 1.0), 1.0)
