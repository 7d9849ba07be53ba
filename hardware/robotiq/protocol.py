"""Registers of the Robotiq 2F grippers: commands and states in SI units to and from 16-bit values.

Source: Robotiq, 2F-85 & 2F-140 Instruction Manual, sections 4.2-4.4 (registers), 6.1 (stroke, speed, force). The counts
of a gripper at the ends of its stroke with the standard fingertips, 3 and 230, are the maker's support article
"Encoder bytes, adaptive gripper".
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "BAUD",
    "FAULTS",
    "MODELS",
    "OUTPUT",
    "STATUS",
    "UNIT",
    "Action",
    "Contact",
    "Model",
    "Status",
    "command_registers",
    "decode_status",
    "major",
]

UNIT, BAUD = 9, 115200
OUTPUT, STATUS = 1000, 2000  # first registers of the robot's output and of the gripper's status, three each


class Action(enum.IntFlag):
    """ACTION REQUEST, high byte of register 1000."""

    RESET = 0x00
    ACTIVATE = 0x01  # rACT
    GO_TO = 0x08  # rGTO
    RELEASE = 0x10  # rATR: slow release after an emergency stop; ends in a fault, reactivate afterwards
    RELEASE_OPENING = 0x20  # rARD: direction of the release


class Contact(enum.IntEnum):
    """gOBJ; means nothing while gGTO is 0."""

    MOVING = 0
    OPENING = 1  # stopped by an object while opening
    CLOSING = 2  # stopped by an object while closing
    ARRIVED = 3  # at the requested position: no object, or it was lost


# gFLT, low nibble of the fault byte: what it means, and what to do.
FAULTS = {
    0x05: "motion is delayed until the activation is complete: wait",
    0x07: "the gripper is not activated: call reactivate_gripper",
    0x08: "the gripper is too hot: let it cool down",
    0x09: "the gripper heard nothing for a second: check cable and load",
    0x0A: "the supply voltage is too low: check the 24 V supply, then call reactivate_gripper",
    0x0B: "the automatic release is in progress: wait, then call reactivate_gripper",
    0x0C: "internal fault: call reactivate_gripper; if it stays, the maker must help",
    0x0D: "the activation failed: free the fingers' way, then call reactivate_gripper",
    0x0E: "the motor drew too much current: free the fingers, then call reactivate_gripper",
    0x0F: "the automatic release is complete: call reactivate_gripper",
}


def major(fault: int) -> bool:
    """Whether a fault ends the activation, so that only a reset and a new activation clear it."""
    return fault >= 0x0A


@dataclass(frozen=True)
class Model:
    """stroke: width between the fingertips when open [m]; speed, force: what 0 and 255 stand for [m/s], [N];
    open_count, closed_count: gPO at full and at no width."""

    name: str
    stroke: float
    speed: tuple[float, float]
    force: tuple[float, float]
    open_count: int = 3
    closed_count: int = 230

    def width(self, count: float) -> float:
        """Width between the fingertips at a position count [m], within the stroke."""
        share = (self.closed_count - count) / (self.closed_count - self.open_count)
        return self.stroke * min(max(share, 0.0), 1.0)

    def position_count(self, width: float) -> int:
        """rPR for a width [m]. The ends are 0 and 255, which press the fingers against their stops, as the manual does."""
        if width <= 0.0:
            return 255
        if width >= self.stroke:
            return 0
        return round(self.closed_count - (self.closed_count - self.open_count) * width / self.stroke)

    def speed_count(self, speed: float) -> int:
        """rSP for a speed of the width [m/s]; clamped."""
        return _count(speed, *self.speed)

    def force_count(self, force: float) -> int:
        """rFR for a gripping force [N]; clamped."""
        return _count(force, *self.force)

    def force_of(self, count: int) -> float:
        """Gripping force that rFR stands for [N]."""
        low, high = self.force
        return low + (high - low) * count / 255


def _count(value: float, low: float, high: float) -> int:
    return round(255 * min(max((value - low) / (high - low), 0.0), 1.0))


MODELS = {
    "2f_85": Model("2f_85", 0.085, (0.020, 0.150), (20.0, 235.0)),
    "2f_140": Model("2f_140", 0.140, (0.030, 0.250), (10.0, 125.0)),
}


def command_registers(action: Action, position: int = 0, speed: int = 0, force: int = 0) -> tuple[int, int, int]:
    """Registers 1000-1002 for an action and the counts of where to, how fast and how hard (0-255 each)."""
    return struct.unpack(">3H", bytes((action, 0, 0, position, speed, force)))


@dataclass(frozen=True)
class Status:
    """Registers 2000-2002 as the manual names their fields; current [A]."""

    activated: bool  # gACT: echo of rACT
    go_to: bool  # gGTO: echo of rGTO; false during activation and release too
    activation: int  # gSTA: 0 reset, 1 in progress, 3 complete
    contact: Contact  # gOBJ
    fault: int  # gFLT
    requested: int  # gPR: echo of rPR
    position: int  # gPO
    current: float  # gCU

    @property
    def object_detected(self) -> bool:
        """Whether an object keeps the fingers from where they go."""
        return self.go_to and self.contact in (Contact.OPENING, Contact.CLOSING)

    @property
    def ready(self) -> bool:
        """Whether the activation is complete and no fault has ended it."""
        return self.activated and self.activation == 3 and not major(self.fault)


def decode_status(registers: Sequence[int]) -> Status:
    """The status in registers 2000-2002."""
    status, _, fault, requested, position, current = struct.pack(">3H", *registers)
    return Status(
        bool(status & 0x01),
        bool(status & 0x08),
        status >> 4 & 0x03,
        Contact(status >> 6),
        fault & 0x0F,
        requested,
        position,
        0.01 * current,
    )
