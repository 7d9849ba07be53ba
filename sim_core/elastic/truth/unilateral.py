"""Forces that push and never pull, exactly: 0 <= f, 0 <= A f - d, one of the two zero at every contact.

Block principal pivoting (Kostreva 1978; Judice and Pires 1994): contacts whose sign is wrong change sides all at once. Where their number
has stopped falling, which happens with many contacts close together, the answer is that of the equal problem in non-negative least
squares by the active set method of Lawson and Hanson (1974).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

__all__ = ["pushes"]


def pushes(compliance: np.ndarray, depth: np.ndarray, patience: int = 5) -> np.ndarray:
    """Forces (m,) [N] of contacts with compliance (m, m) [m/N], symmetric positive definite, that are to be `depth` (m,) [m] deep.

    Raises:
        numpy.linalg.LinAlgError: the compliance is not positive definite.
    """
    active = depth > 0.0
    slack = 1e-11 * float(np.abs(depth).max(initial=0.0))
    lowest, tries = len(depth) + 1, patience
    while tries > 0:
        force = np.zeros(len(depth))
        if active.any():
            force[active] = np.linalg.solve(compliance[np.ix_(active, active)], depth[active])
        wrong = np.where(active, force < 0.0, compliance @ force - depth < -slack)
        bad = int(wrong.sum())
        if bad == 0:
            return force
        lowest, tries = (bad, patience) if bad < lowest else (lowest, tries - 1)
        active = active ^ wrong
    factor = cholesky(compliance, lower=True)
    found: np.ndarray = nnls(factor.T, solve_triangular(factor, depth, lower=True), maxiter=30 * len(depth))[0]
    return found
