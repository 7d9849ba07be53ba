"""Fingers of the emulated gripper: by themselves, meeting a rigid object, or as a joint of the simulated robot."""

from __future__ import annotations

from typing import Protocol

from hardware.emulation.world import SharedWorld

__all__ = ["Fingers", "OwnFingers", "WorldFingers"]

AT = 0.2e-3             # [m] half a count of the 2F-85's encoder


class Fingers(Protocol):
    """width: between the fingertips [m]; blocked: something keeps them from where they were last told to move."""

    width: float
    blocked: bool

    def move(self, target: float, speed: float, force: float, dt: float) -> None:
        """Towards a width [m] for dt [s], at most this fast [m/s] and this hard [N]."""

    def at(self, target: float) -> bool:
        """Whether the width is the target's, as far as the encoder can tell."""


class OwnFingers:
    """Exact motion between the stops of the stroke.

    Attributes:
        object_width: of a rigid object between the fingers [m]; 0: none.
        cavity_width: of an opening that the fingers are in, for grips from inside [m]; inf: none.
    """

    def __init__(self, stroke: float):
        self.stroke = self.width = stroke
        self.object_width, self.cavity_width = 0.0, float("inf")
        self.blocked = False

    def move(self, target: float, speed: float, force: float, dt: float) -> None:
        wished = min(max(target, self.width - speed * dt), self.width + speed * dt)
        # What is there when the fingers are beyond it already, an object pushed in from the front, pushes them apart.
        low, high = max(0.0, min(self.object_width, self.stroke)), min(self.stroke, self.cavity_width)
        self.width = min(max(wished, low), high)
        self.blocked = abs(self.width - wished) > 1e-9

    def at(self, target: float) -> bool:
        return abs(self.width - target) <= AT


class WorldFingers:
    """A joint of the simulated robot that a motor drives with limited force.

    Args:
        world: of the simulated robot.
        joint: its name.
        stroke: width when open [m].
        open_at, closed_at: joint positions at full and at no width [rad or m].
        gain: of the speed loop [N s/m].
        patience: pushing this long without motion is being blocked [s].
    """

    def __init__(self, world: SharedWorld, joint: str, stroke: float, open_at: float, closed_at: float,
                 gain: float = 400.0, patience: float = 0.05):
        self.world, self._joint = world, world.indices([joint])
        self.stroke, self.gain, self.patience = stroke, gain, patience
        self._closed_at, self._scale = closed_at, stroke / (open_at - closed_at)     # [m per rad or m]
        self._still = 0.0
        self.blocked = False

    @property
    def width(self) -> float:
        return self._scale * (float(self.world.state().q[self._joint[0]]) - self._closed_at)

    def move(self, target: float, speed: float, force: float, dt: float) -> None:
        width, v = self.width, self._scale * float(self.world.state().v[self._joint[0]])
        wished = min(max(20.0 * (target - width), -speed), speed)
        push = min(max(self.gain * (wished - v), -force), force)
        # Force times change of width is the joint's effort times its change of position.
        self.world.apply(self._joint, push * self._scale)
        pushing = not self.at(target) and abs(v) < 0.05 * abs(wished) + 1e-4
        self._still = self._still + dt if pushing else 0.0
        self.blocked = self._still > self.patience

    def at(self, target: float) -> bool:
        return abs(self.width - target) <= 2.0 * AT
