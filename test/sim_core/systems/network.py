"""A small network that has learnt how a pendulum moves, used as the simulator itself.

It was shown accelerations w' = -stiffness sin(angle) - damping w + u for random states, torques and physical inputs. Its
parameters are those two inputs and its last layer's weights.
"""

import functools

import numpy as np
import torch

from sim_core.torch_system import TorchSystem

WIDTH, DT = 24, 0.05
PHYSICS = {"stiffness": 6.0, "damping": 0.4}


@functools.cache
def trained(seed=0, steps=400):
    """First layer (weights, bias) and last layer (WIDTH + 1,), in double precision; and the error of what was learnt."""
    rng = torch.Generator().manual_seed(seed)
    z = torch.rand(1024, 5, generator=rng, dtype=torch.float64) * 2 - 1
    angle, rate, torque = np.pi * z[:, 0], 4 * z[:, 1], 3 * z[:, 2]
    stiffness, damping = 6 + 3 * z[:, 3], 0.5 + 0.5 * z[:, 4]
    target = -stiffness * torch.sin(angle) - damping * rate + torque
    seen = inputs(torch.stack([angle, rate], 1), torque[:, None], torch.stack([stiffness, damping], 1))
    layers = [
        (torch.randn(WIDTH, seen.shape[1], generator=rng, dtype=torch.float64) * 0.3).requires_grad_(),
        torch.zeros(WIDTH, dtype=torch.float64, requires_grad=True),
        (torch.randn(WIDTH + 1, generator=rng, dtype=torch.float64) * 0.1).requires_grad_(),
    ]
    adam = torch.optim.Adam(layers, lr=0.02)
    for _ in range(steps):
        adam.zero_grad()
        loss = ((acceleration(seen, *layers) - target) ** 2).mean()
        loss.backward()
        adam.step()
    return *(layer.detach() for layer in layers), float(loss.detach() ** 0.5 / target.std())


def inputs(x, u, physics):
    angle, rate = x[..., 0], x[..., 1]
    return torch.stack(
        [torch.sin(angle), torch.cos(angle), rate / 4, u[..., 0] / 3, (physics[..., 0] - 6) / 3, physics[..., 1]], -1
    )


def acceleration(seen, W, b, last):
    return torch.tanh(seen @ W.T + b) @ last[:-1] + last[-1]


def learnt_pendulum(bound=3.0):
    """TorchSystem of angle and rate under a torque; p = stiffness, damping and the last layer."""
    W, b, last, _ = trained()

    def step(x, u, p):
        rate = x[1] + DT * acceleration(inputs(x, u, p[:2]), W, b, p[2:])
        return torch.stack([x[0] + DT * rate, rate])

    return TorchSystem(
        step,
        dt=DT,
        states=("angle", "rate"),
        controls=("torque",),
        parameters=PHYSICS | {f"last.{i}": float(w) for i, w in enumerate(last)},
        u_lower=[-bound],
        u_upper=[bound],
        name="learnt pendulum",
    )


def driven(system, p, steps=80, trajectories=2, seed=0):
    """States (R, T+1, 2) and torques (R, T, 1)."""
    rng = np.random.default_rng(seed)
    t = DT * np.arange(steps)
    waves = np.sin(np.multiply.outer(rng.uniform(1.0, 4.0, (trajectories, 2)), t) + rng.uniform(0, 6, (1, 2, 1)))
    U = (rng.uniform(0.5, 1.2, (trajectories, 2, 1)) * waves).sum(1)[..., None]
    x0 = np.c_[rng.uniform(-1.0, 1.0, trajectories), np.zeros(trajectories)]
    return system.rollout(x0, U, p), U
