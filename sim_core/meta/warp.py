"""A scale on which values that differ by factors differ by sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

__all__ = ["Warp"]


@dataclass(frozen=True)
class Warp:
    """y = asinh(v / w) / asinh(1 / w): proportional to small values v, the logarithm of those beyond w, and 1 where v = 1.

    Args:
        width: w; 0: y = v.

    Raises:
        ValueError: w is negative.
    """

    width: float = 0.0

    def __post_init__(self) -> None:
        if not self.width >= 0.0:
            raise ValueError(f"expected a warp of 0 (none) or more, found {self.width}")

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """y (n,) of values (n,)."""
        return torch.asinh(values / self.width) / math.asinh(1.0 / self.width) if self.width else values

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """Values (n,) of y (n,)."""
        return self.width * torch.sinh(y * math.asinh(1.0 / self.width)) if self.width else y

    def spread(self, mean: torch.Tensor, deviation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of y that is normal: the value in the middle, and half of how far those one deviation to each side are apart, (n,) each."""
        if not self.width:
            return mean, deviation
        low, high = self.inverse(mean - deviation), self.inverse(mean + deviation)
        return self.inverse(mean), 0.5 * (high - low)
