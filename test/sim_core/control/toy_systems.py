"""Small systems with just what BoxIlqr needs of a model, written independently of the engine."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import casadi as ca
import numpy as np


@dataclass
class ToyModel:
    """nq positions, nu controls; the step function belongs to the test."""

    nq: int
    nu: int
    p: np.ndarray
    u_lower: np.ndarray
    u_upper: np.ndarray
    name: str = "toy"
    parameters: SimpleNamespace = field(init=False)

    def __post_init__(self):
        self.nv, self.q_home = self.nq, np.zeros(self.nq)
        self.parameters = SimpleNamespace(nominal=self.p, names=[f"p{i}" for i in range(len(self.p))])


def linear_system(seed=0, nq=2, nu=2, bound=np.inf):
    """A stable-ish random linear system: model, step(x, u, p), A, B."""
    rng = np.random.default_rng(seed)
    n = 2 * nq
    A = np.eye(n) + 0.1 * rng.standard_normal((n, n))
    B = rng.standard_normal((n, nu))
    model = ToyModel(nq, nu, np.ones(1), np.full(nu, -bound), np.full(nu, bound))
    x, u, p = ca.SX.sym("x", n), ca.SX.sym("u", nu), ca.SX.sym("p", 1)
    return model, ca.Function("step", [x, u, p], [A @ x + B @ u]), A, B


def cartpole(bound=20.0, dt=0.02):
    """Point-mass cart-pole, angle 0 upright, RK4; p = [cart mass, pole mass, length, g]."""
    model = ToyModel(2, 1, np.array([1.0, 0.1, 0.5, 9.81]), np.array([-bound]), np.array([bound]))
    x, u, p = ca.SX.sym("x", 4), ca.SX.sym("u", 1), ca.SX.sym("p", 4)

    def f(x):
        s, c = ca.sin(x[1]), ca.cos(x[1])
        a = (u + p[1] * s * (p[2] * x[3] ** 2 - p[3] * c)) / (p[0] + p[1] * s**2)
        return ca.vertcat(x[2], x[3], a, (p[3] * s - c * a) / p[2])

    k1 = f(x)
    k2 = f(x + dt / 2 * k1)
    k3 = f(x + dt / 2 * k2)
    k4 = f(x + dt * k3)
    return model, ca.Function("step", [x, u, p], [x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])


def box_qp_by_enumeration(H, g, lower, upper):
    """min 1/2 d'Hd + g'd in a box, by trying every active set: (d, free mask)."""
    n, best = len(g), (np.inf, None, None)
    for code in range(3**n):
        where = np.array([code // 3**i % 3 for i in range(n)])  # 0 free, 1 lower, 2 upper
        free = where == 0
        d = np.where(where == 1, lower, np.where(where == 2, upper, 0.0))
        if free.any():
            d[free] = np.linalg.solve(H[np.ix_(free, free)], -(g + H @ d)[free])
        if np.all(d >= lower - 1e-12) and np.all(d <= upper + 1e-12):
            value = 0.5 * d @ H @ d + g @ d
            if value < best[0] - 1e-15:
                best = (value, d, free)
    return best[1], best[2]
