"""The error that a command shows as one line."""

from __future__ import annotations

from reporting.checks import EXIT_USAGE


class CommandError(Exception):
    """Ends the command with one line on stderr and an exit code.

    The text says what was expected, what was found and what to do. Anything else that is raised is a
    defect and keeps its traceback.
    """

    def __init__(self, message: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
