"""What is executed."""

from .executable import Executable

__all__ = ["Executable"]
