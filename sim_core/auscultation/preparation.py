"""What is done to a recording before its features are taken: one sampling rate, less steady noise, one band.

The published estimator reduces noise by spectral gating and keeps 50 to 250 Hz of hearts, 200 to 1000 Hz of lungs. The gate here: a
bin of the spectrogram counts as sound if it exceeds a multiple of the quiet level of its frequency (a low quantile over time);
the mask is smoothed over neighbours, and what is not sound is attenuated.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy import signal
from scipy.ndimage import uniform_filter

from sim_core.auscultation.band_noise import in_band
from sim_core.auscultation.regions import BANDS, Structure
from sim_core.auscultation.usability import mono

__all__ = ["RATE", "at_common_rate", "envelope", "gated", "prepared"]

RATE = 4000  # [Hz] at which recordings are judged: four times the highest frequency that matters
WINDOW, HOP = 256, 64  # samples of the spectrogram
QUIET, ABOVE, ATTENUATION = 0.2, 2.0, 0.1  # quantile of the quiet level; its multiple; amplitude that is left [-]


def at_common_rate(sound: np.ndarray, rate: float) -> np.ndarray:
    """A recording (n,) or (n, channels) of any rate [Hz], at RATE, shape (m,), without its mean."""
    sound = mono(sound)
    sound = sound - sound.mean()
    if rate == RATE:
        return sound
    ratio = Fraction(RATE, round(rate)).limit_denominator(1000)
    return signal.resample_poly(sound, ratio.numerator, ratio.denominator)


def gated(sound: np.ndarray) -> np.ndarray:
    """A recording (m,) at RATE after spectral gating, shape (m,)."""
    _, _, spectrum = signal.stft(sound, RATE, nperseg=WINDOW, noverlap=WINDOW - HOP)
    loud = np.abs(spectrum)
    mask = (loud > ABOVE * np.quantile(loud, QUIET, axis=1, keepdims=True)).astype(float)
    mask = uniform_filter(mask, size=(3, 5), mode="nearest")
    _, kept = signal.istft(
        (ATTENUATION + (1.0 - ATTENUATION) * mask) * spectrum, RATE, nperseg=WINDOW, noverlap=WINDOW - HOP
    )
    return kept[: len(sound)] if len(kept) >= len(sound) else np.pad(kept, (0, len(sound) - len(kept)))


def prepared(sound: np.ndarray, structure: Structure) -> np.ndarray:
    """A recording (m,) at RATE with its noise reduced, within the structure's band, shape (m,)."""
    return in_band(gated(sound), RATE, BANDS[structure])


def envelope(sound: np.ndarray, rate: float) -> np.ndarray:
    """Mean amplitude of a sound (m,) at RATE, shape (k,), at `rate` samples per second [Hz]."""
    block = round(RATE / rate)
    loud = np.abs(signal.hilbert(sound))
    return loud[: len(loud) // block * block].reshape(-1, block).mean(axis=1)
