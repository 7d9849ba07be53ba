"""Path signature: iterated integrals of a piecewise linear path, the first levels in closed form."""

import numpy as np

__all__ = ["path_signature"]


def path_signature(x: np.ndarray, depth: int) -> np.ndarray:
    """Signature of paths x (..., T, d) up to level `depth` without the constant, (..., d + d^2 + ... + d^depth).

    Entry (i1, ..., ik) is the integral of dx_i1 ... dx_ik over increasing times. A straight piece D contributes
    D^(x)k / k! at level k; pieces are joined by Chen's identity, level by level:

        S_k(path, D) = sum_j S_{k-j}(path) (x) D^(x)j / j!.

    Invariant to shifts of the path and to how fast it is travelled. Levels are flattened row by row, lowest first.

    Source: Chen, Annals of Math. 65(1), 1957; Lyons, Differential equations driven by rough signals, 1998.
    """
    if depth < 1:
        raise ValueError(f"path_signature: expected a depth of at least 1, found {depth}")
    x = np.asarray(x, dtype=float)
    lead, d = x.shape[:-2], x.shape[-1]
    steps = np.moveaxis(np.diff(x, axis=-2).reshape(-1, x.shape[-2] - 1, d), 1, 0)
    S = [np.zeros((steps.shape[1], d**k)) for k in range(1, depth + 1)]
    for D in steps:
        powers = [D]  # D^(x)j / j!
        for j in range(2, depth + 1):
            powers.append(_tensor(powers[-1], D) / j)
        for k in reversed(range(depth)):  # level k + 1 needs the old lower levels
            for j in range(k):
                S[k] += _tensor(S[k - j - 1], powers[j])
            S[k] += powers[k]
    return np.concatenate(S, axis=1).reshape(*lead, -1)


def _tensor(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Tensor products of rows of a (N, p) and b (N, q), flattened: (N, p q)."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
