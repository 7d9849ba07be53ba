"""The error that a command shows as one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reporting.checks import EXIT_USAGE

__all__ = ["CommandError", "as_command_error"]


class CommandError(Exception):
    """Ends the command with one line on stderr and an exit code.

    The text says what was expected, what was found and what to do. Anything else that is raised is a
    defect and keeps its traceback.
    """

    def __init__(self, message: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def as_command_error(*errors: type[Exception]) -> Iterator[None]:
    """Errors that speak about what the person gave end the command, with the same sentence."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from None
