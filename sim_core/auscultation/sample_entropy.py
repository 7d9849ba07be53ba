"""Sample entropy of a series: how unlikely it is that stretches that were alike stay alike.

Source: Richman and Moorman, Am. J. Physiol. Heart Circ. Physiol. 278, 2000.
"""

from __future__ import annotations

import numpy as np

__all__ = ["sample_entropy"]


def sample_entropy(series: np.ndarray, m: int = 2, tolerance: float = 0.2) -> float:
    """-ln(A / B): B pairs of stretches of m samples are alike, A of them still with the next sample.

    Args:
        series: (n,). m: samples of a stretch. tolerance: largest difference of what is alike, over the standard deviation.

    Returns:
        The entropy; if no pair stays alike, its upper bound ln((n-m)(n-m-1)/2) (one pair at most); 0 for a constant.
    """
    series = np.asarray(series, float)
    n, width = len(series), tolerance * series.std()
    if n <= m + 1 or width == 0.0:
        return 0.0
    stretches = np.lib.stride_tricks.sliding_window_view(series, m + 1)
    apart = np.abs(stretches[:, None, :] - stretches[None, :, :])
    upper = np.triu_indices(len(stretches), 1)
    alike = (apart[..., :m].max(-1) <= width)[upper]
    still = alike & (apart[..., m] <= width)[upper]
    bound = np.log((n - m) * (n - m - 1) / 2.0)
    if not alike.any() or not still.any():
        return float(bound)
    return float(min(bound, -np.log(still.sum() / alike.sum())))
