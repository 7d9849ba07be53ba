"""A bead that slides on a hill, pushed sideways: no rigid-body model, no CasADi.

The bead stays on z = h(x, y) = height exp(-|q - c|^2 / (2 width^2)). With g = grad h and H its Hessian, Lagrange's
equations (1 + g g') a = w - g (G + v'Hv), w = u - drag v, give a = w - g (G + v'Hv + g'w) / (1 + g'g). Unit mass, G = 9.81.
"""

import numpy as np

from sim_core.complex_step import complex_step_jacobians
from sim_core.system import StepSystem

G = 9.81
NOMINAL = {"height": 0.4, "centre.x": 0.0, "centre.y": 0.1, "width": 0.5, "drag": 0.3}


class HeightField(StepSystem):
    """State [x, y, x', y'], control a horizontal force per mass [m/s^2], semi-implicit Euler."""

    def __init__(self, dt=0.02, bound=10.0):
        super().__init__(
            dt, ("x", "y", "x.rate", "y.rate"), ("push.x", "push.y"), NOMINAL, [-bound] * 2, [bound] * 2, name="hill"
        )

    def advance(self, x, u, p):
        height, width, drag = p[:, :1], p[:, 3:4], p[:, 4:]
        q, v = x[:, :2], x[:, 2:]
        off = (q - p[:, 1:3]) / width
        h = height * np.exp(-0.5 * (off**2).sum(1, keepdims=True))
        g = -h * off / width
        curved = h / width**2 * ((off * v).sum(1, keepdims=True) ** 2 - (v**2).sum(1, keepdims=True))
        w = u - drag * v
        a = w - g * (G + curved + (g * w).sum(1, keepdims=True)) / (1 + (g**2).sum(1, keepdims=True))
        v = v + self.dt * a
        return np.concatenate([q + self.dt * v, v], axis=1)

    def jacobians(self, x, u, p):
        return complex_step_jacobians(self.advance, x, u, p)


def energy(x, p):
    """Per mass, of states (..., 4) [J/kg]: conserved without push and drag."""
    off = (x[..., :2] - p[1:3]) / p[3]
    h = p[0] * np.exp(-0.5 * (off**2).sum(-1))
    climb = (-h[..., None] * off / p[3] * x[..., 2:]).sum(-1)
    return 0.5 * ((x[..., 2:] ** 2).sum(-1) + climb**2) + G * h


def pushed(system, p, seconds=1.6, trajectories=2, seed=0):
    """States (R, T+1, 4) and controls (R, T, 2) under smooth random pushes."""
    rng = np.random.default_rng(seed)
    t = system.dt * np.arange(round(seconds / system.dt))
    waves = np.sin(2 * np.pi * np.multiply.outer(rng.uniform(0.3, 1.2, (trajectories, 2, 3)), t) + rng.uniform(0, 6, 1))
    U = np.moveaxis((rng.uniform(0.5, 1.5, (trajectories, 2, 3, 1)) * waves).sum(2), 1, 2)
    x0 = np.hstack([rng.uniform(-0.5, 0.5, (trajectories, 2)), np.zeros((trajectories, 2))])
    return system.rollout(x0, U, p), U
