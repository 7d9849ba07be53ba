"""A pendulum of three links seen by MuJoCo's camera, and lengths found through encoder, simulator and decoder.

Source: Heiden, PhD thesis (University of Southern California 2022), section 2.2.3, equation 2.4. An image does not tell
how fast things move, so the encoder sees two of them one on top of the other. It needs torch; callers ask
`config.tiers.require` first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from torch import nn

from experiments.problems.ids_layer import Layer, chain

__all__ = ["DT", "HORIZON", "LENGTH", "PIXELS", "Autoencoder", "Fitted", "Swing", "fitted", "seen"]

PIXELS, DT, HORIZON = 100, 0.05, 20  # published
WIDTH = 256  # of two hidden layers, published
MOST = 4.0  # states the encoder can name, in standard deviations: an untrained one names none that fly apart
CLIP = 1.0  # of the gradient by the networks' weights, which steep roll-outs would otherwise take over
LENGTH = 3.0  # [m] of each true link, published


@dataclass(frozen=True)
class Swing:
    """One swing from rest.

    Attributes:
        x: positions and velocities (T, 6). images: grey (T, PIXELS, PIXELS), 0 to 1; float32; empty unless drawn.
    """

    x: np.ndarray
    images: np.ndarray

    def pairs(self, first: int, last: int) -> torch.Tensor:
        """What the encoder sees at frames first to last - 1: the frame before and the frame, (n, 2 PIXELS^2)."""
        flat = torch.from_numpy(self.images.reshape(len(self.images), -1))
        return torch.cat([flat[first - 1 : last - 1], flat[first:last]], dim=1)


def seen(q0: np.ndarray, frames: int, drawn: bool = True) -> Swing:
    """Three links of 3 m swing in MuJoCo from q0 (3,) [rad], at rest; a frame every DT.

    Raises:
        RuntimeError, from MuJoCo: no library that draws without a screen.
    """
    model = mujoco.MjModel.from_xml_string(chain([LENGTH] * 3, thickness=0.4))
    data, every = mujoco.MjData(model), round(DT / model.opt.timestep)
    data.qpos[:] = q0
    x, images = np.empty((frames, 6)), np.empty((frames if drawn else 0, PIXELS, PIXELS), dtype=np.float32)
    camera = mujoco.MjvCamera()
    camera.lookat[:], camera.distance, camera.azimuth, camera.elevation = (0.0, 0.0, -4.5), 21.0, 90.0, 0.0
    renderer = mujoco.Renderer(model, PIXELS, PIXELS) if drawn else None
    for k in range(frames):
        if k:
            mujoco.mj_step(model, data, every)
        x[k] = np.concatenate([data.qpos, data.qvel])
        if renderer is not None:
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            images[k] = renderer.render().mean(axis=2) / 255.0
    if renderer is not None:
        renderer.close()
    return Swing(x, images)


class Autoencoder(nn.Module):
    """Two images to a state and a state to an image, each with two hidden layers of WIDTH; states in `spread`s."""

    def __init__(self, spread: torch.Tensor, images: torch.Tensor) -> None:
        super().__init__()
        self.spread, self.mean_image = spread.float(), images.mean(dim=0)
        self.contrast = (images - self.mean_image).square().mean().sqrt()
        self.change = images.diff(dim=0).square().mean().sqrt()
        self.encoder = _network(2 * PIXELS**2, 6)
        self.decoder = _network(6, PIXELS**2)

    def state(self, pairs: torch.Tensor) -> torch.Tensor:
        """Positions and velocities (n, 6), float32, of pairs of images (n, 2 PIXELS^2)."""
        before, now = pairs.chunk(2, dim=1)
        what = torch.cat([(now - self.mean_image) / self.contrast, (now - before) / self.change], dim=1)
        return MOST * torch.tanh(self.encoder(what) / MOST) * self.spread

    def image(self, state: torch.Tensor) -> torch.Tensor:
        """Images (n, PIXELS^2) of states (n, 6), float32."""
        return self.mean_image + self.decoder(state / self.spread) * self.contrast


def _network(inputs: int, outputs: int) -> nn.Sequential:
    hidden = nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
    return nn.Sequential(*hidden, nn.Linear(WIDTH, outputs))


@dataclass(frozen=True)
class Fitted:
    """What the joint fit found.

    Attributes:
        lengths: [m] before the first and after each iteration (I + 1, 3).
        losses: of encoder, simulator and decoder in each iteration (I, 3): mean squares, states in standard deviations.
        model: the trained networks.
    """

    lengths: np.ndarray
    losses: np.ndarray
    model: Autoencoder


def fitted(
    layer: Layer,
    swing: Swing,
    start: np.ndarray,
    frames: int,
    seed: int,
    iterations: int = 300,
    batch: int = 128,
    rates: tuple[float, float] = (2.5e-3, 0.1),
    done: Callable[[], None] = lambda: None,
) -> Fitted:
    """Networks and lengths (3,) from `start`, by Adam on the sum of the three losses over the first `frames` frames.

    Args:
        batch: frames of an iteration. rates: of the networks' weights, and of the lengths [m]; the first grows over 30
            iterations and falls to zero along a cosine; the second grows over the first 100 iterations, while the encoder
            learns what a state is, and halves every 10 after the first 260, when the encoder has come to rest.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.from_numpy(swing.x[:frames])
    spread = x.std(dim=0)
    flat = torch.from_numpy(swing.images[:frames].reshape(frames, -1))
    pairs = swing.pairs(1, frames)
    model = Autoencoder(spread, flat)
    lengths = torch.from_numpy(np.array(start, dtype=float)).requires_grad_()
    # A short memory of the lengths' gradients, which are steep at first; those of the weights are clipped.
    groups = [
        {"params": model.parameters(), "lr": rates[0]},
        {"params": [lengths], "lr": rates[1], "betas": (0.9, 0.95)},
    ]
    adam = torch.optim.Adam(groups, fused=True)
    slower = torch.optim.lr_scheduler.LambdaLR(
        adam,
        [
            lambda k: min(1.0, (k + 1) / 30) * (0.5 + 0.5 * np.cos(np.pi * k / iterations)),
            lambda k: min(1.0, k / 100, 0.5 ** ((k - 260) / 10)),
        ],
    )
    kept, losses = [lengths.detach().numpy().copy()], []
    for _ in range(iterations):
        now = torch.randint(1, frames - HORIZON, (batch,), generator=generator)
        adam.zero_grad()
        state = model.state(pairs[now - 1])
        later = layer(state.double(), lengths, HORIZON)[:, -1]
        parts = torch.stack(
            [
                ((state - x[now]) / spread).square().mean(),
                ((later - x[now + HORIZON]) / spread).square().mean(),
                (model.image(later.float()) - flat[now + HORIZON]).square().mean() / model.contrast**2,
            ]
        )
        parts.sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        slower.step()
        with torch.no_grad():
            lengths.copy_(layer.within(lengths))
        kept.append(lengths.detach().numpy().copy())
        losses.append(parts.detach().numpy())
        done()
    return Fitted(np.array(kept), np.array(losses), model)
