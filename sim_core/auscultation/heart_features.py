"""Five features of a heart recording that tell how clearly its beats repeat.

The published estimator takes the five best of Grooby et al. and does not name them; these are the substitutes that the specification
lists, of the same families: sample entropy and kurtosis of the autocorrelation of the envelope, its highest peak at an interval that a
heart may have, periodicity by singular values, and the share of the power in the heart's band.
"""

from __future__ import annotations

import numpy as np

from sim_core.auscultation.band_noise import band_power
from sim_core.auscultation.preparation import RATE, envelope, prepared
from sim_core.auscultation.regions import BANDS
from sim_core.auscultation.sample_entropy import sample_entropy

__all__ = ["HEART_FEATURES", "autocorrelation", "beat_peak", "heart_features", "svd_periodicity"]

HEART_FEATURES = (
    "sample entropy of the autocorrelation",
    "peak of the autocorrelation",
    "periodicity by singular values",
    "kurtosis of the autocorrelation",
    "share of the power in band",
)
ENVELOPE_RATE = 50.0  # [Hz]
LONGEST_LAG = 2.0  # [s]
INTERVALS = (0.4, 1.5)  # [s] between beats: 150 to 40 a minute
HEARD = (20.0, 1000.0)  # [Hz] that the share of the power refers to


def heart_features(sound: np.ndarray) -> np.ndarray:
    """HEART_FEATURES of a recording (m,) at RATE, shape (5,)."""
    loud = envelope(prepared(sound, "heart"), ENVELOPE_RATE)
    lags = autocorrelation(loud, round(LONGEST_LAG * ENVELOPE_RATE))
    total = float(band_power(sound, RATE, HEARD))
    share = float(band_power(sound, RATE, BANDS["heart"])) / total if total > 0.0 else 0.0
    return np.array([sample_entropy(lags), beat_peak(lags), svd_periodicity(loud), _kurtosis(lags), share])


def autocorrelation(series: np.ndarray, lags: int) -> np.ndarray:
    """Autocorrelation (lags + 1,) of a series (n,) without its mean, 1 at lag 0, unbiased; zeros for a constant."""
    x = series - series.mean()
    n = len(x)
    spectrum = np.fft.rfft(x, 2 * n)
    sums = np.fft.irfft(np.abs(spectrum) ** 2)[: lags + 1] / (n - np.arange(lags + 1))
    return sums / sums[0] if sums[0] > 0.0 else np.zeros(lags + 1)


def beat_peak(lags: np.ndarray) -> float:
    """The highest autocorrelation at a beat's interval."""
    first, last = (round(t * ENVELOPE_RATE) for t in INTERVALS)
    return float(lags[first : last + 1].max())


def svd_periodicity(series: np.ndarray) -> float:
    """Share of the first singular value's square in all, highest over the periods that a heart may have, in [0, 1].

    A series that repeats is a matrix of equal rows when cut at its period (Kumar et al., IEEE EMBC 2011).
    """
    first, last = (round(t * ENVELOPE_RATE) for t in INTERVALS)
    x, best = series - series.mean(), 0.0
    for period in range(first, last + 1):
        rows = x[: len(x) // period * period].reshape(-1, period)
        squares = np.linalg.eigvalsh(rows @ rows.T)
        best = max(best, float(squares[-1] / squares.sum()) if squares.sum() > 0.0 else 0.0)
    return best


def _kurtosis(x: np.ndarray) -> float:
    """Fourth central moment over the square of the second; 0 for a constant."""
    d = x - x.mean()
    variance = float(np.mean(d**2))
    return float(np.mean(d**4)) / variance**2 if variance > 0.0 else 0.0
