"""The network that sees an object and a poke: PointNet++ with one scale of groups for the cloud, to which the poke is joined.

Sources: Qi, Yi, Su, Guibas, "PointNet++", NeurIPS 2017, section 3 and appendix (single-scale grouping, classification); Zhu, PhD
thesis (University of Illinois 2023), section 6.5. The published layers are normalised by batch; these are not, as a step sees few
objects, and an object alone has to look the same as among others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from sim_core.elastic.force_response.grouping import GroupCache, Groups, Level
from sim_core.meta.model import Extractor, dense

__all__ = ["FULL", "SIZES", "SMALL", "ForceExtractor", "Widths"]

CHANNELS = 6  # position, colour
NUMBERS = 4  # place, displacement
DEEPEST = 0.1  # by which a poke's displacement is divided [radii], so that it is of the order of positions


@dataclass(frozen=True)
class Widths:
    """How large the network is.

    Attributes:
        levels: set abstractions from fine to coarse. whole: layers over what remains of the cloud. dense: layers behind it.
        joined: of the layer that joins the poke. width: of the features beside the poke itself.
    """

    levels: tuple[Level, ...]
    whole: tuple[int, ...]
    dense: tuple[int, ...]
    joined: int = 64
    width: int = 32


#: PointNet++ as published
FULL = Widths((Level(512, 0.2, 32, (64, 64, 128)), Level(128, 0.4, 64, (128, 128, 256))), (256, 512, 1024), (512, 256))
#: for a few processor cores: a four-hundredth of the multiplications
SMALL = Widths((Level(64, 0.25, 16, (16, 16, 32)), Level(16, 0.6, 16, (32, 32, 64))), (64, 64), (32,))
SIZES = {"full": FULL, "small": SMALL}


class ForceExtractor(Extractor):
    """Features of a poke.

    Views: clouds (b, n, 6), position and colour, see `clouds.seen`. Numbers: (m, 4), place and displacement [radii]; further ones are for a
    kernel alone.

    Args:
        size: a key of `SIZES`.

    Raises:
        ValueError: there is no such size.
    """

    def __init__(self, size: str = "small") -> None:
        super().__init__()
        if size not in SIZES:
            raise ValueError(f"expected a size of {', '.join(SIZES)}, found '{size}'")
        self.size, self.widths = size, SIZES[size]
        self.width, self.numbers = self.widths.width + NUMBERS, NUMBERS
        self.cache = GroupCache(self.widths.levels)
        self.levels = nn.ModuleList()
        found = CHANNELS - 3
        for level in self.widths.levels:
            self.levels.append(dense(found + 3, *level.widths))
            found = level.widths[-1]
        self.whole = dense(found + 3, *self.widths.whole)
        self.dense = dense(self.widths.whole[-1], *self.widths.dense)
        for part in (*self.levels, self.whole, self.dense):
            _keep_variance(part)
        self.head = dense(self.widths.dense[-1] + NUMBERS, self.widths.joined, self.widths.width)

    def encode(self, views: torch.Tensor) -> torch.Tensor:
        """Clouds (b, n, 6) to (b, e); points may be in any order."""
        if views.ndim != 3 or views.shape[2] != CHANNELS:
            raise ValueError(f"expected clouds (b, n, {CHANNELS}), found {tuple(views.shape)}")
        groups = self.cache(views)
        ordered = torch.stack([cloud[each.order] for cloud, each in zip(views, groups)])
        points, found = ordered[..., :3], ordered[..., 3:]
        for k, layers in enumerate(self.levels):
            points, found = _abstracted(points, found, groups, k, layers)
        return torch.relu(self.dense(_largest(self.whole(torch.cat([points, found], 2)))))

    def features(self, encoded: torch.Tensor, *numbers: torch.Tensor) -> torch.Tensor:
        """What was found in the clouds (m, e) and numbers (m, 4) to (m, width), of which the last are the poke itself.

        A mean has little use for the place, so that features which are trained for it alone forget it, and a kernel on them could not tell
        places of one object apart.
        """
        poke = numbers[0]
        scaled = poke / poke.new_tensor([1.0, 1.0, 1.0, DEEPEST])
        return torch.cat([self.head(torch.cat([encoded, scaled], 1)), scaled], 1)

    def describe(self) -> dict[str, Any]:
        """See `Extractor`."""
        return {"network": "force response", "size": self.size, **asdict(self.widths)}


def _keep_variance(layers: nn.Module) -> None:
    """Weights after He et al. (2015): torch's own let objects look alike behind eleven layers that nothing normalises."""
    for layer in layers.modules():
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)


def _largest(found: torch.Tensor) -> torch.Tensor:
    """Of each channel in a group (b, k, c) to (b, c), behind the last layer's rectifier, which the largest can pass alone."""
    return torch.relu(found.max(1).values)


def _abstracted(
    points: torch.Tensor, found: torch.Tensor, groups: list[Groups], k: int, layers: nn.Module
) -> tuple[torch.Tensor, torch.Tensor]:
    """Points (b, n, 3) with what was found at them (b, n, c) to those of the next level, by the largest in each group."""
    b, n, _ = points.shape
    start = n * torch.arange(b)
    chosen = (torch.stack([each.centroids[k] for each in groups]) + start[:, None]).flatten()
    around = torch.stack([each.neighbours[k] for each in groups]) + start[:, None, None]
    m, count = around.shape[1:]
    flat, centres = points.reshape(b * n, 3), points.reshape(b * n, 3)[chosen]
    offsets = flat[around.flatten()].reshape(b * m, count, 3) - centres[:, None]
    features = found.reshape(b * n, -1)[around.flatten()].reshape(b * m, count, -1)
    grouped = _largest(layers(torch.cat([offsets, features], 2)))
    return centres.reshape(b, m, 3), grouped.reshape(b, m, -1)
