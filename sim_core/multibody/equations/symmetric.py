"""Linear systems with a symmetric positive matrix of CasADi scalars."""

from __future__ import annotations

import casadi as ca

__all__ = ["solve_symmetric"]


def solve_symmetric(M: ca.SX, B: ca.SX) -> ca.SX:
    """M^-1 B for symmetric positive M by L D L'; structural zeros of M and B cost nothing."""
    n = M.shape[0]
    L: list[list[ca.SX | int]] = [[0] * n for _ in range(n)]
    D: list[ca.SX | int] = [0] * n
    for j in range(n):
        D[j] = M[j, j] - sum(L[j][k] ** 2 * D[k] for k in range(j))
        for i in range(j + 1, n):
            L[i][j] = (M[i, j] - sum(L[i][k] * L[j][k] * D[k] for k in range(j))) / D[j]
    X = [B[i, :] for i in range(n)]
    for i in range(n):
        X[i] = X[i] - sum((L[i][k] * X[k] for k in range(i)), start=ca.SX(1, B.shape[1]))
    X = [row / d for row, d in zip(X, D)]
    for i in reversed(range(n)):
        X[i] = X[i] - sum((L[k][i] * X[k] for k in range(i + 1, n)), start=ca.SX(1, B.shape[1]))
    return ca.vertcat(*X)
