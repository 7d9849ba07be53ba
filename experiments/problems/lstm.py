"""A recurrent model of a robot's motion: what a sequence model makes of the same data as a hybrid simulator.

One LSTM layer and a linear layer predict how the state changes over the next step, from state and control. 12 inputs, 15
hidden units and 10 outputs make the 1900 parameters of the published rival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sim_core.inference.data.trajectories import Trajectories

__all__ = ["Schedule", "SequenceModel", "train"]


@dataclass(frozen=True)
class Schedule:
    """Epochs on recorded inputs, then on its own predictions over growing horizons; rates fall along a cosine.

    Attributes:
        taught: epochs with recorded states as inputs.   taught_rate: of Adam.   noise: on those inputs, in units of the
            state's standard deviation: against small errors that grow once it runs on its own output.
        alone: (horizon, epochs) on its own predictions.   alone_rate: of Adam.
        decay: of the weights, as AdamW has it.   clip: largest length of the gradient.
    """

    taught: int = 1000
    taught_rate: float = 1e-2
    noise: float = 1e-3
    alone: tuple[tuple[int, int], ...] = ((20, 150), (60, 150), (200, 200))
    alone_rate: float = 3e-3
    decay: float = 0.0
    clip: float = 1.0


class SequenceModel(torch.nn.Module):
    """x' = x + d * (W h + b) with h the state of an LSTM that reads (x - m) / s and u.

    Args:
        trajectories: whose mean m and standard deviations s (of states), d (of changes over a step) scale it.
    """

    def __init__(self, trajectories: Trajectories, hidden=15):
        super().__init__()
        x, change = trajectories.x, np.diff(trajectories.x, axis=1)
        nx, nu = x.shape[2], trajectories.u.shape[2]
        for name, value in (("mean", x.mean((0, 1))), ("scale", x.std((0, 1))), ("change", change.std((0, 1)))):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))
        self.lstm = torch.nn.LSTM(nx + nu, hidden, batch_first=True, dtype=torch.float64)
        self.linear = torch.nn.Linear(hidden, nx, dtype=torch.float64)

    @property
    def n_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())

    def inputs(self, x, u):
        return torch.cat([(x - self.mean) / self.scale, u], -1)

    def changes(self, x, u):
        """Predicted changes over each step, in units of `change` (R, T, nx), of recorded x (R, T, nx), u (R, T, nu)."""
        return self.linear(self.lstm(self.inputs(x, u))[0])

    def rollout(self, x0, u, memory=None):
        """States (R, T+1, nx) from x0 (R, nx) under u (R, T, nu), on its own predictions; memory: of what came before."""
        states = [x0]
        for k in range(u.shape[1]):
            h, memory = self.lstm(self.inputs(states[-1], u[:, k])[:, None], memory)
            states.append(states[-1] + self.change * self.linear(h[:, 0]))
        return torch.stack(states, 1)

    @torch.no_grad()
    def predict(self, x, u, shown=0) -> np.ndarray:
        """States (R, T+1, nx): the first `shown` + 1 are those of x (R, T+1, nx), and were read; the rest is its own."""
        x, u = torch.tensor(x), torch.tensor(u)
        memory = self.lstm(self.inputs(x[:, :shown], u[:, :shown]))[1] if shown else None
        return torch.cat([x[:, :shown], self.rollout(x[:, shown], u[:, shown:], memory)], 1).numpy()


def train(trajectories: Trajectories, schedule=Schedule(), seed=0, callback=None) -> tuple[SequenceModel, list[dict]]:
    """A SequenceModel of the trajectories, with the weights of its best epoch over the longest horizon; and its history.

    Args:
        callback: called after each epoch with a row of the history: stage, epoch, loss (mean squared error in units of
            the state's standard deviation; of changes, in their own, in the stage "taught").
    """
    torch.manual_seed(seed)
    model, history = SequenceModel(trajectories), []
    x, u = torch.tensor(trajectories.x), torch.tensor(trajectories.u)

    def taught():
        noisy = x[:, :-1] + schedule.noise * model.scale * torch.randn_like(x[:, :-1])
        # The target leads back to the recorded state: noise is to be corrected, not followed.
        return torch.mean((model.changes(noisy, u) - (x[:, 1:] - noisy) / model.change) ** 2)

    _optimise(model, taught, schedule.taught, schedule.taught_rate, schedule, "taught", history, callback)
    for horizon, epochs in schedule.alone:
        part = trajectories.windows(trajectories.steps // min(horizon, trajectories.steps))
        xw, uw = torch.tensor(part.x), torch.tensor(part.u)

        def alone(xw=xw, uw=uw):
            return torch.mean(((model.rollout(xw[:, 0], uw) - xw) / model.scale) ** 2)

        _optimise(model, alone, epochs, schedule.alone_rate, schedule, f"alone over {horizon} steps", history, callback)
    return model, history


def _optimise(model, loss_function, epochs, rate, schedule, stage, history, callback):
    """Adam from the present weights; leaves those of the best epoch."""
    if not epochs:
        return
    adam = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=schedule.decay)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, epochs, eta_min=rate / 100)
    best, kept = np.inf, None
    for epoch in range(epochs):
        adam.zero_grad()
        loss = loss_function()
        value = loss.item()
        if value < best:
            best, kept = value, {name: value.clone() for name, value in model.state_dict().items()}
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        adam.step()
        falling.step()
        history.append({"stage": stage, "epoch": epoch, "loss": value})
        if callback:
            callback(history[-1])
    if kept is not None:
        model.load_state_dict(kept)
