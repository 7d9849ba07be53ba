"""Helpers of the ROS actions."""

from .namespace_utils import is_namespace_absolute, is_root_namespace, make_namespace_absolute, prefix_namespace
from .parameters import evaluate_parameters, normalize_parameters
from .remap_rules import normalize_remap_rules

__all__ = [
    "evaluate_parameters",
    "is_namespace_absolute",
    "is_root_namespace",
    "make_namespace_absolute",
    "normalize_parameters",
    "normalize_remap_rules",
    "prefix_namespace",
]
