"""The velocity limit of servos that take current, where the actuator is: how much duty their bridge may use.

A servo in current mode keeps its goal current for as long as nobody says otherwise, and has none once its watchdog has
expired: while the driver stands still, its joint speeds up under the old current or falls under its load, whatever the
limit says. The register Velocity Limit (44) bounds goal velocities alone; Goal PWM (100) bounds the duty in every mode. A
winding that gets no more than u of the supply V pushes no more and then brakes what is faster than u V / k_e, with
k_t k_e / R per rad/s. So a servo may use the duty that its goal current takes now and a little more, and never more than
drives a joint that bears its mean current i_m at its velocity limit v_m:

    u = min((WARM R |i| + k_e |v|) / V + SPARE, (R |i_m| + k_e v_m) / V)

The second term makes the servo's own winding the bound on motion that nobody can talk around: full effort at rest, none
beyond the load's at the limit.

Source: ROBOTIS e-manual, XM430-W350, Velocity Limit (44), Goal PWM (100).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware.dynamixel.joints import GroupState, Joint, JointArrays

__all__ = ["DutyCeiling"]

WARM = 1.3  # resistance of a copper winding at 100 deg C over that at 25
SPARE = 0.04  # of duty that is always to spare: 0.2 rad/s of an XM430-W350 at 12 V; a winding that is cold has more
MEAN = 0.2  # [s] over which the current is averaged


class DutyCeiling:
    """See the module's docstring.

    Args:
        joints, arrays: of the group, n.
    """

    def __init__(self, joints: Sequence[Joint], arrays: JointArrays) -> None:
        self._arrays = arrays
        fastest = np.array([joint.max_velocity or np.inf for joint in joints])
        self._fastest_volts = np.abs(arrays.back_emf * fastest)
        self._mean = np.zeros(len(joints))  # of efforts [N m]
        self._t = np.nan  # of the newest state [s]

    def duty(self, state: GroupState, effort: np.ndarray) -> np.ndarray:
        """The duty that each servo may use with these efforts (n,) [N m], in (0, 1]; 1 where the state is not known."""
        a, known = self._arrays, np.isfinite(effort)
        passed, self._t = state.t - self._t, state.t
        share = min(max(passed, 0.0) / MEAN, 1.0) if np.isfinite(passed) else 0.0
        self._mean += share * np.where(known, effort - self._mean, 0.0)
        needed = WARM * a.resistance * np.abs(effort / a.k_t) + np.abs(a.back_emf * state.qd)
        most = a.resistance * np.abs(self._mean / a.k_t) + self._fastest_volts
        supply = np.maximum(state.voltage, 1.0)
        duty = np.minimum(needed / supply + SPARE, most / supply)
        return np.where(np.isfinite(duty), np.minimum(duty, 1.0), 1.0)
