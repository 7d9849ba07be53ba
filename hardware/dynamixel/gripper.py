"""A gripper on one servo in current-based position mode: metres and newtons at the jaws, stall detection."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np

from hardware.dynamixel.commands import Goals, Source
from hardware.dynamixel.joints import GroupState

__all__ = ["Gripper", "JawMap"]


class JawMap:
    """Between the joint's angle and the opening of the jaws, piecewise linear.

    Args:
        angles: strictly monotonic [rad].
        openings: of the jaws at those angles, strictly monotonic [m].

    Raises:
        ValueError: fewer than two points, or not monotonic.
    """

    def __init__(self, angles: Sequence[float], openings: Sequence[float]) -> None:
        given, apart = np.asarray(angles, dtype=float), np.asarray(openings, dtype=float)
        if len(given) != len(apart) or len(given) < 2:
            raise ValueError("a gripper's map needs as many openings as angles, at least two")
        order = np.argsort(given)
        self.angles, self.openings = given[order], apart[order]
        steps = np.diff(self.openings)
        if (np.diff(self.angles) <= 0.0).any() or not ((steps > 0.0).all() or (steps < 0.0).all()):
            raise ValueError("a gripper's angles and openings must both be strictly monotonic")
        self._rising = steps[0] > 0.0
        self._starts: list[float] = self.angles[:-1].tolist()
        self._levers: list[float] = np.abs(steps / np.diff(self.angles)).tolist()

    def opening(self, angle: float) -> float:
        """[m]"""
        return float(np.interp(angle, self.angles, self.openings))

    def angle(self, opening: float) -> float:
        """[rad]"""
        if self._rising:
            return float(np.interp(opening, self.openings, self.angles))
        return float(np.interp(opening, self.openings[::-1], self.angles[::-1]))

    def lever(self, angle: float) -> float:
        """|d opening / d angle| [m/rad]: joint torque = lever * force, by virtual work."""
        # Asked for in every cycle of the bus: a list and bisect take a tenth of numpy's time.
        k = min(max(bisect.bisect_right(self._starts, angle) - 1, 0), len(self._levers) - 1)
        return self._levers[k]


class Gripper(Source):
    """Holds the jaws at a commanded opening with a bounded force.

    Args:
        joint: index of its joint.
        jaws: angle <-> opening.
        default_force: where a command names none [N].
        tolerance: of the opening for a goal to be reached [m].
        stall_velocity, stall_time: slower than this for so long, away from the goal, is a stall [m/s, s].
    """

    name = "gripper_cmd"

    def __init__(
        self, joint: int, jaws: JawMap, default_force: float, tolerance: float, stall_velocity: float, stall_time: float
    ) -> None:
        self.joint, self.jaws = joint, jaws
        self.default_force, self.tolerance = default_force, tolerance
        self.stall_velocity, self.stall_time = stall_velocity, stall_time
        self.force = default_force
        self.reset()

    def reset(self) -> None:
        """No command: the jaws stay where they are."""
        self.goal: float | None = None
        self.stalled = self.reached = False
        self._slow_since: float | None = None

    def halt(self) -> None:
        """Nobody may command: jaws under way stop where they are; those that rest go on holding what they hold."""
        if self.goal is not None and not (self.reached or self.stalled):
            self.reset()

    def command(self, opening: float, force: float) -> None:
        """New goal [m, N]; a force of 0 or less means the default."""
        self.stalled = self.reached = False
        self._slow_since = None
        self.force = force if force > 0.0 else self.default_force
        self.goal = float(np.clip(opening, self.jaws.openings.min(), self.jaws.openings.max()))

    def fill(self, state: GroupState, goals: Goals) -> str:
        if self.goal is None:
            return ""
        k = self.joint
        goals.position[k] = self.jaws.angle(self.goal)
        self.reached = abs(self.opening(state) - self.goal) <= self.tolerance
        slow = abs(state.qd[k]) * self.jaws.lever(state.q[k]) < self.stall_velocity
        if not slow or self.reached:
            self._slow_since = None
        elif self._slow_since is None:
            self._slow_since = state.t
        # A goal is stalled once the jaws rest away from it: they hold something, or are blocked.
        self.stalled = self._slow_since is not None and state.t - self._slow_since >= self.stall_time
        return ""

    def opening(self, state: GroupState) -> float:
        """Of the jaws now [m]."""
        return self.jaws.opening(float(state.q[self.joint]))

    def measured_force(self, state: GroupState) -> float:
        """At the jaws, from the servo's current [N]; NaN without sensing."""
        return float(abs(state.effort[self.joint])) / self.jaws.lever(float(state.q[self.joint]))

    def effort_cap(self, most: np.ndarray, state: GroupState) -> np.ndarray:
        """Joint efforts allowed, shape (n,) [N m]: the gripper's follows from the force wanted."""
        cap = most.copy()
        cap[self.joint] = min(most[self.joint], self.force * self.jaws.lever(float(state.q[self.joint])))
        return cap
