"""What is wrong with which joint: hardware errors, lost torque, heat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware.dynamixel.joints import GroupState, Joint, some
from hardware.dynamixel.limits import DERATE_BELOW, Limits

__all__ = ["Health", "stand"]

#: hardware error bits (X series, address 70)
HARDWARE_ERRORS = {0: "input voltage", 2: "overheating", 3: "encoder", 4: "electrical shock", 5: "overload"}


def stand(place: dict[str, str], name: str, condition: object, text: str) -> None:
    """A fault or warning that stands while the condition does."""
    if condition:
        place[name] = text
    else:
        place.pop(name, None)


class Health:
    """Keeps the faults and warnings of joints as the newest readings have them.

    Args:
        joints, limits: of the group.
        faults, warnings: of the device; entries "<joint>/<what>".
    """

    def __init__(
        self, joints: Sequence[Joint], limits: Limits, faults: dict[str, str], warnings: dict[str, str]
    ) -> None:
        self.joints, self.limits, self.faults, self.warnings = joints, limits, faults, warnings
        self.protocol = joints[0].model.protocol
        self._standing = False

    def judge(self, state: GroupState, present: np.ndarray, torque_on: bool) -> None:
        """Also sets state.healthy; `present`: who answers at all, shape (n,) bool."""
        state.healthy[:] = present & (state.hardware_error == 0)
        lost = (
            present & state.valid & (state.torque == 0)
            if torque_on and self.protocol == 2.0
            else np.zeros_like(present)
        )
        hot = self.limits.hot(state)
        if not (self._standing or some(lost) or some(hot) or some(state.hardware_error != 0)):
            return
        self._standing = False
        cure = "~/reboot_dxl clears it" if self.protocol == 2.0 else "it clears when the cause is gone"
        for k, joint in enumerate(self.joints):
            bits = int(state.hardware_error[k])
            errors = " and ".join(text for bit, text in HARDWARE_ERRORS.items() if bits >> bit & 1) or f"bits {bits:#x}"
            limit, temperature = self.limits.temperature_limit[k], state.temperature[k]
            for place, name, condition, text in (
                (self.faults, "hardware", bits, f"joint {joint.name} (id {joint.id}) reports {errors}: {cure}"),
                (
                    self.faults,
                    "torque",
                    lost[k] and not bits,
                    f"joint {joint.name} (id {joint.id}) has lost its torque: switch it on with ~/set_dxl_torque",
                ),
                (
                    self.faults,
                    "overtemp",
                    temperature >= limit,
                    f"joint {joint.name} is at {temperature:.0f} deg C, limit {limit:.0f}",
                ),
                (
                    self.warnings,
                    "hot",
                    limit > temperature and hot[k],
                    f"joint {joint.name} is at {temperature:.0f} deg C, limit {limit:.0f}"
                    + (": half its current" if limit - temperature <= DERATE_BELOW else ""),
                ),
            ):
                stand(place, f"{joint.name}/{name}", condition, text)
                self._standing |= bool(condition)
            state.healthy[k] &= not lost[k]
