"""The condition under which an action is executed."""


class InvalidConditionExpressionError(Exception):
    """The text of a condition is neither true nor false."""


class Condition:
    """A predicate over the launch context."""

    def __init__(self, *, predicate=None):
        self._predicate = predicate

    def evaluate(self, context):
        """Return True if the action is to be executed in this context."""
        return self._predicate(context) if self._predicate is not None else False

    def describe(self):
        return repr(self)
