"""From a sensor's samples to the samples that are published: low-pass, then one of several, and what a sensor reads at rest."""

from __future__ import annotations

import numpy as np
from scipy.signal import butter, sosfilt, sosfilt_zi

__all__ = ["Decimator", "LowPass", "RestingMean"]


class LowPass:
    """Butterworth filter of second order over samples that come in blocks.

    Its delay at low frequencies is sqrt(2) / (2 pi cutoff).

    Args:
        cutoff: [Hz], below half the rate.
        rate: samples per second.
    """

    def __init__(self, cutoff: float, rate: float):
        if not 0.0 < cutoff < 0.5 * rate:
            raise ValueError(f"a cutoff of {cutoff:g} Hz needs more than {2.0 * cutoff:g} samples per second, there are {rate:g}")
        self._sections = butter(2, cutoff, fs=rate, output="sos")
        self._rest = sosfilt_zi(self._sections)[:, :, None]
        self._state: np.ndarray | None = None

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """Filtered samples, (n, k) like the given ones. The first sample counts as what was there for ever."""
        if self._state is None:
            self._state = self._rest * samples[0]
        filtered, self._state = sosfilt(self._sections, samples, axis=0, zi=self._state)
        return filtered

    def reset(self) -> None:
        """The samples were interrupted."""
        self._state = None


class Decimator:
    """One sample of every `factor`: their mean, stamped with their mean time, or the last of them.

    Args:
        factor: at least 1.
        mean: else the last.
    """

    def __init__(self, factor: int, mean: bool):
        self.factor, self.mean = factor, mean
        self.reset()

    def __call__(self, t: np.ndarray, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times (m,) and samples (m, k) that are complete with this block of times (n,) and samples (n, k)."""
        t, samples = np.concatenate([self._t, t]), np.concatenate([self._samples.reshape(-1, samples.shape[1]), samples])
        whole = len(t) // self.factor * self.factor
        self._t, self._samples = t[whole:], samples[whole:]
        t, samples = t[:whole].reshape(-1, self.factor), samples[:whole].reshape(-1, self.factor, samples.shape[1])
        return (t.mean(axis=1), samples.mean(axis=1)) if self.mean else (t[:, -1], samples[:, -1])

    def reset(self) -> None:
        """The samples were interrupted: no mean across the gap."""
        self._t, self._samples = np.empty(0), np.empty((0, 0))


class RestingMean:
    """Mean and standard deviation of `count` samples; filled block by block."""

    def __init__(self, count: int):
        self.count = count
        self._blocks: list[np.ndarray] = []
        self.collected = 0

    def add(self, samples: np.ndarray) -> bool:
        """Take what is needed of samples (n, k); True once there are enough."""
        taken = samples[: self.count - self.collected]
        if len(taken):
            self._blocks.append(taken)
            self.collected += len(taken)
        return self.collected >= self.count

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, each (k,)."""
        samples = np.concatenate(self._blocks)
        return samples.mean(axis=0), samples.std(axis=0)
