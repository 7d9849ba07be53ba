"""Robots whose recordings are drawn from the very model that is inferred: what calibration is measured on.

A truth is drawn from the prior (uniform between limits), the robot moves by it, and noise of a known size is added to all
states but the first of a trajectory, where roll-outs start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np

from experiments.problems import point_mass_pendulum
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.shooting.likelihood import MultipleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

__all__ = ["ROBOTS", "Problem", "problem"]

DT = 0.01  # [s]


@dataclass(frozen=True)
class Problem:
    """A robot, what is unknown of it, and how it is moved.

    Attributes:
        x0: first states (R, nx). u: controls (R, T, nu). sigma: noise in units of `scale`, the standard deviation (nx,) of
            the states at the middle of the limits. windows: of multiple shooting.
    """

    dynamics: Dynamics
    parameters: LimitedParameters
    x0: np.ndarray
    u: np.ndarray
    sigma: float
    scale: np.ndarray
    windows: int

    def drawn(self, seed: int) -> tuple[np.ndarray, Trajectories]:
        """A truth z (M,), and recordings of it."""
        rng = np.random.default_rng(seed)
        z = rng.random(self.parameters.n)
        x = self.dynamics.rollout(self.x0, self.u, self.parameters.to_physical(self.parameters.theta(z)))
        x[:, 1:] += self.sigma * self.scale * rng.standard_normal(x[:, 1:].shape)
        return z, Trajectories(self.dynamics.dt, x, self.u)

    def density(self, data: Trajectories, windows: int) -> MultipleShooting:
        """The likelihood of the recordings, with the noise that they have."""
        return MultipleShooting(
            self.dynamics,
            self.parameters,
            data,
            windows,
            self.sigma,
            combine="product",
            scale=self.scale,
            state_scale=self.scale,
        )


def _made(dynamics, parameters, x0, u, sigma, windows) -> Problem:
    middle = parameters.to_physical(0.5 * (parameters.lower + parameters.upper))
    scale = dynamics.rollout(x0, u, middle)[:, 1:].reshape(-1, dynamics.nx).std(axis=0)
    return Problem(dynamics, parameters, x0, u, sigma, scale, windows)


def _double_pendulum(threads: int) -> Problem:
    """Two lengths, from two places at rest, 1 s."""
    dynamics = point_mass_pendulum.dynamics(threads=threads)
    parameters = point_mass_pendulum.lengths(dynamics.model, (1.0, 3.0))
    x0 = np.array([[1.0, 0.3, 0.0, 0.0], [-0.5, 1.2, 0.0, 0.0]])
    return _made(dynamics, parameters, x0, np.zeros((2, 100, dynamics.nu)), 0.2, 5)


def _cartpole(threads: int) -> Problem:
    """The pole's mass and both dampings, under two sines on the cart, twice 1 s."""
    model = load_model("cartpole")
    dynamics = Dynamics(model, dt=DT, substeps=round(DT / model.timestep), threads=threads)
    limits = {"pole.mass": (0.05, 0.3), "slider.damping": (0.0, 1.0), "hinge.damping": (0.0, 0.02)}
    t = DT * np.arange(100)
    u = np.stack([4 * np.sin(5 * t) + 3 * np.sin(11 * t), 5 * np.sin(7 * t + 1) + 2 * np.cos(3 * t)])[..., None]
    x0 = np.array([[0.0, 0.5, 0.0, 0.0], [0.0, 2.5, 0.0, 0.0]])
    return _made(dynamics, LimitedParameters(model, limits), x0, u, 0.1, 5)


def _panda(threads: int) -> Problem:
    """Mass and centre of what the hand holds, under torques that hold the arm and shake it, twice 0.4 s."""
    model = load_model("panda")
    dynamics = Dynamics(model, dt=DT, substeps=round(DT / model.timestep), threads=threads)
    limits = {
        "hand.mass": (0.5, 3.0),
        "hand.com.x": (-0.1, 0.1),
        "hand.com.y": (-0.1, 0.1),
        "hand.com.z": (0.0, 0.2),
    }
    rng = np.random.default_rng(7)
    t, u, x0 = DT * np.arange(40), [], []
    for _ in range(2):
        q = model.q_home + 0.3 * rng.standard_normal(model.nq)
        data = mujoco.MjData(model.mj_model)
        data.qpos[:] = q
        mujoco.mj_forward(model.mj_model, data)
        gear = np.array(
            [model.parameters.nominal[model.parameters.index(f"{name}.gear")] for name in model.actuator_names]
        )
        shake = 3.0 * np.sin(np.outer(t, rng.uniform(8, 20, model.nq)) + rng.uniform(0, 6, model.nq))
        u.append((data.qfrc_bias + shake) / gear)
        x0.append(np.r_[q, np.zeros(model.nv)])
    return _made(dynamics, LimitedParameters(model, limits), np.array(x0), np.array(u), 0.1, 5)


ROBOTS: dict[str, Callable[[int], Problem]] = {
    "double pendulum": _double_pendulum,
    "cartpole": _cartpole,
    "panda": _panda,
}


def problem(robot: str, threads: int = 1) -> Problem:
    """The problem of a robot's name in ROBOTS."""
    return ROBOTS[robot](threads)
