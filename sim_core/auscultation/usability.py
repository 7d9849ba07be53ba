"""The front door of the estimators: is this a recording that can be judged at all, and if not, why not.

What is refused has no quality: a score of zero would say "listen elsewhere" where the microphone is what has to be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from sim_core.auscultation.regions import BANDS, Structure

__all__ = ["Usability", "UnusableRecording", "Verdict", "usable"]

FLOOR = 1e-4  # RMS [of full scale] of a dead microphone, -80 dBFS, as the audio node counts it
FULL_SCALE = 0.999  # from which a sample counts as clipped
CLIPPING = 0.01  # share of samples beyond which a recording is spoilt
SHORTEST = 5.0  # [s]: an inspiration and an expiration, five beats
GAP = 0.25  # [s] of silence within sound: lost samples are written as silence
RATE_TOLERANCE = 0.02
HEADROOM = 2.2  # samples per period of the highest frequency that is judged


class Verdict(Enum):
    """What is wrong with a recording; the value begins the sentence that a person reads."""

    USABLE = "the recording can be judged"
    NOT_FINITE = "the recording holds numbers that are not finite"
    WRONG_RATE = "the sampling rate is wrong"
    TOO_SHORT = "the recording is too short"
    SILENT = "the microphone was silent"
    GONE = "the sound was gone in the middle"
    CLIPPED = "the recording is clipped"


class UnusableRecording(ValueError):
    """A recording that cannot be judged. The text says why and what to do; `verdict` says it to programs."""

    def __init__(self, usability: Usability) -> None:
        super().__init__(usability.sentence)
        self.verdict = usability.verdict


@dataclass(frozen=True)
class Usability:
    """A verdict and the sentence that explains it."""

    verdict: Verdict
    sentence: str

    def __bool__(self) -> bool:
        return self.verdict is Verdict.USABLE

    def require(self) -> None:
        """Go on, or refuse.

        Raises:
            UnusableRecording: the recording cannot be judged.
        """
        if not self:
            raise UnusableRecording(self)


def usable(sound: np.ndarray, rate: float, structure: Structure, lasted: float | None = None) -> Usability:
    """Whether a recording can be judged.

    Args:
        sound: samples (n,), or (n, channels) of which the mean is judged, full scale at 1.
        rate: samples per second that its header names [Hz].
        structure: what was listened to; it decides which rates are high enough.
        lasted: how long it took by the clock [s], if known: shows a header whose rate is not that of the converter.

    Returns:
        The first thing that is wrong, in the order of `Verdict`, or that it is usable.
    """
    sound = mono(sound)
    highest = BANDS[structure][1]
    if not np.isfinite(sound).all():
        bad = np.flatnonzero(~np.isfinite(sound))
        return _no(
            Verdict.NOT_FINITE,
            f"{len(bad)} of {len(sound)} samples, the first at {bad[0] / rate if rate > 0 else 0.0:.2f} s: look for a fault "
            "in the conversion of samples",
        )
    if not np.isfinite(rate) or rate < HEADROOM * highest:
        return _no(
            Verdict.WRONG_RATE,
            f"{rate:g} Hz cannot hold the {structure}'s band up to {highest:g} Hz; record at {HEADROOM * highest:g} Hz or more",
        )
    n = len(sound)
    if lasted is not None and lasted > 0.0 and abs(n / lasted / rate - 1.0) > RATE_TOLERANCE:
        return _no(
            Verdict.WRONG_RATE,
            f"{n} samples in {lasted:.2f} s are {n / lasted:.0f} a second, but the header says {rate:g} Hz: set 'sample_rate' "
            "to the converter's own, or look for lost samples",
        )
    if n < SHORTEST * rate:
        return _no(Verdict.TOO_SHORT, f"{n / rate:.1f} s, at least {SHORTEST:g} s are needed; 10 s are usual")
    rms = float(np.sqrt(np.mean((sound - sound.mean()) ** 2)))
    if rms < FLOOR:
        level = 20.0 * np.log10(max(rms, 1e-12))
        return _no(
            Verdict.SILENT,
            f"level {level:.0f} dBFS, a living microphone stays above {20.0 * np.log10(FLOOR):.0f}: is it muted or unplugged?",
        )
    begin, length = longest_silence(sound, rate)
    if length >= GAP:
        return _no(
            Verdict.GONE, f"no sound from {begin:.2f} to {begin + length:.2f} s: look for lost samples or a loose plug"
        )
    clipped = float(np.mean(np.abs(sound) >= FULL_SCALE))
    if clipped > CLIPPING:
        return _no(Verdict.CLIPPED, f"{100.0 * clipped:.1f} % of the samples stand at full scale: lower the gain")
    return Usability(Verdict.USABLE, f"{Verdict.USABLE.value}.")


def mono(sound: np.ndarray) -> np.ndarray:
    """Samples (n,) of a recording (n,) or the mean of its channels (n, channels)."""
    sound = np.asarray(sound, float)
    return sound if sound.ndim == 1 else sound.mean(axis=1)


def longest_silence(sound: np.ndarray, rate: float) -> tuple[float, float]:
    """Begin and length [s] of the longest stretch without any change from sample to sample beyond a dead microphone's.

    Blocks of 10 ms are silent if all their samples lie within FLOOR of each other.
    """
    block = max(2, round(0.01 * rate))
    blocks = sound[: len(sound) // block * block].reshape(-1, block)
    silent = np.ptp(blocks, axis=1) < FLOOR
    # Runs of silent blocks begin where the padded indicator rises and end where it falls.
    edges = np.flatnonzero(np.diff(np.concatenate([[0], silent.astype(int), [0]])))
    if not len(edges):
        return 0.0, 0.0
    starts, ends = edges[::2], edges[1::2]
    k = int(np.argmax(ends - starts))
    return float(starts[k] * block / rate), float((ends[k] - starts[k]) * block / rate)


def _no(verdict: Verdict, why: str) -> Usability:
    return Usability(verdict, f"{verdict.value}: {why}.")
