"""Tools for tests."""

from . import process

__all__ = ["process"]
