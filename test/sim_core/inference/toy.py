"""A cart-pole small enough to check by hand, with the interfaces the fit needs.

(M + m) a + m l cos(th) alpha - m l sin(th) w^2 = u - d v
m l cos(th) a + m l^2 alpha = m g l sin(th) - b w,       theta = 0 upright, point mass at l.
Physical vector p = [M, m, l, d, b, inert]; the last one has no influence at all.
"""

from dataclasses import dataclass

import casadi as ca
import numpy as np

G = 9.81
NAMES = ("cart.mass", "pole.mass", "pole.length", "cart.damping", "pole.damping", "inert")
TRUTH = np.array([1.0, 0.3, 0.6, 0.4, 0.02, 1.0])


def accel(x, u, p):
    M, m, length, d, b = (p[i] for i in range(5))
    s, c = ca.sin(x[1]), ca.cos(x[1])
    H = ca.vertcat(ca.horzcat(M + m, m * length * c), ca.horzcat(m * length * c, m * length**2))
    force = ca.vertcat(u - d * x[2] + m * length * s * x[3] ** 2, m * G * length * s - b * x[3])
    return ca.solve(H, force)


class ToyDynamics:
    """Semi-implicit Euler on the CasADi virtual machine, with the engine's roll-out signature."""

    nq = nv = 2
    nx, nu = 4, 1

    def __init__(self, dt=0.01):
        self.dt = dt
        x, u, p = ca.SX.sym("x", 4), ca.SX.sym("u", 1), ca.SX.sym("p", len(NAMES))
        v = x[2:] + dt * accel(x, u, p)
        step = ca.vertcat(x[:2] + dt * v, v)
        J = [ca.densify(ca.jacobian(step, z)) for z in (x, p)]
        self._step = ca.Function("step", [x, u, p], [ca.densify(step), *J])

    def rollout_sensitivity(self, x0, U, p, dpdxi):
        B, H, _ = U.shape
        n = dpdxi.shape[1]
        X, S = np.zeros((B, H + 1, 4)), np.zeros((B, H + 1, 4, 4 + n))
        X[:, 0] = x0
        S[:, 0, :, :4] = np.eye(4)
        batched = self._step.map(B)
        for k in range(H):
            nxt, A, C = (np.array(o) for o in batched(X[:, k].T, U[:, k].T, np.repeat(p[:, None], B, 1)))
            A = A.reshape(4, B, 4).transpose(1, 0, 2)
            C = C.reshape(4, B, len(p)).transpose(1, 0, 2)
            X[:, k + 1] = nxt.T
            S[:, k + 1] = A @ S[:, k]
            S[:, k + 1, :, 4:] += C @ dpdxi
        return X, S

    def rollout(self, x0, U, p):
        return self.rollout_sensitivity(x0, U, p, np.zeros((len(p), 0)))[0]


@dataclass(frozen=True)
class Named:
    name: str
    unit: str
    value: float
    std: float
    lower: float
    upper: float


class ToyParameters:
    """Log coordinates around a nominal guess: p = exp(xi)."""

    def __init__(self, nominal=(1.5, 0.2, 0.8, 0.2, 0.05, 1.0), std=0.7, bounds=(-8.0, 4.0)):
        self.names = list(NAMES)
        self.units = ["kg", "kg", "m", "N s/m", "N m s/rad", "-"]
        self.n = len(NAMES)
        self.prior_mean = np.log(nominal)
        self.prior_std = np.full(self.n, std)
        self.lower, self.upper = np.full(self.n, bounds[0]), np.full(self.n, bounds[1])

    def to_physical(self, xi):
        return np.exp(xi)

    def jacobian(self, xi):
        return np.diag(np.exp(xi))

    def report(self, xi, cov):
        p, std = np.exp(xi), np.exp(xi) * np.sqrt(np.diag(cov))
        return [Named(n, u, v, s, v - 1.96 * s, v + 1.96 * s) for n, u, v, s in zip(self.names, self.units, p, std)]


def mass_matrix(Q, p):
    M, m, length = p[:3]
    off = m * length * np.cos(Q[:, 1])
    H = np.empty((len(Q), 2, 2))
    H[:, 0, 0], H[:, 0, 1], H[:, 1, 0], H[:, 1, 1] = M + m, off, off, m * length**2
    return H


def excite(dynamics, transitions, seed, noise=(0.0, 0.0), truth=TRUTH):
    """Swing under a random smooth force: true states X (N+1, 4), measured ones, controls (N, 1)."""
    rng = np.random.default_rng(seed)
    t = dynamics.dt * np.arange(transitions)
    u = sum(rng.normal(0, 4.0) * np.sin(2 * np.pi * f * t + rng.uniform(0, 6.28)) for f in (0.4, 0.9, 1.7, 2.6))
    x0 = np.array([[0.0, np.pi + rng.normal(0, 0.5), 0.0, 0.0]])
    X = dynamics.rollout(x0, u[None, :, None], truth)[0]
    noisy = X + rng.normal(size=X.shape) * np.repeat(noise, 2)
    return X, noisy, u[:, None]
