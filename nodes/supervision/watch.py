"""What the supervisor looks at, as plain numbers: ages, limits, jumps. Pure; time is an argument.

The watch turns observations into the events of `nodes.supervision.supervision`. All ages are in ROS time, so a
paused simulation ages nothing; whether time itself stands still is judged in wall time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nodes.framework.joint_state_gate import JointSample
from nodes.supervision.supervision import Event

__all__ = ["Watch", "WatchLimits"]


@dataclass(frozen=True)
class WatchLimits:
    """Age limits [s]; `refit` <= 0 means that no refit is expected."""

    state_age: float = 0.1
    command_age: float = 0.2
    refit_age: float = 0.0
    clock_age: float = 2.0
    rest_velocity: float = 0.02
    rest_time: float = 0.1


class Watch:
    """Remembers when what was last seen and says which events follow from it.

    Args:
        joint_names: names used in sentences.
        lower, upper, velocity: limits per joint, shape (n,), inf where unlimited [rad | m], [rad/s | m/s].
        limits: ages.
    """

    def __init__(self, joint_names: Sequence[str], lower, upper, velocity, limits: WatchLimits) -> None:
        self.joint_names, self.limits = tuple(joint_names), limits
        self.lower, self.upper, self.velocity = (np.asarray(a, float) for a in (lower, upper, velocity))
        self.forget()
        self._impostor = ""
        self._clock: tuple[float, float] | None = None  # (ROS time, wall time when it was first seen)

    def forget(self) -> None:
        """Drop everything that belongs to the time before a jump."""
        self._state_time = self._good_time = self._command_time = self._refit_time = None
        self._refused = self._limit = ""
        self._idle = True
        self._refit_lost = False
        self._rest_since: float | None = None
        self.sample: JointSample | None = None

    # -- observations ------------------------------------------------------------------------------

    def see_state(self, now: float, sample: JointSample | None, why: str) -> None:
        """A joint state arrived: accepted (`sample`) or refused (`why`)."""
        self._state_time = now
        if sample is None:
            self._refused = why
            if self._good_time is None:
                self._good_time = now  # the age of an invalid stream counts from its first message
            return
        self._good_time, self._refused = now, ""
        self.sample, self._limit = sample, self._beyond(sample)
        moving = np.max(np.abs(sample.velocity), initial=0.0) > self.limits.rest_velocity
        if moving:
            self._rest_since = None
        elif self._rest_since is None:
            self._rest_since = sample.stamp

    def see_command(self, now: float) -> None:
        """A joint command was published."""
        self._command_time = now

    def see_controller(self, idle: bool) -> None:
        """The controller reported whether it is idle (and so entitled to be silent)."""
        self._idle = idle

    def see_refit(self, now: float) -> None:
        """A parameter proposal, accepted or not, was published."""
        self._refit_time = now

    def see_speakers(self, impostor: str) -> None:
        """Why what is said in this robot's graph must not be believed, or ""."""
        self._impostor = impostor

    # -- conclusions -------------------------------------------------------------------------------

    @property
    def at_rest(self) -> bool:
        """True once every joint has been slower than `rest_velocity` for `rest_time`."""
        return (
            self.sample is not None
            and self._rest_since is not None
            and self.sample.stamp - self._rest_since >= self.limits.rest_time
        )

    def clock_stands_still(self, now: float, wall: float) -> bool:
        """True if ROS time has not moved for `clock_age` of wall time (paused, waiting or gone)."""
        if self._clock is None or now != self._clock[0]:
            self._clock = now, wall
        return wall - self._clock[1] > self.limits.clock_age

    def faults(self, now: float) -> list[tuple[Event, str]]:
        """Everything that is wrong now; resume is granted only when this is empty."""
        found, limits = [], self.limits
        if self._impostor:  # first: with a clock that lies, what follows is wrong
            found.append((Event.IMPOSTOR, self._impostor))
        if self._state_time is not None and now - self._state_time > limits.state_age:
            found.append(
                (
                    Event.STATES_SILENT,
                    f"no joint states for {now - self._state_time:.2f} s "
                    f"(limit {limits.state_age:.2f} s): is the plant or the driver running?",
                )
            )
        elif self._refused and now - self._good_time > limits.state_age:
            found.append((Event.STATES_BAD, f"{self._refused}; nothing usable for {now - self._good_time:.2f} s"))
        if self._limit:
            found.append((Event.LIMIT_EXCEEDED, self._limit))
        return found

    def events(self, now: float) -> list[tuple[Event, str]]:
        """Faults first, then what happened to commands and refit, in the order to be handled."""
        found, limits = self.faults(now), self.limits
        if self._state_time is not None and {event for event, _ in found} <= {Event.IMPOSTOR}:
            found.append((Event.STATES_FLOW, "joint states arrive, complete and finite"))
        if self._idle:
            found.append((Event.COMMANDS_END, "the controller is idle"))
        elif self._command_time is not None:
            age = now - self._command_time
            if age > limits.command_age:
                found.append(
                    (
                        Event.COMMANDS_SILENT,
                        f"no joint command for {age:.2f} s (limit "
                        f"{limits.command_age:.2f} s): the controller crashed, hangs or cannot keep up",
                    )
                )
            else:
                found.append((Event.COMMANDS_FLOW, "joint commands arrive"))
        if limits.refit_age > 0.0 and self._refit_time is not None and not self._idle:
            lost = now - self._refit_time > limits.refit_age
            if lost:
                found.append(
                    (
                        Event.REFIT_SILENT,
                        f"no parameter proposal for {now - self._refit_time:.1f} s (limit "
                        f"{limits.refit_age:.1f} s): control goes on with the last good parameters",
                    )
                )
            elif self._refit_lost:
                found.append((Event.REFIT_BACK, "parameter proposals arrive again"))
            self._refit_lost = lost
        return found

    def _beyond(self, sample: JointSample) -> str:
        """The sentence for the first joint beyond a limit, or ""."""
        for name, q, v, low, high, fast in zip(
            self.joint_names, sample.position, sample.velocity, self.lower, self.upper, self.velocity
        ):
            if q < low or q > high:
                return f"{name} is at {q:.3f}, outside [{low:.3f}, {high:.3f}]"
            if abs(v) > fast:
                return f"{name} moves at {v:.2f}, limit {fast:.2f}"
        return ""
