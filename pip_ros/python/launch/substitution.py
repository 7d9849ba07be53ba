"""A value that becomes text only when the launch runs."""


class Substitution:
    """Base class: `perform(context)` returns the text, `describe()` names it."""

    def perform(self, context):
        """Return the text in this context."""
        raise NotImplementedError(f"{type(self).__name__} does not define perform()")

    def describe(self):
        """Return a short text for listings such as --show-args."""
        return f"{type(self).__name__}()"
