"""What can go wrong with a plant, as values that carry a sentence."""

from __future__ import annotations

import enum

__all__ = ["CommandRefused", "EntityError", "PlantError", "Refusal"]


class PlantError(ValueError):
    """The plant cannot be built or changed as asked; the text says what was expected."""


class EntityError(PlantError):
    """An entity cannot be spawned, found, moved or deleted.

    `kind` is one of "not_found", "not_unique", "invalid_name", "format", "parse", "pose",
    "unsupported".
    """

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Refusal(enum.Enum):
    """Why a command was refused; the value is the remedy."""

    NAMES = "name every actuated joint once, and no joint the robot lacks"
    SIZE = "give one entry per named joint, and gain as n x 2n row-major"
    NOT_FINITE = "send finite numbers only"
    NOT_ACTUATED = "send zero effort and zero gain rows for passive joints"
    MODE = "use effort (0), position (1) or feedback (2)"
    OLD = "send commands sooner, or raise command_age_limit"
    FUTURE = "stamp a command with the time of the state it was computed from"
    BUSY = "one source commands at a time, and only while torque is on"


class CommandRefused(PlantError):
    """A command the plant will not follow. Nothing moves because of it.

    `reason` is a `Refusal`; the text says what was found and what to do.
    """

    def __init__(self, reason: Refusal, found: str):
        super().__init__(f"Command refused: {found}; {reason.value}.")
        self.reason = reason
