"""From a recording as it comes to one that estimators can take, or to a refusal."""

from __future__ import annotations

import numpy as np

from sim_core.auscultation.preparation import at_common_rate
from sim_core.auscultation.regions import Structure
from sim_core.auscultation.usability import usable

__all__ = ["judged_sound"]


def judged_sound(sound: np.ndarray, rate: float, structure: Structure, lasted: float | None = None) -> np.ndarray:
    """A recording at the common rate, shape (m,), if it can be judged; arguments as `usability.usable`.

    Raises:
        UnusableRecording: it cannot; the text says why and what to do.
    """
    usable(sound, rate, structure, lasted).require()
    return at_common_rate(sound, rate)
