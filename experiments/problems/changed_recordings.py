"""Recordings as others make them: shorter, of another rate, of whole numbers; estimators should not mind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.signal import resample_poly

from sim_core.auscultation.acoustic_field import Heard
from sim_core.auscultation.hidden_rating import hidden_rating
from sim_core.auscultation.quality_estimator import QualityEstimator
from sim_core.auscultation.quality_network import QualityNetwork
from sim_core.auscultation.synthetic_recordings import RECORDINGS_OF_A_BODY, random_recording
from sim_core.auscultation.usability import UnusableRecording

__all__ = ["CHANGES", "errors_when_changed"]

CHANGES = ("as learnt from", "16 bits", "44.1 kHz", "2 kHz", "first 5 s")


def errors_when_changed(
    estimators: Sequence[QualityEstimator | QualityNetwork], bodies: Sequence[int]
) -> list[dict[str, float | None]]:
    """For each estimator: change -> mean absolute error to the hidden rating; None where none can be judged."""
    found: list[dict[str, list[float]]] = [{change: [] for change in CHANGES} for _ in estimators]
    for heard in (random_recording(body, k) for body in bodies for k in range(RECORDINGS_OF_A_BODY)):
        for change in CHANGES:
            other = _changed(heard, change)
            for estimator, errors in zip(estimators, found):
                try:
                    guess = estimator.predict(other.sound, other.rate)
                except UnusableRecording:
                    continue
                # A rate changes what is stored, not what was heard.
                truth = hidden_rating(other if change == "first 5 s" else heard, estimator.structure)
                errors[change].append(abs(guess - truth))
    return [{change: float(np.mean(all_)) if all_ else None for change, all_ in one.items()} for one in found]


def _changed(heard: Heard, change: str) -> Heard:
    sound, rate = heard.sound, heard.rate
    if change == "16 bits":
        return Heard(np.round(32767.0 * sound) / 32768.0, rate, heard.parts)
    if change == "44.1 kHz":
        return Heard(np.clip(resample_poly(sound, 441, 40), -1.0, 1.0), 44100.0, heard.parts)
    if change == "2 kHz":
        return Heard(np.clip(resample_poly(sound, 1, 2), -1.0, 1.0), 2000.0, heard.parts)
    if change == "first 5 s":
        n = round(5.0 * rate)
        return Heard(sound[:n], rate, {name: part[:n] for name, part in heard.parts.items()})
    return heard
