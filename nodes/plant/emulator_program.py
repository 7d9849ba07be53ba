"""Which program plays an emulated device: those of `hardware`, or one that computes above them what the device senses."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["emulator_program"]

#: options by which a scanner sees by the model of its optics
OPTICS = ("--scene", "--optics")


def emulator_program(words: Sequence[str]) -> str:
    """Module whose `main` plays the device that the words of `refit emulate` name."""
    if words[:1] == ["urg"] and any(word.partition("=")[0] in OPTICS for word in words):
        return "nodes.plant.lidar_emulator"
    return "hardware.emulate"
