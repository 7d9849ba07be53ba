"""Noise of a given spectrum, and power and sound within a band, by Fourier transforms of whole recordings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["band_limited", "band_power", "in_band", "shaped_noise"]


def shaped_noise(
    n: int, rate: float, amplitude: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Gaussian noise with a given amplitude spectrum and RMS 1.

    Args:
        n: samples. rate: samples per second [Hz]. amplitude: of frequencies (m,) [Hz] -> (m,), any scale.

    Returns:
        Sound, shape (n,); silence where the spectrum has nothing below half the sampling rate.
    """
    spectrum = np.fft.rfft(rng.standard_normal(n)) * amplitude(np.fft.rfftfreq(n, 1.0 / rate))
    sound = np.fft.irfft(spectrum, n)
    rms = np.sqrt(np.mean(sound**2))
    return sound / rms if rms > 0.0 else sound


def band_limited(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """Amplitude spectrum of a band [Hz] with the edges of a Butterworth filter of fourth order."""

    def amplitude(frequency: np.ndarray) -> np.ndarray:
        f = np.maximum(frequency, 1e-9)
        return 1.0 / np.sqrt((1.0 + (low / f) ** 8) * (1.0 + (f / high) ** 8))

    return amplitude


def in_band(sound: np.ndarray, rate: float, band: tuple[float, float]) -> np.ndarray:
    """The part of a sound (..., n) whose frequencies lie within a band [Hz], with sharp edges."""
    n = sound.shape[-1]
    frequency = np.fft.rfftfreq(n, 1.0 / rate)
    return np.fft.irfft(np.fft.rfft(sound) * ((frequency >= band[0]) & (frequency <= band[1])), n)


def band_power(sound: np.ndarray, rate: float, band: tuple[float, float]) -> np.ndarray:
    """Mean square of a sound (..., n) within a band [Hz], shape (...), by Parseval's theorem."""
    return np.mean(in_band(sound, rate, band) ** 2, axis=-1)
