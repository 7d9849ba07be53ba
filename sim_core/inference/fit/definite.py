"""Linear systems with a positive definite matrix that rounding may have made singular."""

import numpy as np

__all__ = ["solve_definite"]


def solve_definite(H: np.ndarray, B: np.ndarray) -> np.ndarray:
    """H^-1 B for symmetric positive H (..., n, n) and B (..., n, m).

    Exact data beside a weak prior span more orders of magnitude than float64 has digits. Where H is singular to
    rounding, in units that make its diagonal 1, the solution leaves out the directions that are lost.
    """
    d = 1.0 / np.sqrt(np.diagonal(H, axis1=-2, axis2=-1))[..., None]
    scaled, right = d * H * np.swapaxes(d, -1, -2), d * B
    try:
        return d * np.linalg.solve(scaled, right)
    except np.linalg.LinAlgError:
        return d * (np.linalg.pinv(scaled, hermitian=True) @ right)
