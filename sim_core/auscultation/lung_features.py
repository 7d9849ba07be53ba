"""Five families of features of a lung recording: the shape of its spectrum, and how its loudness swells.

The published estimator takes ranks two to six of Grooby et al. and does not name them; these are the substitutes that the specification
lists: line spectral frequencies of linear prediction, mel-frequency cepstral coefficients, power at 100 to 700 over that at 700
to 1000 Hz, entropy and centroid of the spectrum, and sample entropy of the envelope.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import dct
from scipy.linalg import solve_toeplitz

from sim_core.auscultation.band_noise import band_power
from sim_core.auscultation.log_mel import log_mel
from sim_core.auscultation.preparation import RATE, envelope, prepared
from sim_core.auscultation.regions import BANDS
from sim_core.auscultation.sample_entropy import sample_entropy

__all__ = ["LUNG_FEATURES", "linear_prediction", "line_spectral_frequencies", "lung_features", "spectral_shape"]

ORDER, CEPSTRA = 6, 10
LUNG_FEATURES = (
    *(f"line spectral frequency {k + 1}" for k in range(ORDER)),
    *(f"cepstral coefficient {k + 1}" for k in range(CEPSTRA)),
    "power ratio [dB]",
    "entropy of the spectrum",
    "centroid of the spectrum [Hz]",
    "sample entropy of the envelope",
)
ENVELOPE_RATE = 10.0  # [Hz]
WHITENING = 1e-6  # of the power, so that silence has a prediction, too


def lung_features(sound: np.ndarray) -> np.ndarray:
    """LUNG_FEATURES of a recording (m,) at RATE, shape (20,)."""
    heard = prepared(sound, "lung")
    cepstra = dct(log_mel(heard).mean(axis=1), norm="ortho")[1 : CEPSTRA + 1]
    low, high = (float(band_power(sound, RATE, band)) for band in ((100.0, 700.0), (700.0, 1000.0)))
    return np.array(
        [
            *line_spectral_frequencies(linear_prediction(heard, ORDER)),
            *cepstra,
            10.0 * np.log10((low + 1e-20) / (high + 1e-20)),
            *spectral_shape(heard),
            sample_entropy(envelope(heard, ENVELOPE_RATE)),
        ]
    )


def linear_prediction(sound: np.ndarray, order: int) -> np.ndarray:
    """Coefficients a (order + 1,), a[0] = 1, of the filter that leaves least of a sound: the autocorrelation method."""
    r = np.array([sound[: len(sound) - k] @ sound[k:] for k in range(order + 1)])
    r[0] = r[0] * (1.0 + WHITENING) + 1e-20
    return np.concatenate([[1.0], -solve_toeplitz(r[:-1], r[1:])])


def line_spectral_frequencies(a: np.ndarray) -> np.ndarray:
    """Angles (order,) in (0, pi), ascending, of the roots of a(z) +- z^-(order+1) a(1/z) (Itakura 1975)."""
    padded, turned = np.append(a, 0.0), np.append(0.0, a[::-1])
    angles = np.concatenate([np.angle(np.roots(padded + turned)), np.angle(np.roots(padded - turned))])
    within = np.sort(angles[(angles > 1e-6) & (angles < np.pi - 1e-6)])
    return np.resize(within, len(a) - 1) if len(within) else np.zeros(len(a) - 1)


def spectral_shape(sound: np.ndarray) -> tuple[float, float]:
    """Entropy in [0, 1] and centroid [Hz] of the power spectrum within the lung's band; 0 and 0 for silence."""
    frequency = np.fft.rfftfreq(len(sound), 1.0 / RATE)
    within = (frequency >= BANDS["lung"][0]) & (frequency <= BANDS["lung"][1])
    # Steps of 20 Hz: single bins of noise scatter.
    edges = np.arange(BANDS["lung"][0], BANDS["lung"][1] + 1.0, 20.0)
    power = np.histogram(frequency[within], edges, weights=np.abs(np.fft.rfft(sound))[within] ** 2)[0]
    if power.sum() <= 0.0:
        return 0.0, 0.0
    p = power / power.sum()
    entropy = -np.sum(p * np.log(p, where=p > 0.0, out=np.zeros_like(p))) / np.log(len(p))
    return float(entropy), float(p @ (0.5 * (edges[1:] + edges[:-1])))
