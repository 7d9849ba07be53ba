"""How much later a robot does what a hand does: from two tracks of positions, by the lag at which they fit best.

    lags = motion_latency(time, hand, effector, window=2.0, longest=0.8)

In each window the lag L minimises the variance of  effector(t) - hand(t - L)  over the window, so that where the two were tied
together does not matter; between the steps of the track it is found on a parabola through the three least values. A window in
which the hand hardly moves, or the effector does something else, says nothing.
"""

from __future__ import annotations

import numpy as np

__all__ = ["motion_latency"]

#: [m] that a hand has to move within a window (standard deviation), and the share of that variance which may remain unexplained
LEAST, UNEXPLAINED = 0.005, 0.2


def motion_latency(
    time: np.ndarray, hand: np.ndarray, effector: np.ndarray, window: float = 2.0, longest: float = 1.0
) -> np.ndarray:
    """Lags [s] of the effector behind the hand, one for each window that says something.

    Args:
        time: evenly spaced (n,) [s].
        hand, effector: positions in the same axes (n, 3) [m]; NaN where there is none to be compared.
        window: length of one window [s]; the next one begins half of it later.
        longest: lag that is looked for [s].

    Raises:
        ValueError: shapes differ, or time is not evenly spaced.
    """
    time, hand, effector = (np.asarray(array, float) for array in (time, hand, effector))
    if hand.shape != effector.shape or hand.shape[0] != time.shape[0]:
        raise ValueError(f"expected tracks of equal shape, found {hand.shape}, {effector.shape} at {time.shape} times")
    step = float(np.mean(np.diff(time)))
    if not np.allclose(np.diff(time), step, rtol=1e-3):
        raise ValueError("expected evenly spaced times")
    length, most = max(2, round(window / step)), round(longest / step)
    found = []
    for begin in range(most, len(time) - length + 1, max(1, length // 2)):
        there = effector[begin : begin + length]
        past = hand[begin - most : begin + length]
        if np.isnan(there).any() or np.isnan(past).any() or past[-length:].var(axis=0).sum() < LEAST**2:
            continue
        rest = np.array([(there - past[most - k : most - k + length]).var(axis=0).sum() for k in range(most + 1)])
        k = int(np.argmin(rest))
        if 0 < k < most and rest[k] < UNEXPLAINED * there.var(axis=0).sum():
            left, middle, right = rest[k - 1 : k + 2]
            found.append(step * (k + 0.5 * (left - right) / (left - 2.0 * middle + right)))
    return np.array(found)
