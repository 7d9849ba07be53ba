"""Which points of a contact carry it: displacements that leave no penetration and pull nowhere.

Pushing one point by z drags another at distance r along by g(r) z. With G_ij = g(|q_i - q_j|) the displacements z >= 0 of n points whose
nominal displacements are d solve

    0 <= w = G z - d   and   z >= 0   and   w z = 0   (4.3)

The source prints w = d - G z. With that sign w >= 0 would say that the surface has moved less than the body asks for, and z = 0 would
always be an answer, so it is a misprint: the text and the published algorithm both want the sign above.

G is positive definite for distinct points (g is a completely monotone function of r^2), so there is one answer, that of the
quadratic programme min 1/2 z'Gz - d'z over z >= 0.

Source: Zhu, PhD thesis (2023), section 4.4.2.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

__all__ = ["coupling_matrix", "exact", "pruned", "shape"]

#: w below this is a penetration that an exact answer does not leave [m]
TOLERANCE = 1e-13


def shape(r: np.ndarray, coupling: float) -> np.ndarray:
    """g(r) = c / (c + r): what a point at distance r [m] is dragged along, as a share (4.2)."""
    return coupling / (coupling + np.asarray(r, float))


def coupling_matrix(points: np.ndarray, coupling: float) -> np.ndarray:
    """G (n, n) of points (n, 3) [m] and c [m]."""
    return shape(np.linalg.norm(points[:, None] - points[None], axis=-1), coupling)


def pruned(matrix: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """Displacements (n,) as published: all points as equations, negative ones dropped for good, again until there is none.

    Args:
        matrix: G (n, n). nominal: d (n,) [m].

    A point that is dropped never comes back, so that a penetration may be left; among random contacts it is rare and small.
    """
    active = np.arange(len(nominal))
    while len(active):
        z = cho_solve(cho_factor(matrix[np.ix_(active, active)]), nominal[active])
        if (z >= 0.0).all():
            return _spread(z, active, len(nominal))
        active = active[z >= 0.0]
    return np.zeros(len(nominal))


def exact(matrix: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """Displacements (n,) that solve (4.3): from the pruned ones, points that penetrate come back one by one (Lawson, Hanson, Solving
    Least Squares Problems (1974), 23.3)."""
    z = pruned(matrix, nominal)
    active = np.flatnonzero(z > 0.0)
    scale = float(np.abs(nominal).max(initial=0.0))
    for _ in range(10 * len(nominal) + 10):
        w = matrix @ z - nominal
        w[active] = 0.0
        enters = int(np.argmin(w)) if len(w) else 0
        if not len(w) or w[enters] >= -max(TOLERANCE, 1e-12 * scale):
            return z
        active = np.append(active, enters)
        while len(active):
            wanted = cho_solve(cho_factor(matrix[np.ix_(active, active)]), nominal[active])
            if (wanted > 0.0).all():
                z = _spread(wanted, active, len(nominal))
                break
            # as far towards it as nothing pulls; what then is zero leaves
            now = z[active]
            low = wanted <= 0.0
            share = float((now[low] / (now[low] - wanted[low])).min())
            z[active] = now + share * (wanted - now)
            stays = z[active] > 1e-15 * scale
            stays[low & (now / np.maximum(now - wanted, 1e-300) <= share)] = False
            z[active[~stays]] = 0.0
            active = active[stays]
        if z[enters] == 0.0:
            return z  # its penetration is below what double precision tells
    raise RuntimeError(f"a contact of {len(nominal)} points was not solved; are two of them at one place?")


def _spread(values: np.ndarray, where: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros(count)
    found[where] = values
    return found
