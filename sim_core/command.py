"""Joint commands: what a controller may ask of the servos, and the checks before anything moves."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np

__all__ = ["Command", "CommandRefused", "Mode", "Refusal", "check_command", "part_of"]


class Refusal(enum.Enum):
    """Why a command was refused; the value is the remedy."""

    NAMES = "name every actuated joint once, and no joint the robot lacks"
    SIZE = "give one entry per named joint, and gain as n x 2n row-major"
    NOT_FINITE = "send finite numbers only"
    NOT_ACTUATED = "send zero effort and zero gain rows for passive joints"
    MODE = "use effort (0), position (1) or feedback (2)"
    OLD = "send commands sooner, or raise command_age_limit"
    FUTURE = "stamp a command with the time of the state it was computed from"
    DISARMED = "see what the supervisor says, and arm or resume there"
    COMMANDER = "one node commands at a time; ask the supervisor to hand over"
    LIMIT = "ask for what the robot's model allows"
    BUSY = "one source commands at a time, and only while torque is on"


class CommandRefused(ValueError):
    """A command that the actuators will not follow. Nothing moves because of it.

    `reason` is a `Refusal`; the text says what was found and what to do.
    """

    def __init__(self, reason: Refusal, found: str) -> None:
        super().__init__(f"Command refused: {found}; {reason.value}.")
        self.reason = reason


class Mode(enum.IntEnum):
    """As in refit_interfaces/JointCommand."""

    EFFORT = 0
    POSITION = 1
    FEEDBACK = 2


def _nothing() -> np.ndarray:
    return np.zeros(0)


@dataclasses.dataclass(frozen=True)
class Command:
    """What the actuators shall do from `stamp` on; n = len(joints).

    Attributes:
        stamp: time of the state the command was computed from [s].
        joints: names, the order of every array below; all actuated joints, and optionally passive
            ones, whose effort and gain rows must be zero (full-state feedback needs their state).
        effort: shape (n,) [N m or N]; may be empty in POSITION (no feed-forward).
        position, velocity: shape (n,) [rad or m], [rad/s or m/s]; velocity may be empty (zero).
        gain: shape (n, 2n) or flat row-major, [position | velocity] columns; FEEDBACK only.
        commander: name of the node that sends it.
    """

    mode: Mode
    stamp: float
    joints: Sequence[str]
    effort: np.ndarray = dataclasses.field(default_factory=_nothing)
    position: np.ndarray = dataclasses.field(default_factory=_nothing)
    velocity: np.ndarray = dataclasses.field(default_factory=_nothing)
    gain: np.ndarray = dataclasses.field(default_factory=_nothing)
    commander: str = ""


def part_of(command: Command, joints: Sequence[str]) -> Command:
    """What a whole robot's command says to some of its joints, in the command's order; `check_command` judges the rest.

    Raises:
        CommandRefused: their efforts depend on other joints, which whoever moves these does not measure, or sizes are wrong.
    """
    n = len(command.joints)
    mine = np.array([name in joints for name in command.joints], bool)

    def cut(field: str) -> np.ndarray:
        array = np.asarray(getattr(command, field), dtype=float).ravel()
        if array.size not in (0, n):
            raise CommandRefused(Refusal.SIZE, f"{field} has {array.size} entries, expected {n}")
        return array[mine] if array.size else array

    gain = np.asarray(command.gain, dtype=float).ravel()
    if command.mode == Mode.FEEDBACK:
        if gain.size != 2 * n * n:
            raise CommandRefused(Refusal.SIZE, f"gain has {gain.size} entries, expected {2 * n * n}")
        rows, both = gain.reshape(n, 2 * n)[mine], np.concatenate([mine, mine])
        if rows[:, ~both].any():
            raise CommandRefused(Refusal.MODE, f"the gain of {', '.join(joints)} depends on joints of others")
        gain = rows[:, both].ravel()
    return dataclasses.replace(
        command,
        joints=[name for name in command.joints if name in joints],
        effort=cut("effort"),
        position=cut("position"),
        velocity=cut("velocity"),
        gain=gain,
    )


def check_command(command: Command, joints: Sequence[str], actuated: Sequence[str]) -> Command:
    """The command with arrays of full length over all `joints`, in the robot's order.

    Args:
        command: as received.
        joints: every joint of the robot.
        actuated: those with an actuator.

    Raises:
        CommandRefused: names, sizes or numbers are not as `Command` says.
    """
    names = list(command.joints)
    n = len(names)
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise CommandRefused(Refusal.NAMES, f"joint {', '.join(duplicates)} named twice")
    unknown = [name for name in names if name not in joints]
    if unknown:
        raise CommandRefused(Refusal.NAMES, f"unknown joint {', '.join(unknown)} (the robot has {', '.join(joints)})")
    missing = [name for name in actuated if name not in names]
    if missing:
        raise CommandRefused(Refusal.NAMES, f"joint {', '.join(missing)} missing")
    try:
        mode = Mode(command.mode)
    except ValueError:
        raise CommandRefused(Refusal.MODE, f"unknown mode {command.mode}") from None

    def vector(field: str, size: int, optional: bool) -> np.ndarray:
        array = np.asarray(getattr(command, field), dtype=float).ravel()
        if array.size == 0 and optional:
            return np.zeros(size)
        if array.size != size:
            raise CommandRefused(
                Refusal.SIZE, f"{field} has {array.size} entries, expected {size} for {n} joints in mode {mode.name}"
            )
        if not np.isfinite(array).all():
            bad = names[int(np.flatnonzero(~np.isfinite(array))[0]) % n]
            raise CommandRefused(Refusal.NOT_FINITE, f"{field} of {bad} is not finite")
        return array

    effort = vector("effort", n, optional=mode is Mode.POSITION)
    position = vector("position", n, optional=mode is Mode.EFFORT)
    velocity = vector("velocity", n, optional=True)
    gain = (
        vector("gain", 2 * n * n, optional=False).reshape(n, 2 * n) if mode is Mode.FEEDBACK else np.zeros((n, 2 * n))
    )
    for i, name in enumerate(names):
        if name not in actuated and (effort[i] != 0.0 or np.any(gain[i])):
            raise CommandRefused(
                Refusal.NOT_ACTUATED, f"joint {name} has no actuator but a non-zero effort or gain row"
            )

    if names == list(joints):
        return Command(mode, command.stamp, joints, effort, position, velocity, gain, command.commander)
    where = np.array([joints.index(name) for name in names])
    m = len(joints)

    def spread(array: np.ndarray) -> np.ndarray:
        full = np.zeros(m)
        full[where] = array
        return full

    full_gain = np.zeros((m, 2 * m))
    full_gain[np.ix_(where, np.concatenate([where, m + where]))] = gain
    return Command(
        mode, command.stamp, joints, spread(effort), spread(position), spread(velocity), full_gain, command.commander
    )
