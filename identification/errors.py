"""The one error of this package: what a use case was given cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["UnusableInput", "unusable_input"]


class UnusableInput(ValueError):
    """A recording, a file or a setting cannot be used; one sentence: what was expected, what was found, what to do.

    Commands show it as one line with exit code 2, nodes as the reason for which a request is refused. Anything else
    that is raised here is a defect.
    """


@contextmanager
def unusable_input(*errors: type[Exception]) -> Iterator[None]:
    """Errors of the layers below that speak about what those were given leave as UnusableInput, with the same sentence.

    with unusable_input(BagError, ModelError):
        reader.require("joint_states")
    """
    try:
        yield
    except UnusableInput:
        raise
    except errors as error:
        # str() of a KeyError is its text in quotes
        raise UnusableInput(str(error.args[0]) if isinstance(error, KeyError) else str(error)) from error
