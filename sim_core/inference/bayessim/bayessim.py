"""BayesSim: a conditional density learnt from simulations of the prior, read off at the recording.

No likelihood and no gradient enters; the price is one network per recording's length and start state.

Source: Ramos, Possas, Fox, "BayesSim: adaptive domain randomization via probabilistic inference for robotics
simulators", RSS 2019; settings: thesis, sections A.2.4 and B.1.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from sim_core.inference.bayessim.densities import FEATURES, ConditionalMixture

__all__ = ["Fit", "fit"]

HELD_OUT = 0.1  # share of the simulations that training does not see
CLIP = 5.0  # standard deviations: simulations that fly apart must not set the scale of all others
LEAST = 20  # simulations


@dataclass(frozen=True)
class Fit:
    """A trained q(z | summary) and the scale of its summaries.

    Attributes:
        loss, held_out (epochs,): mean of -log q per epoch on the training simulations and on the others.
        best: epoch whose weights are kept, the best on the others.
    """

    density: ConditionalMixture
    mean: np.ndarray
    std: np.ndarray
    loss: np.ndarray
    held_out: np.ndarray
    best: int

    def standardised(self, s: np.ndarray) -> torch.Tensor:
        return standardised(s, self.mean, self.std)

    def sample(self, s: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
        """z (count, M) inside [0, 1] given the summary s (F,); draws beyond the limits are drawn again, at last clipped."""
        generator = torch.Generator().manual_seed(seed)
        given = self.standardised(s)
        z = self.density.sample(given, count, generator)
        for _ in range(100):
            outside = ((z < 0) | (z > 1)).any(1)
            if not outside.any():
                break
            z[outside] = self.density.sample(given, int(outside.sum()), generator)
        return np.clip(z.double().numpy(), 0.0, 1.0)


def fit(
    z: np.ndarray,
    s: np.ndarray,
    features: str = "mdn",
    components: int = 10,
    epochs: int = 300,
    step: float = 5e-3,
    seed: int = 0,
    batch: int = 500,
    patience: int | None = 60,
    track: Callable[[range], Iterable[int]] = lambda epochs: epochs,
    stop: Callable[[int, float], bool] = lambda epoch, loss: False,
) -> Fit:
    """Train q(z | s) on pairs z (N, M) in [0, 1], s (N, F), by Adam on batches drawn anew every epoch.

    The step falls along half a cosine: with the published 1e-3 throughout, the same fit takes 600 epochs and more.

    Args:
        features: name in FEATURES.   components: Gaussians of the mixture.   step: Adam's at first.
        patience: epochs without improvement on held-out simulations after which training ends; None: never.
        track: wraps the epochs (a progress bar).   stop: asked after every epoch.

    Raises:
        ValueError: unknown features; fewer than 20 finite pairs.
    """
    if features not in FEATURES:
        raise ValueError(f"There is no conditional density '{features}'. Known: {', '.join(FEATURES)}.")
    finite = np.isfinite(s).all(1)
    z, s = z[finite], s[finite]
    if len(z) < LEAST:
        raise ValueError(f"BayesSim: expected at least {LEAST} finite simulations, found {len(z)}; narrow the limits.")
    middle, std = np.median(s, axis=0), robust_std(s)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(z), generator=generator)
        Z, S = torch.as_tensor(z, dtype=torch.float32)[order], standardised(s, middle, std)[order]
        few = max(round(HELD_OUT * len(z)), 1)
        density = FEATURES[features](S, z.shape[1], components, generator)
    with torch.no_grad():
        basis = density.basis(S).contiguous()

    def misfit(rows: torch.Tensor | slice) -> torch.Tensor:
        return -density.log_prob_given(Z[rows], basis[rows]).mean()

    training, test = len(Z) - few, slice(few)
    steps = epochs * math.ceil(training / batch)
    optimiser = torch.optim.Adam(density.parameters(), lr=step, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: 0.5 * (1 + math.cos(math.pi * i / steps)))
    loss: list[float] = []
    held_out: list[float] = []
    kept: dict[str, torch.Tensor] = {}
    best = 0
    for epoch in track(range(epochs)):
        total = 0.0
        for rows in (few + torch.randperm(training, generator=generator)).split(batch):
            optimiser.zero_grad()
            now = misfit(rows)
            now.backward()
            optimiser.step()
            schedule.step()
            total += float(now.detach()) * len(rows)
        loss.append(total / training)
        with torch.no_grad():
            held_out.append(float(misfit(test)))
        if not kept or held_out[-1] < held_out[best]:
            best, kept = epoch, {name: value.clone() for name, value in density.state_dict().items()}
        if stop(epoch, held_out[-1]) or (patience is not None and epoch - best >= patience):
            break
    density.load_state_dict(kept)
    return Fit(density, middle, std, np.array(loss), np.array(held_out), best)


def standardised(s: np.ndarray, mean: np.ndarray, std: np.ndarray) -> torch.Tensor:
    """Summaries (..., F) in standard deviations from the mean, no more than CLIP."""
    return torch.as_tensor(np.clip((s - mean) / std, -CLIP, CLIP), dtype=torch.float32)


def robust_std(s: np.ndarray) -> np.ndarray:
    """Half the width of the middle 68 %, which equals the standard deviation of a Gaussian; 1 where nothing varies."""
    low, high = np.quantile(s, (0.16, 0.84), axis=0)
    return np.where(high - low > 1e-12 * (1 + np.abs(low)), (high - low) / 2, 1.0)
