"""Predicates over actions, for events that address some of them."""


def matches_action(target_action):
    """Return a predicate that is true for exactly this action."""
    return lambda action: action is target_action
