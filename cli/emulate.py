"""`refit emulate`: a device on a pseudo-terminal or the network; a scanner with `--scene` sees by the model of its optics."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["emulate"]


def emulate(words: Sequence[str]) -> int:
    """Play the device that the words name; returns the exit code."""
    if words[:1] == ["urg"] and any(word.partition("=")[0] == "--scene" for word in words):
        from nodes.plant.lidar_emulator import main
    else:
        from hardware.emulate import main
    return main(list(words))
