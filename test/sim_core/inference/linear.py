"""A system linear in state and parameters, for which every answer has a closed form.

q+ = q + dt v,   v+ = v + dt (gain u + bias + 0 * inert),   p = xi = [gain, bias, inert].
"""

import numpy as np

TRUTH = np.array([2.0, -0.5, 0.0])


class LinearDynamics:
    nq = nv = nu = 1
    nx = 2

    def __init__(self, dt=0.1):
        self.dt = dt

    def rollout_sensitivity(self, x0, U, p, dpdxi):
        B, H, _ = U.shape
        A = np.array([[1.0, self.dt], [0.0, 1.0]])
        X, S = np.zeros((B, H + 1, 2)), np.zeros((B, H + 1, 2, 2 + dpdxi.shape[1]))
        X[:, 0], S[:, 0, :, :2] = x0, np.eye(2)
        for k in range(H):
            X[:, k + 1] = X[:, k] @ A.T
            X[:, k + 1, 1] += self.dt * (p[0] * U[:, k, 0] + p[1])
            S[:, k + 1] = A @ S[:, k]
            force = np.stack([U[:, k, 0], np.ones(B), np.zeros(B)], -1)
            S[:, k + 1, 1, 2:] += self.dt * force @ dpdxi
        return X, S

    def rollout(self, x0, U, p):
        return self.rollout_sensitivity(x0, U, p, np.zeros((3, 0)))[0]


class LinearParameters:
    names = ["gain", "bias", "inert"]
    units = ["-", "m/s^2", "-"]
    n = 3

    def __init__(self, mean=(0.0, 0.0, 0.0), std=(3.0, 3.0, 3.0), lower=-np.inf, upper=np.inf):
        self.prior_mean, self.prior_std = np.array(mean, float), np.array(std, float)
        self.lower, self.upper = np.full(3, lower), np.full(3, upper)

    def to_physical(self, xi):
        return np.array(xi, float)

    def jacobian(self, xi):
        return np.eye(3)

    def report(self, xi, cov):
        return []
