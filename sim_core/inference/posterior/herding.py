"""A few particles that stand for many."""

from __future__ import annotations

import numpy as np

__all__ = ["herd"]


def herd(values: np.ndarray, count: int) -> np.ndarray:
    """Indices (count,) of particles whose equally weighted mean represents that of all, by kernel herding.

    Greedy: each next one is where the kernel density of all exceeds that of the ones taken so far the most. So modes
    are represented by their weight, and a particle may be taken again: of two particles, four are each of them twice.

    Args:
        values: (N, M); columns count in units of their standard deviation.

    Source: Chen, Welling, Smola, Super-samples from kernel herding, UAI 2010, equation 8.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all() or count < 1:
        raise ValueError(
            f"expected finite particles (N, M) and a count of at least 1, found shape {values.shape} and {count}"
        )
    spread = values.std(axis=0)
    z = values / np.where(spread > 0, spread, 1.0)
    squared = ((z[:, None] - z) ** 2).sum(-1)
    width = np.median(squared[squared > 0]) if (squared > 0).any() else 1.0
    K = np.exp(-squared / width)
    density, taken, chosen = K.mean(1), np.zeros(len(z)), []
    for t in range(count):
        chosen.append(int(np.argmax(density - taken / (t + 1))))
        taken += K[chosen[-1]]
    return np.array(chosen)
