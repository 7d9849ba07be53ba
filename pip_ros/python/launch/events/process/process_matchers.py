"""Predicates over ExecuteProcess actions."""

import os


def matches_pid(pid):
    """Return a predicate that is true for the action whose process has this pid."""
    return lambda action: (action.process_details or {}).get("pid") == pid


def matches_name(name):
    """Return a predicate that is true for the action of this name."""
    return lambda action: (action.process_details or {}).get("name") == name


def matches_executable(executable):
    """Return a predicate over the command's first word, or its file name."""

    def matcher(action):
        details = action.process_details
        if not details:
            return False
        return executable in (details["cmd"][0], os.path.basename(details["cmd"][0]))

    return matcher
