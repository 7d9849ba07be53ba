"""Predicates over lifecycle node actions."""

from ..matchers import matches_node_name

__all__ = ["matches_node_name"]
