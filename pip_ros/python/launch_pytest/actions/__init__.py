"""Actions for launch descriptions under test."""

from .ready_to_test import ReadyToTest

__all__ = ["ReadyToTest"]
