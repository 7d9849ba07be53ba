"""The networks in torch: encoders of picture, pose and force, a recurrent encoder, a decoder with attention, and the baseline.

Only code that has asked for the tier "learning" imports this.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.4 and figure 7.4; Bahdanau, Cho, Bengio, Neural Machine Translation by
Jointly Learning to Align and Translate (2015), for the attention. The decoder's inputs are the actions.
"""

from __future__ import annotations

import torch
from torch import nn

from sim_core.excavation.model_settings import CHANNELS, KERNELS, PIXELS, STRIDES, ModelSettings
from sim_core.excavation.primitives import NULL

__all__ = ["ForwardModel", "RecurrentModel", "StateEncoder", "parameters_without_encoders"]

LEAK = 0.01


def dense(inputs: int, outputs: int) -> nn.Sequential:
    """A layer with batch norm and leaky ReLU."""
    return nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.LeakyReLU(LEAK))


class StateEncoder(nn.Module):
    """One state to its features: each of its parts alone, then together.

    Args:
        pixels: of a picture, along x and y.
    """

    def __init__(self, settings: ModelSettings, pixels: tuple[int, int] = PIXELS) -> None:
        super().__init__()
        self.settings = settings
        width = settings.features
        joined = width
        self.pose = dense(4, width)
        if settings.touch:
            self.force = dense(3, width)
            joined += width
        if settings.vision:
            layers: list[nn.Module] = []
            for a, b, kernel, stride in zip(CHANNELS, CHANNELS[1:], KERNELS, STRIDES):
                layers += [nn.Conv2d(a, b, kernel, stride), nn.LeakyReLU(LEAK)]
                pixels = (pixels[0] - kernel) // stride + 1, (pixels[1] - kernel) // stride + 1
            self.eye = nn.Sequential(*layers, nn.Flatten())
            self.seen = dense(CHANNELS[-1] * pixels[0] * pixels[1], width)
            joined += width
        self.whole = dense(joined, settings.state)

    def forward(self, q: torch.Tensor, images: torch.Tensor | None) -> torch.Tensor:
        """Scaled states (n, 7) and pictures (n, 3, h, w) in [0, 1] to features (n, state)."""
        parts = [self.pose(q[:, :4])]
        if self.settings.touch:
            parts.append(self.force(q[:, 4:]))
        if self.settings.vision:
            assert images is not None
            parts.append(self.seen(self.eye(images - 0.5)))
        return self.whole(torch.cat(parts, 1))


class RecurrentModel(nn.Module):
    """See the module's docstring."""

    def __init__(self, settings: ModelSettings, pixels: tuple[int, int] = PIXELS) -> None:
        super().__init__()
        s = self.settings = settings
        self.encoder = StateEncoder(s, pixels)
        self.embed = nn.Embedding(NULL + 1, s.action)
        self.read = nn.GRU(s.state + (s.action if s.past_actions else 0), s.hidden, batch_first=True)
        self.fed = 7 if s.touch else 4
        self.write = nn.GRUCell(s.action + s.hidden + self.fed, s.hidden)
        self.W1, self.W2 = nn.Linear(s.hidden, s.attention, bias=False), nn.Linear(s.hidden, s.attention)
        self.v = nn.Linear(s.attention, 1, bias=False)
        self.pose, self.force = nn.Linear(s.hidden, 4), nn.Linear(s.hidden, 3)
        self.inside = nn.Linear(s.hidden, 1) if s.peaks else None

    def forward(self, z: torch.Tensor, q: torch.Tensor, past: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Features (n, l, state), present scaled states (n, 7), actions before (n, l) and to come (n, k) to states (n, k, 7), with
        the largest lasting force inside of the primitives behind them (n, k, 8) where the settings ask for it."""
        read = torch.cat([z, self.embed(past)], 2) if self.settings.past_actions else z
        annotations, last = self.read(read)
        d, keys, said = last[0], self.W2(annotations), []
        for k in range(actions.shape[1]):
            weights = torch.softmax(self.v(torch.tanh(self.W1(d)[:, None] + keys)), 1)
            context = (weights * annotations).sum(1)
            d = self.write(torch.cat([self.embed(actions[:, k]), context, q[:, : self.fed]], 1), d)
            q = self.head(d, q)
            said.append(q if self.inside is None else torch.cat([q, self.inside(d)], 1))
        return torch.stack(said, 1)

    def head(self, d: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """The state that a hidden one stands for, after the state before."""
        pose, force = self.pose(d), self.force(d)
        if self.settings.change:
            pose = pose + q[:, :4]
            force = force + q[:, 4:] if self.settings.touch else force
        return torch.cat([pose, force], 1)


class ForwardModel(nn.Module):
    """The baseline: the features of all states and all actions in, all states out; five layers, as published."""

    def __init__(self, settings: ModelSettings, pixels: tuple[int, int] = PIXELS) -> None:
        super().__init__()
        s = self.settings = settings
        self.encoder = StateEncoder(s, pixels)
        self.embed = nn.Embedding(NULL + 1, s.action)
        both, k = (s.history + s.horizon) * s.state, s.horizon
        widths = [s.history * s.state + k * s.action, both, 2 * both, both, s.state * k, s.state * k // 8]
        self.layers = nn.Sequential(*(dense(a, b) for a, b in zip(widths, widths[1:])), nn.Linear(widths[-1], 7 * k))

    def forward(self, z: torch.Tensor, q: torch.Tensor, past: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """As `RecurrentModel.forward`, always for k actions."""
        n, k = actions.shape
        said = self.layers(torch.cat([z.flatten(1), self.embed(actions).flatten(1)], 1)).view(n, k, 7)
        if not self.settings.change:
            return said
        known = q if self.settings.touch else torch.cat([q[:, :4], torch.zeros_like(q[:, 4:])], 1)
        return said + known[:, None]


def parameters_without_encoders(model: nn.Module) -> int:
    """How many numbers are learnt beside those of the state encoder."""
    return sum(w.numel() for name, w in model.named_parameters() if not name.startswith("encoder."))
