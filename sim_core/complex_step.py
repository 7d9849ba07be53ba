"""Exact Jacobians of a numpy step without writing them: the complex step.

f(x + i h e) = f(x) + i h df/dx e + O(h^2) for a function that is analytic, so the imaginary part at h = 1e-30 is the
derivative with no rounding beyond f's own. It costs one evaluation per column, all in one batch.

Source: Squire & Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40(1), 1998.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["complex_step_jacobians"]

H = 1e-30


def complex_step_jacobians(
    advance: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, u: np.ndarray, p: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `StepSystem.jacobians` returns, of a step that numpy can evaluate for complex numbers.

    Args:
        advance: x' (N, nx) of x (N, nx), u (N, nu), p (N, np_), made of sums, products, powers, exp, sin, cos, tanh and the
            like. Comparisons, abs, max, conjugates and rounding are not analytic: their derivatives come out wrong.
    """
    z = np.concatenate([x, u, p], axis=1)
    rows = z[:, None] + 1j * H * np.eye(z.shape[1])
    ends = np.cumsum([x.shape[1], u.shape[1]])
    after = advance(*np.split(rows.reshape(-1, z.shape[1]), ends, axis=1))
    J = after.imag.reshape(len(x), z.shape[1], -1).swapaxes(1, 2) / H
    A, B, C = np.split(J, ends, axis=2)
    return A, B, C
