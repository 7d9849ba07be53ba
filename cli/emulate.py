"""`refit emulate`: a device on a pseudo-terminal or the network; a scanner with `--scene` sees by the model of its optics."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from nodes.plant.emulator_program import emulator_program

__all__ = ["emulate"]


def emulate(words: Sequence[str]) -> int:
    """Play the device that the words name; returns the exit code."""
    return importlib.import_module(emulator_program(list(words))).main(list(words))
