"""Remapping rules."""

from launch.utilities import normalize_to_list_of_substitutions


def normalize_remap_rules(remap_rules):
    """Return pairs of lists of substitutions; TypeError for anything but pairs."""
    rules = []
    for rule in remap_rules:
        if isinstance(rule, str) or len(rule) != 2:
            raise TypeError(f"remapping: expected a pair ('from', 'to'), found {rule!r}")
        rules.append(tuple(normalize_to_list_of_substitutions(side) for side in rule))
    return rules
