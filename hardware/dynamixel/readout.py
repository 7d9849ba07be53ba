"""The bus cycle's reading: every servo's block, and its numbers as the joints' state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware.dynamixel import protocol1, protocol2
from hardware.dynamixel.joints import GroupState, Joint, JointArrays
from hardware.dynamixel.transport import Transport

__all__ = ["Readout", "parts"]

LONGEST = 2e-3  # [s] on the wire of one exchange, during which a command that comes in has to wait
TURNAROUND = 5e-4  # [s] of adapter and operating system between two exchanges
SHARE = 0.1  # of the period that splitting a reading may cost

#: Protocol 2.0: the indirect block (servo_setup.BLOCK_ITEMS) behind the reply's error byte
BLOCK2 = np.dtype(
    [
        ("status", "u1"),
        ("position", "<i4"),
        ("velocity", "<i4"),
        ("current", "<i2"),
        ("hardware_error", "u1"),
        ("temperature", "u1"),
        ("voltage", "<u2"),
        ("torque", "u1"),
        ("watchdog", "u1"),
    ]
)
#: Protocol 1.0: 36 to 43 of the table; velocity and load are sign (bit 10, set: clockwise) and magnitude
BLOCK1 = np.dtype(
    [
        ("status", "u1"),
        ("position", "<u2"),
        ("velocity", "<u2"),
        ("load", "<u2"),
        ("voltage", "u1"),
        ("temperature", "u1"),
    ]
)
BLOCK1_ADDRESS = 36
HARDWARE_BITS1 = (
    0b100101  # of a Protocol 1.0 reply's error: voltage, overheat, overload, where Protocol 2.0 has them too
)


def parts(which: Sequence[int], bus: Transport, period: float, fast: bool) -> list[np.ndarray]:
    """Joints `which` divided among exchanges of at most LONGEST, as far as that costs no more than SHARE of the period [s].

    Between two exchanges goals get out; a slow bus, on which a single servo takes longer, is read at one go.
    """

    def wire(n: int) -> float:
        if bus.protocol == 2.0:
            return bus.transmission_time(protocol2.sync_read_size(n, BLOCK2.itemsize - 1, fast))
        return bus.transmission_time(protocol1.bulk_read_size(n, BLOCK1.itemsize - 1))

    affordable = 1 + int(SHARE * period / (wire(0) + TURNAROUND))
    n = len(which)
    wanted = next((k for k in range(1, n + 1) if wire(-(-n // k)) <= LONGEST), n)
    return np.array_split(np.asarray(which), min(wanted, affordable, n))


class Readout:
    """Reads those joints whose blocks lie at one address.

    Args:
        bus, arrays: of the group.
        joints: all joints.
        which: indices of those read here.
        fast: ask for one common reply (fast sync read).
    """

    def __init__(
        self,
        bus: Transport,
        arrays: JointArrays,
        joints: Sequence[Joint],
        which: Sequence[int] | np.ndarray,
        fast: bool = False,
    ) -> None:
        self.which = np.asarray(which)
        # Of all joints, in order, a slice: assigning by index costs three times as much.
        self._all = slice(None) if list(which) == list(range(len(joints))) else self.which
        self._arrays = {
            name: getattr(arrays, name)[self.which]
            for name in ("position", "zero", "velocity", "current", "effort", "voltage", "direction")
        }
        self._senses_current = np.isfinite(self._arrays["current"])
        model = joints[which[0]].model
        self.protocol = bus.protocol
        ids = [joints[k].id for k in which]
        if self.protocol == 2.0:
            self.block = BLOCK2
            assert model.indirect is not None  # every model of Protocol 2.0 has the block
            self.group = bus.group_read(ids, model.indirect.data, BLOCK2.itemsize - 1, "fast" if fast else "sync")
        else:
            self.block = BLOCK1
            bulk = all(joints[k].model.bulk_read for k in which)
            self.group = bus.group_read(ids, BLOCK1_ADDRESS, BLOCK1.itemsize - 1, "bulk" if bulk else "single")

    def read(self, state: GroupState, retries: int) -> None:
        """One exchange on the bus; fills the state of joints that answered."""
        group = self.group
        complete = group.read(retries)
        raw = group.values.view(self.block)[:, 0]
        if not raw["voltage"].all():
            # No servo answers without a supply: it has restarted, and its block is mapped to nothing.
            restarted = group.valid & (raw["voltage"] == 0)
            state.restarted[self.which] |= restarted
            group.valid &= ~restarted
            complete = False
        state.valid[self._all] = group.valid
        if not group.valid.any():
            return
        state.t = group.t
        (self._decode2 if self.protocol == 2.0 else self._decode1)(state, raw, slice(None) if complete else group.valid)

    def _decode2(self, state: GroupState, raw: np.ndarray, good: slice | np.ndarray) -> None:
        a, to = self._arrays, self._all if isinstance(good, slice) else self.which[good]
        state.q[to] = ((raw["position"] - a["zero"]) * a["position"])[good]
        state.qd[to] = (raw["velocity"] * a["velocity"])[good]
        state.effort[to] = (raw["current"] * a["effort"])[good]
        # The current along the joint's direction; what senses none reports its load there, in 0.1 %.
        state.current[to] = (raw["current"] * a["current"] * a["direction"])[good]
        if not self._senses_current.all():
            state.load[to] = np.where(self._senses_current, np.nan, 1e-3 * raw["current"] * a["direction"])[good]
        state.voltage[to] = (raw["voltage"] * a["voltage"])[good]
        state.temperature[to] = raw["temperature"][good]
        state.hardware_error[to] = raw["hardware_error"][good]
        state.alert[to] = (raw["status"] & protocol2.ALERT != 0)[good]
        state.torque[to] = raw["torque"][good]
        state.watchdog[to] = raw["watchdog"][good]

    def _decode1(self, state: GroupState, raw: np.ndarray, good: slice | np.ndarray) -> None:
        a, to = self._arrays, self._all if isinstance(good, slice) else self.which[good]
        state.q[to] = ((raw["position"] - a["zero"]) * a["position"])[good]
        state.qd[to] = (_signed(raw["velocity"]) * a["velocity"])[good]
        state.load[to] = (1e-3 * _signed(raw["load"]) * a["direction"])[good]
        state.voltage[to] = (raw["voltage"] * a["voltage"])[good]
        state.temperature[to] = raw["temperature"][good]
        state.hardware_error[to] = (raw["status"] & HARDWARE_BITS1)[good]


def _signed(raw: np.ndarray) -> np.ndarray:
    magnitude = (raw & 0x3FF).astype(float)
    return np.where(raw & 0x400, -magnitude, magnitude)
