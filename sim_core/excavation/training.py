"""Fits the networks of `network` to windows, in two stages: one step ahead first, then the whole horizon.

Errors of early steps compound over the horizon, so they are learnt first. The loss of a state is 10 times its squared pose error plus its
squared force error, both scaled by how much the training set's states vary; only its ratios between models say anything. A force inside of a
primitive, where it is said, counts as one more force. The same data and seed give the same network. It needs the tier "learning".

Source: Zhu, PhD thesis (University of Illinois 2023), sections 7.4 and 7.6.2, for loss and schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from config.tiers import require
from sim_core.excavation.model_settings import PIXELS, ModelSettings
from sim_core.excavation.windows import Windows

if TYPE_CHECKING:
    import torch

    from sim_core.excavation.network import ForwardModel, RecurrentModel

__all__ = ["Fitted", "Schedule", "train"]

WEIGHTS = (10.0,) * 4 + (1.0,) * 3


@dataclass(frozen=True)
class Schedule:
    """How long and how fast is learnt.

    Attributes:
        epochs, rates: of stage 1 and stage 2. decay: by which a rate is multiplied, every so many epochs. batch: windows of a step.
        block: windows of a trajectory that follow each other and enter a batch together: their pictures are encoded once. 1: drawn
            one by one, as published. clip: of the gradient.
    """

    epochs: tuple[int, int] = (200, 100)
    rates: tuple[float, float] = (1e-4, 1e-5)
    decay: float = 0.7
    every: int = 10
    batch: int = 16
    block: int = 1
    clip: float = 1.0


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted network.

    Attributes:
        model: in evaluation mode. shift, scale: of states (7,). history: rows of stage, epoch, training loss, validation loss.
    """

    model: RecurrentModel | ForwardModel
    shift: np.ndarray
    scale: np.ndarray
    history: list[dict[str, Any]]

    def predict(self, windows: Windows) -> np.ndarray:
        """States (n, k, 7) [m, m, m, rad, N, N, N]."""
        import torch

        data, said = _Tensors(windows, self.shift, self.scale), []
        with torch.no_grad():
            for rows in np.array_split(np.arange(len(windows)), max(1, len(windows) // 512)):
                said.append(data.said(self.model, rows, self.model.settings.horizon)[..., :7])
        return torch.cat(said).numpy() * self.scale + self.shift

    def losses(self, windows: Windows) -> np.ndarray:
        """Mean loss of the states that are 1, 2, ... steps ahead (k,)."""
        k = self.model.settings.horizon
        off = self.predict(windows) - np.concatenate([windows.poses, windows.forces], 1)[windows.future[:, :k]]
        off[..., 3] = (off[..., 3] + np.pi) % (2.0 * np.pi) - np.pi
        each = ((off / self.scale) ** 2 * np.array(WEIGHTS)).sum(-1)
        counts = windows.counts[:, :k]
        return (each * counts).sum(0) / counts.sum(0)


def train(
    windows: Windows,
    validation: Windows,
    settings: ModelSettings = ModelSettings(),
    schedule: Schedule = Schedule(),
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Fitted:
    """Fit to windows; the weights of the epoch of the lowest validation loss of the last stage are kept.

    Args:
        windows, validation: with at least the history and horizon of the settings. advance: called after each epoch.

    Raises:
        MissingTierError: torch is not installed.
        ValueError: windows that are too short, or without pictures where the network sees.
    """
    require("learning", "the network that predicts what a bucket's motions lead to")
    import torch

    if windows.history.shape[1] < settings.history or windows.actions.shape[1] < settings.horizon:
        raise ValueError(
            f"expected windows of {settings.history} states and {settings.horizon} actions or more, found "
            f"{windows.history.shape[1]} and {windows.actions.shape[1]}: build them so"
        )
    if settings.vision and windows.images is None:
        raise ValueError("expected windows with pictures, found none: collect them, or say vision=False")
    threads = torch.get_num_threads()
    try:
        # Sums of several threads differ from run to run.
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return _fitted(windows, validation, settings, schedule, seed, advance)
    finally:
        torch.set_num_threads(threads)


class _Tensors:
    """Windows as tensors, scaled."""

    def __init__(self, windows: Windows, shift: np.ndarray, scale: np.ndarray) -> None:
        import torch

        self.q = torch.tensor((np.concatenate([windows.poses, windows.forces], 1) - shift) / scale, dtype=torch.float32)
        self.held = torch.tensor(windows.held / scale[4], dtype=torch.float32)
        self.images = None if windows.images is None else torch.from_numpy(windows.images)
        self.history, self.past, self.actions, self.future = (
            torch.from_numpy(getattr(windows, name)) for name in ("history", "past", "actions", "future")
        )
        self.counts = torch.from_numpy(windows.counts).float()
        self.turn = 2.0 * np.pi / float(scale[3])  # a whole one, scaled

    def said(self, model: RecurrentModel | ForwardModel, rows: np.ndarray, horizon: int) -> torch.Tensor:
        """What a model says of some windows (n, horizon, 7 or 8); each state is encoded once, however many windows hold it."""
        import torch

        s = model.settings
        history = self.history[rows, -s.history :]
        states, member = torch.unique(history, return_inverse=True)
        images = self.images[states].float() / 255.0 if s.vision and self.images is not None else None
        z = model.encoder(self.q[states], images)[member]
        return model(z, self.q[history[:, -1]], self.past[rows, -s.history :], self.actions[rows, :horizon])

    def loss(self, model: RecurrentModel | ForwardModel, rows: np.ndarray, horizon: int) -> torch.Tensor:
        """Mean over windows and over the states that there are."""
        import torch

        said, future = self.said(model, rows, horizon), self.future[rows, :horizon]
        off = said[..., :7] - self.q[future]
        angle = torch.remainder(off[..., 3] + 0.5 * self.turn, self.turn) - 0.5 * self.turn
        off = torch.cat([off[..., :3], angle[..., None], off[..., 4:]], -1)
        square = off**2 @ torch.tensor(WEIGHTS)
        if model.settings.peaks:
            square = square + WEIGHTS[-1] * (said[..., 7] - self.held[future]) ** 2
        counts = self.counts[rows, :horizon]
        return (square * counts).sum() / counts.sum()


def _fitted(
    windows: Windows,
    validation: Windows,
    settings: ModelSettings,
    schedule: Schedule,
    seed: int,
    advance: Callable[[], None],
) -> Fitted:
    import torch

    from sim_core.excavation.network import ForwardModel, RecurrentModel

    q = np.concatenate([windows.poses, windows.forces], 1)[np.unique(windows.history)]
    shift, scale = q.mean(0), q.std(0) + 1e-3
    scale[4:] = scale[4:].mean()  # so that a force of any direction weighs alike
    scale[:3] = scale[:3].mean()
    data, held = _Tensors(windows, shift, scale), _Tensors(validation, shift, scale)
    pixels = PIXELS if windows.images is None else windows.images.shape[-2:]
    recurrent = settings.kind == "recurrent"
    model = RecurrentModel(settings, pixels) if recurrent else ForwardModel(settings, pixels)
    rng, history = np.random.default_rng([seed, 75]), []
    best, kept = np.inf, {name: w.clone() for name, w in model.state_dict().items()}
    for stage in (0, 1) if recurrent else (0,):
        horizon = 1 if recurrent and stage == 0 else settings.horizon
        optimiser = torch.optim.Adam(model.parameters(), schedule.rates[stage])
        decay = torch.optim.lr_scheduler.StepLR(optimiser, schedule.every, schedule.decay)
        best = np.inf
        for epoch in range(schedule.epochs[stage]):
            model.train()
            total = 0.0
            batches = _batches(len(windows), schedule, rng)
            for rows in batches:
                optimiser.zero_grad()
                loss = data.loss(model, rows, horizon)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
                optimiser.step()
                total += float(loss.detach()) / len(batches)
            decay.step()
            model.eval()
            with torch.no_grad():
                judged = float(held.loss(model, np.arange(len(validation)), horizon))
            history.append({"stage": stage + 1, "epoch": epoch, "loss": total, "validation": judged})
            if judged < best:
                best, kept = judged, {name: w.clone() for name, w in model.state_dict().items()}
            advance()
        if schedule.epochs[stage]:
            model.load_state_dict(kept)
    model.eval()
    return Fitted(model, shift, scale, history)


def _batches(count: int, schedule: Schedule, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows of each step: blocks in a random order, whose borders differ from epoch to epoch."""
    borders = np.arange(rng.integers(schedule.block), count, schedule.block)
    blocks = [block for block in np.split(np.arange(count), borders) if len(block)]
    order = np.concatenate([blocks[k] for k in rng.permutation(len(blocks))])
    # A batch norm cannot learn from one window; the few that are left over wait for the next epoch.
    whole = max(1, count // schedule.batch)
    return np.array_split(order[: whole * schedule.batch], whole)
