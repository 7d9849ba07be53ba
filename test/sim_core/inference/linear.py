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
        n, dt = dpdxi.shape[1], self.dt
        # Rows of d [q, v] / d [q0, v0, xi]: sums over the steps before.
        S = np.zeros((B, H + 1, 2, 2 + n))
        force = np.stack([U[..., 0], np.ones((B, H)), np.zeros((B, H))], -1)
        S[:, :, 0, 0] = S[:, :, 1, 1] = 1.0
        S[:, 1:, 1, 2:] = dt * np.cumsum(force @ dpdxi, axis=1)
        S[:, 1:, 0, 1:] = dt * np.cumsum(S[:, :-1, 1, 1:], axis=1)
        moved = np.zeros((B, H + 1, 2))
        moved[:, 1:, 1] = dt * np.cumsum(force @ p, axis=1)
        moved[:, 1:, 0] = dt * np.cumsum(moved[:, :-1, 1], axis=1)
        return (S[..., :2] @ x0[:, None, :, None])[..., 0] + moved, S

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
