"""Learnt physics that knows no mechanics: a graph network and a plain network forecast a chain of links.

The graph network is an interaction network on the chain: one function of each joint and its neighbours gives messages,
another turns a joint's state and its messages into its change of state (Battaglia, Pascanu, Lai, Rezende, Kavukcuoglu,
2016; Sanchez-Gonzalez et al., 2018). The plain network maps the whole state to its change. Both learn the change over
one period and are rolled out. They need torch; callers ask `config.tiers.require` first.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

__all__ = ["ChainNetwork", "PlainNetwork", "energy", "forecast", "taught"]

GRAVITY = 9.81
WIDTH = 128
NOISE = 1e-3  # on inputs while learning, in standard deviations: what a roll-out adds by itself


class ChainNetwork(nn.Module):
    """Change of joints' states (N, K, 2), in standard deviations, from the states (N, K, 2): sin, cos and rate inside."""

    def __init__(self, links: int) -> None:
        super().__init__()
        self.message = _network(2 * (3 + links), WIDTH)
        self.update = _network(3 + links + WIDTH, 2)
        self.place = torch.eye(links)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        """(N, K, 2) of nodes (N, K, 3)."""
        nodes = torch.cat([nodes, self.place.expand(len(nodes), -1, -1)], dim=2)
        links = nodes.shape[1]
        pairs = [(i, j) for i in range(links) for j in range(links) if abs(i - j) == 1]
        sent, got = (torch.tensor(of) for of in zip(*pairs))
        messages = self.message(torch.cat([nodes[:, sent], nodes[:, got]], dim=2))
        inbox = torch.zeros(len(nodes), links, WIDTH).index_add(1, got, messages)
        return self.update(torch.cat([nodes, inbox], dim=2))


class PlainNetwork(nn.Module):
    """The same change from all joints at once."""

    def __init__(self, links: int) -> None:
        super().__init__()
        self.all = _network(3 * links, 2 * links)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        """(N, K, 2) of nodes (N, K, 3)."""
        return self.all(nodes.flatten(1)).reshape(len(nodes), -1, 2)


def _network(inputs: int, outputs: int) -> nn.Sequential:
    hidden = nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
    return nn.Sequential(*hidden, nn.Linear(WIDTH, outputs))


def _nodes(x: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    q, v = x.chunk(2, dim=1)
    return torch.stack([torch.sin(q), torch.cos(q), v / rate], dim=2)


def taught(kind: type[nn.Module], x: np.ndarray, seed: int, steps: int = 3000, batch: int = 128) -> nn.Module:
    """A network taught by Adam on the changes between the rows of a trajectory x (T, 2 K): positions, velocities."""
    torch.manual_seed(seed)
    states = torch.from_numpy(x.astype(np.float32))
    links, spread, changes = x.shape[1] // 2, states.std(dim=0), states.diff(dim=0)
    model = kind(links)
    model.rate, model.unit = spread[links:], changes.std(dim=0)
    adam = torch.optim.Adam(model.parameters(), 2e-3)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        k = torch.randint(0, len(changes), (batch,))
        seen = states[k] + NOISE * spread * torch.randn(batch, 2 * links)
        wanted = ((states[k + 1] - seen) / model.unit).reshape(batch, 2, links).mT
        adam.zero_grad()
        (model(_nodes(seen, model.rate)) - wanted).square().mean().backward()
        adam.step()
        slower.step()
    return model


def forecast(model: nn.Module, x0: np.ndarray, steps: int) -> np.ndarray:
    """States (N, steps + 1, 2 K) from x0 (N, 2 K), one predicted change after another."""
    x = [torch.from_numpy(x0.astype(np.float32))]
    with torch.no_grad():
        for _ in range(steps):
            change = model(_nodes(x[-1], model.rate)).mT.flatten(1)
            x.append(x[-1] + change * model.unit)
    return torch.stack(x, dim=1).double().numpy()


def energy(x: np.ndarray, lengths: np.ndarray, mass: float = 1.0, inertia: float = 4e-3) -> np.ndarray:
    """Energy (...) [J] of a chain of balls on massless links above its hanging at rest, of states (..., 2 K).

    Args:
        lengths: (K,) [m]. mass, inertia: of each ball [kg, kg m^2].
    """
    angle, rate = (np.cumsum(part, axis=-1) for part in np.split(x, 2, axis=-1))
    across = np.cumsum(lengths * np.cos(angle) * rate, axis=-1)
    up = np.cumsum(lengths * np.sin(angle) * rate, axis=-1)
    height = np.cumsum(lengths * (1.0 - np.cos(angle)), axis=-1)
    return np.sum(mass * (0.5 * (across**2 + up**2) + GRAVITY * height) + 0.5 * inertia * rate**2, axis=-1)
