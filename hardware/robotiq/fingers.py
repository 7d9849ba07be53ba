"""Fingers of the emulated gripper: by themselves, meeting a rigid object, or as a joint of the simulated robot."""

from __future__ import annotations

from typing import Protocol

from hardware.emulation.world import SharedWorld

__all__ = ["Fingers", "OwnFingers", "WorldFingers"]

AT = 0.18e-3  # [m] below half a count of the 2F-85 (0.187 mm): fingers that have arrived read the position asked for


class Fingers(Protocol):
    """width: between the fingertips [m]; blocked: something keeps them from where they were last told to move."""

    @property
    def width(self) -> float: ...
    @property
    def blocked(self) -> bool: ...

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

    def __init__(self, stroke: float) -> None:
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
    """A joint of the simulated robot that a motor drives with limited force: a PI loop on speed, below one on width.

    Its time is the plant's: while the plant stands still, as on a busy machine, nothing is integrated and nothing judged.

    Args:
        world: of the simulated robot.
        joint: its name.
        stroke: width when open [m].
        open_at, closed_at: joint positions at full and at no width [rad or m].
        stiffness, damping: of the speed loop [N/m], [N s/m]; well damped for fingers of 0.1 to 1 kg.
    """

    GAIN = 20.0  # [1/s] of the loop on width
    LONGEST = 0.01  # [s] of the plant's time that one turn of the speed loop may integrate
    STANDING = 0.05  # [s] of the plant's time that all the force brings no motion, before that is an object

    def __init__(
        self,
        world: SharedWorld,
        joint: str,
        stroke: float,
        open_at: float,
        closed_at: float,
        stiffness: float = 2000.0,
        damping: float = 30.0,
    ) -> None:
        self.world, self._joint = world, world.indices([joint])
        self.stroke, self.stiffness, self.damping = stroke, stiffness, damping
        self._closed_at, self._scale = closed_at, stroke / (open_at - closed_at)  # [m per rad or m]
        self._integral = 0.0  # [N]
        self._t = world.state().t
        self._stood = 0.0  # [s]
        self.blocked = False

    @property
    def width(self) -> float:
        return self._scale * (float(self.world.state().q[self._joint[0]]) - self._closed_at)

    def move(self, target: float, speed: float, force: float, dt: float) -> None:
        state = self.world.state()
        passed, self._t = state.t - self._t, state.t
        passed = min(max(passed, 0.0), self.LONGEST)
        v = self._scale * float(state.v[self._joint[0]])
        lag = min(max(self.GAIN * (target - self.width), -speed), speed) - v
        self._integral = min(max(self._integral + self.stiffness * lag * passed, -force), force)
        push = min(max(self._integral + self.damping * lag, -force), force)
        # Force times change of width is the joint's effort times its change of position.
        self.world.apply(self._joint, push * self._scale)
        # As in the gripper, where the current limit stands for the force: all of it, and no motion.
        stands = not self.at(target) and abs(push) > 0.95 * force and abs(v) < 0.1 * speed
        self._stood = self._stood + passed if stands else 0.0
        self.blocked = self._stood >= self.STANDING

    def at(self, target: float) -> bool:
        return abs(self.width - target) <= 2.0 * AT
