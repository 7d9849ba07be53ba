"""Log-mel spectrogram of a recording, and its summary over time: what the small network sees.

Per band the summary holds quantiles over time (the quiet ones are the noise, the loud ones noise and sound), and how much of the
loudness varies at the rates of breath, heart and faster things.
"""

from __future__ import annotations

import functools

import numpy as np

from sim_core.auscultation.preparation import RATE

__all__ = ["BANDS_OF_MEL", "SUMMARY", "log_mel", "mel_filters", "summary"]

BANDS_OF_MEL = 24
WINDOW, HOP = 256, 128  # samples at RATE: 64 and 32 ms
RANGE = (25.0, 1800.0)  # [Hz]
FAINT = 1e-10  # power below which nothing is heard: -100 dBFS
QUANTILES = (0.05, 0.2, 0.5, 0.8, 0.95, 1.0)
#: rates of change [Hz]: breath, slow, heart, its harmonics, events
RATES = ((0.15, 0.45), (0.45, 0.8), (0.8, 2.0), (2.0, 5.0), (5.0, 12.0))
#: numbers of a summary
SUMMARY = BANDS_OF_MEL * (len(QUANTILES) + len(RATES)) + 3


@functools.cache
def mel_filters() -> np.ndarray:
    """Triangles (BANDS_OF_MEL, WINDOW // 2 + 1), equally spaced on the mel scale 2595 log10(1 + f / 700)."""
    lowest, highest = (2595.0 * np.log10(1.0 + f / 700.0) for f in RANGE)
    mel = np.linspace(lowest, highest, BANDS_OF_MEL + 2)
    edges = 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    frequency = np.fft.rfftfreq(WINDOW, 1.0 / RATE)
    rising = (frequency - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequency) / np.diff(edges)[1:, None]
    filters = np.maximum(0.0, np.minimum(rising, falling))
    # Low bands are narrower than a bin of the transform: such a band has the bin nearest to its middle.
    for k in np.flatnonzero(filters.sum(axis=1) == 0.0):
        filters[k, np.argmin(np.abs(frequency - edges[k + 1]))] = 1.0
    return filters


def log_mel(sound: np.ndarray) -> np.ndarray:
    """Power of a recording (m,) at RATE by mel band and time, in decades, shape (BANDS_OF_MEL, frames)."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames)) ** 2 / WINDOW**2
    return np.log10(power @ mel_filters().T + FAINT).T


def summary(sound: np.ndarray) -> np.ndarray:
    """Summary (SUMMARY,) of a recording (m,) at RATE."""
    loud = log_mel(sound)
    quantiles = np.quantile(loud, QUANTILES, axis=1)
    level = float(np.median(quantiles[2]))
    frames = loud.shape[1]
    changes = np.abs(np.fft.rfft((loud - loud.mean(axis=1, keepdims=True)) * np.hanning(frames))) ** 2 / frames
    rate = np.fft.rfftfreq(frames, HOP / RATE)
    at = [changes[:, (rate >= low) & (rate < high)].max(axis=1) for low, high in RATES]
    # How regular the beat is: the autocorrelation of the loudness of low and of higher bands at a beat's interval.
    beats = [_regularity(loud[rows].mean(axis=0)) for rows in (slice(0, 6), slice(6, 14), slice(14, None))]
    return np.concatenate([(quantiles - level).ravel(), np.log10(np.concatenate(at) + 1e-6), beats])


def _regularity(series: np.ndarray) -> float:
    """Highest autocorrelation of a series (frames,) between 0.4 and 1.5 s."""
    x = series - series.mean()
    sums = np.fft.irfft(np.abs(np.fft.rfft(x, 2 * len(x))) ** 2)[: len(x)]
    first, last = (round(t * RATE / HOP) for t in (0.4, 1.5))
    return float(sums[first : last + 1].max() / sums[0]) if sums[0] > 0.0 else 0.0
