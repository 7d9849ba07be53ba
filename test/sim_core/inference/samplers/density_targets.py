"""Densities over the unit cube whose moments are known."""

import numpy as np


class Target:
    """LogDensity of a function z (N, M) -> log p (N,), gradient (N, M) for tests; counts its evaluations."""

    def __init__(self, n, function):
        self.names, self.n = tuple("abcdefgh"[:n]), n
        self.lower, self.upper = np.zeros(n), np.ones(n)
        self.not_finite, self.count, self._function = 0, 0, function

    def log_p(self, z):
        return self.log_p_and_grad(z)[0]

    def log_p_and_grad(self, z):
        self.count += len(z)
        return self._function(np.asarray(z))

    def theta(self, z):
        return z

    z = theta


MEAN, COV = np.array([0.4, 0.6]), np.array([[0.006, 0.003], [0.003, 0.008]])


def gaussian(mean=MEAN, cov=COV):
    P = np.linalg.inv(cov)

    def f(z):
        d = z - mean
        return -0.5 * np.einsum("ni,ij,nj->n", d, P, d), -d @ P

    return Target(len(mean), f)


# a ~ N(0.5, 0.1^2), b = 0.3 + 5 (a - 0.5)^2 + N(0, 0.05^2), so E b = 0.3 + 5 0.1^2, var b = 25 2 0.1^4 + 0.05^2
BANANA_MEAN, BANANA_STD = np.array([0.5, 0.35]), np.array([0.1, np.sqrt(0.0075)])


def banana():
    def f(z):
        a, b = z[:, 0] - 0.5, z[:, 1] - 0.3
        e = (b - 5 * a**2) / 0.05**2
        return -0.5 * (a / 0.1) ** 2 - 0.5 * e**2 * 0.05**2, np.stack([-a / 0.01 + e * 10 * a, -e], 1)

    return Target(2, f)


def two_modes():
    """Equal Gaussians of std 0.05 at (0.25, 0.25) and (0.75, 0.75)."""

    def f(z):
        d = z[:, None] - np.array([[0.25, 0.25], [0.75, 0.75]])
        log = -0.5 * (d**2).sum(-1) / 0.05**2
        log_p = np.logaddexp(log[:, 0], log[:, 1])
        return log_p, np.einsum("nk,nki->ni", np.exp(log - log_p[:, None]), -d / 0.05**2)

    return Target(2, f)


def with_hole(value=np.nan):
    """`gaussian` with no number, or none above zero, in the corner a < 0.4."""
    whole = gaussian()

    def f(z):
        log_p, grad = whole.log_p_and_grad(z)
        hole = z[:, 0] < 0.4
        return np.where(hole, value, log_p), np.where(hole[:, None], np.nan, grad)

    return Target(2, f)
