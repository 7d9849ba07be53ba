"""Small quadratic programs over a box, by projected Newton: runtime/box_qp.h in numpy.

Source: Tassa, Mansard, Todorov, Control-Limited Differential Dynamic Programming (ICRA 2014), algorithm 1; Bertsekas 1982.
"""

from __future__ import annotations

import numpy as np

__all__ = ["box_qp", "solve_free"]

ITERATIONS = 50
ARMIJO = 0.1
SMALLEST = 1e-14  # pivot, as a share of its diagonal entry, below which a Hessian counts as singular


def box_qp(
    H: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Minimiser of 1/2 d'H d + g'd over lower <= d <= upper.

    Args:
        H: (n, n), symmetric. g, lower, upper, start: (n,); the start is clipped to the box.

    Returns:
        d (n,) and which of its entries are free (n,), or None where H is not positive definite over those.
    """
    d, factorised, free = np.clip(start, lower, upper), False, np.ones(len(g), bool)
    scale = np.abs(g).max(initial=0.0)
    for _ in range(ITERATIONS):
        gradient = g + H @ d
        was, free = free, ~(((d <= lower) & (gradient > 0)) | ((d >= upper) & (gradient < 0)))
        if not factorised or (free != was).any():
            if not _positive_definite(H[np.ix_(free, free)]):
                return None
            factorised = True
        if np.abs(gradient[free]).max(initial=0.0) <= 1e-12 * scale:
            return d, free
        newton = solve_free(H, -gradient[:, None], free)[:, 0]
        value, length = d @ (g + 0.5 * H @ d), 1.0
        while True:
            trial = np.clip(d + length * newton, lower, upper)
            better = trial @ (g + 0.5 * H @ trial)
            if better <= value + ARMIJO * gradient @ (trial - d) or length < 1e-8:
                break
            length *= 0.5
        if better >= value:
            return d, free  # rounding is all that is left to gain
        d = trial
    return d, free


def solve_free(H: np.ndarray, rows: np.ndarray, free: np.ndarray) -> np.ndarray:
    """H^-1 rows (n, m) over the free coordinates, 0 elsewhere."""
    solved = np.zeros_like(rows)
    if free.any():
        solved[free] = np.linalg.solve(H[np.ix_(free, free)], rows[free])
    return solved


def _positive_definite(H: np.ndarray) -> bool:
    if not np.isfinite(H).all():
        return False
    try:
        pivots = np.diag(np.linalg.cholesky(H)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool((pivots > SMALLEST * np.abs(np.diag(H))).all())
