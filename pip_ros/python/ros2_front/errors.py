"""The errors that end a command with one line."""

import difflib

EXIT_FAILED, EXIT_USAGE = 1, 2


class FrontError(Exception):
    """What was asked for cannot be had; the text is one sentence with what was found and what to do.

    Attributes:
        exit_code: 1.
    """

    exit_code = EXIT_FAILED


class UsageError(FrontError):
    """The command line is wrong; the text says how.

    Attributes:
        exit_code: 2.
    """

    exit_code = EXIT_USAGE


def choices(name, known, none="there are none"):
    """A remedy for a name that is not among the known ones: the one that was probably meant, or those there are."""
    known = sorted(set(known))
    if near := difflib.get_close_matches(name, known, n=1):
        return f"did you mean '{near[0]}'?"
    if not known:
        return none
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return f"there are: {shown}"
