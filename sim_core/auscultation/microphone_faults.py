"""What goes wrong with a microphone, in the order in which `Fault` has it: each does to sound what is found on recordings."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

__all__ = ["FAULTS", "Fault", "dropped", "faulty"]

#: none; dead but connected; gain too high; no sound at all; half a second lost in the middle of each recording
Fault = Literal["", "silent", "clipped", "gone", "dropout"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
DEAD = 1e-5  # RMS of a dead microphone's converter [of full scale], -100 dBFS
TOO_LOUD = 100.0  # gain, 40 dB
DROPOUT = 0.5  # [s]


def faulty(sound: np.ndarray, fault: Fault, rng: np.random.Generator) -> np.ndarray:
    """A sound (n,), full scale at 1, as a microphone with a lasting fault gives it; of the others nothing is to be seen here."""
    if fault == "silent":
        return DEAD * rng.standard_normal(len(sound))
    return np.clip(TOO_LOUD * sound, -1.0, 1.0) if fault == "clipped" else sound


def dropped(sound: np.ndarray, begin: int, whole: int, rate: float) -> np.ndarray:
    """A part (n,) of a recording of `whole` samples that begins at sample `begin` of it, without what drops out of its middle."""
    at = begin + np.arange(len(sound))
    return np.where(np.abs(at - 0.5 * whole) < 0.5 * DROPOUT * rate, 0.0, sound)
