"""Helpers shared by actions and substitutions."""

from . import type_utils
from .entities import normalize_to_list_of_entities, visit_all_entities_and_collect_futures
from .substitutions import (
    ensure_argument_type,
    is_a,
    is_a_subclass,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

__all__ = [
    "ensure_argument_type",
    "is_a",
    "is_a_subclass",
    "normalize_to_list_of_entities",
    "normalize_to_list_of_substitutions",
    "perform_substitutions",
    "type_utils",
    "visit_all_entities_and_collect_futures",
]
