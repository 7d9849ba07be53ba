"""What can go wrong for a script, each with a sentence that says what to do."""

from __future__ import annotations

__all__ = ["GraphError", "ScriptError", "UsageError"]


class ScriptError(RuntimeError):
    """Something did not happen that a script asked for."""


class UsageError(ScriptError):
    """What was asked for makes no sense: an unknown robot, a verb that this robot does not have, an empty domain."""


class GraphError(ScriptError):
    """The graph did not do its part; the text ends with the last lines of its log, where this script started it."""
