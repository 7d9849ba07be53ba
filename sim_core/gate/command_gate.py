"""The gate between whoever commands and what moves; it lives in the process that owns the actuators.

    gate = CommandGate(limits, period=0.002)
    gate.grant(Lease("adaptive_mpc", 0.5), now)             # the supervisor, again and again
    gate.admit(command, now)                                # or CommandRefused: nothing moves because of it
    effort = gate.bound(effort, q, v, t)                    # at every servo tick
    if why := gate.closed(now): ...                         # the declared stop state, and the sentence that says why

It is closed until somebody with the right to opens it, and closes by itself when that is not renewed. All times are those of
the caller's monotonic clock, so that a simulation that stands still keeps its lease.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from sim_core.command import Command, CommandRefused, Mode, Refusal
from sim_core.gate.motion_bound import JointLimits, MotionBound

__all__ = ["CommandGate", "Lease"]

#: share by which a command may pass a limit: what two roundings of the same limit differ by
ROUNDING = 1e-6


@dataclass(frozen=True)
class Lease:
    """The right to command, for a while.

    Attributes:
        commander: name of the one node whose commands are followed.
        duration: how long from its arrival, unless it is renewed [s].

    Raises:
        ValueError: no commander, or a duration that is none.
    """

    commander: str
    duration: float

    def __post_init__(self) -> None:
        if not self.commander:
            raise ValueError("a lease names the commander whose commands are followed, found ''")
        if not 0.0 < self.duration < np.inf:
            raise ValueError(f"a lease lasts more than 0 s, found {self.duration:g} s")


class CommandGate:
    """See the module's docstring.

    Args:
        limits: of the joints behind the gate, in the order of all arrays. They come from the process that owns the
            actuators and from nobody else: no message widens them.
        period: of the servo loop that calls `bound` [s].
        supervised: whether a lease is needed; without, anybody may command within the limits.

    Attributes:
        refused: how many commands were refused, by reason.
    """

    def __init__(self, limits: JointLimits, period: float, supervised: bool = True) -> None:
        self.limits, self._supervised = limits, supervised
        self.refused: Counter[Refusal] = Counter()
        self._why = "not armed yet: the supervisor arms it when the robot is ready"
        self._lease: Lease | None = None
        self._until = -np.inf
        self._bound = MotionBound(limits, period)

    # -- authority -----------------------------------------------------------------------------------
    def grant(self, lease: Lease, now: float) -> None:
        """Open, or stay open: until `lease.duration` from now [s]."""
        self._lease, self._until = lease, now + lease.duration

    def withdraw(self, why: str) -> None:
        """Close, with the sentence that says why."""
        self._lease, self._why = None, why

    def closed(self, now: float) -> str:
        """Why nothing may move at this time [s]; "" while the gate is open."""
        if not self._supervised:
            return ""
        if self._lease is not None and now > self._until:
            self.withdraw(
                f"nobody has renewed the lease for {self._lease.duration:g} s: the supervisor has ended or hangs"
            )
        return self._why if self._lease is None else ""

    @property
    def commander(self) -> str:
        """Whose commands are followed; "" while the gate is closed."""
        return self._lease.commander if self._lease is not None else ""

    # -- commands ------------------------------------------------------------------------------------
    def admit(self, command: Command, now: float) -> None:
        """Let a command pass that `check_command` has passed.

        Raises:
            CommandRefused: the gate is closed, somebody else commands, or the command asks for more than the limits.
        """
        try:
            if why := self.closed(now):
                raise CommandRefused(Refusal.DISARMED, why)
            if self._supervised and command.commander != self.commander:
                raise CommandRefused(
                    Refusal.COMMANDER, f"'{self.commander}' commands, this is from '{command.commander}'"
                )
            self._check(command)
        except CommandRefused as refused:
            self.refused[refused.reason] += 1
            raise

    def _check(self, command: Command) -> None:
        limits = self.limits
        asked = [("effort", command.effort, -limits.effort, limits.effort)]
        if command.mode is not Mode.EFFORT:
            asked += [
                ("position", command.position, limits.lower, limits.upper),
                ("velocity", command.velocity, -limits.velocity, limits.velocity),
            ]
        driven = limits.effort > 0.0  # what a passive joint is said to do is for full-state feedback
        for name, value, lower, upper in asked:
            slack = ROUNDING * np.maximum(1.0, np.minimum(np.abs(lower), np.abs(upper)))
            beyond = driven & ((value < lower - slack) | (value > upper + slack))
            if beyond.any():
                j = int(np.argmax(beyond))
                raise CommandRefused(
                    Refusal.LIMIT,
                    f"{name} of {limits.joints[j]} is {value[j]:.4g}, outside {lower[j]:.4g} to {upper[j]:.4g}",
                )

    # -- motion --------------------------------------------------------------------------------------
    def bound(self, effort: np.ndarray, q: np.ndarray, v: np.ndarray, t: float, lag: float = 0.0) -> np.ndarray:
        """The efforts that may act, (n,) [N m or N], of those wanted; positions q and velocities v, (n,) each.

        Args:
            t: when q and v were measured [s].
            lag: from then until the next effort will act [s]; at least two periods are assumed.
        """
        return self._bound(effort, q, v, t, lag)
