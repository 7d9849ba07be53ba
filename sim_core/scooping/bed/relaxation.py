"""Slopes that are too steep slide until they are at rest; nothing is lost on the way.

An explicit cellular automaton: every cell gives what is too much to its lower neighbours at once, until none is steeper than its repose.
"""

from __future__ import annotations

import numpy as np

__all__ = ["relaxed", "steepest"]

#: tangent by which a slope may be steeper than its repose and count as at rest
SLACK = 0.02
#: share of an excess that slides in one pass to each of eight neighbours: more would make waves
SHARE = 0.1
#: offsets of four neighbours, the other four being their opposites, and distances in cells
_NEIGHBOURS = (((0, 1), 1.0), ((1, 0), 1.0), ((1, 1), 2.0**0.5), ((1, -1), 2.0**0.5))


def relaxed(height: np.ndarray, slope: np.ndarray, cell: float, passes: int = 20000) -> np.ndarray:
    """Heights (m, n) [m] at rest; their sum is that of before.

    Args:
        slope: greatest at rest, the tangent of the repose (m, n); the lesser of two neighbours counts between them. cell: width of a cell [m].
        passes: most of them.

    Raises:
        ValueError: another shape, or not finite. RuntimeError: not at rest after so many passes.
    """
    if height.shape != slope.shape or not (np.isfinite(height).all() and (slope > 0.0).all()):
        raise ValueError(f"expected finite heights and slopes > 0 of one shape, found {height.shape}, {slope.shape}")
    height = height.copy()
    pairs = [(*_pair(offset), distance * cell) for offset, distance in _NEIGHBOURS]
    most = [np.minimum(slope[a], slope[b]) * run for a, b, run in pairs]
    least = [-limit for limit in most]
    for _ in range(passes):
        worst, slides = 0.0, []
        for (a, b, run), low, high in zip(pairs, least, most):
            drop = height[a] - height[b]
            # Not np.clip, which takes four times as long on arrays of this size.
            excess = drop - np.minimum(np.maximum(drop, low), high)
            worst = max(worst, float(excess.max()) / run, -float(excess.min()) / run)
            excess *= SHARE
            slides.append(excess)
        if worst <= SLACK:
            return height
        for (a, b, _run), slide in zip(pairs, slides):
            height[a] -= slide
            height[b] += slide
    raise RuntimeError(f"the slopes are not at rest after {passes} passes; the steepest is too steep by {worst:.3g}")


def steepest(height: np.ndarray, cell: float) -> float:
    """Tangent of the steepest slope between neighbours of heights (m, n)."""
    found = 0.0
    for offset, distance in _NEIGHBOURS:
        a, b = _pair(offset)
        found = max(found, float(np.abs(height[a] - height[b]).max()) / (distance * cell))
    return found


def _pair(offset: tuple[int, int]) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Slices of all cells that have such a neighbour, and of those neighbours."""
    down, right = offset
    rows = slice(None, -down or None), slice(down, None)
    if right >= 0:
        columns = slice(None, -right or None), slice(right, None)
    else:
        columns = slice(-right, None), slice(None, right)
    return (rows[0], columns[0]), (rows[1], columns[1])
