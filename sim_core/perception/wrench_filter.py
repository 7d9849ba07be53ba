"""From a sensor's samples to the samples that are published: low-pass, then one of several, and what a sensor reads at rest."""

from __future__ import annotations

import numpy as np

__all__ = ["Decimator", "LowPass", "RestingMean"]


class LowPass:
    """Butterworth filter of second order over samples that come in blocks.

    Its delay at low frequencies is sqrt(2) / (2 pi cutoff). Coefficients by the bilinear transform with the cutoff prewarped; a block
    goes through at once, as its samples and the state before it have a linear effect on the block and on the state behind it.

    Args:
        cutoff: [Hz], below half the rate.
        rate: samples per second.
    """

    LONGEST = 64  # samples that go through at once

    def __init__(self, cutoff: float, rate: float) -> None:
        if not 0.0 < cutoff < 0.5 * rate:
            raise ValueError(
                f"a cutoff of {cutoff:g} Hz needs more than {2.0 * cutoff:g} samples per second, there are {rate:g}"
            )
        k = np.tan(np.pi * cutoff / rate)
        norm = 1.0 / (1.0 + np.sqrt(2.0) * k + k * k)
        b0, b1, b2 = k * k * norm * np.array([1.0, 2.0, 1.0])
        a1, a2 = 2.0 * (k * k - 1.0) * norm, (1.0 - np.sqrt(2.0) * k + k * k) * norm
        # Direct form II, transposed: s' = A s + B x, y = s[0] + b0 x.
        A, B = np.array([[-a1, 1.0], [-a2, 0.0]]), np.array([b1 - a1 * b0, b2 - a2 * b0])
        powers = [np.eye(2)]
        for _ in range(self.LONGEST):
            powers.append(A @ powers[-1])
        response = np.array([b0, *(P[0] @ B for P in powers[: self.LONGEST - 1])])
        i, j = np.indices((self.LONGEST, self.LONGEST))
        self._inputs_to_outputs = np.where(i >= j, response[i - j], 0.0)
        self._state_to_outputs = np.array([P[0] for P in powers[: self.LONGEST]])
        self._state_to_state = powers
        self._inputs_to_state = np.array([P @ B for P in powers[self.LONGEST - 1 :: -1]]).T
        self._at_rest = np.linalg.solve(np.eye(2) - A, B)[:, None]
        self._state: np.ndarray | None = None

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """Filtered samples, (n, k) like the given ones. The first sample counts as what was there for ever."""
        if self._state is None:
            self._state = self._at_rest * samples[0]
        return np.concatenate(
            [self._pass(samples[at : at + self.LONGEST]) for at in range(0, len(samples), self.LONGEST)]
        )

    def _pass(self, x: np.ndarray) -> np.ndarray:
        n, s = len(x), self._state
        assert s is not None  # __call__ has set it
        self._state = self._state_to_state[n] @ s + self._inputs_to_state[:, self.LONGEST - n :] @ x
        return self._state_to_outputs[:n] @ s + self._inputs_to_outputs[:n, :n] @ x

    def reset(self) -> None:
        """The samples were interrupted."""
        self._state = None


class Decimator:
    """One sample of every `factor`: their mean, stamped with their mean time, or the last of them.

    Args:
        factor: at least 1.
        mean: else the last.
    """

    def __init__(self, factor: int, mean: bool) -> None:
        self.factor, self.mean = factor, mean
        self._t, self._samples = np.empty(0), np.empty((0, 0))

    def __call__(self, t: np.ndarray, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times (m,) and samples (m, k) that are complete with this block of times (n,) and samples (n, k)."""
        t, samples = (
            np.concatenate([self._t, t]),
            np.concatenate([self._samples.reshape(-1, samples.shape[1]), samples]),
        )
        whole = len(t) // self.factor * self.factor
        if not whole:
            self._t, self._samples = t, samples
            return t[:0], samples[:0]
        self._t, self._samples = t[whole:], samples[whole:]
        t, samples = t[:whole].reshape(-1, self.factor), samples[:whole].reshape(-1, self.factor, samples.shape[1])
        return (t.mean(axis=1), samples.mean(axis=1)) if self.mean else (t[:, -1], samples[:, -1])

    def reset(self) -> None:
        """The samples were interrupted: no mean across the gap."""
        self._t, self._samples = np.empty(0), np.empty((0, 0))


class RestingMean:
    """Mean and standard deviation of `count` samples; filled block by block."""

    def __init__(self, count: int) -> None:
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
