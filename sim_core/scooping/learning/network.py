"""The network that sees a crop of a terrain around a scoop: convolutions of stride 2, to which the scoop's numbers are joined.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.4: local colour and depth, all convolutions of stride 2, then dense
layers; the widths are not published.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sim_core.meta.model import Extractor, dense

__all__ = ["CHANNELS", "ScoopExtractor", "flipped"]

CHANNELS = 4  # red, green, blue in [0, 1], height over the start of the scoop [m]
DEEPEST = 0.08  # by which a scoop's depth is divided [m]
HEIGHT_SCALE = 0.05  # by which heights are divided [m], so that they are of the order of colours


class ScoopExtractor(Extractor):
    """Features of a scoop.

    Views: crops (b, 4, H, W), rotated so that the scoop moves along the image's rows. Numbers: (n, 2), its depth [m] and whether it
    is stiff, 0 or 1; what else is told, as the scoop's place, is not looked at.

    Args:
        crop: height and width of a crop [px], a multiple of 16. channels: of each convolution. encoded: width of what is found in
            a crop. joined: width of the layer that joins the numbers. width: of the features.

    Raises:
        ValueError: the crop is no multiple of 16.
    """

    def __init__(
        self,
        crop: int = 64,
        channels: tuple[int, ...] = (16, 32, 64, 64),
        encoded: int = 64,
        joined: int = 64,
        width: int = 32,
    ) -> None:
        super().__init__()
        shrink = 2 ** len(channels)
        if crop < shrink or crop % shrink:
            raise ValueError(f"expected a crop of a multiple of {shrink} pixels, found {crop}")
        self.crop, self.channels, self.encoded, self.joined, self.width = crop, tuple(channels), encoded, joined, width
        layers: list[nn.Module] = []
        for a, b in zip((CHANNELS, *channels), channels):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.ReLU()]
        self.convolutions = nn.Sequential(*layers)
        self.dense = nn.Linear(channels[-1] * (crop // shrink) ** 2, encoded)
        self.head = dense(encoded + 2, joined, width)

    def encode(self, views: torch.Tensor) -> torch.Tensor:
        """Crops (b, 4, crop, crop) to (b, encoded)."""
        if views.shape[1:] != (CHANNELS, self.crop, self.crop):
            raise ValueError(f"expected crops (b, {CHANNELS}, {self.crop}, {self.crop}), found {tuple(views.shape)}")
        colour, height = views[:, :3], views[:, 3:] / HEIGHT_SCALE
        seen = torch.cat([colour, height], 1).contiguous(memory_format=torch.channels_last)
        return torch.relu(self.dense(self.convolutions(seen).flatten(1)))

    def features(self, encoded: torch.Tensor, *numbers: torch.Tensor) -> torch.Tensor:
        """What was found in the crops (n, encoded) and numbers, of which the first are (n, 2), to (n, width)."""
        action = numbers[0]
        return self.head(torch.cat([encoded, action / action.new_tensor([DEEPEST, 1.0])], 1))

    def describe(self) -> dict[str, Any]:
        """See `Extractor`."""
        widths = {name: getattr(self, name) for name in ("crop", "encoded", "joined", "width")}
        return {"network": "scoop", "channels": list(self.channels), **widths}


def flipped(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Crops mirrored in the vertical plane of the scoop, which leaves its volume as it is."""
    crops, *numbers = inputs
    return (crops.flip(2), *numbers)
