"""Predicates over node actions."""


def matches_node_name(node_name):
    """Return a predicate that is true for the node of this full name."""
    full_name = node_name if node_name.startswith("/") else f"/{node_name}"
    return lambda action: action.node_name == full_name
