"""What drives the joints: command sources, of which one at a time has the servos, and what holds without any.

Everything here is evaluated on the bus cycle, from the state just measured. Goals not set by the source in
force are filled in by `StopLaw`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from hardware.dynamixel.joints import GroupState, JointArrays, some

__all__ = [
    "EffortLoop",
    "Goals",
    "JointFeedback",
    "Law",
    "PositionStream",
    "STOP_STATES",
    "Source",
    "StopLaw",
    "VelocityStream",
]

STOP_STATES = ("hold", "damped", "zero")
GRAVITY_AVERAGE = 0.3  # [s] over which efforts are averaged to learn what a posture takes
AT_REST = 0.05  # [rad/s] of a joint that stands: twice what a servo resolves
STANDS = 0.1  # [s] at rest after which a joint that was stopped holds where it is


class Goals:
    """One cycle's goals, shape (n,) each; NaN: not set. A servo that takes effort may be given a position instead."""

    def __init__(self, n: int) -> None:
        self.position, self.velocity, self.effort = (np.full(n, np.nan) for _ in range(3))

    def clear(self, where: slice | np.ndarray = slice(None)) -> None:
        """Goals of joints `where` are not set."""
        self.position[where] = self.velocity[where] = self.effort[where] = np.nan


class Source(ABC):
    """Something that commands joints."""

    name = "source"

    @abstractmethod
    def fill(self, state: GroupState, goals: Goals) -> str:
        """Set goals of the joints it commands; a sentence once it has ended, else ""."""

    def busy(self, now: float) -> bool:
        """Whether it claims the servos for itself at host time `now` [s]."""
        return True


class EffortLoop:
    """Position loop of servos that take effort: tau = k_p e + k_i int(e) + k_d ed.

    It begins with what the joints needed on average lately, so that gravity does not make them sag.

    Args:
        kp, ki, kd: shape (n,) [N m/rad, N m/(rad s), N m s/rad].
    """

    def __init__(self, kp: ArrayLike, ki: ArrayLike, kd: ArrayLike) -> None:
        self.kp, self.ki, self.kd = (np.asarray(k, dtype=float) for k in (kp, ki, kd))
        self.reset()

    def reset(self) -> None:
        """Torque was off: nothing is known of what the joints need."""
        self.integral = np.zeros_like(self.kp)
        self._mean = np.zeros_like(self.kp)

    def begin(self, where: np.ndarray) -> None:
        """Joints `where` come from another law."""
        self.integral[where] = self._mean[where]

    def forget(self, where: np.ndarray) -> None:
        """Joints `where` are in another posture, of which nothing is known."""
        self._mean[where] = 0.0

    def settle(self, effort: np.ndarray, where: np.ndarray) -> None:
        """Joints `where` stand under `effort`, so that this is what their posture takes."""
        self.integral[where] = effort[where]

    def effort(
        self,
        position: np.ndarray,
        velocity: np.ndarray,
        state: GroupState,
        dt: float,
        most: np.ndarray,
        where: np.ndarray,
    ) -> np.ndarray:
        """Efforts towards `position`, `velocity`; the integral of joints `where` goes on, within +-`most` [N m]."""
        e = position - state.q
        self.integral[where] = np.clip(self.integral + self.ki * e * dt, -most, most)[where]
        return self.kp * e + self.integral + self.kd * (velocity - state.qd)

    def observe(self, effort: np.ndarray, dt: float) -> None:
        """What was sent in the end."""
        self._mean += (np.where(np.isnan(effort), 0.0, effort) - self._mean) * min(1.0, dt / GRAVITY_AVERAGE)


class StopLaw:
    """What joints do that nobody commands: positions hold, velocities are zero, efforts follow `stop_state`.

    A joint that moves when it is stopped holds where it comes to rest: the loop would lead it back from where it has
    run out to, and as slowly as its integral finds what the posture takes.

    Args:
        arrays: of the joints.
        loop: for joints that take effort.
        stop_state: "hold" (where they stood), "damped" (-k_d qd) or "zero".
    """

    def __init__(self, arrays: JointArrays, loop: EffortLoop, stop_state: str) -> None:
        self.arrays, self.loop, self.stop_state = arrays, loop, stop_state
        self.hold = np.full(len(arrays.zero), np.nan)
        self._followed, self._fell, self._stopping = (np.zeros(len(arrays.zero), bool) for _ in range(3))
        self._stood = np.zeros(len(arrays.zero))  # [s] that a joint which was stopped has been at rest

    def catch(self, where: np.ndarray) -> None:
        """Joints `where` have fallen, or were moved: they stop where they are, and what they needed elsewhere is no help."""
        self.release(where)
        self.loop.forget(where)
        self._fell |= where

    def release(self, where: np.ndarray | slice = slice(None)) -> None:
        """Joints `where`, all by default, stop where they are, not at the last goal."""
        self.hold[where] = np.nan

    def fill(self, state: GroupState, goals: Goals, dt: float, most: np.ndarray) -> None:
        """Complete the goals; `most`: effort allowed, shape (n,) [N m]."""
        arrays, loop = self.arrays, self.loop
        commanded = np.isfinite(goals.position) | np.isfinite(goals.velocity) | np.isfinite(goals.effort)
        np.copyto(self.hold, goals.position, where=commanded)
        idle = ~commanded
        self._stopping &= idle
        if some(idle):
            stopped = idle & np.isnan(self.hold)
            np.copyto(self.hold, state.q, where=stopped)
            self._stopping |= stopped & (self._fell | (np.abs(state.qd) > AT_REST))
            self._fell &= ~stopped
            goals.velocity[idle] = 0.0
            following = idle & (~arrays.takes_effort if self.stop_state != "hold" else True)
            goals.position[following] = self.hold[following]
            loose = idle & arrays.takes_effort & ~following
            if some(loose):
                goals.effort[loose] = -loop.kd[loose] * state.qd[loose] if self.stop_state == "damped" else 0.0
                self.hold[loose] = np.nan
        by_loop = arrays.takes_effort & np.isnan(goals.effort)
        if some(by_loop):
            loop.begin(by_loop & ~self._followed)
            # The integral waits until a joint stands: it would lead back from where this one runs out to.
            tau = loop.effort(
                goals.position,
                np.where(np.isnan(goals.velocity), 0.0, goals.velocity),
                state,
                dt,
                most,
                by_loop & ~self._stopping,
            )
            goals.effort[by_loop] = tau[by_loop]
            self._stood = np.where(self._stopping & (np.abs(state.qd) < AT_REST), self._stood + dt, 0.0)
            standing = by_loop & (self._stood >= STANDS)
            if some(standing):
                np.copyto(self.hold, state.q, where=standing)
                loop.settle(np.clip(tau, -most, most), standing)
                self._stopping &= ~standing
        self._followed = by_loop


class Law(enum.IntEnum):
    """As the modes of refit_interfaces/JointCommand."""

    EFFORT = 0
    POSITION = 1
    FEEDBACK = 2


class JointFeedback(Source):
    """tau = effort + gain [position + velocity (t - stamp) - q; velocity - qd].

    POSITION: the position loop tracks the moving position, with `effort` as feed-forward; servos that take
    positions track it themselves, without the feed-forward.

    Args:
        arrays, loop: of all n joints.
        which: mask of the joints commanded, shape (n,); the state of the others may still enter by the gain.
        age_limit: silence after which the command has ended [s].
    """

    name = "joint_command"

    def __init__(self, arrays: JointArrays, loop: EffortLoop, which: np.ndarray, age_limit: float) -> None:
        self.loop, self.age_limit = loop, age_limit
        self._by_effort, self._by_position = which & arrays.takes_effort, which & arrays.takes_position
        self._received = -np.inf

    def set(
        self,
        law: Law,
        stamp: float,
        received: float,
        effort: np.ndarray,
        position: np.ndarray,
        velocity: np.ndarray,
        gain: np.ndarray,
    ) -> None:
        """A new command; host times [s], arrays shape (n,), gain (n, 2 n)."""
        self._law, self._stamp = law, stamp
        self._effort, self._position, self._velocity, self._gain = effort, position, velocity, gain
        self._received = received

    def busy(self, now: float) -> bool:
        return now - self._received <= self.age_limit

    def fill(self, state: GroupState, goals: Goals) -> str:
        silence = state.t - self._received
        if silence > self.age_limit:
            return f"no command for {silence:.3f} s, limit {self.age_limit:g} s"
        if self._law is Law.EFFORT:
            np.copyto(goals.effort, self._effort, where=self._by_effort)
            return ""
        position = self._position + self._velocity * (state.t - self._stamp)
        e, ed = position - state.q, self._velocity - state.qd
        if self._law is Law.FEEDBACK:
            tau = self._effort + self._gain @ np.concatenate([e, ed])
        else:
            tau = self._effort + self.loop.kp * e + self.loop.kd * ed
            np.copyto(goals.position, position, where=self._by_position)
        np.copyto(goals.effort, tau, where=self._by_effort)
        return ""


class _Stream(Source):
    def __init__(self, which: Sequence[int], timeout: float) -> None:
        self.which, self.timeout = np.asarray(which), timeout
        self._received = -np.inf

    def set(self, values: np.ndarray, received: float) -> None:
        """The newest values, shape (m,); `received`: host time [s]."""
        self._values, self._received = values, received

    def busy(self, now: float) -> bool:
        return now - self._received <= self.timeout


class PositionStream(_Stream):
    """Positions as they come; the last one is held, but claims nothing after `timeout` [s]."""

    name = "forward_position_controller"

    def fill(self, state: GroupState, goals: Goals) -> str:
        goals.position[self.which] = self._values
        return ""


class VelocityStream(_Stream):
    """Velocities as they come; ends after `timeout` [s] of silence."""

    name = "velocity_controller"

    def fill(self, state: GroupState, goals: Goals) -> str:
        if not self.busy(state.t):
            return f"no velocity for more than {self.timeout:g} s"
        goals.velocity[self.which] = self._values
        return ""
