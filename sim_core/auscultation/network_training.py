"""Fits the network of `quality_network` with torch: the same data and seed give the same network.

Adam with decoupled weight decay under a one-cycle rate, a loss that is quadratic near zero and linear beyond; at each
step the recordings are rolled in time, since a beat or breath may begin anywhere. It needs the tier "learning".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from config.tiers import require
from sim_core.auscultation.log_mel import BANDS_OF_MEL
from sim_core.auscultation.quality_network import (
    CHANNELS,
    HIDDEN,
    KERNEL,
    LEAST_FRAMES,
    SPREAD_FLOOR,
    STRIDES,
    QualityNetwork,
)
from sim_core.auscultation.regions import Structure

if TYPE_CHECKING:
    import torch

__all__ = ["TrainingSettings", "train_network"]


@dataclass(frozen=True)
class TrainingSettings:
    """How the network is fitted.

    Attributes:
        epochs: passes over all recordings. batch: recordings of a step. rate: highest learning rate. decay: of weights.
        dropout: share of what is pooled that a step leaves out. bend: error beyond which the loss is linear.
    """

    epochs: int = 30
    batch: int = 64
    rate: float = 3e-3
    decay: float = 1e-2
    dropout: float = 0.2
    bend: float = 0.1


def train_network(
    structure: Structure,
    seen: np.ndarray,
    ratings: np.ndarray,
    settings: TrainingSettings = TrainingSettings(),
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> QualityNetwork:
    """Fit to recordings of one length.

    Args:
        seen: (n, BANDS_OF_MEL, frames), each as `seen_by_network` gives it. ratings: (n,) in [0, 1].
        advance: called after each epoch.

    Raises:
        MissingTierError: torch is not installed.
        ValueError: shapes that do not fit each other, fewer recordings than a batch, ratings outside [0, 1], NaN.
    """
    require("learning", "the network that rates recordings")
    import torch

    n = len(ratings)
    if seen.ndim != 3 or seen.shape[:2] != (n, BANDS_OF_MEL) or seen.shape[2] < LEAST_FRAMES or ratings.ndim != 1:
        raise ValueError(
            f"expected spectrograms (n, {BANDS_OF_MEL}, {LEAST_FRAMES} or more) and ratings (n,), "
            f"found {seen.shape} and {ratings.shape}"
        )
    if n < settings.batch:
        raise ValueError(f"expected {settings.batch} recordings or more, a batch, found {n}")
    if not (np.isfinite(seen).all() and (ratings >= 0.0).all() and (ratings <= 1.0).all()):
        raise ValueError("expected finite spectrograms and ratings from 0 to 1; leave other recordings out")
    threads = torch.get_num_threads()
    try:
        # Sums of several threads differ from run to run.
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            arrays = _fitted(torch.tensor(seen, dtype=torch.float32), ratings, settings, seed, advance)
    finally:
        torch.set_num_threads(threads)
    meta = {"recordings": n, "seed": seed, "epochs": settings.epochs}
    return QualityNetwork(structure, arrays, meta)


def _fitted(
    x: torch.Tensor, ratings: np.ndarray, settings: TrainingSettings, seed: int, advance: Callable[[], None]
) -> dict[str, np.ndarray]:
    import torch
    from torch import nn

    y = torch.tensor(ratings, dtype=torch.float32)
    shift, scale = x.mean((0, 2)), x.std((0, 2)) + 1e-3
    x = (x - shift[:, None]) / scale[:, None]
    convs = [nn.Conv1d(a, b, KERNEL, stride) for a, b, stride in zip(CHANNELS, CHANNELS[1:], STRIDES)]
    dense = [nn.Linear(3 * CHANNELS[-1], HIDDEN), nn.Linear(HIDDEN, 1)]
    weights = [w for layer in (*convs, *dense) for w in layer.parameters()]
    rng, steps = np.random.default_rng([seed, 83]), len(y) // settings.batch
    optimiser = torch.optim.AdamW(weights, settings.rate, weight_decay=settings.decay)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, total_steps=settings.epochs * steps)
    for _ in range(settings.epochs):
        for rows in np.array_split(rng.permutation(len(y))[: steps * settings.batch], steps):
            h = torch.roll(x[rows], int(rng.integers(x.shape[2])), 2)
            for conv in convs:
                h = torch.relu(conv(h))
            spread = torch.sqrt(h.var(-1, correction=0) + SPREAD_FLOOR)
            pooled = torch.cat([h.mean(-1), h.amax(-1), spread], 1)
            hidden = torch.relu(dense[0](nn.functional.dropout(pooled, settings.dropout)))
            loss = nn.functional.smooth_l1_loss(dense[1](hidden)[:, 0], y[rows], beta=settings.bend)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            cycle.step()
        advance()
    layers = {**{f"conv{k}": conv for k, conv in enumerate(convs)}, **{f"dense{k}": one for k, one in enumerate(dense)}}
    named = {f"{layer}.{name}": w for layer, one in layers.items() for name, w in one.named_parameters()}
    return {name: w.detach().numpy() for name, w in {**named, "shift": shift, "scale": scale}.items()}
